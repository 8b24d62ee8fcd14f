//! How good a ranking is: the measures of information retrieval over the first ten rows.

/// Rows of a ranking that are looked at.
pub const DEPTH: usize = 10;

/// Measures of one question, or their mean over many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measures {
    /// Share of the relevant rows among the first five.
    pub recall_5: f64,
    /// Share of the relevant rows among the first ten.
    pub recall_10: f64,
    /// Discounted cumulative gain of the first ten, as a share of the best possible (Järvelin and
    /// Kekäläinen, 2002), with gains of 0 and 1.
    pub ndcg_10: f64,
    /// One over the rank of the first relevant row; 0 if it is not among the first ten.
    pub reciprocal_rank: f64,
    /// Whether one of the first five is relevant.
    pub hit_5: f64,
}

impl Measures {
    /// Of a ranking, best first. `relevant` must not be empty; ids that come twice count once.
    pub fn of<Id: PartialEq>(ranking: &[Id], relevant: &[Id]) -> Self {
        let mut seen: Vec<&Id> = Vec::with_capacity(DEPTH);
        for id in ranking {
            if seen.len() < DEPTH && !seen.contains(&id) {
                seen.push(id);
            }
        }
        let hits: Vec<bool> = seen.iter().map(|id| relevant.contains(id)).collect();
        let count = |depth: usize| hits.iter().take(depth).filter(|hit| **hit).count() as f64;
        let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
        let gain: f64 =
            hits.iter().enumerate().filter(|(_, hit)| **hit).map(|(rank, _)| discount(rank)).sum();
        let best: f64 = (0..relevant.len().min(DEPTH)).map(discount).sum();
        let first = hits.iter().position(|hit| *hit);
        Self {
            recall_5: count(5) / relevant.len() as f64,
            recall_10: count(DEPTH) / relevant.len() as f64,
            ndcg_10: gain / best,
            reciprocal_rank: first.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0)),
            hit_5: f64::from(u8::from(count(5) > 0.0)),
        }
    }

    /// The mean over questions; all 0 without any.
    pub fn mean<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = [0.0; 5];
        let mut count = 0.0;
        for measures in all {
            count += 1.0;
            for (total, value) in sum.iter_mut().zip(measures.values()) {
                *total += value;
            }
        }
        let [recall_5, recall_10, ndcg_10, reciprocal_rank, hit_5] =
            sum.map(|total| if count > 0.0 { total / count } else { 0.0 });
        Self { recall_5, recall_10, ndcg_10, reciprocal_rank, hit_5 }
    }

    /// In the order of [`NAMES`].
    pub fn values(&self) -> [f64; 5] {
        [self.recall_5, self.recall_10, self.ndcg_10, self.reciprocal_rank, self.hit_5]
    }
}

/// What [`Measures::values`] holds.
pub const NAMES: [&str; 5] = ["R@5", "R@10", "nDCG@10", "MRR@10", "hit@5"];

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-12, "{actual} is not {expected}");
    }

    #[test]
    fn a_ranking_with_hits_at_two_and_six() {
        let measures = Measures::of(&[9, 1, 8, 7, 6, 2, 5], &[1, 2, 3, 4]);
        close(measures.recall_5, 0.25);
        close(measures.recall_10, 0.5);
        close(measures.reciprocal_rank, 0.5);
        close(measures.hit_5, 1.0);
        // Discounts of ranks 2 and 6, against those of ranks 1 to 4.
        let best = 1.0 + 1.0 / 3f64.log2() + 0.5 + 1.0 / 5f64.log2();
        close(measures.ndcg_10, (1.0 / 3f64.log2() + 1.0 / 7f64.log2()) / best);
    }

    #[test]
    fn nothing_found_is_zero_and_all_found_is_one() {
        assert_eq!(Measures::of(&[], &[1]), Measures::default());
        let perfect = Measures::of(&[1, 2], &[2, 1]);
        assert!(perfect.values().iter().all(|value| (value - 1.0).abs() < 1e-12));
    }

    #[test]
    fn only_ten_different_rows_count() {
        let eleventh = Measures::of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[10]);
        assert_eq!(eleventh, Measures::default());
        let repeated = Measures::of(&[7, 7, 7, 7, 7, 7, 1], &[1]);
        close(repeated.recall_5, 1.0);
        close(repeated.reciprocal_rank, 0.5);
    }

    #[test]
    fn the_mean_is_over_questions() {
        let mean = Measures::mean(&[Measures::of(&[1], &[1]), Measures::of(&[2], &[1])]);
        assert!(mean.values().iter().all(|value| *value == 0.5));
        assert_eq!(Measures::mean(&[]), Measures::default());
    }
}
