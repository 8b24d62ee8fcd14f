//! Notes that processes leave for workers and for the launcher, as files that need no owner: which
//! databases wait for a worker, and which workers are asked to make room.

use crate::pg::locked_file::DIRECTORY;
use pgrx::pg_sys;
use std::path::{Path, PathBuf};

const WANTED: &str = "memory_agent.wanted.";
const LEAVE: &str = "memory_agent.leave.";

fn path(prefix: &str, name: impl std::fmt::Display) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{prefix}{name}"))
}

/// Notes that a database has jobs and no worker.
pub fn want(database: pg_sys::Oid) {
    // Without the note the jobs wait for the launcher's next look at the database.
    let _ = std::fs::write(path(WANTED, database.to_u32()), "");
}

/// Takes the note of a database away: a worker is started for it, or none may be.
pub fn want_no_more(database: pg_sys::Oid) {
    let _ = std::fs::remove_file(path(WANTED, database.to_u32()));
}

/// The databases that wait for a worker.
pub fn wanted() -> Vec<pg_sys::Oid> {
    let Ok(directory) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    directory
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(pg_sys::Oid::from(name.strip_prefix(WANTED)?.parse::<u32>().ok()?))
        })
        .collect()
}

fn yield_path(database: pg_sys::Oid, slot: u32) -> PathBuf {
    path(LEAVE, format!("{}.{slot}", database.to_u32()))
}

/// Asks one worker to make room: to finish what it has begun and to leave then. The note names the
/// process, so that it means nothing to the next one in the slot.
pub fn ask_to_yield(database: pg_sys::Oid, slot: u32, pid: i32) {
    let _ = std::fs::write(yield_path(database, slot), pid.to_string());
}

/// Whether this process was asked to make room.
pub fn is_asked_to_yield(database: pg_sys::Oid, slot: u32) -> bool {
    std::fs::read_to_string(yield_path(database, slot))
        .is_ok_and(|pid| pid.trim().parse() == Ok(std::process::id()))
}

/// Takes back what the worker before in a slot was asked.
pub fn forget_yield(database: pg_sys::Oid, slot: u32) {
    let _ = std::fs::remove_file(yield_path(database, slot));
}
