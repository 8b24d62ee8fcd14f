//! How the launcher starts a job worker: its registration with the postmaster, and the assignment that
//! travels with it.

use crate::pg::memory_context::scratch;
use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::pg_sys;
use std::time::Duration;

/// What a worker is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub database: pg_sys::Oid,
    pub slot: u32,
    /// How long it stays without work; `None` is until it is told otherwise.
    pub linger: Option<Duration>,
}

impl Assignment {
    fn to_text(self) -> String {
        let linger = self.linger.map_or("-".into(), |linger| linger.as_secs().to_string());
        format!("{} {} {linger}", self.database.to_u32(), self.slot)
    }

    /// Reads what [`register`] sent along.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            database: pg_sys::Oid::from(words.next()?.parse::<u32>().ok()?),
            slot: words.next()?.parse().ok()?,
            linger: match words.next()? {
                "-" => None,
                seconds => Some(Duration::from_secs(seconds.parse().ok()?)),
            },
        })
    }
}

/// Asks the postmaster for a worker; `false` when max_worker_processes is used up. This process hears of
/// its start and its end.
pub fn register(assignment: Assignment) -> bool {
    let name = format!("memory_agent worker {}.{}", assignment.database.to_u32(), assignment.slot);
    let builder = BackgroundWorkerBuilder::new(&name)
        .set_type("memory_agent worker")
        .set_library("memory_agent")
        .set_function("memory_agent_worker_main")
        .enable_spi_access()
        // The postmaster never looks whether the database still exists; the launcher does.
        .set_restart_time(None)
        .set_extra(&assignment.to_text())
        .set_notify_pid(std::process::id() as i32);
    // The handle is not kept: slots tell what became of the worker.
    scratch(|| builder.load_dynamic().is_ok())
}
