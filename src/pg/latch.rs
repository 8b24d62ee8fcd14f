//! Waiting on this process's latch: for a signal or a wake-up, for a socket, or until a time is over. The server's
//! death ends the process.
#![allow(unsafe_code)]

use pgrx::pg_sys;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits, and returns the `WL_*` events that ended the wait. The latch is reset then.
///
/// * `time`: `None` for as long as it takes.
/// * `socket`: an open descriptor, and the event of it that is waited for.
pub fn wait(time: Option<Duration>, socket: Option<(RawFd, u32)>) -> u32 {
    let (descriptor, event) = socket.unwrap_or((-1, 0));
    let timeout = if time.is_some() { pg_sys::WL_TIMEOUT } else { 0 };
    let wake = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH | timeout | event;
    // A rounded-down wait would spin for the rest of the millisecond.
    let milliseconds = time.map_or(-1, |time| time.as_millis() as i64 + 1);
    // SAFETY: MyLatch is this process's latch; the caller holds the socket open.
    unsafe {
        let (latch, kind) = (pg_sys::MyLatch, pg_sys::PG_WAIT_EXTENSION);
        let events = pg_sys::WaitLatchOrSocket(latch, wake as i32, descriptor, milliseconds, kind);
        pg_sys::ResetLatch(latch);
        events as u32
    }
}
