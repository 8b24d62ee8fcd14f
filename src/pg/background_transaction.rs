//! Transactions of a background worker: an error ends the transaction and comes back as a value, so
//! that it never ends the process.
#![allow(unsafe_code)]

use crate::pg::catalog;
use crate::pg::error::{Error, PgResult, sqlstate};
use crate::pg::roles::write_as_owner;
use crate::pg::spi::Session;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

/// What pg_stat_activity shows as the query while a transaction runs.
const ACTIVITY: &CStr = c"memory_agent: background work";

/// Why a transaction did not commit.
#[derive(Clone, Debug)]
pub struct Aborted {
    pub message: String,
    /// Another transaction was in the way, or the server was short of something: a retry may succeed.
    pub may_pass: bool,
    /// Its SQLSTATE.
    code: PgSqlErrorCode,
}

impl Aborted {
    /// The same for all users to see, where rows of others were read: a message of a type, or of a user's
    /// function, may quote a value. It goes to the server's log. `what` says what was being done.
    pub fn without_values(self, what: &str) -> Self {
        if self.may_pass || self.code == PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE {
            return self;
        }
        log!("memory_agent: {what} failed: {}", self.message);
        let state = sqlstate(self.code);
        Self {
            message: format!("{what} failed with {state}; the server's log has the message"),
            ..self
        }
    }

    fn of(error: &ErrorReportWithLevel) -> Self {
        use PgSqlErrorCode::*;
        let may_pass = matches!(
            error.sql_error_code(),
            ERRCODE_LOCK_NOT_AVAILABLE
                | ERRCODE_T_R_SERIALIZATION_FAILURE
                | ERRCODE_T_R_DEADLOCK_DETECTED
                | ERRCODE_INSUFFICIENT_RESOURCES
                | ERRCODE_DISK_FULL
                | ERRCODE_OUT_OF_MEMORY
                | ERRCODE_TOO_MANY_CONNECTIONS
        );
        let message = match error.sql_error_code() {
            ERRCODE_LOCK_NOT_AVAILABLE => "its rows are in use by another transaction",
            _ => error.message(),
        };
        Self { message: message.to_owned(), may_pass, code: error.sql_error_code() }
    }
}

/// Longest wait for a lock that a session holds: a worker that waits does nothing else.
const LOCK_TIMEOUT: &CStr = c"200ms";

/// Sets what transactions of a worker rely on, whatever the settings of the database say.
pub fn settle_session() {
    for (name, value) in [
        // The owner of the database may set them for all its sessions, and this one is a superuser's.
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"array_nulls", c"on"),
        (c"gin_fuzzy_search_limit", c"0"),
        (c"row_security", c"on"),
        (c"standard_conforming_strings", c"on"),
        (c"transform_null_equals", c"off"),
        (c"default_transaction_deferrable", c"off"),
        (c"lock_timeout", LOCK_TIMEOUT),
        (c"default_transaction_isolation", c"read committed"),
        (c"default_transaction_read_only", c"off"),
        (c"jit", c"off"),
        // It would end the worker, not the statement.
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        (c"transaction_timeout", c"0"),
    ] {
        override_setting(name, value);
    }
    // These two name roles, which are looked up in the catalogs.
    let settled = try_transaction(|| {
        let name = CString::new(catalog::role_name(pg_sys::BOOTSTRAP_SUPERUSERID.into()))
            .map_err(|_| Error::internal("a role's name has a zero byte"))?;
        override_setting(c"session_authorization", &name);
        override_setting(c"role", c"none");
        Ok(())
    });
    if let Err(error) = settled {
        log!("memory_agent: a worker keeps the role of the database's settings: {}", error.message);
    }
}

fn override_setting(name: &CStr, value: &CStr) {
    // SAFETY: both are C strings that live through the call, which copies them; the two settings that name
    // roles are set in a transaction.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Runs `body` in a transaction of its own, with a snapshot, and commits it. An error that `body`
/// returns, an ERROR of PostgreSQL and a panic all abort it and come back as a value. They are not in
/// the server's log: that is for the caller to decide.
pub fn try_transaction<T>(body: impl FnOnce() -> PgResult<T>) -> Result<T, Aborted> {
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
                    // Raised like any other ERROR, and caught below.
                    error.report(PgLogLevel::ERROR);
                    unreachable!("an ERROR does not return")
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
            | CaughtError::RustPanic { ereport: error, .. } => Aborted::of(&error),
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

/// Runs `body` in a transaction of its own, as the extension's owner.
pub fn transaction<T>(body: impl FnOnce(&Session) -> PgResult<T>) -> Result<T, Aborted> {
    try_transaction(|| write_as_owner(body))
}

/// What came of a transaction; `None` when what stood against it may pass.
pub fn unless_passing<T>(outcome: Result<T, Aborted>) -> Result<Option<T>, Aborted> {
    match outcome {
        Err(aborted) if aborted.may_pass => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Hands in the statistics that are held back to be sent together; before a longer pause.
pub fn flush_statistics() {
    // SAFETY: called outside of transactions.
    unsafe { pg_sys::pgstat_report_stat(true) };
}
