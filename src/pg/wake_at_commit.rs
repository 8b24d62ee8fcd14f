//! What a transaction leaves to the background: that it queued jobs, or wrote history. Noted here by
//! the code that writes such rows, once per transaction, and told to the [`Waker`] when the transaction
//! commits. A transaction that rolls back wakes no worker.
#![allow(unsafe_code)] // a callback

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;
use std::sync::OnceLock;

/// What this module wakes without knowing it: the background workers put their waker in when the library
/// is loaded.
pub struct Waker {
    /// Before a transaction commits that queued jobs: what may fail. Whether to go on after the commit.
    pub before_commit: fn(pg_sys::Oid) -> bool,
    /// After it, and after something was left in a file that a worker has to record.
    pub after_commit: fn(pg_sys::Oid),
    /// After a transaction that wrote history and queued no jobs.
    pub history_committed: fn(pg_sys::Oid),
}

static WAKER: OnceLock<Waker> = OnceLock::new();

thread_local! {
    /// Whether this process is a job worker.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    /// Whether PostgreSQL calls us at the end of transactions.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction queued jobs.
    static QUEUED: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction wrote history, which a worker seals.
    static WROTE_HISTORY: Cell<bool> = const { Cell::new(false) };
    /// Whether this worker queued jobs itself.
    static QUEUED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Puts the waker in; called once when the library is loaded.
pub fn register(waker: Waker) {
    WAKER.get_or_init(|| waker);
}

/// To be called in a process that becomes a job worker.
pub fn become_worker() {
    IS_WORKER.set(true);
}

/// Whether this process is a job worker.
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// To be called where a job is written.
pub fn job_queued() {
    if is_worker() {
        QUEUED_HERE.set(true);
        return;
    }
    hook();
    QUEUED.set(true);
}

/// To be called where history is written. No worker is woken for it, since a worker looks every few
/// seconds; but a database whose worker gave its place away gets one again.
pub fn history_written() {
    if !is_worker() {
        hook();
        WROTE_HISTORY.set(true);
    }
}

/// To be called at the end of a transaction that left something in a file for a worker to record.
pub fn record_left(database: pg_sys::Oid) {
    if let Some(waker) = WAKER.get() {
        (waker.after_commit)(database);
    }
}

/// Whether the transaction that runs now queued jobs.
pub fn queued_in_this_transaction() -> bool {
    QUEUED.get()
}

/// Whether this worker queued jobs since it was last asked: they need no waking, only a turn.
pub fn queued_here() -> bool {
    QUEUED_HERE.take()
}

fn hook() {
    if !HOOKED.replace(true) {
        // SAFETY: the callback is a function of this library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut()) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::*;
    let Some(waker) = WAKER.get() else { return };
    // SAFETY: set for the life of the session; jobs are only queued in a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    match event {
        XACT_EVENT_PRE_COMMIT if QUEUED.get() => QUEUED.set((waker.before_commit)(database)),
        XACT_EVENT_COMMIT => match (QUEUED.take(), WROTE_HISTORY.take()) {
            (true, _) => (waker.after_commit)(database),
            (false, true) => (waker.history_committed)(database),
            (false, false) => {}
        },
        // Jobs of a prepared transaction are found by the workers themselves, seconds later.
        XACT_EVENT_ABORT | XACT_EVENT_PREPARE => {
            QUEUED.set(false);
            WROTE_HISTORY.set(false);
        }
        _ => {}
    }
}
