//! Signals and waiting, for the launcher and the workers: SIGTERM ends a running statement at once,
//! SIGHUP reloads the settings in the main loop.
#![allow(unsafe_code)]

use crate::jobs::prelude::*;
use crate::pg::latch;
use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use std::os::fd::RawFd;

unsafe extern "C-unwind" {
    /// PostgreSQL's own SIGTERM handler. pgrx's binding is wrapped and does not fit `pqsignal`.
    fn die(signal: i32);
    /// In the binding for PostgreSQL 18 it looks as if it returned. It raises no ERROR: while a process
    /// exits, every ERROR is FATAL.
    fn proc_exit(code: i32) -> !;
}

/// Installs the handlers and unblocks signals: the first thing a background worker does.
pub fn attach() {
    // SAFETY: the handler is PostgreSQL's; it goes in before signals are unblocked below.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(die));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(die));
    }
    // Naming SIGTERM here would replace the handler: a flag that stops no running statement.
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    // A SIGHUP that came before the handler was there is lost: read the files once more.
    reload();
}

fn reload() {
    // SAFETY: called from the main loop, outside of any transaction.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
}

/// Acts on the signals that came since the last turn, and returns whether settings may have changed; does not return
/// when this process is to end. To be called outside of transactions.
pub fn heed() -> bool {
    // A cancel request is for a statement, and none is running: here it would be an ERROR without a
    // transaction to abort.
    // SAFETY: a flag of this process, set by a signal handler.
    unsafe { (&raw mut pg_sys::QueryCancelPending).write_volatile(0) };
    pgrx::check_for_interrupts!();
    let is_told = BackgroundWorker::sighup_received();
    if is_told {
        reload();
    }
    is_told
}

/// Sleeps until the latch is set, the socket can be read, or the time is over; whether it was before that.
pub fn wait(time: Duration, socket: Option<RawFd>) -> bool {
    let socket = socket.map(|descriptor| (descriptor, pg_sys::WL_SOCKET_READABLE));
    latch::wait(Some(time), socket) & pg_sys::WL_TIMEOUT == 0
}

/// Wakes another process of the cluster, if it is one that takes part in transactions.
pub fn wake(pid: i32) {
    // SAFETY: PGPROC entries live in shared memory as long as the server; an entry that was given to
    // another process in this moment gets a wake-up too many, which every process stands.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        if !process.is_null() {
            pg_sys::SetLatch(&mut (*process).procLatch);
        }
    }
}

/// Ends this process: 0 for good, 1 as failed, which has the postmaster start a static worker again.
pub fn exit(code: i32) -> ! {
    // SAFETY: the regular way out of a background worker.
    unsafe { proc_exit(code) }
}
