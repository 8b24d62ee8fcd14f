//! Settings that name one of a few choices: the common error and the lookup
//! behind their `FromStr`.

/// A setting was given a name it does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {value:?} for {setting}: expected one of {expected}")]
pub struct UnknownChoice {
    /// The setting, without the `memory_agent.` prefix.
    pub setting: &'static str,
    /// What was given.
    pub value: String,
    /// The accepted names, separated by commas.
    pub expected: String,
}

/// Finds `value` among `choices`. Case matters, as it does for PostgreSQL's own
/// enum settings once they are stored.
pub(crate) fn choose<T: Copy>(
    setting: &'static str,
    value: &str,
    choices: &[(&'static str, T)],
) -> Result<T, UnknownChoice> {
    choices.iter().find(|(name, _)| *name == value).map(|(_, choice)| *choice).ok_or_else(|| {
        UnknownChoice {
            setting,
            value: value.to_owned(),
            expected: choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::fuse::FusionMethod;
    use crate::score::{RecencyDecay, ScoreNormalization};

    /// Every name is read back as itself, and a wrong one lists the right ones.
    macro_rules! assert_names {
        ($type:ty, $error:expr, [$($name:expr),+]) => {
            $(assert_eq!($name.parse::<$type>().unwrap().as_str(), $name);)+
            assert_eq!("Wrong".parse::<$type>().unwrap_err().to_string(), $error);
        };
    }

    #[test]
    fn names_of_choices_are_read_back() {
        assert_names!(
            FusionMethod,
            "invalid value \"Wrong\" for fusion: expected one of weighted, rrf",
            ["weighted", "rrf"]
        );
        assert_names!(
            ScoreNormalization,
            "invalid value \"Wrong\" for score_normalization: expected one of sigmoid, minmax",
            ["sigmoid", "minmax"]
        );
        assert_names!(
            RecencyDecay,
            "invalid value \"Wrong\" for recency_decay: expected one of exponential, half_life, \
             reciprocal",
            ["exponential", "half_life", "reciprocal"]
        );
    }
}
