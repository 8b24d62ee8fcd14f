//! Transactions of a background worker: an error ends the transaction and comes back as a value, so
//! that it never ends the process.
#![allow(unsafe_code)]

use crate::error::PgResult;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

/// What pg_stat_activity shows as the query while a transaction runs.
const ACTIVITY: &CStr = c"memory_agent: background work";

/// Runs `body` in a transaction of its own, with a snapshot, and commits it. An error that `body`
/// returns, an ERROR of PostgreSQL and a panic all abort it and come back as their message. They are
/// not in the server's log: that is for the caller to decide.
pub fn try_transaction<T>(body: impl FnOnce() -> PgResult<T>) -> Result<T, String> {
    // SAFETY: there is no transaction yet; the context that is current now outlives it.
    let context = unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, ACTIVITY.as_ptr());
        pg_sys::CurrentMemoryContext
    };
    let outcome = PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: start and commit frame the body; whatever unwinds is caught below and aborted.
        unsafe {
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            match body() {
                Ok(value) => {
                    pg_sys::PopActiveSnapshot();
                    pg_sys::CommitTransactionCommand();
                    Ok(value)
                }
                Err(error) => {
                    pg_sys::AbortCurrentTransaction();
                    Err(error.message().to_owned())
                }
            }
        }
    }))
    .catch_others(|caught| {
        // SAFETY: the error was taken off PostgreSQL's stack; this cleans up what it left.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(match caught {
            CaughtError::PostgresError(error)
            | CaughtError::ErrorReport(error)
            | CaughtError::RustPanic { ereport: error, .. } => error.message().to_owned(),
        })
    })
    .execute();
    // SAFETY: no transaction is open any more. The statistics are what tells autovacuum of our rows.
    unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::pgstat_report_stat(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
    outcome
}

/// Hands in the statistics that are held back to be sent together; before a longer pause.
pub fn flush_statistics() {
    // SAFETY: called outside of transactions.
    unsafe { pg_sys::pgstat_report_stat(true) };
}
