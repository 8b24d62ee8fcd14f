//! The parts of a row's score: relevance from the reranker, recency and the
//! boost of its markers.

use std::f64::consts::LN_2;
use std::str::FromStr;

use crate::setting::{UnknownChoice, choose};

/// Age in days after which the exponential decay has fallen to 1/e.
const EXPONENTIAL_DAYS: f64 = 30.0;
/// Age in days after which the half-life decay has fallen to one half.
const HALF_LIFE_DAYS: f64 = 75.0;
/// Age in days after which the reciprocal decay has fallen to one half.
const RECIPROCAL_DAYS: f64 = 7.0;
/// What a freshness word in the query adds to the recency weight.
const FRESHNESS_STEP: f64 = 0.2;
/// The highest recency weight that a freshness word can lead to.
const FRESHNESS_LIMIT: f64 = 0.5;

/// The logistic function, which maps a cross-encoder's logit to 0..=1.
pub fn sigmoid(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// How logits become relevance; the setting `memory_agent.score_normalization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreNormalization {
    /// [`sigmoid`]: comparable between queries.
    Sigmoid,
    /// Min-max over the pool: the best row of every query is 1.
    MinMax,
}

impl ScoreNormalization {
    const CHOICES: [(&str, Self); 2] = [("sigmoid", Self::Sigmoid), ("minmax", Self::MinMax)];

    /// The setting's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sigmoid => "sigmoid",
            Self::MinMax => "minmax",
        }
    }
}

impl FromStr for ScoreNormalization {
    type Err = UnknownChoice;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        choose("score_normalization", value, &Self::CHOICES)
    }
}

/// How recency falls with age; the setting `memory_agent.recency_decay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecencyDecay {
    /// `exp(-age / days)`
    Exponential,
    /// `0.5 ^ (age / days)`
    HalfLife,
    /// `1 / (1 + age / days)`
    Reciprocal,
}

impl RecencyDecay {
    const CHOICES: [(&str, Self); 3] = [
        ("exponential", Self::Exponential),
        ("half_life", Self::HalfLife),
        ("reciprocal", Self::Reciprocal),
    ];

    /// The setting's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::HalfLife => "half_life",
            Self::Reciprocal => "reciprocal",
        }
    }

    /// The time constant, in days, of a form that was given none.
    pub fn default_days(self) -> f64 {
        match self {
            Self::Exponential => EXPONENTIAL_DAYS,
            Self::HalfLife => HALF_LIFE_DAYS,
            Self::Reciprocal => RECIPROCAL_DAYS,
        }
    }
}

impl FromStr for RecencyDecay {
    type Err = UnknownChoice;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        choose("recency_decay", value, &Self::CHOICES)
    }
}

/// How fresh a row is, from 1 (now) towards 0.
///
/// `days` is the time constant; 0 or less means [`RecencyDecay::default_days`].
/// `age_days` below 0 (a row dated in the future) counts as 0. `half_speed` is
/// for documents and global memory: under [`RecencyDecay::HalfLife`] they age
/// half as fast, the other forms ignore it.
pub fn recency(decay: RecencyDecay, days: f64, age_days: f64, half_speed: bool) -> f64 {
    let days = if days > 0.0 { days } else { decay.default_days() };
    let age = age_days.max(0.0) / days;
    match decay {
        RecencyDecay::Exponential => (-age).exp(),
        RecencyDecay::HalfLife => {
            let age = if half_speed { age / 2.0 } else { age };
            (-LN_2 * age).exp()
        }
        RecencyDecay::Reciprocal => 1.0 / (1.0 + age),
    }
}

/// Blends the reranker's opinion with the normalised fused score; both lie in
/// 0..=1 and `rerank_weight` is the share of the first.
pub fn blend_relevance(reranked: f64, fused: f64, rerank_weight: f64) -> f64 {
    let rerank_weight = rerank_weight.clamp(0.0, 1.0);
    rerank_weight * reranked + (1.0 - rerank_weight) * fused
}

/// The score before MMR: `(1 - w) * relevance + w * recency + marker boost`.
pub fn combine(relevance: f64, recency: f64, recency_weight: f64, marker_boost: f64) -> f64 {
    let recency_weight = recency_weight.clamp(0.0, 1.0);
    (1.0 - recency_weight) * relevance + recency_weight * recency + marker_boost
}

/// What a row's markers add to its score. Of several markers the largest boost
/// counts, so that a row cannot buy its rank by carrying them all.
pub fn marker_boost(markers: &[String], marker_weight: f64) -> f64 {
    let largest = markers.iter().map(|marker| boost_of(marker)).fold(0.0, f64::max);
    largest * marker_weight
}

/// The boost on the scale of a probability: it adds four times as much to the log odds, which near one
/// half is the boost itself, and less towards 0 and 1. Most probabilities are small, and added to them as
/// they are, boosts decided the order: that cost 1.6 points of recall at 5 on both labelled sets.
pub fn probability_boost(probability: f64, boost: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0) {
        return 0.0;
    }
    let factor = (4.0 * boost).exp();
    let rest = 1.0 - probability;
    probability * rest * (factor - 1.0) / (rest + probability * factor)
}

fn boost_of(marker: &str) -> f64 {
    match marker {
        "constraint" => 0.4,
        "decision" | "goal" => 0.3,
        "failure" => 0.2,
        custom if custom.starts_with("custom:") => 0.2,
        _ => 0.0,
    }
}

/// The recency weight of a query that does, or does not, ask for fresh memory:
/// plus 0.2, at most 0.5, but never less than `weight` itself.
pub fn raise_recency_weight(weight: f64, has_freshness_word: bool) -> f64 {
    if has_freshness_word {
        (weight + FRESHNESS_STEP).min(FRESHNESS_LIMIT).max(weight)
    } else {
        weight
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rank::fuse::FusionMethod;

    const DECAYS: [RecencyDecay; 3] =
        [RecencyDecay::Exponential, RecencyDecay::HalfLife, RecencyDecay::Reciprocal];

    fn markers(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-12, "{actual} is not {expected}");
    }

    #[test]
    fn sigmoid_has_its_known_values() {
        assert_close(sigmoid(0.0), 0.5);
        assert!(sigmoid(9.21) > 0.999 && sigmoid(-11.18) < 0.001);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn each_decay_has_its_formula_and_default() {
        use RecencyDecay::{Exponential, HalfLife, Reciprocal};
        assert_close(recency(Exponential, 10.0, 20.0, false), (-2.0f64).exp());
        assert_close(recency(HalfLife, 10.0, 20.0, false), 0.25);
        assert_close(recency(Reciprocal, 10.0, 20.0, false), 1.0 / 3.0);
        assert_close(recency(Exponential, -1.0, 30.0, false), (-1.0f64).exp());
        assert_close(recency(HalfLife, 0.0, 75.0, false), 0.5);
        assert_close(recency(Reciprocal, -1.0, 7.0, false), 0.5);
    }

    #[test]
    fn only_the_half_life_knows_half_speed() {
        assert_close(recency(RecencyDecay::HalfLife, 75.0, 150.0, true), 0.5);
        for decay in [RecencyDecay::Exponential, RecencyDecay::Reciprocal] {
            assert_eq!(recency(decay, 9.0, 5.0, true), recency(decay, 9.0, 5.0, false));
        }
    }

    #[test]
    fn the_future_is_as_fresh_as_now_and_the_infinite_past_is_not() {
        for decay in DECAYS {
            assert_eq!(recency(decay, -1.0, -3.0, false), 1.0);
            assert_eq!(recency(decay, -1.0, f64::NEG_INFINITY, false), 1.0);
            assert_eq!(recency(decay, -1.0, f64::INFINITY, true), 0.0);
        }
    }

    #[test]
    fn boosts_of_probabilities_are_small_where_these_are() {
        let raised = |probability| probability_boost(probability, 0.04);
        assert!((raised(0.5) - 0.04).abs() < 0.001);
        assert!(raised(0.02) > 0.0 && raised(0.02) < 0.004);
        assert!(raised(0.98) > 0.0 && raised(0.98) < 0.004);
        assert_eq!([0.0, 1.0, f64::NAN].map(raised), [0.0; 3]);
    }

    #[test]
    fn the_largest_marker_boost_counts() {
        let boost = |names: &[&str]| marker_boost(&markers(names), 0.1);
        assert_close(boost(&["constraint"]), 0.04);
        assert_close(boost(&["decision"]), 0.03);
        assert_close(boost(&["goal"]), 0.03);
        assert_close(boost(&["failure"]), 0.02);
        assert_close(boost(&["custom:budget"]), 0.02);
        assert_close(boost(&["failure", "constraint", "goal"]), 0.04);
        assert_eq!(boost(&["unheard-of"]), 0.0);
        assert_eq!(boost(&[]), 0.0);
    }

    #[test]
    fn relevance_and_score_are_weighted_means() {
        assert_close(blend_relevance(0.8, 0.4, 0.25), 0.5);
        assert_eq!(blend_relevance(0.8, 0.4, 1.0), 0.8);
        assert_eq!(blend_relevance(0.8, 0.4, 0.0), 0.4);
        assert_close(combine(0.5, 1.0, 0.2, 0.04), 0.64);
    }

    #[test]
    fn a_freshness_word_raises_the_weight_up_to_its_limit() {
        assert_eq!(raise_recency_weight(0.2, false), 0.2);
        assert_close(raise_recency_weight(0.2, true), 0.4);
        assert_close(raise_recency_weight(0.4, true), 0.5);
        assert_eq!(raise_recency_weight(0.8, true), 0.8);
    }

    proptest! {
        #[test]
        fn recency_lies_between_zero_and_one_and_falls(
            decay in 0..3usize, days in -1.0..400.0f64, age in -10.0..1e6f64, later in 0.0..1e6f64,
            half_speed in any::<bool>(),
        ) {
            let at = |age| recency(DECAYS[decay], days, age, half_speed);
            prop_assert!((0.0..=1.0).contains(&at(age)));
            prop_assert!(at(age + later) <= at(age));
        }

        #[test]
        fn sigmoid_is_monotonic_and_bounded(a in any::<f32>(), b in any::<f32>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            prop_assert!(sigmoid(low) <= sigmoid(high));
            prop_assert!((0.0..=1.0).contains(&sigmoid(a)));
        }

        #[test]
        fn raising_never_lowers(weight in 0.0..=1.0f64) {
            let raised = raise_recency_weight(weight, true);
            prop_assert!(raised >= weight && raised <= weight.max(0.5));
        }
    }

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
