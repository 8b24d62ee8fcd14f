//! Has a database's workers hear of it when a transaction that queued jobs commits, once per transaction.
//!
//! What may fail happens before the commit: the launcher is started where the library is not preloaded and
//! none runs. After it there are only latches and small files.
#![allow(unsafe_code)] // a hook

use crate::jobs::run::{launcher, signals, slots, wanted_databases};
use crate::pg::prelude::*;
use crate::pg::wake_at_commit::{self, Waker};
use crate::settings::Workers;
use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    /// Whether this transaction created an extension or a database.
    static CREATED: Cell<bool> = const { Cell::new(false) };
    /// Whether this session was told that no worker can be started.
    static WARNED: Cell<bool> = const { Cell::new(false) };
}

/// The hook that was there before ours.
static PREVIOUS: OnceLock<pg_sys::object_access_hook_type> = OnceLock::new();

/// Lets the workers hear of what transactions queue; called once when the library is loaded.
pub fn register() {
    wake_at_commit::register(Waker {
        before_commit,
        after_commit: wake_any_of,
        history_committed: |database| {
            let has_workers = Workers::current().worker && launcher::is_running();
            if has_workers && slots::at_work_in(database).is_empty() {
                wake_launcher(database);
            }
        },
    });
    // SAFETY: the library is loaded once per process, by its only thread.
    unsafe {
        PREVIOUS.get_or_init(|| pg_sys::object_access_hook);
        pg_sys::object_access_hook = Some(object_access);
    }
}

/// The hook. It is not guarded, and nothing here has a destructor: an ERROR of the hook before jumps over this
/// frame.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: i32,
    argument: *mut std::ffi::c_void,
) {
    // SAFETY: the arguments go on as they came.
    unsafe {
        if let Some(Some(previous)) = PREVIOUS.get() {
            previous(access, class, object, part, argument);
        }
        if access == pg_sys::ObjectAccessType::OAT_POST_CREATE
            && (class == pg_sys::ExtensionRelationId || class == pg_sys::DatabaseRelationId)
        {
            created();
        }
    }
}

/// The launcher has a database to look into that it did not know, or in which there was nothing to do.
#[pg_guard]
unsafe extern "C-unwind" fn created() {
    if launcher::is_running() {
        CREATED.set(true);
        wake_at_commit::job_queued();
    }
}

/// Whether a worker is to be woken after the commit.
fn before_commit(database: pg_sys::Oid) -> bool {
    if !Workers::current().worker {
        return false;
    }
    if !launcher::is_running() {
        // It is found by the one that starts.
        wanted_databases::note(database);
        // Another session may have been quicker and taken the last slot for the same purpose.
        if !launcher::start() && !launcher::is_running() {
            warn_once();
        }
    }
    true
}

/// Wakes the workers of a database, or else the launcher.
fn wake_any_of(database: pg_sys::Oid) {
    let at_work = slots::at_work_in(database);
    for (_, state) in &at_work {
        signals::wake(state.pid);
    }
    if CREATED.take() || at_work.is_empty() {
        wake_launcher(database);
    }
}

fn wake_launcher(database: pg_sys::Oid) {
    wanted_databases::note(database);
    launcher::wake();
}

fn warn_once() {
    if WARNED.replace(true) {
        return;
    }
    Error::no_slot(
        "memory_agent cannot start a worker: no background worker slot is free; queued jobs wait",
        "Raise max_worker_processes, or add memory_agent to shared_preload_libraries.",
    )
    .report(PgLogLevel::WARNING);
}
