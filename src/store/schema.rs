//! Which version of the schema this database has. The library serves every released one: a database in
//! which ALTER EXTENSION UPDATE was not run yet goes on as it was. Code that is older than a column, a
//! table or a function, and all code of the worker, asks here before it uses it. What a new SQL function
//! alone reaches needs to ask nothing.
//!
//! The answers come from PostgreSQL's catalog caches: they cost a hash look-up, and an update that commits
//! meanwhile is seen by the next question. Nothing is ever taken away, so a statement that was chosen for
//! the older schema is right in the newer one.
#![allow(unsafe_code)]

use crate::pg::prelude::*;
use memory_agent_core::text::entry::GLOBAL;
use std::cmp::Ordering;
use std::ffi::CStr;

/// The version that this library was released with: `default_version` of the control file.
pub const LIBRARY_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether the objects of 0.2.0 are here; to be asked in a transaction. They come and go together, so one
/// stands for all: the function `memory_agent.renew_levels()`.
pub fn has_0_2() -> bool {
    has_function(c"renew_levels")
}

/// Whether the objects of 0.3.0 are here, likewise: the index `memory_agent.jobs_turn_idx` stands for all.
pub fn has_0_3() -> bool {
    let Some(namespace) = catalog::namespace() else { return false };
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_relname_relid(c"jobs_turn_idx".as_ptr(), namespace) != pg_sys::InvalidOid }
}

/// The name by which the user's global memory is meant where a session is named; `None` before 0.3.0, where
/// a session of that name is like any other.
pub fn global_name() -> Option<&'static str> {
    has_0_3().then_some(GLOBAL)
}

/// The session that facts and documents belong to that are stored under a name, if it is one.
pub fn home_of(session_id: Option<&str>) -> Option<&str> {
    session_id.filter(|session_id| Some(*session_id) != global_name())
}

/// Whether there is a function `memory_agent.name()` without arguments.
pub fn has_function(name: &CStr) -> bool {
    let Some(namespace) = catalog::namespace() else { return false };
    // SAFETY: a syscache look-up; the vector of no types is palloc'ed.
    unsafe {
        let no_arguments = pg_sys::buildoidvector(std::ptr::null(), 0);
        pg_sys::SearchSysCacheExists(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as i32,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(no_arguments),
            pg_sys::Datum::from(namespace),
            pg_sys::Datum::from(0),
        )
    }
}

/// The version that `pg_extension` names.
pub fn version(spi: &Spi) -> PgResult<Option<String>> {
    spi.row(
        "SELECT x.extversion FROM pg_extension x WHERE x.extname = 'memory_agent'",
        &mut params![],
    )
}

/// Whether a version of the schema, such as `0.2.0`, came before or after the library's; `None` when it is
/// not a version.
pub fn compared_with_library(version: &str) -> Option<Ordering> {
    let numbers = |version: &str| -> Option<Vec<u32>> {
        version.split('.').map(|number| number.parse().ok()).collect()
    };
    Some(numbers(version)?.cmp(&numbers(LIBRARY_VERSION)?))
}
