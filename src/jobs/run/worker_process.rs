//! The process of a job worker: takes its slot, connects, and takes turns in `jobs_loop` until it
//! is told or has reason to end.
#![allow(unsafe_code)]

use crate::jobs::prelude::*;
use crate::jobs::run::assignment::Assignment;
use crate::jobs::run::jobs_loop::{JobsLoop, Next};
use crate::jobs::run::slots::{self, Outcome, WorkerState};
use crate::jobs::run::{deadline, launcher, signals};
use crate::pg::locked_file::LockedFile;
use crate::pg::{background_transaction, wake_at_commit};
use crate::settings::Workers;
use crate::store::llm::llm_ledger;
use pgrx::bgworkers::BackgroundWorker;

/// Longest sleep: what no transaction wakes a worker for (jobs of a prepared transaction, or of another
/// worker) is found after so long.
const FALLBACK: Duration = Duration::from_secs(10);
/// How often a worker sees whether a command needs the database to be unused; such a command waits five seconds.
const DATABASE_LOOK: Duration = Duration::from_secs(1);
/// Time between the looks that tell such a command from one that is refused.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long a worker that was switched off may go on with what it has begun.
const OFF_PATIENCE: Duration = Duration::from_secs(10);

/// Entry point of the process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memory_agent_worker_main(_argument: pg_sys::Datum) {
    signals::attach();
    let Ok(assignment) = serde_json::from_str::<Assignment>(BackgroundWorker::get_extra()) else {
        log!("memory_agent: a worker was started without an assignment");
        signals::exit(1)
    };
    wake_at_commit::become_worker();
    let lock = slots::take(assignment.database, assignment.slot).unwrap_or_else(|error| {
        log!("memory_agent: a worker cannot lock its slot: {error}");
        None
    });
    // Without it, the slot has another worker.
    let Some((lock, state)) = lock else { signals::exit(0) };
    deadline::prepare(assignment);
    let mut worker = Worker { assignment, lock, state, idle_since: None, closing: None };
    let outcome = if worker.is_superfluous() {
        Outcome::Off
    } else {
        BackgroundWorker::connect_worker_to_spi_by_oid(Some(assignment.database), None);
        background_transaction::settle_session();
        worker.run(&mut JobsLoop::new(assignment.slot))
    };
    worker.state.outcome = Some(outcome);
    slots::publish(&mut worker.lock, &worker.state);
    // The lock is held until the kernel closes the file: by then the process is gone for all others.
    signals::exit(0)
}

struct Worker {
    assignment: Assignment,
    lock: LockedFile,
    state: WorkerState,
    idle_since: Option<Instant>,
    /// Why and since when it is about to end.
    closing: Option<(Outcome, Instant)>,
}

impl Worker {
    fn is_superfluous(&self) -> bool {
        let settings = Workers::current();
        !settings.worker || self.assignment.slot >= settings.job_workers
    }

    fn run(&mut self, jobs: &mut JobsLoop) -> Outcome {
        loop {
            let is_reloaded = signals::heed();
            if !extension_is_here() {
                return Outcome::Absent;
            }
            if is_reloaded {
                jobs.settings_changed();
            }
            if let Some(outcome) = self.look_for_reasons_to_end(jobs) {
                return outcome;
            }
            if self.assignment.slot == 0 {
                llm_ledger::settle(self.assignment.database);
            }
            let next = jobs.turn();
            self.publish(jobs);
            if let Some(outcome) = self.is_over(jobs) {
                return outcome;
            }
            // Also in the middle of work: what was claimed is given back by the next worker of the slot.
            if self.wait(next) {
                return Outcome::Leaving;
            }
        }
    }

    /// What it finds in a worker without work ends it at once.
    fn look_for_reasons_to_end(&mut self, jobs: &mut JobsLoop) -> Option<Outcome> {
        if self.closing.is_some() {
            return None;
        }
        let outcome = if self.is_superfluous() {
            Outcome::Off
        } else if launcher::asks_to_yield() {
            if jobs.is_idle()
                && let Some(outcome) = self.confirm_idle(jobs)
            {
                return Some(outcome);
            }
            Outcome::Yielded
        } else {
            return None;
        };
        self.closing = Some((outcome, Instant::now()));
        jobs.wind_down();
        None
    }

    fn publish(&mut self, jobs: &JobsLoop) {
        let activity = jobs.activity();
        let is_first = self.state.activity == slots::STARTING;
        let last_error = jobs.last_error().or_else(|| self.state.last_error.take());
        self.state = WorkerState { activity, last_error, outcome: None, ..self.state.clone() };
        slots::publish(&mut self.lock, &self.state);
        if is_first {
            // Now it is known that the extension is here: the other slots can be filled.
            launcher::wake();
        }
    }

    fn is_over(&mut self, jobs: &mut JobsLoop) -> Option<Outcome> {
        if !jobs.is_idle() {
            self.idle_since = None;
            return match self.closing {
                Some((Outcome::Off, since)) if since.elapsed() >= OFF_PATIENCE => {
                    Some(Outcome::Off)
                }
                _ => None,
            };
        }
        if let Some((outcome, _)) = self.closing {
            return Some(outcome);
        }
        let idle_for = self.idle_since.get_or_insert_with(Instant::now).elapsed();
        if self.assignment.linger.is_some_and(|linger| idle_for >= linger) {
            return self.confirm_idle(jobs);
        }
        None
    }

    /// Says that it ends and looks once more: a transaction that commits before sees a worker, and
    /// its jobs are found here; one that commits after sees none, and has another one started. Who rests during a
    /// restore does not know what there is to do.
    fn confirm_idle(&mut self, jobs: &mut JobsLoop) -> Option<Outcome> {
        self.state.outcome = Some(Outcome::Idle);
        slots::publish(&mut self.lock, &self.state);
        jobs.turn();
        if jobs.is_idle() && !jobs.is_resting() {
            jobs.wind_down();
            return Some(Outcome::Idle);
        }
        self.idle_since = None;
        self.publish(jobs);
        None
    }

    /// Waits for the next turn; true when before that a command needs the database to be unused.
    fn wait(&self, next: Next) -> bool {
        let mut time = next.wait_until.unwrap_or(FALLBACK).min(FALLBACK);
        if let Some(since) = self.idle_since {
            background_transaction::flush_statistics();
            let left = self.assignment.linger.map(|linger| linger.saturating_sub(since.elapsed()));
            if let Some(left) = left.filter(|left| !left.is_zero()) {
                time = time.min(left);
            }
        }
        if let Some((Outcome::Off, since)) = self.closing {
            time = time.min(OFF_PATIENCE.saturating_sub(since.elapsed()));
        }
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_woken = signals::wait(left.min(DATABASE_LOOK), next.socket);
            if is_claimed(self.assignment.database) {
                return true;
            }
            if is_woken || left <= DATABASE_LOOK {
                return false;
            }
        }
    }
}

fn extension_is_here() -> bool {
    match background_transaction::try_transaction(|| Ok(catalog::entries_relation().is_ok())) {
        Ok(is_here) => is_here,
        Err(error) => {
            log!("memory_agent: a worker cannot read the catalogs: {}", error.message);
            signals::exit(1)
        }
    }
}

/// Whether a command goes on needing the database to be unused: one that its caller may not execute has the lock
/// for a moment, and is to disturb no session.
fn is_claimed(database: pg_sys::Oid) -> bool {
    (0..3).all(|look| {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        is_needed_unused(database)
    })
}

/// Whether a session holds or waits for a lock on the database that keeps new sessions out: DROP DATABASE, ALTER
/// DATABASE .. RENAME and .. SET TABLESPACE, and CREATE DATABASE .. TEMPLATE do, and wait for us meanwhile.
fn is_needed_unused(database: pg_sys::Oid) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // The lock that every new session takes for a moment.
    let mode = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: a session lock needs no transaction; it is given back at once.
    unsafe {
        let got = pg_sys::LockAcquire(&tag, mode, true, true);
        if got == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return true;
        }
        pg_sys::LockRelease(&tag, mode, true);
    }
    false
}
