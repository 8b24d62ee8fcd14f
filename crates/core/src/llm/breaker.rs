//! A circuit breaker: stops calls to an endpoint that fails, and finds out with single calls
//! whether it works again. After Nygard, "Release It!" (2007), chapter "Stability Patterns".
//!
//! It has no clock: the caller passes the time as milliseconds since any fixed point.

use serde::{Deserialize, Serialize};

/// Failures in a row that open the breaker.
const MAX_FAILURES: u32 = 5;
/// How long it stays open at first; doubled each time that the probe fails.
const FIRST_PAUSE_MS: u64 = 5_000;
const LONGEST_PAUSE_MS: u64 = 300_000;
/// When to ask again while a probe is under way, whose end is unknown.
const PROBE_RETRY_MS: u64 = 1_000;

/// Whether calls to an endpoint are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BreakerState {
    /// They are.
    Closed,
    /// Too many failed: none is made until the pause is over.
    Open,
    /// The pause is over: one call, the probe, finds out whether the endpoint works again.
    HalfOpen,
}

/// The breaker of one endpoint.
///
/// Each call that [`allow`](Self::allow) lets through must end in one of
/// [`success`](Self::success), [`failure`](Self::failure), [`trip`](Self::trip) and
/// [`abandon`](Self::abandon).
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// In a row, since the last success.
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until_ms: u64,
    length_ms: u64,
    probing: bool,
}

impl Breaker {
    /// Asks for permission to make one call.
    ///
    /// # Errors
    ///
    /// Not now: the milliseconds after which to ask again.
    pub fn allow(&mut self, now_ms: u64) -> Result<(), u64> {
        let Some(pause) = &mut self.pause else { return Ok(()) };
        match pause.until_ms.saturating_sub(now_ms) {
            0 if pause.probing => Err(PROBE_RETRY_MS),
            0 => {
                pause.probing = true;
                Ok(())
            }
            remaining => Err(remaining),
        }
    }

    /// A call succeeded: the breaker closes, whichever caller made it.
    pub fn success(&mut self) {
        *self = Self::default();
    }

    /// A call failed in a way that speaks against the endpoint.
    pub fn failure(&mut self, now_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        if self.pause.is_some() || self.failures >= MAX_FAILURES {
            self.open(now_ms);
        }
    }

    /// A call failed in a way that the next ones will too: opens at once.
    pub fn trip(&mut self, now_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        self.open(now_ms);
    }

    /// A call was given up without a result; if it was the probe, another one may be made.
    ///
    /// A call from before the pause that is given up during the probe also allows another one.
    pub fn abandon(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.probing = false;
        }
    }

    /// The state at `now_ms`.
    #[must_use]
    pub fn state(&self, now_ms: u64) -> BreakerState {
        match self.pause {
            None => BreakerState::Closed,
            Some(pause) if now_ms < pause.until_ms => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Calls that failed since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Milliseconds until the pause is over; 0 if there is none.
    #[must_use]
    pub fn retry_in_ms(&self, now_ms: u64) -> u64 {
        self.pause.map_or(0, |pause| pause.until_ms.saturating_sub(now_ms))
    }

    fn open(&mut self, now_ms: u64) {
        let length_ms = match self.pause {
            None => FIRST_PAUSE_MS,
            // Calls that were under way when it opened say nothing new.
            Some(pause) if now_ms < pause.until_ms => return,
            Some(pause) => (2 * pause.length_ms).min(LONGEST_PAUSE_MS),
        };
        let until_ms = now_ms.saturating_add(length_ms);
        self.pause = Some(Pause { until_ms, length_ms, probing: false });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A breaker that `MAX_FAILURES` calls have opened at time 0.
    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..MAX_FAILURES {
            assert_eq!(breaker.allow(0), Ok(()));
            breaker.failure(0);
        }
        breaker
    }

    #[test]
    fn it_opens_after_five_failures_in_a_row() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failure(0);
        }
        breaker.success();
        for _ in 0..4 {
            breaker.failure(0);
        }
        assert_eq!((breaker.state(0), breaker.allow(0)), (BreakerState::Closed, Ok(())));
        breaker.failure(0);
        assert_eq!((breaker.state(0), breaker.failures()), (BreakerState::Open, 5));
        assert_eq!(breaker.allow(1_000), Err(4_000));
    }

    #[test]
    fn after_the_pause_exactly_one_probe_is_let_through() {
        let mut breaker = opened();
        assert_eq!(breaker.allow(4_999), Err(1));
        assert_eq!(breaker.state(5_000), BreakerState::HalfOpen);
        assert_eq!(breaker.allow(5_000), Ok(()));
        assert_eq!(breaker.allow(5_000), Err(PROBE_RETRY_MS));
        assert_eq!(breaker.state(5_000), BreakerState::HalfOpen);
        breaker.success();
        assert_eq!((breaker.state(5_001), breaker.failures()), (BreakerState::Closed, 0));
        assert_eq!((breaker.allow(5_001), breaker.allow(5_001)), (Ok(()), Ok(())));
    }

    #[test]
    fn each_failed_probe_doubles_the_pause_up_to_five_minutes() {
        let mut breaker = opened();
        let mut now_ms = 0;
        for pause in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000] {
            assert_eq!(breaker.retry_in_ms(now_ms), pause);
            now_ms += pause;
            assert_eq!(breaker.allow(now_ms), Ok(()));
            breaker.failure(now_ms);
        }
        now_ms += 300_000;
        assert_eq!(breaker.allow(now_ms), Ok(()));
        breaker.success();
        breaker.trip(now_ms);
        assert_eq!(breaker.retry_in_ms(now_ms), 5_000, "a success starts over");
    }

    #[test]
    fn calls_under_way_when_it_opened_do_not_make_the_pause_longer() {
        let mut breaker = opened();
        breaker.failure(3_000);
        breaker.trip(4_000);
        assert_eq!(breaker.retry_in_ms(4_000), 1_000);
    }

    #[test]
    fn a_trip_opens_at_once() {
        let mut breaker = Breaker::default();
        breaker.trip(100);
        assert_eq!((breaker.state(100), breaker.allow(100)), (BreakerState::Open, Err(5_000)));
    }

    #[test]
    fn a_probe_that_is_given_up_gives_its_permission_back() {
        let mut breaker = opened();
        assert_eq!(breaker.allow(5_000), Ok(()));
        breaker.abandon();
        assert_eq!(breaker.state(5_000), BreakerState::HalfOpen);
        assert_eq!(breaker.allow(5_000), Ok(()));
        assert_eq!(breaker.allow(5_000), Err(PROBE_RETRY_MS));
    }

    #[test]
    fn giving_up_a_call_changes_nothing_while_it_is_closed() {
        let mut breaker = Breaker::default();
        breaker.failure(0);
        breaker.abandon();
        assert_eq!((breaker.state(0), breaker.failures()), (BreakerState::Closed, 1));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wait(u64),
        Call,
        Succeed,
        Fail,
        Trip,
        Abandon,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..400_000_u64).prop_map(Step::Wait),
            Just(Step::Call),
            Just(Step::Succeed),
            Just(Step::Fail),
            Just(Step::Trip),
            Just(Step::Abandon),
        ]
    }

    proptest! {
        #[test]
        fn a_refusal_names_a_time_that_is_not_too_far(steps in prop::collection::vec(step(), 0..60)) {
            let mut breaker = Breaker::default();
            let mut now_ms = 0;
            for step in steps {
                match step {
                    Step::Wait(ms) => now_ms += ms,
                    Step::Call => {
                        let before = breaker.state(now_ms);
                        match breaker.allow(now_ms) {
                            Ok(()) => prop_assert_ne!(before, BreakerState::Open),
                            Err(retry) => {
                                prop_assert_ne!(before, BreakerState::Closed);
                                prop_assert!((1..=LONGEST_PAUSE_MS).contains(&retry));
                            }
                        }
                    }
                    Step::Succeed => breaker.success(),
                    Step::Fail => breaker.failure(now_ms),
                    Step::Trip => breaker.trip(now_ms),
                    Step::Abandon => breaker.abandon(),
                }
            }
            breaker.success();
            prop_assert_eq!(breaker.allow(now_ms), Ok(()));
        }
    }
}
