//! `memory_agent`: long-term memory for AI agents inside PostgreSQL. This file only declares: the
//! modules, and what happens when the library is loaded. The SQL is in sql/schema.
// An ErrorReport is large, but it is the only error type that keeps its SQLSTATE and hint on the way
// to PostgreSQL, and errors end the statement anyway.
#![allow(clippy::result_large_err)]

use pgrx::prelude::*;

// Functions have as many arguments and columns as SQL gives them.
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
mod api;
mod identity;
mod jobs;
mod memory;
mod models;
mod pg;
mod settings;
mod store;

::pgrx::pg_module_magic!();

#[cfg(not(panic = "unwind"))]
compile_error!("PostgreSQL errors unwind through this library: build it with panic = \"unwind\"");

/// Runs once when the library is loaded: under preload in the postmaster, otherwise in a backend.
/// No model, thread or socket is touched here: forked processes would inherit them.
#[allow(unsafe_code)]
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::backtrace::switch_off();
    settings::register();
    jobs::run::waker::register();
    // SAFETY: flags that the server sets before it loads libraries.
    let (preloading, upgrading) =
        unsafe { (pg_sys::process_shared_preload_libraries_in_progress, pg_sys::IsBinaryUpgrade) };
    if preloading && !upgrading {
        pg::preload::note();
        models::supervisor::register();
        jobs::run::launcher::register();
    }
}
