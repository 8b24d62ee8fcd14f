//! Wakes the database's workers when a transaction that queued jobs commits, once per transaction;
//! where there is none, has one started. A transaction that rolls back wakes nobody.
//!
//! What may fail happens before the commit; after it there are only latches, small files, and the
//! rare start of a worker whose predecessor ended in between.
#![allow(unsafe_code)]

use super::start::{Assignment, ON_DEMAND_LINGER};
use super::{launcher, notes, run, signals, slots, start};
use crate::guc;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::Cell;

thread_local! {
    /// Whether PostgreSQL calls us at the end of transactions.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction queued jobs.
    static QUEUED: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction wrote history, which a worker seals.
    static WROTE_HISTORY: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction had a worker started.
    static STARTED: Cell<bool> = const { Cell::new(false) };
    /// Whether this session was told that no worker can be started.
    static WARNED: Cell<bool> = const { Cell::new(false) };
    /// Whether this worker queued jobs itself.
    static QUEUED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// To be called by whoever writes a job.
pub fn job_queued() {
    if run::is_worker() {
        QUEUED_HERE.set(true);
        return;
    }
    hook();
    QUEUED.set(true);
}

/// To be called by whoever writes history. Nobody is woken for it, since a worker looks every few
/// seconds; but a database whose worker gave its place away gets one again.
pub fn history_written() {
    if !run::is_worker() && launcher::is_running() {
        hook();
        WROTE_HISTORY.set(true);
    }
}

fn hook() {
    if !HOOKED.replace(true) {
        // SAFETY: the callback is a function of this library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut()) };
    }
}

/// To be called when the extension was created: the launcher has a new database to look after.
pub fn extension_created() {
    if launcher::is_running() {
        job_queued();
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

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::*;
    // SAFETY: set for the life of the session; jobs are only queued in a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    if !QUEUED.get() {
        let is_over = matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE);
        if is_over
            && WROTE_HISTORY.take()
            && event == XACT_EVENT_COMMIT
            && guc::worker()
            && slots::at_work_in(database).is_empty()
        {
            notes::want(database);
            launcher::wake();
        }
        return;
    }
    match event {
        XACT_EVENT_PRE_COMMIT => before_commit(database),
        XACT_EVENT_COMMIT => {
            QUEUED.set(false);
            WROTE_HISTORY.set(false);
            after_commit(database);
        }
        // Jobs of a prepared transaction are found by the workers themselves, seconds later.
        XACT_EVENT_ABORT | XACT_EVENT_PREPARE => {
            QUEUED.set(false);
            WROTE_HISTORY.set(false);
            STARTED.set(false);
        }
        _ => {}
    }
}

fn before_commit(database: pg_sys::Oid) {
    if !guc::worker() {
        QUEUED.set(false);
        return;
    }
    STARTED.set(false);
    // Workers that are on their way out are counted as gone, so the one started here may have to
    // wait for its slot.
    if !launcher::is_running() && start_missing(database) {
        STARTED.set(true);
    }
}

fn after_commit(database: pg_sys::Oid) {
    let started = STARTED.take();
    let at_work = slots::at_work_in(database);
    for (_, state) in &at_work {
        signals::wake(state.pid);
    }
    if !at_work.is_empty() {
        return;
    }
    if launcher::is_running() {
        notes::want(database);
        launcher::wake();
    } else if !started && has_place() {
        start::register(on_demand(database, 0), None);
    }
}

fn on_demand(database: pg_sys::Oid, slot: u32) -> Assignment {
    Assignment { database, slot, linger: Some(ON_DEMAND_LINGER), is_on_demand: true }
}

/// Whether one more worker is within `memory_agent.max_workers`.
fn has_place() -> bool {
    slots::all_live().len() < guc::max_workers().unsigned_abs() as usize
}

/// Starts the workers that this database lacks; whether any was started.
fn start_missing(database: pg_sys::Oid) -> bool {
    if notes::stay_away(database).is_some() {
        return false;
    }
    let at_work = slots::at_work_in(database);
    let mut started = false;
    for slot in 0..guc::job_workers().unsigned_abs() {
        if at_work.iter().any(|&(taken, _)| taken == slot) {
            continue;
        }
        if !has_place() {
            // The first worker of another database that has nothing to do gives its place away.
            if at_work.is_empty() && !started {
                notes::want(database);
            }
            break;
        }
        if start::register(on_demand(database, slot), None) {
            started = true;
        } else {
            if at_work.is_empty() && !started {
                warn_once();
            }
            break;
        }
    }
    started
}

fn warn_once() {
    if WARNED.replace(true) {
        return;
    }
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "memory_agent cannot start a worker: no background worker slot is free; queued jobs wait",
        "memory_agent",
    )
    .set_hint("Raise max_worker_processes, or add memory_agent to shared_preload_libraries.")
    .report(PgLogLevel::WARNING);
}
