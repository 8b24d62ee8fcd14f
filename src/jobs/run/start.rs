//! How the launcher starts a job worker: its registration with the postmaster, and the assignment that
//! travels with it.

use crate::pg::memory_context::scratch;
use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::pg_sys;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a worker is started for. PostgreSQL has room for 127 bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    database: u32,
    pub slot: u32,
    /// How long it stays without work; `None` is until it is told otherwise.
    pub linger: Option<Duration>,
}

impl Assignment {
    pub fn new(database: u32, slot: u32, linger: Option<Duration>) -> Self {
        Self { database, slot, linger }
    }

    pub fn database(&self) -> pg_sys::Oid {
        pg_sys::Oid::from(self.database)
    }
}

/// Asks the postmaster for a worker; `false` when max_worker_processes is used up. This process hears of
/// its start and its end.
pub fn register(assignment: Assignment) -> bool {
    let name = format!("memory_agent worker {}.{}", assignment.database, assignment.slot);
    let extra = serde_json::to_string(&assignment).unwrap_or_default();
    let builder = BackgroundWorkerBuilder::new(&name)
        .set_type("memory_agent worker")
        .set_library("memory_agent")
        .set_function("memory_agent_worker_main")
        .enable_spi_access()
        // The postmaster never looks whether the database still exists; the launcher does.
        .set_restart_time(None)
        .set_extra(&extra)
        .set_notify_pid(std::process::id() as i32);
    // The handle is not kept: slots tell what became of the worker.
    scratch(|| builder.load_dynamic().is_ok())
}
