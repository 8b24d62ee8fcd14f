//! Waiting for conditions, and what a failed statement has to look like.

use postgres::{Client, Error};
use std::fmt::Debug;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `condition` holds.
///
/// # Panics
/// With `what` was waited for, when it does not hold within `limit`.
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    retry_until(limit, what, || condition().then_some(()));
}

/// Calls `attempt` until it returns something.
///
/// # Panics
/// With `what` was waited for, when there is nothing within `limit`.
pub fn retry_until<T>(limit: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The SQLSTATE of an error that came from the server.
///
/// # Panics
/// If the error is not the server's, a lost connection say.
pub fn sqlstate(error: &Error) -> &str {
    match error.code() {
        Some(code) => code.code(),
        None => panic!("not an error of the server: {error:?}"),
    }
}

/// Waits until a cancel request that stopped a statement cannot stop the next one as well.
///
/// For a cancel request the postmaster signals the backend and then its process group. On a busy
/// machine the second signal arrives when the first has ended the statement, and the client's
/// library does not wait for the postmaster to be done.
pub fn let_cancel_pass(client: &mut Client) {
    for _ in 0..2 {
        if let Err(error) = client.batch_execute("SELECT pg_sleep(0.2)") {
            assert_eq!(sqlstate(&error), "57014", "{error:?}");
        }
    }
}

/// The message of a statement that fails with this SQLSTATE, followed by its hint.
///
/// # Panics
/// If it succeeds, or fails otherwise.
#[track_caller]
pub fn expect_error<T: Debug>(result: Result<T, Error>, expected: &str) -> String {
    match result {
        Ok(value) => panic!("expected SQLSTATE {expected}, but it succeeded: {value:?}"),
        Err(error) => {
            let found = error.as_db_error().unwrap_or_else(|| panic!("connection lost: {error:?}"));
            assert_eq!(found.code().code(), expected, "{found:?}");
            format!("{}\n{}", found.message(), found.hint().unwrap_or_default())
        }
    }
}
