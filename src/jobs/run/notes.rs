//! Notes that processes leave for workers and for the launcher, as files that need no owner: which
//! databases wait for a worker, and which workers are asked to leave.

use crate::pg::locked_file::DIRECTORY;
use pgrx::pg_sys;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WANTED: &str = "memory_agent.wanted.";
const LEAVE: &str = "memory_agent.leave.";

/// Longer than workers are ever asked to stay away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(60);

fn path(prefix: &str, name: impl std::fmt::Display) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{prefix}{name}"))
}

/// Notes that a database has jobs and no worker.
pub fn want(database: pg_sys::Oid) {
    // Without the note the jobs wait for the launcher's next look at the database.
    let _ = std::fs::write(path(WANTED, database.to_u32()), "");
}

/// Takes the note of a database away: a worker is started for it.
pub fn want_no_more(database: pg_sys::Oid) {
    let _ = std::fs::remove_file(path(WANTED, database.to_u32()));
}

/// The databases that wait for a worker.
pub fn wanted() -> Vec<pg_sys::Oid> {
    databases_with(WANTED)
}

/// The databases with any note.
pub fn all() -> Vec<pg_sys::Oid> {
    let mut databases = databases_with(WANTED);
    databases.extend(databases_with(LEAVE));
    databases
}

fn databases_with(prefix: &str) -> Vec<pg_sys::Oid> {
    let Ok(directory) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    directory
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let database = name.strip_prefix(prefix)?.split('.').next()?.parse::<u32>().ok()?;
            Some(pg_sys::Oid::from(database))
        })
        .collect()
}

/// Asks the workers of a database to leave at once, and to stay away for so long.
pub fn ask_all_to_leave(database: pg_sys::Oid, stay_away: Duration) -> std::io::Result<()> {
    let until = since_1970() + stay_away;
    std::fs::write(path(LEAVE, database.to_u32()), until.as_millis().to_string())
}

/// Lets workers come back to a database.
pub fn allow(database: pg_sys::Oid) {
    let _ = std::fs::remove_file(path(LEAVE, database.to_u32()));
}

/// How long workers are still asked to stay away from a database.
pub fn stay_away(database: pg_sys::Oid) -> Option<Duration> {
    let text = std::fs::read_to_string(path(LEAVE, database.to_u32())).ok()?;
    let until = Duration::from_millis(text.trim().parse().ok()?);
    // The clock may have been put back since.
    until.checked_sub(since_1970()).filter(|left| !left.is_zero() && *left <= LONGEST_ABSENCE)
}

/// Asks one worker to make room: to finish what it has begun and to leave then. The note names the
/// process, so that it means nothing to the next one in the slot.
pub fn ask_to_yield(database: pg_sys::Oid, slot: u32, pid: i32) {
    let name = format!("{}.{slot}", database.to_u32());
    let _ = std::fs::write(path(LEAVE, name), pid.to_string());
}

/// Whether this process was asked to make room.
pub fn is_asked_to_yield(database: pg_sys::Oid, slot: u32) -> bool {
    let name = format!("{}.{slot}", database.to_u32());
    std::fs::read_to_string(path(LEAVE, name))
        .is_ok_and(|pid| pid.trim().parse() == Ok(std::process::id()))
}

/// Takes back what the worker before in a slot was asked.
pub fn forget_yield(database: pg_sys::Oid, slot: u32) {
    let _ = std::fs::remove_file(path(LEAVE, format!("{}.{slot}", database.to_u32())));
}

/// Removes the notes about a database that is gone, and about its slots up to `slots`.
pub fn forget(database: pg_sys::Oid, slots: u32) {
    want_no_more(database);
    allow(database);
    for slot in 0..slots {
        forget_yield(database, slot);
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
