//! The background worker that keeps job workers running: one per cluster, in no database. It finds
//! the databases with the extension by starting a worker in each, which ends at once where there is
//! none, and starts workers again that were ended from outside. It runs from the server's start where the
//! library is preloaded, else from the first transaction that queues a job until no database has the extension.
//!
//! It sleeps on its latch: workers report their end, and transactions without a worker wake it. What it is
//! not told, it sees within a minute.
#![allow(unsafe_code)] // entry point called by PostgreSQL

use crate::jobs::prelude::*;
use crate::jobs::run::worker_places::WorkerPlaces;
use crate::jobs::run::{assignment, databases, signals, slots, wanted_databases};
use crate::pg::locked_file::{self, LockedFile};
use crate::pg::memory_context::scratch;
use crate::pg::preload::is_preloaded;
use crate::settings::Workers;
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder};
use serde::{Deserialize, Serialize};
use std::path::Path;

const PATH: &str = "pg_stat_tmp/memory_agent.launcher";
/// What helps while no worker can be started.
pub const SHORTAGE_HINT: &str = "Raise max_worker_processes, or lower memory_agent.max_workers.";
/// How often the log tells of a shortage that lasts.
const SAY_AGAIN: Duration = Duration::from_secs(600);

/// What the launcher says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LauncherState {
    pub pid: u32,
    /// Databases that are known to have the extension.
    pub databases: usize,
    /// Whether it could not start the last worker, for want of a place in max_worker_processes.
    pub lacks_slots: bool,
    /// Processes of the workers that are to make room: to finish what they have begun and to leave then.
    yields: Vec<i32>,
}

fn builder() -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("memory_agent launcher")
        .set_type("memory_agent launcher")
        .set_library("memory_agent")
        .set_function("memory_agent_launcher_main")
        .enable_spi_access()
        .set_restart_time(Some(Duration::from_secs(1)))
}

/// Registers the launcher with the postmaster; only while shared libraries are preloaded. On a
/// standby it starts after promotion.
pub fn register() {
    builder().load();
}

/// Asks the postmaster for a launcher, unless it starts one by itself; `false` when max_worker_processes is
/// used up.
pub fn start() -> bool {
    is_preloaded() || scratch(|| builder().load_dynamic().is_ok())
}

/// The launcher's state, or `None` when none is alive.
pub fn read() -> Option<LauncherState> {
    let content = locked_file::read(Path::new(PATH)).filter(|content| content.is_locked)?;
    serde_json::from_str(&content.text).ok()
}

/// Whether a launcher is alive.
pub fn is_running() -> bool {
    read().is_some()
}

/// Whether this process, a worker, was asked to make room.
pub fn asks_to_yield() -> bool {
    read().is_some_and(|state| state.yields.contains(&(std::process::id() as i32)))
}

/// Has the launcher look at the notes.
pub fn wake() {
    if let Some(state) = read() {
        signals::wake(state.pid as i32);
    }
}

/// Entry point of the process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memory_agent_launcher_main(_argument: pg_sys::Datum) {
    signals::attach();
    let lock = match LockedFile::take(Path::new(PATH)) {
        Ok(Some(lock)) => lock,
        // The one before is not quite gone: come back in a second. Of several that sessions started at once
        // one stays.
        Ok(None) => signals::exit(i32::from(is_preloaded())),
        Err(error) => {
            log!("memory_agent: the launcher cannot lock its state: {error}");
            signals::exit(1)
        }
    };
    BackgroundWorker::connect_worker_to_spi(None, None);
    Launcher { lock, places: WorkerPlaces::default(), slot_shortage: false, said_at: None }.run()
}

struct Launcher {
    lock: LockedFile,
    places: WorkerPlaces,
    /// Whether one of the last starts failed for want of a background worker slot.
    slot_shortage: bool,
    /// When the log last told so.
    said_at: Option<Instant>,
}

impl Launcher {
    fn run(mut self) -> ! {
        self.publish();
        loop {
            signals::heed();
            let pause = self.turn();
            self.publish();
            if !is_preloaded() && self.places.are_useless() {
                // Who sees no launcher starts one; who saw this one left a note.
                drop(self.lock);
                signals::exit(i32::from(!wanted_databases::all().is_empty()));
            }
            signals::wait(pause, None);
        }
    }

    fn publish(&mut self) {
        let state = LauncherState {
            pid: std::process::id(),
            databases: self.places.with_extension(),
            lacks_slots: self.slot_shortage,
            yields: self.places.asked_to_yield(),
        };
        self.lock.write(&serde_json::to_string(&state).unwrap_or_default());
        for pid in state.yields {
            signals::wake(pid);
        }
    }

    /// Sees what there is, does what is due, and says when there is more to do.
    fn turn(&mut self) -> Duration {
        let now = Instant::now();
        if let Err(error) = self.look(now) {
            log!("memory_agent: the launcher cannot read pg_database: {error}");
            return Duration::from_secs(10);
        }
        let (start, mut pause) = self.places.plan(&Workers::current(), now);
        if !start.is_empty() {
            self.slot_shortage = false;
        }
        for assignment in start {
            if !slots::prepare(assignment.database, assignment.slot) {
                // The one before is not quite gone; it is seen next time.
                pause = pause.min(Duration::from_secs(1));
            } else if assignment::register(assignment) {
                wanted_databases::forget(assignment.database);
                self.places.started(&assignment, now);
            } else {
                self.places.failed(&assignment, now);
                pause = pause.min(Duration::from_secs(1));
                self.slot_shortage = true;
            }
        }
        if self.slot_shortage {
            self.tell_of_shortage(now);
        }
        pause
    }

    /// The start is tried every second; the log hears of it once in a while.
    fn tell_of_shortage(&mut self, now: Instant) {
        if self.said_at.is_some_and(|at| now.duration_since(at) < SAY_AGAIN) {
            return;
        }
        self.said_at = Some(now);
        let problem = "memory_agent: no background worker slot is free for a job worker";
        Error::no_slot(problem, SHORTAGE_HINT).report(PgLogLevel::LOG);
    }

    fn look(&mut self, now: Instant) -> Result<(), String> {
        let usable = databases::usable()?;
        self.places.set_databases(&usable);
        for slot in slots::all() {
            if !slot.is_live && !usable.contains(&slot.database) {
                slots::remove(slot.database, slot.number);
                continue;
            }
            self.places.observe(&slot, now);
        }
        for database in wanted_databases::all() {
            if usable.contains(&database) {
                self.places.want(database);
            } else {
                wanted_databases::forget(database);
            }
        }
        Ok(())
    }
}
