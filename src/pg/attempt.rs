//! Work that may fail without ending the statement that it is part of: code of others, which a row runs.
#![allow(unsafe_code)]

use crate::pg::error::{PgResult, sqlstate};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;

/// Runs `body` in a subtransaction. An error undoes what it did and comes back as its SQLSTATE; the message, which
/// may quote values, goes to the server's log. What is no fault of `body` (a cancel, a timeout, a lock that others
/// hold, a deadlock, a full disk) goes on as the error that it is.
pub fn attempt<T>(what: &str, body: impl FnOnce() -> PgResult<T>) -> Result<T, String> {
    // SAFETY: a transaction is open. What `body` allocates is its caller's, as before.
    let (context, owner) = unsafe {
        let before = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(before.0);
        before
    };
    let outcome = PgTryBuilder::new(AssertUnwindSafe(|| match body() {
        Ok(value) => {
            // SAFETY: the subtransaction begun above is the innermost one again.
            unsafe { pg_sys::ReleaseCurrentSubTransaction() };
            Ok(value)
        }
        Err(error) => {
            // Raised like any other ERROR, and caught below.
            error.report(PgLogLevel::ERROR);
            unreachable!("an ERROR does not return")
        }
    }))
    .catch_others(|caught| {
        // SAFETY: the error was taken off PostgreSQL's stack; this undoes what it left, deeper levels included.
        unsafe {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        let (CaughtError::PostgresError(error)
        | CaughtError::ErrorReport(error)
        | CaughtError::RustPanic { ereport: error, .. }) = &caught;
        let state = sqlstate(error.sql_error_code());
        if is_of_all(&state) {
            caught.rethrow()
        }
        log!("memory_agent: {what} failed: {}", error.message());
        Err(state)
    })
    .execute();
    // SAFETY: both are those of the surrounding transaction, which goes on.
    unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    }
    outcome
}

/// Whether an error is about the statement, its transaction or the server rather than about what it read.
fn is_of_all(state: &str) -> bool {
    /// Rollbacks, lack of resources, intervention, errors of the system; then locks and damaged data.
    const CLASSES: [&str; 4] = ["40", "53", "57", "58"];
    const CODES: [&str; 3] = ["55P03", "XX001", "XX002"];
    CLASSES.iter().any(|class| state.starts_with(class)) || CODES.contains(&state)
}
