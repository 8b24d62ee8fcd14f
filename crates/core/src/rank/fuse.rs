//! Fusion of the two retrieval arms, dense (cosine similarity) and lexical
//! (BM25), into one score per row.
//!
//! A row that an arm did not find is not ranked by that arm: giving it a place
//! at the end of the other list would let noise win over good single-arm rows.

/// What the arms said about one row; `None` if the arm did not find it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ArmScores {
    /// Cosine similarity.
    pub similarity: Option<f64>,
    /// BM25 score.
    pub lexical: Option<f64>,
}

impl ArmScores {
    /// Whether at least one arm found the row.
    pub fn is_found(&self) -> bool {
        found(self.similarity).or(found(self.lexical)).is_some()
    }
}

/// Fuses the arms of all `rows`, which must be the whole candidate list: the scores of each arm are scaled by it,
/// the similarity by min-max and BM25 by its maximum. Min-max would give the weakest match of BM25 0, the value of a
/// row without any word of the query. Higher is better; every value lies in 0..=1.
///
/// `dense_weight` is the share of the similarity, 0 to 1. If one arm found nothing at all (no model, or no word in
/// common), the other one takes the whole weight, so that scores stay comparable with a threshold. A value that is
/// not finite (the cosine to a zero vector) counts as not found. Fusion of ranks (RRF) was no better on any labelled
/// set (docs/ranking.md).
pub fn fuse(rows: &[ArmScores], dense_weight: f64) -> Vec<f64> {
    let similarity: Vec<_> = rows.iter().map(|row| found(row.similarity)).collect();
    let lexical: Vec<_> = rows.iter().map(|row| found(row.lexical)).collect();
    let dense_weight = if lexical.iter().all(Option::is_none) {
        1.0
    } else if similarity.iter().all(Option::is_none) {
        0.0
    } else {
        dense_weight.clamp(0.0, 1.0)
    };
    scale(&similarity, None)
        .into_iter()
        .zip(scale(&lexical, Some(0.0)))
        .map(|(dense, lexical)| {
            dense_weight * dense.unwrap_or(0.0) + (1.0 - dense_weight) * lexical.unwrap_or(0.0)
        })
        .collect()
}

/// Scales the given values to 0..=1, from `floor` if that is below the smallest value; `None` and values that are not
/// finite come back as `None`. If all values are equal, or there is only one, each is 1: the best of its list.
fn scale(values: &[Option<f64>], floor: Option<f64>) -> Vec<Option<f64>> {
    let present = || values.iter().copied().filter_map(found);
    let lowest = present().chain(floor).fold(f64::INFINITY, f64::min);
    let highest = present().fold(f64::NEG_INFINITY, f64::max);
    // Halves, because the difference of two finite values can overflow.
    let range = highest / 2.0 - lowest / 2.0;
    values
        .iter()
        .map(|value| {
            found(*value).map(|value| {
                if range > 0.0 {
                    ((value / 2.0 - lowest / 2.0) / range).clamp(0.0, 1.0)
                } else {
                    1.0
                }
            })
        })
        .collect()
}

fn found(score: Option<f64>) -> Option<f64> {
    score.filter(|score| score.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arms(similarity: Option<f64>, lexical: Option<f64>) -> ArmScores {
        ArmScores { similarity, lexical }
    }

    #[test]
    fn min_max_scales_what_is_there() {
        let scaled = scale(&[Some(2.0), None, Some(4.0), Some(3.0), Some(f64::NAN)], None);
        assert_eq!(scaled, [Some(0.0), None, Some(1.0), Some(0.5), None]);
        assert_eq!(scale(&[], None), []);
        assert_eq!(scale(&[None], None), [None]);
    }

    #[test]
    fn min_max_of_equal_or_single_values_is_one() {
        assert_eq!(scale(&[Some(-3.0)], None), [Some(1.0)]);
        assert_eq!(scale(&[Some(0.0), None, Some(0.0)], None), [Some(1.0), None, Some(1.0)]);
    }

    #[test]
    fn min_max_survives_the_largest_numbers() {
        let scaled = scale(&[Some(f64::MIN), Some(0.0), Some(f64::MAX)], None);
        assert_eq!(scaled, [Some(0.0), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn weighted_adds_the_shares_of_both_arms() {
        let rows = [
            arms(Some(0.9), Some(2.0)),
            arms(Some(0.5), Some(10.0)),
            arms(Some(0.7), None),
            arms(None, Some(6.0)),
        ];
        let fused = fuse(&rows, 0.7);
        let expected = [0.7 + 0.06, 0.3, 0.35, 0.18];
        for (fused, expected) in fused.iter().zip(expected) {
            assert!((fused - expected).abs() < 1e-12, "{fused} is not {expected}");
        }
    }

    #[test]
    fn a_single_arm_takes_the_whole_weight() {
        let lexical = [arms(None, Some(1.0)), arms(None, Some(4.0)), arms(None, Some(2.0))];
        assert_eq!(fuse(&lexical, 0.5), [1.0 / 4.0, 1.0, 0.5]);
        let dense = [arms(Some(0.2), None), arms(Some(0.6), None)];
        assert_eq!(fuse(&dense, 0.5), [0.0, 1.0]);
        // A NaN similarity (zero vector) is not an arm.
        assert_eq!(fuse(&[arms(Some(f64::NAN), Some(1.0))], 0.5), [1.0]);
        assert_eq!(fuse(&[arms(None, None)], 0.5), [0.0]);
    }

    #[test]
    fn the_lexical_floor_keeps_the_weakest_match_above_zero() {
        let rows = [arms(None, Some(2.0)), arms(None, Some(8.0))];
        assert_eq!(fuse(&rows, 0.5), [0.25, 1.0]);
        assert_eq!(fuse(&[arms(None, Some(0.0))], 0.5), [1.0]);
    }

    fn any_rows() -> impl Strategy<Value = Vec<ArmScores>> {
        let arm = prop::option::of(prop_oneof![-1e9..1e9f64, any::<f64>()]);
        prop::collection::vec((arm.clone(), arm).prop_map(|(a, b)| arms(a, b)), 0..30)
    }

    proptest! {
        #[test]
        fn weighted_scores_lie_between_zero_and_one(
            rows in any_rows(), dense_weight in any::<f64>(),
        ) {
            prop_assume!(!dense_weight.is_nan());
            let fused = fuse(&rows, dense_weight);
            prop_assert_eq!(fused.len(), rows.len());
            prop_assert!(fused.iter().all(|score| (0.0..=1.0).contains(score)), "{:?}", fused);
        }

        #[test]
        fn a_row_better_in_both_arms_is_never_below(
            rows in prop::collection::vec((0.0..1.0f64, 0.0..50.0f64), 2..20),
        ) {
            let rows: Vec<_> = rows.iter().map(|(s, l)| arms(Some(*s), Some(*l))).collect();
            let fused = fuse(&rows, 0.5);
            for (a, fused_a) in rows.iter().zip(&fused) {
                for (b, fused_b) in rows.iter().zip(&fused) {
                    if a.similarity > b.similarity && a.lexical > b.lexical {
                        prop_assert!(fused_a >= fused_b);
                    }
                }
            }
        }
    }
}
