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
