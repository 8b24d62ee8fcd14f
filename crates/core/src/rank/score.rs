//! The parts of a row's score: relevance from the reranker, recency and the
//! boost of its markers.

/// Age in days at which recency has fallen to 1/e.
const RECENCY_DAYS: f64 = 30.0;
/// Share of the reranker in relevance; the rest is the fused score. The logit alone is worse on one of two
/// labelled sets (docs/ranking.md).
const RERANK_SHARE: f64 = 0.5;
/// What a freshness word in the query adds to the recency weight.
const FRESHNESS_STEP: f64 = 0.2;
/// The highest recency weight that a freshness word can lead to.
const FRESHNESS_LIMIT: f64 = 0.5;

/// The logistic function, which maps a cross-encoder's logit to 0..=1.
pub fn sigmoid(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// How fresh a row is, from 1 (now) towards 0: `exp(-age / 30 days)`. An age below 0 (a row dated in the future) counts
/// as 0.
pub fn recency(age_days: f64) -> f64 {
    (-age_days.max(0.0) / RECENCY_DAYS).exp()
}

/// Blends the reranker's opinion with the normalised fused score; both lie in 0..=1.
pub fn blend_relevance(reranked: f64, fused: f64) -> f64 {
    RERANK_SHARE * reranked + (1.0 - RERANK_SHARE) * fused
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
/// plus 0.2, at most 0.5, but never less than `weight` itself. Who sets it to 0 wants none.
pub fn raise_recency_weight(weight: f64, has_freshness_word: bool) -> f64 {
    if has_freshness_word && weight > 0.0 {
        (weight + FRESHNESS_STEP).min(FRESHNESS_LIMIT).max(weight)
    } else {
        weight
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn recency_falls_by_e_in_thirty_days() {
        assert_eq!(recency(0.0), 1.0);
        assert_close(recency(30.0), (-1.0f64).exp());
        assert_close(recency(60.0), (-2.0f64).exp());
    }

    #[test]
    fn the_future_is_as_fresh_as_now_and_the_infinite_past_is_not() {
        assert_eq!([-3.0, f64::NEG_INFINITY, f64::INFINITY].map(recency), [1.0, 1.0, 0.0]);
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
        assert_close(blend_relevance(0.8, 0.4), 0.6);
        assert_close(combine(0.5, 1.0, 0.2, 0.04), 0.64);
    }

    #[test]
    fn a_freshness_word_raises_the_weight_up_to_its_limit() {
        assert_eq!(raise_recency_weight(0.2, false), 0.2);
        assert_close(raise_recency_weight(0.2, true), 0.4);
        assert_close(raise_recency_weight(0.4, true), 0.5);
        assert_eq!(raise_recency_weight(0.8, true), 0.8);
        assert_eq!(raise_recency_weight(0.0, true), 0.0);
    }

    proptest! {
        #[test]
        fn recency_lies_between_zero_and_one_and_falls(
            age in -10.0..1e6f64, later in 0.0..1e6f64,
        ) {
            prop_assert!((0.0..=1.0).contains(&recency(age)));
            prop_assert!(recency(age + later) <= recency(age));
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
}
