//! How much of a recall's candidates a cross-encoder reads: a time becomes a number of tokens, and
//! recalls that come together share what there is.
//!
//! The number of tokens follows from the model's speed, measured when it was loaded, and not from a
//! clock that runs beside: as long as recalls come one at a time, the same question on the same memory
//! is answered alike. A share follows from the speed of the last runs, because small runs beside the
//! queries of many backends are slower than those at load.

use crate::words;
use serde::{Deserialize, Serialize};

/// Recalls that come together share the work of this many budgets. Less than one, because small runs cost
/// more than their tokens, and each recall does the rest of its work as well.
const SHARED_BUDGETS: f64 = 0.8;
/// No recall's share is below this part of a budget, however many there are.
const LEAST_SHARE: f64 = 1.0 / 24.0;
/// If the first pair is longer than this many shares, nothing is scored: a row alone did not improve the ranking
/// (docs/ranking.md), and a long one does the work of many shares. One would refuse most turns of a chat with eight
/// recalls, three would admit them on machines that have no time for them.
const FIRST_PAIR_SHARES: f64 = 2.0;
/// The clock ends a rerank that takes longer than this many budgets, and this many milliseconds: others
/// need the machine.
const PATIENCE: u32 = 5;
const LEAST_PATIENCE: u32 = 100;
/// Company is remembered for one to two stretches of so many milliseconds.
const STRETCH: u64 = 100;
/// Speeds are rounded down to powers of this, so that two measurements of one machine mostly agree.
const STEP: f64 = 1.25;

words! {
    /// What kept candidates from being scored.
    #[derive(Serialize, Deserialize)]
    pub enum Shortened {
        /// The budget of one recall.
        Budget = "budget",
        /// Its share of what there is, because others rerank as well.
        Load = "load",
        /// The clock: the machine was busy with something else.
        Clock = "clock",
    }
}

/// The mean speed of the last runs, in tokens a second. It moves by a tenth of the difference with each
/// run, and stays between an eighth of the speed at load and that speed: one run that another process
/// interrupted says little.
#[must_use]
pub fn recent_speed(recent: u32, of_this_run: f64, at_load: u32) -> u32 {
    let next = f64::from(recent) + (of_this_run - f64::from(recent)) / 10.0;
    next.clamp(f64::from(at_load) / 8.0, f64::from(at_load).max(1.0)) as u32
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
    /// Tokens of the first pair, if its score is not remembered.
    first: usize,
}

impl Allowance {
    /// For a rerank that has no company.
    ///
    /// * `milliseconds`: the budget; 0 for none.
    /// * `tokens_per_second`: the model's speed, as measured when it was loaded.
    #[must_use]
    pub fn alone(milliseconds: u32, tokens_per_second: u32) -> Self {
        if milliseconds == 0 {
            return Self { own: usize::MAX, share: usize::MAX, first: usize::MAX };
        }
        let own = (f64::from(milliseconds) * f64::from(tokens_per_second) / 1000.0) as usize;
        Self { own, share: own, first: usize::MAX }
    }

    /// The same among others.
    ///
    /// * `in_flight`: reranks that share the machine, as [`Company`] counts them, this one included.
    /// * `recently`: the speed of the last runs as a part of that at load.
    #[must_use]
    pub fn shared(self, in_flight: usize, recently: f64) -> Self {
        if in_flight <= 1 || self.own == usize::MAX {
            return self;
        }
        let part = (SHARED_BUDGETS / in_flight as f64).clamp(LEAST_SHARE, 1.0);
        let tokens = |shares: f64| (self.own as f64 * part * shares) as usize;
        // The first pair is not measured by the last runs: if it were refused for their slowness, there would be no
        // run to show that it has passed.
        let (share, first) = (tokens(recently.clamp(0.0, 1.0)), tokens(FIRST_PAIR_SHARES));
        Self { own: self.own, share, first }
    }

    /// The same with room for the first pair, whatever the company.
    #[must_use]
    pub fn with_first(self) -> Self {
        Self { first: usize::MAX, ..self }
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
    /// Takes one pair more, the most promising first. The first one always fits a budget; it fits a share unless it is
    /// longer than [`FIRST_PAIR_SHARES`] of them.
    ///
    /// # Errors
    /// What stands in the way. Then no further pair is to be scored.
    pub fn take(&mut self, tokens: usize, is_remembered: bool) -> Result<(), Shortened> {
        self.read = self.read.saturating_add(tokens);
        self.fresh = self.fresh.saturating_add(if is_remembered { 0 } else { tokens });
        self.pairs += 1;
        let Allowance { own, share, first } = self.allowance;
        let (own, share) = if self.pairs == 1 { (usize::MAX, first) } else { (own, share) };
        match () {
            () if self.read > own => Err(Shortened::Budget),
            () if self.fresh > share => Err(Shortened::Load),
            () => Ok(()),
        }
    }
}

/// The reranks under way, and how many there were of late: of clients that ask without pause, the first one to
/// come back is not alone, and would otherwise take the whole budget from the others.
#[derive(Debug, Default)]
pub struct Company {
    present: usize,
    /// Most at once in the stretch of [`STRETCH`] milliseconds before this one, and in this one.
    most: [usize; 2],
    stretch: u64,
}

impl Company {
    /// One rerank more; returns how many share the machine with it, itself included.
    ///
    /// * `now`: milliseconds of a clock that never goes back.
    pub fn join(&mut self, now: u64) -> usize {
        let stretch = now / STRETCH;
        match stretch.saturating_sub(self.stretch) {
            0 => {}
            1 => self.most = [self.most[1], self.present],
            _ => self.most = [self.present; 2],
        }
        self.stretch = stretch;
        self.present += 1;
        self.most[1] = self.most[1].max(self.present);
        self.most[0].max(self.most[1])
    }

    pub fn leave(&mut self) {
        self.present -= 1;
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
        let alone = |milliseconds, speed| scored(Allowance::alone(milliseconds, speed), 50, 39);
        assert_eq!(alone(60, 10_000), (12, Some(Shortened::Budget)));
        assert_eq!(alone(60, 40_000), (39, None));
        assert_eq!(alone(60, 10), (1, Some(Shortened::Budget)));
        assert_eq!(scored(Allowance::alone(0, 10).shared(100, 0.1), 50, 39), (39, None));
    }

    #[test]
    fn recalls_that_come_together_share() {
        let allowance = Allowance::alone(60, 10_000);
        let pairs = |in_flight| scored(allowance.shared(in_flight, 1.0), 25, 100).0;
        assert_eq!([1, 2, 3, 6].map(pairs), [24, 9, 6, 3]);
        // A twenty-fourth is 25 tokens.
        assert_eq!([24, 1000].map(pairs), [1, 1]);
        assert_eq!(scored(allowance.shared(2, 1.0), 25, 100).1, Some(Shortened::Load));
        // Runs that were half as fast of late halve a share, but nothing of a rerank without company.
        assert_eq!(scored(allowance.shared(3, 0.5), 25, 100).0, 3);
        assert_eq!(scored(allowance.shared(1, 0.5), 25, 100).0, 24);
    }

    #[test]
    fn the_first_pair_may_cost_two_shares_in_company() {
        let shared = Allowance::alone(60, 10_000).shared(24, 1.0);
        let pairs = |tokens| scored(shared, tokens, 10);
        assert_eq!(pairs(50), (1, Some(Shortened::Load)));
        assert_eq!(pairs(51), (0, Some(Shortened::Load)));
        assert_eq!(scored(shared.with_first(), 51, 10), (1, Some(Shortened::Load)));
        assert!(shared.count().take(51, true).is_ok(), "a remembered one costs nothing");
        let slow = Allowance::alone(60, 10_000).shared(24, 0.1);
        assert_eq!(
            scored(slow, 50, 10),
            (1, Some(Shortened::Load)),
            "that runs were slow passes only by runs"
        );
        assert_eq!(scored(Allowance::alone(60, 10), 51, 10), (1, Some(Shortened::Budget)));
    }

    #[test]
    fn company_is_remembered_for_a_moment() {
        let mut company = Company::default();
        assert_eq!([0, 10, 20].map(|now| company.join(now)), [1, 2, 3]);
        (0..3).for_each(|_| company.leave());
        assert_eq!(company.join(150), 3, "the others have just left");
        company.leave();
        assert_eq!(company.join(350), 1);
        company.leave();
        // Who asks one question after the other is alone.
        for now in (400..2_000).step_by(30) {
            assert_eq!(company.join(now), 1);
            company.leave();
        }
        // Those that stay count, however long.
        company.join(3_000);
        assert_eq!(company.join(9_000), 2);
    }

    #[test]
    fn the_recent_speed_follows_the_runs() {
        let after =
            |runs: usize, speed| (0..runs).fold(8_000, |now, _| recent_speed(now, speed, 8_000));
        assert_eq!(after(1, 4_000.0), 7_600);
        assert!((4_000..4_500).contains(&after(30, 4_000.0)));
        assert_eq!(after(100, 1.0), 1_000, "an eighth");
        assert_eq!(after(100, 1e9), 8_000);
        assert_eq!(recent_speed(0, f64::NAN, 0), 0);
    }

    #[test]
    fn what_is_remembered_costs_the_budget_and_no_share() {
        let allowance = Allowance::alone(60, 10_000).shared(6, 1.0);
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
            let alone = Allowance::alone(ms, speed);
            let allowed = |in_flight| alone.shared(in_flight, 1.0);
            prop_assert!(allowed(company + 1).share <= allowed(company).share);
            prop_assert!(allowed(company + 1).first <= allowed(company).first);
            prop_assert!(allowed(company).share <= alone.own);
        }
    }
}
