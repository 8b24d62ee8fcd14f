//! Starts servers so that they die with the test binary, even when that is killed.
//!
//! The kernel's parent-death signal is sent when the *thread* that forked ends. Tests run in
//! threads of their own, so one thread that lives as long as the process does all the forking.
#![allow(unsafe_code)] // prctl between fork and exec

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

type Request = (Command, Sender<std::io::Result<Child>>);

/// Starts `command`, which gets SIGQUIT (PostgreSQL's immediate shutdown) when this process ends.
pub fn spawn(mut command: Command) -> std::io::Result<Child> {
    // SAFETY: prctl is async-signal-safe, as everything between fork and exec has to be. It runs
    // after the change of user, which would clear the signal.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                // The receiver waits below; it is gone only if its thread was killed.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(requests)
    });
    let (reply, answer) = channel();
    spawner
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .send((command, reply))
        .expect("the spawning thread lives as long as the process");
    answer.recv().expect("the spawning thread answers every request")
}

/// Sends a signal to one process.
pub fn signal(pid: i32, signal: i32) {
    // SAFETY: no memory is involved; a process that is gone already is what the caller wants.
    unsafe { libc::kill(pid, signal) };
}
