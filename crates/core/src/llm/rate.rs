//! A limit of calls per minute that holds for every minute, wherever it begins: a log of the
//! calls of the last 60 seconds.
//!
//! It has no clock: the caller passes the time as milliseconds since any fixed point.

use std::collections::VecDeque;

const WINDOW_MS: u64 = 60_000;

/// The calls of the last minute.
#[derive(Clone, Debug, Default)]
pub struct RateLimit {
    /// Times of the calls, oldest first.
    calls: VecDeque<u64>,
}

impl RateLimit {
    /// Counts one more call, if there are fewer than `per_minute` in the last minute. The limit
    /// may differ from call to call; 0 is no limit, and such calls are not counted.
    ///
    /// # Errors
    ///
    /// The limit is reached: the milliseconds after which a call fits in.
    pub fn take(&mut self, now_ms: u64, per_minute: u32) -> Result<(), u64> {
        if per_minute == 0 {
            return Ok(());
        }
        let now_ms = self.forget_before(now_ms);
        // The limit may have been lowered: several calls have to leave the window.
        match self.calls.len().checked_sub(per_minute as usize) {
            Some(surplus) => Err(self.calls[surplus] + WINDOW_MS - now_ms),
            None => {
                self.calls.push_back(now_ms);
                Ok(())
            }
        }
    }

    /// Counts a call that is made whether it fits in or not: those after it wait the longer.
    pub fn exceed(&mut self, now_ms: u64, per_minute: u32) {
        if per_minute > 0 {
            let now_ms = self.forget_before(now_ms);
            self.calls.push_back(now_ms);
        }
    }

    /// Forgets what is older than a minute. A clock that went back must not make the log unordered: returns the
    /// time as the log has it.
    fn forget_before(&mut self, now_ms: u64) -> u64 {
        let now_ms = self.calls.back().map_or(now_ms, |last| now_ms.max(*last));
        while self.calls.front().is_some_and(|first| now_ms - first >= WINDOW_MS) {
            self.calls.pop_front();
        }
        now_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_beyond_the_limit_have_to_wait_for_the_oldest_to_leave() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.take(0, 2), Ok(()));
        assert_eq!(limit.take(10_000, 2), Ok(()));
        assert_eq!(limit.take(20_000, 2), Err(40_000));
        assert_eq!(limit.take(59_999, 2), Err(1));
        assert_eq!(limit.take(60_000, 2), Ok(()));
        assert_eq!(limit.take(60_001, 2), Err(9_999));
    }

    #[test]
    fn a_call_beyond_the_limit_makes_the_next_ones_wait() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.take(0, 1), Ok(()));
        limit.exceed(10_000, 1);
        assert_eq!(limit.take(20_000, 1), Err(50_000));
        assert_eq!(limit.take(70_000, 1), Ok(()));
        limit.exceed(0, 0);
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limit = RateLimit::default();
        for _ in 0..1_000 {
            assert_eq!(limit.take(0, 0), Ok(()));
        }
        assert_eq!(limit.take(0, 1), Ok(()));
    }

    #[test]
    fn a_lowered_limit_waits_for_as_many_as_are_too_many() {
        let mut limit = RateLimit::default();
        for second in 0..5 {
            assert_eq!(limit.take(second * 1_000, 5), Ok(()));
        }
        // Of the calls at 0 to 4 s, those up to 3 s have to leave.
        assert_eq!(limit.take(10_000, 2), Err(53_000));
        assert_eq!(limit.take(62_999, 2), Err(1));
        assert_eq!(limit.take(63_000, 2), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_is_survived() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.take(100_000, 1), Ok(()));
        assert_eq!(limit.take(0, 1), Err(60_000));
    }

    proptest! {
        #[test]
        fn no_minute_has_more_calls_than_the_limit(
            waits in prop::collection::vec(0..30_000_u64, 1..100),
            per_minute in 1..8_u32,
        ) {
            let mut limit = RateLimit::default();
            let (mut now_ms, mut made) = (0, Vec::new());
            for wait in waits {
                now_ms += wait;
                match limit.take(now_ms, per_minute) {
                    Ok(()) => made.push(now_ms),
                    Err(retry) => {
                        prop_assert!((1..=WINDOW_MS).contains(&retry));
                        prop_assert!(limit.clone().take(now_ms + retry - 1, per_minute).is_err());
                        prop_assert!(limit.clone().take(now_ms + retry, per_minute).is_ok());
                    }
                }
            }
            for window in made.windows(per_minute as usize + 1) {
                prop_assert!(window[per_minute as usize] - window[0] >= WINDOW_MS);
            }
        }
    }
}
