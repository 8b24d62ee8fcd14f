//! Which turns leave the window of a session so that the next prompt fits into its budget.

/// A turn of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The tokens of its content, without the overhead of a message.
    pub tokens: u32,
    /// Whether the session's active summary covers it.
    pub covered: bool,
}

/// What [`plan`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many turns leave that the summary covers.
    pub summarized: usize,
    /// How many turns leave that no summary covers.
    pub dropped: usize,
    /// Tokens of the prompt with all turns.
    pub tokens_before: u64,
    /// Tokens of the prompt with the turns that stay.
    pub tokens_after: u64,
}

impl Plan {
    /// How many of the oldest turns leave.
    #[must_use]
    pub const fn leaving(&self) -> usize {
        self.summarized + self.dropped
    }
}

/// Takes the oldest turns out of the window until the summary and the rest have at most `budget`
/// tokens: no more turns than needed, and always the oldest ones, as a conversation with holes
/// misleads.
///
/// A summary covers the oldest turns, so these are the first to leave; only then turns leave that
/// nothing stands for. `turns` are oldest first. Each message has `overhead` tokens beside its
/// content; the summary (`summary_tokens`, without overhead) is a message of its own. If it alone
/// is over the budget, no turn stays and `tokens_after` is over the budget too.
#[must_use]
pub fn plan(turns: &[Turn], summary_tokens: Option<u32>, overhead: u32, budget: u32) -> Plan {
    let message = |tokens: u32| u64::from(tokens) + u64::from(overhead);
    let turn_tokens: u64 = turns.iter().map(|turn| message(turn.tokens)).sum();
    let tokens_before = turn_tokens + summary_tokens.map_or(0, message);
    let mut plan = Plan { tokens_before, tokens_after: tokens_before, ..Plan::default() };
    for turn in turns {
        if plan.tokens_after <= u64::from(budget) {
            break;
        }
        plan.tokens_after -= message(turn.tokens);
        if turn.covered && summary_tokens.is_some() {
            plan.summarized += 1;
        } else {
            plan.dropped += 1;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(tokens: &[u32], covered: usize) -> Vec<Turn> {
        let turn =
            |(index, tokens): (usize, &u32)| Turn { tokens: *tokens, covered: index < covered };
        tokens.iter().enumerate().map(turn).collect()
    }

    #[test]
    fn nothing_leaves_a_window_that_fits() {
        let plan = plan(&turns(&[10, 20, 30], 2), Some(5), 4, 81);
        assert_eq!(plan, Plan { summarized: 0, dropped: 0, tokens_before: 81, tokens_after: 81 });
        assert_eq!(super::plan(&[], None, 4, 0), Plan::default());
    }

    #[test]
    fn covered_turns_leave_before_others_and_no_more_than_needed() {
        let window = turns(&[10, 20, 30, 40], 2);
        let leaving = |budget| {
            let plan = plan(&window, Some(6), 4, budget);
            (plan.summarized, plan.dropped, plan.tokens_after)
        };
        assert_eq!(leaving(126), (0, 0, 126));
        assert_eq!(leaving(125), (1, 0, 112));
        assert_eq!(leaving(88), (2, 0, 88));
        assert_eq!(leaving(87), (2, 1, 54));
        assert_eq!(leaving(10), (2, 2, 10));
    }

    #[test]
    fn a_turn_counts_as_summarized_only_while_there_is_a_summary() {
        let plan = plan(&turns(&[10, 10], 2), None, 0, 10);
        assert_eq!((plan.summarized, plan.dropped), (0, 1));
    }

    #[test]
    fn a_summary_over_the_budget_stays_alone() {
        let plan = plan(&turns(&[10, 10], 1), Some(50), 4, 20);
        assert_eq!(plan, Plan { summarized: 1, dropped: 1, tokens_before: 82, tokens_after: 54 });
    }

    proptest! {
        #[test]
        fn the_rest_fits_and_one_turn_more_would_not(
            tokens in prop::collection::vec(0..200_u32, 0..20),
            covered in 0..20_usize,
            summary in prop::option::of(0..300_u32),
            overhead in 0..8_u32,
            budget in 0..3_000_u32,
        ) {
            let window = turns(&tokens, covered);
            let plan = plan(&window, summary, overhead, budget);
            let summary_message = summary.map_or(0, |tokens| u64::from(tokens + overhead));
            let with = |leaving: usize| {
                summary_message
                    + tokens[leaving..].iter().map(|t| u64::from(t + overhead)).sum::<u64>()
            };
            prop_assert_eq!(plan.tokens_before, with(0));
            prop_assert_eq!(plan.tokens_after, with(plan.leaving()));
            prop_assert!(plan.tokens_after <= u64::from(budget) || plan.leaving() == window.len());
            if plan.leaving() > 0 {
                prop_assert!(with(plan.leaving() - 1) > u64::from(budget));
            }
            let covered = if summary.is_some() { covered } else { 0 };
            prop_assert_eq!(plan.summarized, plan.leaving().min(covered));
        }

        #[test]
        fn no_numbers_overflow(tokens in any::<u32>(), overhead in any::<u32>(), budget in any::<u32>()) {
            let window = [Turn { tokens, covered: true }; 3];
            let plan = plan(&window, Some(tokens), overhead, budget);
            prop_assert_eq!(plan.tokens_before, 4 * (u64::from(tokens) + u64::from(overhead)));
        }
    }
}
