//! The token budget of a recall: which rows fit into the caller's context.
//!
//! The budget is a hard limit. Rows are taken by score, best first; a row that
//! is too long is skipped and the next ones are still tried.

/// What the budget needs to know of a ranked row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetRow {
    pub token_count: u32,
    pub score: f64,
}

/// The rows that fit into `budget` tokens, as indexes into `rows` in the order
/// of `rows` (MMR order). Equal scores go by that order too.
pub fn fit(rows: &[BudgetRow], budget: u32) -> Vec<usize> {
    fit_remaining(rows, &vec![false; rows.len()], u64::from(budget))
}

/// [`fit`] without the rows that are already `taken`.
fn fit_remaining(rows: &[BudgetRow], taken: &[bool], mut left: u64) -> Vec<usize> {
    let mut by_score: Vec<usize> = (0..rows.len()).filter(|row| !taken[*row]).collect();
    by_score.sort_by(|a, b| comparable(rows[*b].score).total_cmp(&comparable(rows[*a].score)));
    let mut kept: Vec<usize> =
        by_score.into_iter().filter(|row| take(&mut left, rows[*row].token_count)).collect();
    kept.sort_unstable();
    kept
}

/// NaN sorts last, not first.
fn comparable(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score }
}

/// Takes `tokens` from what is `left`, or leaves it alone if they do not fit.
fn take(left: &mut u64, tokens: u32) -> bool {
    match left.checked_sub(u64::from(tokens)) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

/// What [`fit_with_episode`] keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpisodeFit {
    /// Indexes into the turns of the episode, newest first.
    pub episode: Vec<usize>,
    /// Indexes into the ranked rows, in their order, without the rows that
    /// `episode` already holds.
    pub ranked: Vec<usize>,
}

/// Most of a token budget that the newest turns of the running episode take.
pub const CURRENT_EPISODE_SHARE: f64 = 0.5;

/// Shares `budget` tokens between the running episode and the ranked rows.
///
/// The episode's turns enter from the newest on, up to `episode_share` (0 to 1)
/// of the budget; one that does not fit is skipped. What they leave unused goes
/// to the ranked rows, which are chosen as [`fit`] does.
///
/// `episode_newest_first` holds token counts. `overlap` names, for each of these
/// turns, the row of `ranked` that is the same entry, if there is one; such an
/// entry is kept and paid for once.
pub fn fit_with_episode(
    episode_newest_first: &[u32],
    ranked: &[BudgetRow],
    overlap: &[Option<usize>],
    budget: u32,
    episode_share: f64,
) -> EpisodeFit {
    // A float cast saturates, so the share is within the budget for any input.
    let share = ((f64::from(budget) * episode_share.clamp(0.0, 1.0)) as u64).min(u64::from(budget));
    let mut share_left = share;
    let episode: Vec<usize> = (0..episode_newest_first.len())
        .filter(|turn| take(&mut share_left, episode_newest_first[*turn]))
        .collect();

    let mut taken = vec![false; ranked.len()];
    for turn in &episode {
        if let Some(same) = overlap.get(*turn).copied().flatten()
            && let Some(taken) = taken.get_mut(same)
        {
            *taken = true;
        }
    }
    let left = u64::from(budget) - (share - share_left);
    EpisodeFit { episode, ranked: fit_remaining(ranked, &taken, left) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(rows: &[(u32, f64)]) -> Vec<BudgetRow> {
        let row = |(token_count, score): &(u32, f64)| BudgetRow {
            token_count: *token_count,
            score: *score,
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_lowest_scores_are_dropped_and_the_order_stays() {
        let ranked = rows(&[(10, 0.9), (10, 0.2), (10, 0.8), (10, 0.5)]);
        assert_eq!(fit(&ranked, 30), [0, 2, 3]);
        assert_eq!(fit(&ranked, 40), [0, 1, 2, 3]);
        assert_eq!(fit(&ranked, 9), [] as [usize; 0]);
        assert!(fit(&[], 100).is_empty());
    }

    #[test]
    fn a_row_too_long_is_skipped_and_not_the_end() {
        let ranked = rows(&[(500, 0.9), (10, 0.5), (30, 0.4), (10, 0.3)]);
        assert_eq!(fit(&ranked, 25), [1, 3]);
    }

    #[test]
    fn equal_scores_go_by_rank_and_nan_goes_last() {
        assert_eq!(fit(&rows(&[(10, 0.5), (10, 0.5), (10, 0.5)]), 20), [0, 1]);
        assert_eq!(fit(&rows(&[(10, f64::NAN), (10, -5.0)]), 10), [1]);
    }

    #[test]
    fn counts_near_the_limit_do_not_wrap() {
        let ranked = rows(&[(u32::MAX, 0.9), (u32::MAX, 0.8), (0, 0.1)]);
        assert_eq!(fit(&ranked, u32::MAX), [0, 2]);
    }

    #[test]
    fn the_episode_gets_its_share_and_gives_back_the_rest() {
        let ranked = rows(&[(40, 0.9), (40, 0.8)]);
        // Half of 100 for the episode: 30 + 20 fit, the third turn does not.
        let kept = fit_with_episode(&[30, 20, 10], &ranked, &[None; 3], 100, 0.5);
        assert_eq!(kept.episode, [0, 1]);
        assert_eq!(kept.ranked, [0]);
        // Only 10 of its 50 are used, so both ranked rows fit.
        let kept = fit_with_episode(&[10], &ranked, &[None], 100, 0.5);
        assert_eq!((kept.episode, kept.ranked), (vec![0], vec![0, 1]));
    }

    #[test]
    fn a_long_turn_of_the_episode_is_skipped() {
        let kept = fit_with_episode(&[80, 10, 60, 5], &[], &[], 100, 0.5);
        assert_eq!(kept.episode, [1, 3]);
    }

    #[test]
    fn an_entry_in_both_lists_is_paid_for_once() {
        let ranked = rows(&[(50, 0.9), (50, 0.8)]);
        let kept = fit_with_episode(&[50], &ranked, &[Some(1)], 100, 0.5);
        assert_eq!((kept.episode, kept.ranked), (vec![0], vec![0]));
        // A turn too long for the episode's share can still come in by its rank.
        let kept = fit_with_episode(&[60], &rows(&[(60, 0.9)]), &[Some(0)], 100, 0.5);
        assert_eq!((kept.episode, kept.ranked), (vec![], vec![0]));
    }

    #[test]
    fn strange_shares_are_bounded() {
        for share in [f64::NAN, -1.0, 0.0] {
            assert!(fit_with_episode(&[1], &[], &[None], 100, share).episode.is_empty());
        }
        let kept = fit_with_episode(&[100, 1], &rows(&[(1, 0.1)]), &[], 100, 7.0);
        assert_eq!((kept.episode, kept.ranked), (vec![0], vec![]));
    }

    fn any_rows() -> impl Strategy<Value = Vec<BudgetRow>> {
        let row = (prop_oneof![0..60u32, any::<u32>()], any::<f64>());
        prop::collection::vec(row, 0..25).prop_map(|list| rows(&list))
    }

    fn total(counts: impl Iterator<Item = u32>) -> u64 {
        counts.map(u64::from).sum()
    }

    proptest! {
        #[test]
        fn fit_is_ordered_within_budget_and_greedy(
            ranked in any_rows(), budget in prop_oneof![0..300u32, any::<u32>()],
        ) {
            let kept = fit(&ranked, budget);
            let used = total(kept.iter().map(|row| ranked[*row].token_count));
            prop_assert!(used <= u64::from(budget));
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            // Nothing that was left out would still fit.
            for row in (0..ranked.len()).filter(|row| !kept.contains(row)) {
                prop_assert!(used + u64::from(ranked[row].token_count) > u64::from(budget));
            }
        }

        #[test]
        fn the_best_row_that_fits_at_all_is_kept(ranked in any_rows(), budget in 0..100u32) {
            let fitting = (0..ranked.len())
                .filter(|row| ranked[*row].token_count <= budget && !ranked[*row].score.is_nan());
            let best = fitting.reduce(|a, b| if ranked[b].score.total_cmp(&ranked[a].score).is_gt() { b } else { a });
            if let Some(best) = best {
                prop_assert!(fit(&ranked, budget).contains(&best));
            }
        }

        #[test]
        fn the_total_with_an_episode_is_never_over_budget(
            episode in prop::collection::vec((prop_oneof![0..60u32, any::<u32>()], prop::option::of(0..30usize)), 0..20),
            ranked in any_rows(),
            budget in prop_oneof![0..300u32, any::<u32>()],
            share in any::<f64>(),
        ) {
            let (turns, overlap): (Vec<u32>, Vec<Option<usize>>) = episode.into_iter().unzip();
            let kept = fit_with_episode(&turns, &ranked, &overlap, budget, share);
            let used = total(kept.episode.iter().map(|turn| turns[*turn]))
                + total(kept.ranked.iter().map(|row| ranked[*row].token_count));
            prop_assert!(used <= u64::from(budget));
            prop_assert!(kept.ranked.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(kept.episode.windows(2).all(|pair| pair[0] < pair[1]));
            for turn in &kept.episode {
                prop_assert!(overlap[*turn].is_none_or(|same| !kept.ranked.contains(&same)));
            }
        }
    }
}
