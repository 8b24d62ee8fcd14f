//! How much of a recall's candidates a cross-encoder reads: a time becomes a number of tokens, and
//! recalls that come together share what there is.
//!
//! The number of tokens follows from the model's speed, measured when it was loaded, and not from a
//! clock that runs beside: as long as recalls come one at a time, the same question on the same memory
//! is answered alike.

use serde::{Deserialize, Serialize};

/// Recalls that come together share the work of this many budgets, so that each waits for about so long.
const SHARED_BUDGETS: f64 = 1.5;
/// No recall's share is below this part of a budget, however many there are.
const LEAST_SHARE: f64 = 1.0 / 12.0;
/// The clock ends a rerank that takes longer than this many budgets, and this many milliseconds: others
/// need the machine.
const PATIENCE: u32 = 5;
const LEAST_PATIENCE: u32 = 100;
/// Speeds are rounded down to powers of this, so that two measurements of one machine mostly agree.
const STEP: f64 = 1.25;

/// What kept candidates from being scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shortened {
    /// The budget of one recall.
    Budget,
    /// Its share of what there is, because others rerank as well.
    Load,
    /// The clock: the machine was busy with something else.
    Clock,
}

impl Shortened {
    /// The word that `memory_explain` shows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Load => "load",
            Self::Clock => "clock",
        }
    }
}

/// A measured speed, in tokens a second, as it is used and shown.
#[must_use]
pub fn rounded_speed(tokens_per_second: f64) -> u32 {
    if tokens_per_second < 1.0 {
        return 1;
    }
    // A value that is a power already has to stay one.
    let power = (tokens_per_second.ln() / STEP.ln() + 1e-9).floor();
    STEP.powf(power).min(f64::from(u32::MAX)) as u32
}

/// What one rerank may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Tokens, whether or not their scores are remembered.
    own: usize,
    /// Tokens whose scores are not remembered.
    share: usize,
}

impl Allowance {
    /// * `milliseconds`: the budget; 0 for none.
    /// * `tokens_per_second`: the model's speed.
    /// * `in_flight`: reranks under way, this one included.
    #[must_use]
    pub fn new(milliseconds: u32, tokens_per_second: u32, in_flight: usize) -> Self {
        if milliseconds == 0 {
            return Self { own: usize::MAX, share: usize::MAX };
        }
        let own = f64::from(milliseconds) * f64::from(tokens_per_second) / 1000.0;
        let share = own * (SHARED_BUDGETS / in_flight.max(1) as f64).clamp(LEAST_SHARE, 1.0);
        Self { own: own as usize, share: share as usize }
    }

    /// Tokens of a rerank that has no company.
    #[must_use]
    pub fn tokens(self) -> usize {
        self.own
    }

    /// Begins to count.
    #[must_use]
    pub fn count(self) -> Count {
        Count { allowance: self, read: 0, fresh: 0, pairs: 0 }
    }
}

/// How much of an [`Allowance`] is used up.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    allowance: Allowance,
    read: usize,
    fresh: usize,
    pairs: usize,
}

impl Count {
    /// Takes one pair more, the most promising first; the first one always fits.
    ///
    /// # Errors
    /// What stands in the way. Then no further pair is to be scored.
    pub fn take(&mut self, tokens: usize, is_remembered: bool) -> Result<(), Shortened> {
        self.read = self.read.saturating_add(tokens);
        self.fresh = self.fresh.saturating_add(if is_remembered { 0 } else { tokens });
        self.pairs += 1;
        match () {
            () if self.pairs == 1 => Ok(()),
            () if self.read > self.allowance.own => Err(Shortened::Budget),
            () if self.fresh > self.allowance.share => Err(Shortened::Load),
            () => Ok(()),
        }
    }
}

/// After how many milliseconds the clock ends a rerank; `None` without a budget.
#[must_use]
pub fn patience(milliseconds: u32) -> Option<u32> {
    (milliseconds > 0).then(|| milliseconds.saturating_mul(PATIENCE).max(LEAST_PATIENCE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many pairs of equal length are scored, and why not more.
    fn scored(allowance: Allowance, tokens: usize, pairs: usize) -> (usize, Option<Shortened>) {
        let mut count = allowance.count();
        for scored in 0..pairs {
            if let Err(why) = count.take(tokens, false) {
                return (scored, Some(why));
            }
        }
        (pairs, None)
    }

    #[test]
    fn a_budget_is_tokens_by_the_speed() {
        // 60 ms at 10,000 tokens a second are 600 tokens.
        assert_eq!(scored(Allowance::new(60, 10_000, 1), 50, 39), (12, Some(Shortened::Budget)));
        assert_eq!(scored(Allowance::new(60, 40_000, 1), 50, 39), (39, None));
        assert_eq!(scored(Allowance::new(60, 10, 1), 50, 39), (1, Some(Shortened::Budget)));
        assert_eq!(scored(Allowance::new(0, 10, 100), 50, 39), (39, None));
    }

    #[test]
    fn recalls_that_come_together_share() {
        let pairs = |in_flight| scored(Allowance::new(60, 10_000, in_flight), 25, 100).0;
        assert_eq!([1, 2, 3, 6].map(pairs), [24, 18, 12, 6]);
        assert_eq!(pairs(18), 2, "a twelfth");
        assert_eq!(pairs(1000), 2);
        assert_eq!(scored(Allowance::new(60, 10_000, 2), 25, 100).1, Some(Shortened::Load));
    }

    #[test]
    fn what_is_remembered_costs_the_budget_and_no_share() {
        let allowance = Allowance::new(60, 10_000, 6);
        let mut count = allowance.count();
        let taken = (0..100).take_while(|_| count.take(25, true).is_ok()).count();
        assert_eq!(taken, 24);
    }

    #[test]
    fn speeds_of_one_machine_agree() {
        assert_eq!(rounded_speed(9_700.0), rounded_speed(10_300.0));
        assert_eq!(rounded_speed(0.0), 1);
        assert_eq!(rounded_speed(f64::from(rounded_speed(1.0))), 1);
    }

    #[test]
    fn the_clock_waits_for_several_budgets() {
        assert_eq!(
            [0, 1, 60, u32::MAX].map(patience),
            [None, Some(100), Some(300), Some(u32::MAX)]
        );
    }

    proptest! {
        #[test]
        fn speeds_are_rounded_down_by_a_fifth_at_most(speed in 10.0..1e7f64) {
            let rounded = f64::from(rounded_speed(speed));
            prop_assert!(rounded <= speed * (1.0 + 1e-6) && rounded >= speed / STEP - 1.0);
        }

        #[test]
        fn more_company_never_allows_more(ms in 1u32..1000, speed in 1u32..1_000_000, company in 1usize..100) {
            let allowed = |in_flight| Allowance::new(ms, speed, in_flight).share;
            prop_assert!(allowed(company + 1) <= allowed(company));
            prop_assert!(allowed(company) <= Allowance::new(ms, speed, company).own);
        }
    }
}
