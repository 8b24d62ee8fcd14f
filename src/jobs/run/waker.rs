//! Wakes the database's workers when a transaction that queued jobs commits, once per transaction;
//! where there is none, has one started.
//!
//! What may fail happens before the commit; after it there are only latches, small files, and the
//! rare start of a worker whose predecessor ended in between.

use crate::jobs::run::start::{self, Assignment, ON_DEMAND_LINGER};
use crate::jobs::run::{launcher, notes, signals, slots};
use crate::pg::wake_at_commit::{self, Waker};
use crate::settings::Workers;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::Cell;

thread_local! {
    /// Whether this transaction had a worker started.
    static STARTED: Cell<bool> = const { Cell::new(false) };
    /// Whether this session was told that no worker can be started.
    static WARNED: Cell<bool> = const { Cell::new(false) };
}

/// Lets the workers hear of what transactions queue; called once when the library is loaded.
pub fn register() {
    wake_at_commit::register(Waker {
        before_commit,
        after_commit,
        forget: || STARTED.set(false),
        hears_of_history: launcher::is_running,
        history_committed: |database| {
            if Workers::current().worker && slots::at_work_in(database).is_empty() {
                notes::want(database);
                launcher::wake();
            }
        },
        record_left,
    });
}

/// To be called when the extension was created: the launcher has a new database to look after.
pub fn extension_created() {
    if launcher::is_running() {
        wake_at_commit::job_queued();
    }
}

/// Whether anybody is to be woken after the commit.
fn before_commit(database: pg_sys::Oid) -> bool {
    if !Workers::current().worker {
        return false;
    }
    // Workers that are on their way out are counted as gone, so the one started here may have to
    // wait for its slot.
    STARTED.set(!launcher::is_running() && start_missing(database));
    true
}

fn after_commit(database: pg_sys::Oid) {
    let started = STARTED.take();
    if !wake_any_of(database) && !started && has_place() {
        start::register(on_demand(database, 0), None);
    }
}

/// Nobody is started for what a worker has to record: it counts already.
fn record_left(database: pg_sys::Oid) {
    wake_any_of(database);
}

/// Wakes the workers of a database, or else the launcher; whether there is any of them.
fn wake_any_of(database: pg_sys::Oid) -> bool {
    let at_work = slots::at_work_in(database);
    for (_, state) in &at_work {
        signals::wake(state.pid);
    }
    if at_work.is_empty() && launcher::is_running() {
        notes::want(database);
        launcher::wake();
        return true;
    }
    !at_work.is_empty()
}

fn on_demand(database: pg_sys::Oid, slot: u32) -> Assignment {
    Assignment { database, slot, linger: Some(ON_DEMAND_LINGER), is_on_demand: true }
}

/// Whether one more worker is within `memory_agent.max_workers`.
fn has_place() -> bool {
    slots::all_live().len() < Workers::current().max_workers
}

/// Starts the workers that this database lacks; whether any was started.
fn start_missing(database: pg_sys::Oid) -> bool {
    if notes::stay_away(database).is_some() {
        return false;
    }
    let at_work = slots::at_work_in(database);
    let mut started = false;
    for slot in 0..Workers::current().job_workers {
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
