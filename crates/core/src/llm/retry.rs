//! When to try again: back-off after failures, and the header `Retry-After`.

use std::time::{Duration, UNIX_EPOCH};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(10);
const LONGEST_ASKED_FOR: Duration = Duration::from_hours(1);

/// How long to wait after `failures` failures in a row: nothing after none, 1 s after the first,
/// doubled with each further one, at most 10 minutes.
///
/// Half of it is fixed, the other half is multiplied with `jitter`, a random number from 0 to 1,
/// so that those who failed together do not come back together: "equal jitter" in Brooker,
/// "Exponential Backoff And Jitter", AWS Architecture Blog (2015).
#[must_use]
pub fn back_off(failures: u32, jitter: f64) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    let half = FIRST.saturating_mul(factor).min(LONGEST) / 2;
    let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
    half + half.mul_f64(jitter)
}

/// How long a server asks to wait with its header `Retry-After` (RFC 9110, section 10.2.3): a
/// number of seconds or a date in one of HTTP's three forms. At most an hour, so that a wrong
/// clock does not stop everything.
///
/// `now_unix` is the time in seconds since 1970. `None` if the header is neither.
#[must_use]
pub fn retry_after(header: &str, now_unix: i64) -> Option<Duration> {
    let header = header.trim();
    let seconds = if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only a number that is too large cannot be parsed.
        header.parse().unwrap_or(u64::MAX)
    } else {
        let date = httpdate::parse_http_date(header).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let date = i64::try_from(date.as_secs()).ok()?;
        u64::try_from(date.saturating_sub(now_unix)).unwrap_or(0)
    };
    Some(Duration::from_secs(seconds).min(LONGEST_ASKED_FOR))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 1994-11-06 08:49:37 UTC, the example of RFC 9110.
    const EXAMPLE: i64 = 784_111_777;

    #[test]
    fn it_doubles_from_one_second_to_ten_minutes() {
        let seconds = |failures| back_off(failures, 1.0).as_secs_f64();
        assert_eq!([0, 1, 2, 3, 4].map(seconds), [0.0, 1.0, 2.0, 4.0, 8.0]);
        assert_eq!(
            [10, 11, 12, 33, 34, u32::MAX].map(seconds),
            [512.0, 600.0, 600.0, 600.0, 600.0, 600.0]
        );
    }

    #[test]
    fn half_of_it_is_random() {
        assert_eq!(back_off(3, 0.0), Duration::from_secs(2));
        assert_eq!(back_off(3, 0.5), Duration::from_secs(3));
        assert_eq!(back_off(3, -1.0), Duration::from_secs(2));
        assert_eq!(back_off(3, f64::NAN), Duration::from_secs(2));
        assert_eq!(back_off(3, f64::INFINITY), Duration::from_secs(4));
    }

    #[test]
    fn seconds_are_read() {
        let seconds = |header| retry_after(header, 0).map(|wait| wait.as_secs());
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("3601"), Some(3_600));
        assert_eq!(seconds("99999999999999999999999"), Some(3_600));
    }

    #[test]
    fn dates_are_read_in_all_three_forms() {
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            let seconds = |now| retry_after(date, now).map(|wait| wait.as_secs());
            assert_eq!(seconds(EXAMPLE - 90), Some(90), "{date}");
            assert_eq!(seconds(EXAMPLE + 90), Some(0), "{date}");
            assert_eq!(seconds(0), Some(3_600), "{date}");
            assert_eq!(seconds(i64::MIN), Some(3_600), "{date}");
        }
    }

    #[test]
    fn anything_else_is_ignored() {
        for header in ["", " ", "-5", "+5", "1.5", "soon", "1e3", "2026-11-22", "٣"] {
            assert_eq!(retry_after(header, 0), None, "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn it_stays_between_half_and_all(failures in 1..200_u32, jitter in 0.0..=1.0) {
            let (least, most) = (back_off(failures, 0.0), back_off(failures, 1.0));
            prop_assert_eq!(least * 2, most);
            prop_assert!((least..=most).contains(&back_off(failures, jitter)));
            prop_assert!(most <= back_off(failures + 1, 1.0));
        }

        #[test]
        fn no_header_makes_it_panic_or_wait_for_more_than_an_hour(
            header in "\\PC{0,40}",
            now in any::<i64>(),
        ) {
            prop_assert!(retry_after(&header, now).is_none_or(|wait| wait <= LONGEST_ASKED_FOR));
        }
    }
}
