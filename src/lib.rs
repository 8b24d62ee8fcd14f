//! `memory_agent`: long-term memory for AI agents inside PostgreSQL. This file only declares: the
//! modules, the SQL files in their order, and what happens when the library is loaded.
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

extension_sql_file!("../sql/schema/05_requirements.sql", name = "requirements", bootstrap);
extension_sql_file!("../sql/schema/10_tables.sql", name = "tables", requires = ["requirements"]);
extension_sql_file!("../sql/schema/20_indexes.sql", name = "indexes", requires = ["tables"]);
extension_sql_file!("../sql/schema/40_functions.sql", name = "functions", requires = ["indexes"]);
extension_sql_file!("../sql/schema/41_lifecycle.sql", name = "lifecycle", requires = ["functions"]);
extension_sql_file!("../sql/schema/42_history.sql", name = "history", requires = ["functions"]);
extension_sql_file!("../sql/schema/43_attach.sql", name = "attach", requires = ["functions"]);
extension_sql_file!("../sql/schema/44_models.sql", name = "models", requires = ["functions"]);
extension_sql_file!("../sql/schema/45_gateway.sql", name = "gateway", requires = ["functions"]);
extension_sql_file!("../sql/schema/46_endpoints.sql", name = "endpoints", requires = ["functions"]);
extension_sql_file!("../sql/schema/47_quotas.sql", name = "quotas", requires = ["functions"]);
extension_sql_file!(
    "../sql/schema/70_security.sql",
    name = "security",
    requires = ["lifecycle", "history", "attach", "models", "gateway", "endpoints"]
);
extension_sql_file!("../sql/schema/75_views.sql", name = "views", requires = ["security"]);
extension_sql_file!("../sql/schema/80_comments.sql", name = "comments", requires = ["views"]);
extension_sql_file!("../sql/schema/90_dump.sql", name = "dump", requires = ["comments"]);
extension_sql_file!("../sql/schema/95_revoke.sql", name = "revoke", requires = ["dump"], finalize);

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
