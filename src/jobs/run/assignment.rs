//! How the launcher starts a job worker: its registration with the postmaster, and the assignment that
//! travels with it.

use crate::jobs::prelude::*;
use crate::pg::memory_context::scratch;
use pgrx::bgworkers::BackgroundWorkerBuilder;
use serde::{Deserialize, Serialize};

/// What a worker is started for. PostgreSQL has room for 127 bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub database: pg_sys::Oid,
    pub slot: u32,
    /// How long it stays without work; `None` is until it is told otherwise.
    pub linger: Option<Duration>,
}

/// Asks the postmaster for a worker; `false` when max_worker_processes is used up. This process hears of
/// its start and its end.
pub fn register(assignment: Assignment) -> bool {
    let Assignment { database, slot, .. } = assignment;
    let name = format!("memory_agent worker {}.{slot}", database.to_u32());
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
