//! The end of a command for which the workers left a database: when its transaction is over, they may
//! come back, and the launcher has a look. Not earlier: while a DROP DATABASE is not committed, the
//! database is still to be seen.
#![allow(unsafe_code)] // a callback

use crate::jobs::run::{launcher, notes};
use crate::settings::Workers;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

#[derive(Clone, Copy)]
struct Vacated {
    database: pg_sys::Oid,
    /// Whether the command drops the database.
    is_dropped: bool,
    /// Whether the command came to its end. One that copies files commits in between.
    is_done: bool,
}

thread_local! {
    static VACATED: Cell<Option<Vacated>> = const { Cell::new(None) };
    /// Whether PostgreSQL calls us at the end of transactions.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
}

/// The workers of a database were asked to leave it for the command that is about to run.
pub fn begin(database: pg_sys::Oid, is_dropped: bool) {
    if !HOOKED.replace(true) {
        // SAFETY: the callback is a function of this library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut()) };
    }
    VACATED.set(Some(Vacated { database, is_dropped, is_done: false }));
}

/// The workers could not be asked.
pub fn forget() {
    VACATED.set(None);
}

/// The command succeeded; its transaction is still to be committed.
pub fn done() {
    VACATED.set(VACATED.get().map(|vacated| Vacated { is_done: true, ..vacated }));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT};
    let Some(vacated) = VACATED.get() else { return };
    let is_committed = event == XACT_EVENT_COMMIT && vacated.is_done;
    if is_committed || event == XACT_EVENT_ABORT {
        VACATED.set(None);
        allow_back(vacated.database, is_committed && vacated.is_dropped);
    }
}

fn allow_back(database: pg_sys::Oid, is_gone: bool) {
    notes::allow(database);
    if Workers::current().worker && launcher::is_running() {
        if !is_gone {
            notes::want(database);
        }
        launcher::wake();
    }
}
