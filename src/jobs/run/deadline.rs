//! A bound on the time that code of others runs in a worker: the casts and functions behind the rows of an
//! attached table. When it is over the statement is cancelled, as by statement_timeout, but by a timer that no
//! statement reaches. Code that catches the cancellation and goes on ends the worker a little later, which
//! nothing can catch; another one takes its place at once, so that others do not wait for what was not their fault.
#![allow(unsafe_code)]

use crate::jobs::prelude::*;
use crate::jobs::run::assignment::Assignment;
use crate::jobs::run::slots::{self, Outcome};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long code of others has to end after it was cancelled.
const GRACE: Duration = Duration::from_secs(2);
/// Any id from PostgreSQL's USER_TIMEOUT on (12, and 13 since version 17) asks for a free one.
const ANY_ID: i32 = 13;
/// PostgreSQL's lock method of advisory locks.
const USER_LOCKMETHOD: u8 = 2;

unsafe extern "C-unwind" {
    // utils/timeout.h, which pgrx does not bind. Ids are an enum there.
    fn RegisterTimeout(id: i32, handler: extern "C" fn()) -> i32;
    fn enable_timeout_every(id: i32, first: pg_sys::TimestampTz, every_ms: i32);
    fn disable_timeout(id: i32, keep_indicator: bool);
}

/// How often the timer of the section that runs has gone off.
static ALARMS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static TIMEOUT: Cell<Option<i32>> = const { Cell::new(None) };
    static ASSIGNMENT: Cell<Option<Assignment>> = const { Cell::new(None) };
}

/// Called by the handler of SIGALRM: it may only set flags.
extern "C" fn alarm() {
    // SAFETY: flags of this process that signal handlers set; PostgreSQL reads them at the next interrupt
    // point. The handler that calls this wakes the process.
    unsafe {
        if ALARMS.fetch_add(1, Ordering::Relaxed) == 0 {
            (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
        } else {
            (&raw mut pg_sys::ProcDiePending).write_volatile(1);
        }
        (&raw mut pg_sys::InterruptPending).write_volatile(1);
    }
}

/// Prepares a worker: one that is ended here is no failure of the worker's.
pub fn prepare(assignment: Assignment) {
    ASSIGNMENT.set(Some(assignment));
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::from(0)) };
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _argument: pg_sys::Datum) {
    if let Some(assignment) = ASSIGNMENT.get().filter(|_| ALARMS.load(Ordering::Relaxed) > 1) {
        slots::leave(assignment.database, assignment.slot, Outcome::Yielded);
    }
}

/// A section in which code of others runs. It is outside of transactions, and ends when dropped.
pub struct Deadline {
    timeout: i32,
}

impl Deadline {
    pub fn begin(limit: Duration) -> Self {
        ALARMS.store(0, Ordering::Relaxed);
        // SAFETY: the process takes part in PostgreSQL's timeouts; the handler only sets flags.
        unsafe {
            let timeout = TIMEOUT.get().unwrap_or_else(|| RegisterTimeout(ANY_ID, alarm));
            TIMEOUT.set(Some(timeout));
            let first = pg_sys::GetCurrentTimestamp() + limit.as_micros() as i64;
            enable_timeout_every(timeout, first, GRACE.as_millis() as i32);
            Self { timeout }
        }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        ALARMS.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: the timeout is this section's. A cancellation that came too late has nothing to cancel. What
        // the section's code locked for the session would stay for the life of the worker; the worker itself
        // keeps no advisory lock beyond a transaction.
        unsafe {
            disable_timeout(self.timeout, false);
            if self.is_over() {
                (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
            }
            pg_sys::LockReleaseAll(USER_LOCKMETHOD.into(), true);
        }
    }
}
