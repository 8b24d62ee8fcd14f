//! Notes that processes leave for the launcher, as files that need no owner: which databases wait for a
//! worker.

use crate::pg::locked_file::{self, DIRECTORY};
use pgrx::pg_sys;
use std::path::{Path, PathBuf};

const WANTED: &str = "memory_agent.wanted.";

fn path(database: pg_sys::Oid) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{WANTED}{}", database.to_u32()))
}

/// Notes that a database has jobs and no worker.
pub fn note(database: pg_sys::Oid) {
    // Without the note the jobs wait for the launcher's next look at the database.
    let _ = std::fs::write(path(database), "");
}

/// Takes the note of a database away: a worker is started for it, or none may be.
pub fn forget(database: pg_sys::Oid) {
    let _ = std::fs::remove_file(path(database));
}

/// The databases that wait for a worker.
pub fn all() -> Vec<pg_sys::Oid> {
    let names = locked_file::names(WANTED).into_iter();
    names.filter_map(|name| Some(pg_sys::Oid::from(name.parse::<u32>().ok()?))).collect()
}
