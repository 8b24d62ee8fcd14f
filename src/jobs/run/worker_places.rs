//! Who gets one of the cluster's places for job workers: pure decisions about databases, slots and
//! time. The launcher tells what it sees and does what comes out.

use crate::jobs::prelude::*;
use crate::jobs::run::assignment::Assignment;
use crate::jobs::run::slots::{self, Outcome, WorkerState};
use crate::settings::Workers;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How often a database without the extension is looked into.
const PROBE_AGAIN: Duration = Duration::from_secs(600);
/// First and longest pause before a worker that was ended from outside is started again.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// A worker that ran for so long was healthy: its next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// A worker that did not take its slot after so long will not come.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// With more databases than places: how long a worker without work stays, and how soon a database
/// that had no work is looked at again.
const LINGER: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long a worker keeps its place while others wait for one, with and without work.
const SHARE: Duration = Duration::from_secs(10);
const IDLE_SHARE: Duration = Duration::from_secs(1);
/// How often a worker is looked at that does not report its end here.
const ADOPTED_LOOK: Duration = Duration::from_secs(10);
/// Longest time between two looks at all databases.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum Phase {
    Vacant,
    Starting { since: Instant },
    Running(Run),
}

/// A worker that lives.
#[derive(Clone, Copy)]
struct Run {
    since: Instant,
    pid: i32,
    /// Its end is reported to this launcher.
    is_own: bool,
    is_idle: bool,
    /// It was asked to make room.
    is_asked: bool,
}

struct Slot {
    phase: Phase,
    due: Instant,
    back_off: Duration,
}

impl Slot {
    fn vacant(now: Instant) -> Self {
        Self { phase: Phase::Vacant, due: now, back_off: FIRST_BACK_OFF }
    }

    fn fail(&mut self, now: Instant) {
        self.due = now + self.back_off;
        self.back_off = (self.back_off * 2).min(LONGEST_BACK_OFF);
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Extension {
    #[default]
    Unknown,
    Present,
    Absent {
        probe: Instant,
    },
}

#[derive(Default)]
struct Database {
    extension: Extension,
    is_wanted: bool,
    /// When its last worker found nothing to do.
    idle_at: Option<Instant>,
    last_turn: Option<Instant>,
    slots: BTreeMap<u32, Slot>,
}

/// The databases and their slots.
#[derive(Default)]
pub struct WorkerPlaces {
    databases: BTreeMap<u32, Database>,
}

impl WorkerPlaces {
    /// Takes note of which databases workers may run in.
    pub fn set_databases(&mut self, usable: &[pg_sys::Oid]) {
        self.databases.retain(|&oid, _| usable.iter().any(|known| known.to_u32() == oid));
        for oid in usable {
            self.databases.entry(oid.to_u32()).or_default();
        }
    }

    /// Takes note that a database has jobs.
    pub fn want(&mut self, database: pg_sys::Oid) {
        if let Some(database) = self.databases.get_mut(&database.to_u32()) {
            database.is_wanted = true;
        }
    }

    /// Takes note of what is in a slot.
    pub fn observe(&mut self, seen: &slots::Slot, now: Instant) {
        let Some(database) = self.databases.get_mut(&seen.database.to_u32()) else { return };
        let slot = database.slots.entry(seen.number).or_insert_with(|| Slot::vacant(now));
        let WorkerState { pid, ref activity, outcome, .. } = seen.state;
        if seen.is_live {
            // It does not know yet whether the extension is there while it is starting.
            if activity != slots::STARTING {
                database.extension = Extension::Present;
            }
            let is_idle = activity.starts_with(slots::IDLE);
            slot.phase = Phase::Running(match slot.phase {
                Phase::Running(run) if run.pid == pid => Run { is_idle, ..run },
                phase => {
                    let is_own = matches!(phase, Phase::Starting { .. });
                    Run { since: now, pid, is_own, is_idle, is_asked: false }
                }
            });
            return;
        }
        let ran_since = match slot.phase {
            Phase::Vacant => return,
            // The slot is prepared, and no worker has taken it yet.
            Phase::Starting { since } if pid == 0 && now < since + START_PATIENCE => return,
            Phase::Starting { since } | Phase::Running(Run { since, .. }) => since,
        };
        slot.phase = Phase::Vacant;
        slot.due = now;
        database.last_turn = Some(now);
        match outcome {
            Some(Outcome::Absent) => {
                database.extension = Extension::Absent { probe: now + PROBE_AGAIN };
            }
            Some(Outcome::Idle) => database.idle_at = Some(now),
            Some(Outcome::Yielded | Outcome::Off) => database.idle_at = None,
            // The next one waits while it connects, until the command is over: a short one is left to itself.
            Some(Outcome::Leaving) => slot.due = now + FIRST_BACK_OFF,
            // It was ended from outside, or never came.
            None => {
                if now >= ran_since + HEALTHY_AFTER {
                    slot.back_off = FIRST_BACK_OFF;
                }
                slot.fail(now);
            }
        }
    }

    /// Takes note that a worker was registered.
    pub fn started(&mut self, assignment: &Assignment, now: Instant) {
        let Some(database) = self.databases.get_mut(&assignment.database.to_u32()) else { return };
        database.is_wanted = false;
        // It is looked into again: a worker that does not come so far is followed by another one.
        if matches!(database.extension, Extension::Absent { .. }) {
            database.extension = Extension::Unknown;
        }
        if let Some(slot) = database.slots.get_mut(&assignment.slot) {
            slot.phase = Phase::Starting { since: now };
        }
    }

    /// Takes note that a worker could not be started.
    pub fn failed(&mut self, assignment: &Assignment, now: Instant) {
        if let Some(slot) = self.slot(assignment.database.to_u32(), assignment.slot) {
            slot.fail(now);
        }
    }

    /// How many databases are known to have the extension.
    pub fn with_extension(&self) -> usize {
        self.databases.values().filter(|one| one.extension == Extension::Present).count()
    }

    /// Whether no database has the extension, wants a worker or is still to be looked into.
    pub fn are_useless(&self) -> bool {
        let mut databases = self.databases.values();
        !self.databases.is_empty()
            && databases.all(|one| {
                matches!(one.extension, Extension::Absent { .. })
                    && !one.is_wanted
                    && one.slots.values().all(|slot| matches!(slot.phase, Phase::Vacant))
            })
    }

    /// Decides who is started, who makes room, and after how long to decide again.
    pub fn plan(&mut self, settings: &Workers, now: Instant) -> (Vec<Assignment>, Duration) {
        let (mut start, mut look_again) = (Vec::new(), LONGEST_PAUSE);
        if !settings.worker {
            return (start, look_again);
        }
        let is_crowded = self.with_extension() > settings.max_workers;
        let mut ready = Vec::new();
        for (&oid, database) in &mut self.databases {
            for number in 0..settings.job_workers {
                let Some(at) = database.ready_at(number, is_crowded, now) else { continue };
                if at > now {
                    look_again = look_again.min(at - now);
                } else {
                    ready.push((number, !database.is_wanted, database.last_turn, oid));
                }
            }
        }
        // First workers before second ones, wanted databases before others, and then whose last turn
        // was longest ago.
        ready.sort_unstable();
        let mut running = self.running();
        let occupied = running.len() + self.starting();
        let free = settings.max_workers.saturating_sub(occupied);
        for &(number, _, _, oid) in ready.iter().take(free) {
            let linger = is_crowded.then_some(LINGER);
            start.push(Assignment { database: oid.into(), slot: number, linger });
        }
        if running.iter().any(|(_, _, run)| !run.is_own) {
            look_again = look_again.min(ADOPTED_LOOK);
        }
        // Second workers of a database do not push out first ones of another.
        let waiting = ready.iter().skip(free).filter(|(number, ..)| *number == 0).count();
        let too_many = occupied.saturating_sub(settings.max_workers);
        let leaving = running.iter().filter(|(_, _, run)| run.is_asked).count();
        let mut to_ask = (waiting + too_many).saturating_sub(leaving);
        running.sort_unstable_by_key(|&(_, slot, run)| (Reverse(slot), !run.is_idle, run.since));
        for &(oid, slot, run) in running.iter().filter(|(_, _, run)| !run.is_asked) {
            if to_ask == 0 {
                break;
            }
            let may_stay_until = run.since + if run.is_idle { IDLE_SHARE } else { SHARE };
            if too_many == 0 && slot == 0 && may_stay_until > now {
                // It may be idle before, which is not reported.
                look_again = look_again.min(IDLE_SHARE);
                continue;
            }
            to_ask -= 1;
            if let Some(Slot { phase: Phase::Running(run), .. }) = self.slot(oid, slot) {
                run.is_asked = true;
            }
        }
        (start, look_again)
    }

    /// Processes of the workers that are to make room.
    pub fn asked_to_yield(&self) -> Vec<i32> {
        let running = self.running().into_iter();
        running.filter(|(_, _, run)| run.is_asked).map(|(_, _, run)| run.pid).collect()
    }

    /// Database, slot and worker of those that live.
    fn running(&self) -> Vec<(u32, u32, Run)> {
        let slots = self.databases.iter().flat_map(|(&oid, database)| {
            database.slots.iter().map(move |(&number, slot)| (oid, number, slot.phase))
        });
        slots
            .filter_map(|(oid, number, phase)| match phase {
                Phase::Running(run) => Some((oid, number, run)),
                _ => None,
            })
            .collect()
    }

    fn starting(&self) -> usize {
        let slots = self.databases.values().flat_map(|database| database.slots.values());
        slots.filter(|slot| matches!(slot.phase, Phase::Starting { .. })).count()
    }

    fn slot(&mut self, database: u32, number: u32) -> Option<&mut Slot> {
        self.databases.get_mut(&database)?.slots.get_mut(&number)
    }
}

impl Database {
    /// When a slot should get a worker; `None` while it has one or needs none.
    fn ready_at(&mut self, number: u32, is_crowded: bool, now: Instant) -> Option<Instant> {
        if number > 0 {
            let first_runs =
                matches!(self.slots.get(&0), Some(Slot { phase: Phase::Running(_), .. }));
            if is_crowded || self.extension != Extension::Present || !first_runs {
                return None;
            }
        }
        let slot = self.slots.entry(number).or_insert_with(|| Slot::vacant(now));
        if !matches!(slot.phase, Phase::Vacant) {
            return None;
        }
        let turn = match self.extension {
            Extension::Unknown => now,
            Extension::Absent { probe } if !self.is_wanted => probe,
            Extension::Present if is_crowded && !self.is_wanted => {
                self.idle_at.map_or(now, |at| at + LOOK_AGAIN)
            }
            _ => now,
        };
        Some(turn.max(slot.due))
    }
}
