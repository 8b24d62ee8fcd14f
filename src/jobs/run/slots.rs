//! The state file of a worker slot: who works there, since when, on what, and how the last one ended.
//! The worker locks its file while it lives; two workers can never have the same slot.

use crate::pg::locked_file::{self, Content, DIRECTORY, LockedFile, unix_time};
use crate::settings::Workers;
use pgrx::pg_sys;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the files of the slots begin with; database and number follow.
const PREFIX: &str = "memory_agent.worker.";
/// Longest error that is kept, in characters.
const ERROR_CHARS: usize = 500;

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The database does not have the extension.
    Absent,
    /// `memory_agent.worker` is off, or the slot is one too many.
    Off,
    /// A command on the database needed it to be unused.
    Leaving,
    /// It had nothing to do for as long as it may wait.
    Idle,
    /// It made room for another database, perhaps with jobs left.
    Yielded,
}

/// What a worker says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Its process; 0 when the slot is prepared for one that was not started yet.
    pub pid: i32,
    /// When it started, in seconds since 1970.
    pub since: u64,
    /// "starting", "idle", or what it works on.
    pub activity: String,
    /// The last error of this slot and when it happened, in seconds since 1970.
    pub last_error: Option<(String, u64)>,
    /// How it ended; `None` while it lives, and when it was ended from outside.
    pub outcome: Option<Outcome>,
}

/// What a worker says before it is known whether the extension is there.
pub const STARTING: &str = "starting";
/// What a worker's activity begins with when it does nothing at the moment.
pub const IDLE: &str = "idle";
/// What it says then while nothing is begun because of a restore.
pub const RESTING: &str = "resting";

/// One slot as found in the directory.
pub struct Slot {
    pub database: pg_sys::Oid,
    pub number: u32,
    pub state: WorkerState,
    pub is_live: bool,
}

fn path(database: pg_sys::Oid, slot: u32) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{PREFIX}{}.{slot}", database.to_u32()))
}

/// A file that cannot be read as a state is one that was made this moment.
fn state_of(content: &Content) -> WorkerState {
    serde_json::from_str(&content.text).unwrap_or_default()
}

/// The state of the worker that lives in a slot, or of the last one that did.
pub fn last(database: pg_sys::Oid, slot: u32) -> Option<WorkerState> {
    locked_file::read(&path(database, slot)).map(|content| state_of(&content))
}

/// Every slot that was ever used, of all databases.
pub fn all() -> Vec<Slot> {
    let slot = |name: &String| {
        let (database, number) = name.split_once('.')?;
        let database = pg_sys::Oid::from(database.parse::<u32>().ok()?);
        let number = number.parse().ok()?;
        let content = locked_file::read(&path(database, number))?;
        Some(Slot { database, number, state: state_of(&content), is_live: content.is_locked })
    };
    locked_file::names(PREFIX).iter().filter_map(slot).collect()
}

/// The workers of a database that can take new jobs. Every commit that queues jobs asks, so files of other
/// databases are not looked at.
pub fn at_work_in(database: pg_sys::Oid) -> Vec<(u32, WorkerState)> {
    let at_work = |slot| {
        let content =
            locked_file::read(&path(database, slot)).filter(|content| content.is_locked)?;
        // One that has decided to end takes no job any more.
        Some((slot, state_of(&content)))
            .filter(|(_, state)| state.pid != 0 && state.outcome.is_none())
    };
    (0..Workers::current().job_workers).filter_map(at_work).collect()
}

/// Forgets how the last worker of a slot ended, so that the end of the next one can be told from it.
/// `false` when the slot is taken.
pub fn prepare(database: pg_sys::Oid, slot: u32) -> bool {
    let Ok(Some(mut lock)) = LockedFile::take(&path(database, slot)) else { return false };
    let last_error = last(database, slot).and_then(|state| state.last_error);
    publish(&mut lock, &WorkerState { last_error, ..WorkerState::default() });
    true
}

/// Removes the file of a slot whose database may have no worker, unless one still has it.
pub fn remove(database: pg_sys::Oid, slot: u32) {
    if let Ok(Some(_lock)) = LockedFile::take(&path(database, slot)) {
        let _ = std::fs::remove_file(path(database, slot));
    }
}

/// Takes a slot for this process, and says so; `None` when another worker has it.
pub fn take(
    database: pg_sys::Oid,
    slot: u32,
) -> std::io::Result<Option<(LockedFile, WorkerState)>> {
    let Some(mut lock) = LockedFile::take(&path(database, slot))? else { return Ok(None) };
    let state = WorkerState {
        pid: std::process::id() as i32,
        since: unix_time(),
        activity: STARTING.into(),
        last_error: last(database, slot).and_then(|state| state.last_error),
        outcome: None,
    };
    publish(&mut lock, &state);
    Ok(Some((lock, state)))
}

/// Says how the worker ends that this process is, whichever part of it holds the slot.
pub fn leave(database: pg_sys::Oid, slot: u32, outcome: Outcome) {
    if let (Some(state), Ok(mut file)) =
        (last(database, slot), LockedFile::again(&path(database, slot)))
    {
        publish(&mut file, &WorkerState { outcome: Some(outcome), ..state });
    }
}

/// Says what the worker of a slot does; the others see it at once.
pub fn publish(slot: &mut LockedFile, state: &WorkerState) {
    let last_error = state
        .last_error
        .as_ref()
        .map(|(message, time)| (message.chars().take(ERROR_CHARS).collect::<String>(), *time));
    if let Ok(text) = serde_json::to_string(&WorkerState { last_error, ..state.clone() }) {
        slot.write(&text);
    }
}
