//! Fusion of the two retrieval arms, dense (cosine similarity) and lexical
//! (BM25), into one score per row.
//!
//! A row that an arm did not find is not ranked by that arm: giving it a place
//! at the end of the other list would let noise win over good single-arm rows.

use std::str::FromStr;

use crate::setting::{UnknownChoice, choose};

/// How the arms are joined; the setting `memory_agent.fusion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FusionMethod {
    /// Weighted sum of normalised scores: the similarity by min-max, BM25 by its
    /// maximum or by min-max ([`FusionSettings::lexical_floor_zero`]).
    Weighted,
    /// Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
    Rrf,
}

impl FusionMethod {
    const CHOICES: [(&str, Self); 2] = [("weighted", Self::Weighted), ("rrf", Self::Rrf)];

    /// The setting's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::Rrf => "rrf",
        }
    }
}

impl FromStr for FusionMethod {
    type Err = UnknownChoice;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        choose("fusion", value, &Self::CHOICES)
    }
}

/// Parameters of [`fuse`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusionSettings {
    pub method: FusionMethod,
    /// Share of the dense arm in the weighted sum, 0 to 1; the lexical arm has the rest.
    pub dense_weight: f64,
    /// The constant k of `1 / (k + rank)`, at least 0.
    pub rrf_k: f64,
    /// Whether BM25 is scaled from 0, by its maximum alone, instead of from the
    /// smallest matching score. By default it is: min-max gives the weakest match
    /// 0, the value of a row without any word of the query, though it has one.
    pub lexical_floor_zero: bool,
}

impl Default for FusionSettings {
    fn default() -> Self {
        Self {
            method: FusionMethod::Weighted,
            dense_weight: 0.5,
            rrf_k: 60.0,
            lexical_floor_zero: true,
        }
    }
}

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

/// Fuses the arms of all `rows`, which must be the whole candidate list, since
/// both methods depend on it. Higher is better; every value is finite.
///
/// Weighted scores lie in 0..=1. If one arm found nothing at all (no model, or
/// no word in common), the other one takes the whole weight, so that scores stay
/// comparable with a threshold. A value that is not finite (the cosine to a zero
/// vector) counts as not found.
pub fn fuse(rows: &[ArmScores], settings: &FusionSettings) -> Vec<f64> {
    let similarity: Vec<_> = rows.iter().map(|row| found(row.similarity)).collect();
    let lexical: Vec<_> = rows.iter().map(|row| found(row.lexical)).collect();
    match settings.method {
        FusionMethod::Weighted => weighted(&similarity, &lexical, settings),
        FusionMethod::Rrf => reciprocal_rank(&similarity, &lexical, settings.rrf_k),
    }
}

fn weighted(
    similarity: &[Option<f64>],
    lexical: &[Option<f64>],
    settings: &FusionSettings,
) -> Vec<f64> {
    let dense_weight = if lexical.iter().all(Option::is_none) {
        1.0
    } else if similarity.iter().all(Option::is_none) {
        0.0
    } else {
        settings.dense_weight.clamp(0.0, 1.0)
    };
    let lexical_floor = settings.lexical_floor_zero.then_some(0.0);
    scale(similarity, None)
        .into_iter()
        .zip(scale(lexical, lexical_floor))
        .map(|(dense, lexical)| {
            dense_weight * dense.unwrap_or(0.0) + (1.0 - dense_weight) * lexical.unwrap_or(0.0)
        })
        .collect()
}

fn reciprocal_rank(similarity: &[Option<f64>], lexical: &[Option<f64>], k: f64) -> Vec<f64> {
    let mut fused = vec![0.0; similarity.len()];
    for arm in [similarity, lexical] {
        let mut ranked: Vec<(usize, f64)> = arm
            .iter()
            .enumerate()
            .filter_map(|(index, score)| score.map(|score| (index, score)))
            .collect();
        // The sort is stable: equal scores keep the order of their rows.
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (position, (index, _)) in ranked.into_iter().enumerate() {
            fused[index] += 1.0 / (k.max(0.0) + position as f64 + 1.0);
        }
    }
    fused
}

/// Scales the given values to 0..=1; `None` and values that are not finite stay
/// out and come back as `None`. If all values are equal, or there is only one,
/// each is 1: the best of its list.
pub fn min_max(values: &[Option<f64>]) -> Vec<Option<f64>> {
    scale(values, None)
}

/// [`min_max`] that maps `floor` to 0 if that is below the smallest value.
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

    fn weighted(dense_weight: f64) -> FusionSettings {
        FusionSettings { dense_weight, ..FusionSettings::default() }
    }

    fn rrf() -> FusionSettings {
        FusionSettings { method: FusionMethod::Rrf, ..FusionSettings::default() }
    }

    #[test]
    fn min_max_scales_what_is_there() {
        let scaled = min_max(&[Some(2.0), None, Some(4.0), Some(3.0), Some(f64::NAN)]);
        assert_eq!(scaled, [Some(0.0), None, Some(1.0), Some(0.5), None]);
        assert_eq!(min_max(&[]), []);
        assert_eq!(min_max(&[None]), [None]);
    }

    #[test]
    fn min_max_of_equal_or_single_values_is_one() {
        assert_eq!(min_max(&[Some(-3.0)]), [Some(1.0)]);
        assert_eq!(min_max(&[Some(0.0), None, Some(0.0)]), [Some(1.0), None, Some(1.0)]);
    }

    #[test]
    fn min_max_survives_the_largest_numbers() {
        let scaled = min_max(&[Some(f64::MIN), Some(0.0), Some(f64::MAX)]);
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
        let fused = fuse(&rows, &weighted(0.7));
        let expected = [0.7 + 0.06, 0.3, 0.35, 0.18];
        for (fused, expected) in fused.iter().zip(expected) {
            assert!((fused - expected).abs() < 1e-12, "{fused} is not {expected}");
        }
    }

    #[test]
    fn a_single_arm_takes_the_whole_weight() {
        let lexical = [arms(None, Some(1.0)), arms(None, Some(4.0)), arms(None, Some(2.0))];
        assert_eq!(fuse(&lexical, &weighted(0.5)), [1.0 / 4.0, 1.0, 0.5]);
        let dense = [arms(Some(0.2), None), arms(Some(0.6), None)];
        assert_eq!(fuse(&dense, &weighted(0.5)), [0.0, 1.0]);
        // A NaN similarity (zero vector) is not an arm.
        assert_eq!(fuse(&[arms(Some(f64::NAN), Some(1.0))], &weighted(0.5)), [1.0]);
        assert_eq!(fuse(&[arms(None, None)], &weighted(0.5)), [0.0]);
    }

    #[test]
    fn the_lexical_floor_keeps_the_weakest_match_above_zero() {
        let rows = [arms(None, Some(2.0)), arms(None, Some(8.0))];
        let by_default = FusionSettings::default();
        let min_max = FusionSettings { lexical_floor_zero: false, ..by_default };
        assert_eq!(fuse(&rows, &by_default), [0.25, 1.0]);
        assert_eq!(fuse(&rows, &min_max), [0.0, 1.0]);
        assert_eq!(fuse(&[arms(None, Some(0.0))], &by_default), [1.0]);
    }

    #[test]
    fn rrf_sums_reciprocal_ranks_of_the_arms_that_matched() {
        let rows = [
            arms(Some(0.9), None),
            arms(Some(0.5), Some(10.0)),
            arms(None, None),
            arms(None, Some(6.0)),
        ];
        let fused = fuse(&rows, &rrf());
        let expected = [1.0 / 61.0, 1.0 / 62.0 + 1.0 / 61.0, 0.0, 1.0 / 62.0];
        for (fused, expected) in fused.iter().zip(expected) {
            assert!((fused - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn rrf_ranks_ties_in_the_order_of_the_rows() {
        let tie = arms(Some(0.5), None);
        assert_eq!(fuse(&[tie, tie], &rrf()), [1.0 / 61.0, 1.0 / 62.0]);
    }

    fn any_rows() -> impl Strategy<Value = Vec<ArmScores>> {
        let arm = prop::option::of(prop_oneof![-1e9..1e9f64, any::<f64>()]);
        prop::collection::vec((arm.clone(), arm).prop_map(|(a, b)| arms(a, b)), 0..30)
    }

    proptest! {
        #[test]
        fn weighted_scores_lie_between_zero_and_one(
            rows in any_rows(), dense_weight in any::<f64>(), lexical_floor_zero in any::<bool>(),
        ) {
            prop_assume!(!dense_weight.is_nan());
            let settings = FusionSettings { lexical_floor_zero, ..weighted(dense_weight) };
            let fused = fuse(&rows, &settings);
            prop_assert_eq!(fused.len(), rows.len());
            prop_assert!(fused.iter().all(|score| (0.0..=1.0).contains(score)), "{:?}", fused);
        }

        #[test]
        fn rrf_scores_are_finite_and_bounded(rows in any_rows(), rrf_k in 0.0..1000.0f64) {
            let settings = FusionSettings { rrf_k, ..rrf() };
            let fused = fuse(&rows, &settings);
            prop_assert_eq!(fused.len(), rows.len());
            prop_assert!(fused.iter().all(|score| (0.0..=2.0 / (rrf_k + 1.0)).contains(score)));
        }

        #[test]
        fn a_row_better_in_both_arms_is_never_below(
            rows in prop::collection::vec((0.0..1.0f64, 0.0..50.0f64), 2..20),
            method in prop_oneof![Just(FusionMethod::Weighted), Just(FusionMethod::Rrf)],
        ) {
            let rows: Vec<_> = rows.iter().map(|(s, l)| arms(Some(*s), Some(*l))).collect();
            let fused = fuse(&rows, &FusionSettings { method, ..FusionSettings::default() });
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
