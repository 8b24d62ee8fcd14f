//! Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): good rows
//! that do not say the same thing twice.

/// Picks up to `top_k` rows greedily, best first, and returns their indexes.
///
/// The first is the best score; each next one maximises
/// `lambda * score - (1 - lambda) * (largest cosine to the rows chosen so far)`.
/// `lambda` 1 is plain score order. Ties go to the lower index. `cosine` is
/// called at most once for each pair of a chosen and an unchosen row.
pub fn select(
    scores: &[f64],
    cosine: impl Fn(usize, usize) -> f64,
    lambda: f64,
    top_k: usize,
) -> Vec<usize> {
    select_in_order(scores, &vec![Vec::new(); scores.len()], cosine, lambda, top_k)
}

/// [`select`] where a row may have to wait: row `i` is not chosen before all
/// rows in `after[i]`, and not at all if one of them is not chosen. `after` has
/// one entry per score.
pub fn select_in_order(
    scores: &[f64],
    after: &[Vec<usize>],
    cosine: impl Fn(usize, usize) -> f64,
    lambda: f64,
    top_k: usize,
) -> Vec<usize> {
    let wanted = top_k.min(scores.len());
    let mut chosen: Vec<usize> = Vec::with_capacity(wanted);
    let mut is_chosen = vec![false; scores.len()];
    // Largest cosine of each row to the rows chosen so far.
    let mut redundancy = vec![f64::NEG_INFINITY; scores.len()];

    while chosen.len() < wanted {
        let value = |row: usize| {
            let value = if chosen.is_empty() {
                scores[row]
            } else {
                lambda * scores[row] - (1.0 - lambda) * redundancy[row]
            };
            if value.is_nan() { f64::NEG_INFINITY } else { value }
        };
        let mut best: Option<(usize, f64)> = None;
        for row in 0..scores.len() {
            let waits = after[row].iter().any(|first| !is_chosen[*first]);
            if is_chosen[row] || waits {
                continue;
            }
            let value = value(row);
            if best.is_none_or(|(_, highest)| value > highest) {
                best = Some((row, value));
            }
        }
        let Some((next, _)) = best else { break };
        is_chosen[next] = true;
        chosen.push(next);
        if chosen.len() < wanted {
            for row in (0..scores.len()).filter(|row| !is_chosen[*row]) {
                redundancy[row] = redundancy[row].max(cosine(row, next));
            }
        }
    }
    chosen
}

/// Cosine of the angle between two vectors, -1 to 1; 0 if it is not defined
/// (other lengths, a zero vector, a value that is not finite).
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let (mut dot, mut norm_a, mut norm_b) = (0.0f64, 0.0f64, 0.0f64);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        dot += x * y;
        norm_a += x * x;
        norm_b += y * y;
    }
    let cosine = dot / (norm_a.sqrt() * norm_b.sqrt());
    if cosine.is_finite() { cosine.clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// Rows 0 and 1 say the same, row 2 something else.
    fn twins(a: usize, b: usize) -> f64 {
        if a + b == 1 { 1.0 } else { 0.0 }
    }

    #[test]
    fn a_repetition_gives_way_to_something_new() {
        let scores = [0.9, 0.88, 0.5];
        assert_eq!(select(&scores, twins, 0.7, 2), [0, 2]);
        assert_eq!(select(&scores, twins, 1.0, 2), [0, 1]);
        assert_eq!(select(&scores, twins, 0.7, 3), [0, 2, 1]);
    }

    #[test]
    fn the_best_score_comes_first_whatever_lambda_is() {
        for lambda in [0.0, 0.5, 1.0] {
            assert_eq!(select(&[0.1, 0.8, 0.3], |_, _| 0.9, lambda, 1), [1]);
        }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(select(&[0.5, 0.5, 0.5], |_, _| 0.0, 0.7, 3), [0, 1, 2]);
    }

    #[test]
    fn nothing_is_selected_from_nothing() {
        assert!(select(&[], |_, _| 0.0, 0.7, 5).is_empty());
        assert!(select(&[0.4], |_, _| 0.0, 0.7, 0).is_empty());
    }

    #[test]
    fn a_score_that_is_not_a_number_comes_last() {
        assert_eq!(select(&[f64::NAN, 0.1], |_, _| 0.0, 0.7, 2), [1, 0]);
    }

    #[test]
    fn a_waiting_row_follows_all_it_waits_for() {
        let after = [vec![2], vec![], vec![]];
        assert_eq!(select_in_order(&[0.9, 0.5, 0.1], &after, |_, _| 0.0, 1.0, 3), [1, 2, 0]);
        assert_eq!(select_in_order(&[0.9, 0.5, 0.1], &after, |_, _| 0.0, 1.0, 1), [1]);
        let after = [vec![1, 3], vec![], vec![], vec![]];
        let scores = [0.9, 0.5, 0.3, 0.1];
        assert_eq!(select_in_order(&scores, &after, |_, _| 0.0, 1.0, 4), [1, 2, 3, 0]);
        assert_eq!(select_in_order(&scores, &after, |_, _| 0.0, 1.0, 2), [1, 2]);
        // Two rows that wait for each other are never chosen.
        let circle = [vec![1], vec![0], vec![]];
        assert_eq!(select_in_order(&[0.9, 0.5, 0.1], &circle, |_, _| 0.0, 1.0, 3), [2]);
    }

    #[test]
    fn cosine_is_defined_for_any_vectors() {
        assert_eq!(cosine(&[1.0, 0.0], &[2.0, 0.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 3.0]), 0.0);
        assert_eq!(cosine(&[1.0], &[-1.0]), -1.0);
        assert!((cosine(&[1.0, 1.0], &[1.0, 0.0]) - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(cosine(&[1.0], &[1.0, 0.0]), 0.0);
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 0.0]), 0.0);
        assert_eq!(cosine(&[], &[]), 0.0);
        assert_eq!(cosine(&[f32::NAN], &[1.0]), 0.0);
        assert_eq!(cosine(&[f32::MAX; 4], &[f32::MAX; 4]), 1.0);
    }

    fn rows() -> impl Strategy<Value = (Vec<f64>, Vec<Vec<f32>>)> {
        prop::collection::vec((0.0..1.0f64, prop::collection::vec(-1.0..1.0f32, 4)), 0..25)
            .prop_map(|rows| rows.into_iter().unzip())
    }

    proptest! {
        #[test]
        fn selects_distinct_rows_as_many_as_wanted(
            (scores, vectors) in rows(), lambda in 0.0..=1.0f64, top_k in 0..30usize,
        ) {
            let chosen = select(&scores, |a, b| cosine(&vectors[a], &vectors[b]), lambda, top_k);
            prop_assert_eq!(chosen.len(), top_k.min(scores.len()));
            let mut distinct = chosen.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), chosen.len());
        }

        #[test]
        fn lambda_one_is_score_order((scores, vectors) in rows()) {
            let chosen = select(&scores, |a, b| cosine(&vectors[a], &vectors[b]), 1.0, scores.len());
            prop_assert!(chosen.windows(2).all(|pair| scores[pair[0]] >= scores[pair[1]]));
        }

        #[test]
        fn a_smaller_top_k_is_a_prefix((scores, vectors) in rows(), lambda in 0.0..=1.0f64) {
            let select = |top_k| select(&scores, |a, b| cosine(&vectors[a], &vectors[b]), lambda, top_k);
            let all = select(scores.len());
            prop_assert_eq!(select(scores.len() / 2), &all[..scores.len() / 2]);
        }

        #[test]
        fn every_choice_is_the_best_one_left((scores, vectors) in rows(), lambda in 0.0..=1.0f64) {
            let similarity = |a: usize, b: usize| cosine(&vectors[a], &vectors[b]);
            let chosen = select(&scores, similarity, lambda, scores.len());
            for position in 1..chosen.len() {
                let before = &chosen[..position];
                let value = |row: usize| {
                    let redundancy =
                        before.iter().map(|other| similarity(row, *other)).fold(-1.0, f64::max);
                    lambda * scores[row] - (1.0 - lambda) * redundancy
                };
                let best = value(chosen[position]);
                for row in &chosen[position..] {
                    prop_assert!(value(*row) <= best + 1e-9);
                }
            }
        }

        #[test]
        fn each_pair_is_compared_at_most_once((scores, _) in rows(), top_k in 0..30usize) {
            let calls = Cell::new(0usize);
            let count = |_, _| {
                calls.set(calls.get() + 1);
                0.0
            };
            let chosen = select(&scores, count, 0.7, top_k);
            prop_assert!(calls.get() <= chosen.len() * scores.len());
            prop_assert!(calls.get() <= scores.len() * scores.len().saturating_sub(1) / 2);
        }
    }
}
