//! Kills: which process ends, how, and at which moment.

use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::Dice;
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{Client, Cluster, StopMode, wait_until};
use postgres::NoTls;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// How long a moment is waited for: perhaps everybody is done.
const MOMENT: Duration = Duration::from_millis(500);
/// How soon the moment is looked for again.
const LOOK: Duration = Duration::from_millis(1);
/// Longest wait for a moment that is nothing but time, and longest time after an answer, in microseconds.
const ANY_TIME: usize = 300_000;
const AFTER_ANSWER: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// SIGKILL to the model server.
    ModelServer,
    SupervisorTerminated,
    SupervisorKilled,
    LauncherTerminated,
    LauncherKilled,
    WorkerTerminated,
    WorkerKilled,
    /// `pg_terminate_backend` of a session that stores.
    WriterTerminated,
    WriterKilled,
    /// SIGKILL to the postmaster, then recovery.
    Postmaster,
    /// `pg_ctl stop -m immediate`, then recovery.
    Immediate,
    /// No process, but the leases of all running jobs: others take them up while the first holders go on.
    Leases,
}

/// By how often they are chosen.
const VICTIMS: [(Victim, usize); 12] = [
    (Victim::ModelServer, 3),
    (Victim::SupervisorTerminated, 1),
    (Victim::SupervisorKilled, 1),
    (Victim::LauncherTerminated, 1),
    (Victim::LauncherKilled, 1),
    (Victim::WorkerTerminated, 4),
    (Victim::WorkerKilled, 5),
    (Victim::WriterTerminated, 2),
    (Victim::WriterKilled, 3),
    (Victim::Postmaster, 2),
    (Victim::Immediate, 1),
    (Victim::Leases, 6),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    AnyTime,
    /// While the LLM is asked.
    Asked,
    /// Just after the LLM answered.
    Answered,
    /// While a transaction waits for a lock on this table.
    At(&'static str),
}

/// Where transactions of writers and workers can be stopped in the middle: ingest, claims, progress,
/// between an answer and its storing, storing, seals, sweeps.
const TABLES: [&str; 6] = ["entries", "sessions", "jobs", "history", "llm_calls", "episodes"];

/// One kill.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    pub victim: Victim,
    pub moment: Moment,
    /// Microseconds.
    delay: usize,
}

impl Strike {
    pub fn draw(dice: &mut Dice) -> Self {
        let all = VICTIMS.iter().flat_map(|(victim, often)| vec![*victim; *often]);
        let victim = dice.pick(&all.collect::<Vec<_>>());
        let moment = match dice.below(10) {
            _ if victim == Victim::Leases => Moment::Asked,
            0..3 => Moment::AnyTime,
            3..5 => Moment::Asked,
            5..7 => Moment::Answered,
            _ => Moment::At(dice.pick(&TABLES)),
        };
        let delay = dice.below(if moment == Moment::Answered { AFTER_ANSWER } else { ANY_TIME });
        Self { victim, moment, delay }
    }

    /// Waits for the moment and strikes; whether there was a victim.
    pub fn strike(&self, scene: &Scene, writers: &[AtomicI32], tally: &mut Tally) {
        let cluster = &scene.cluster;
        let mut chosen = None;
        let mut jam = None;
        match self.moment {
            Moment::AnyTime => std::thread::sleep(Duration::from_micros(self.delay as u64)),
            Moment::Asked => {
                scene.stub.hold(true);
                let _ = wait_for_moment(|| scene.stub.in_flight() > 0);
            }
            Moment::Answered => {
                let before = scene.stub.answered();
                let _ = wait_for_moment(|| scene.stub.answered() > before);
                std::thread::sleep(Duration::from_micros(self.delay as u64));
            }
            Moment::At(table) => {
                jam = Jam::make(cluster, table);
                chosen = jam.as_mut().and_then(|jam| jam.caught(self.victim, tally));
            }
        }
        let struck = match self.victim {
            Victim::Leases => lapse(cluster),
            _ => self.kill(cluster, chosen, writers),
        };
        scene.stub.hold(false);
        drop(jam);
        if struck {
            *tally.kills.entry((self.victim, self.moment)).or_default() += 1;
        }
    }

    fn kill(&self, cluster: &Cluster, chosen: Option<i32>, writers: &[AtomicI32]) -> bool {
        match self.victim {
            Victim::Postmaster => {
                cluster.kill_postmaster();
                cluster.wait_for_no_processes();
                cluster.start();
                return true;
            }
            Victim::Immediate => {
                cluster.stop(StopMode::Immediate);
                cluster.wait_for_no_processes();
                cluster.start();
                return true;
            }
            _ => {}
        }
        let all = cluster.processes();
        let candidates: Vec<i32> = (all.iter())
            .filter(|process| match self.victim {
                Victim::WriterKilled | Victim::WriterTerminated => {
                    writers.iter().any(|writer| writer.load(Ordering::SeqCst) == process.pid)
                }
                _ => process.command.contains(self.title()),
            })
            .map(|process| process.pid)
            .collect();
        let any = candidates.get(self.delay % candidates.len().max(1)).copied();
        // An id could be another process's by now.
        let Some(pid) = chosen.filter(|pid| candidates.contains(pid)).or(any) else { return false };
        let signal = match self.victim {
            Victim::SupervisorTerminated
            | Victim::LauncherTerminated
            | Victim::WorkerTerminated
            | Victim::WriterTerminated => libc::SIGTERM,
            _ => libc::SIGKILL,
        };
        processes::signal(pid, signal);
        wait_until(PATIENCE, "the killed process to end", || {
            Process::find(pid).is_none_or(|process| process.state == 'Z')
        });
        true
    }

    /// What the victim's command line holds.
    fn title(&self) -> &'static str {
        match self.victim {
            Victim::ModelServer => "memory_agent_model_server",
            Victim::SupervisorTerminated | Victim::SupervisorKilled => {
                "memory_agent model supervisor"
            }
            Victim::LauncherTerminated | Victim::LauncherKilled => "memory_agent launcher",
            _ => "memory_agent worker",
        }
    }
}

fn wait_for_moment(mut is_now: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < MOMENT {
        if is_now() {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// Lets the leases of all running jobs end, as if their workers had been stopped for minutes, and waits
/// until a sweep gave the jobs to others.
fn lapse(cluster: &Cluster) -> bool {
    let Ok(mut client) = cluster.config(DATABASE).connect(NoTls) else { return false };
    let lapsed = client.execute(
        "UPDATE memory_agent.jobs SET leased_until = now() - interval '1 s' WHERE status = 'running'",
        &[],
    );
    if lapsed.unwrap_or(0) == 0 {
        return false;
    }
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let sql = "SELECT EXISTS (SELECT FROM memory_agent.jobs \
                    WHERE status = 'running' AND leased_until < now())";
        match client.query_one(sql, &[]).map(|row| row.get(0)) {
            Ok(true) => std::thread::sleep(Duration::from_millis(20)),
            _ => return true,
        }
    }
    panic!("no sweep takes up jobs whose leases are over");
}

/// A lock that stops every process that writes a table. It is given back when this is dropped.
struct Jam {
    client: Client,
    table: &'static str,
}

impl Jam {
    /// `None` when the server is not there.
    fn make(cluster: &Cluster, table: &'static str) -> Option<Self> {
        let mut client = cluster.config(DATABASE).connect(NoTls).ok()?;
        let lock = format!(
            "BEGIN; SET LOCAL lock_timeout = '1s'; LOCK TABLE memory_agent.{table} IN EXCLUSIVE MODE"
        );
        client.batch_execute(&lock).ok()?;
        Some(Self { client, table })
    }

    /// The id of a process that waits, preferably of the victim's kind, and a note of where it stands.
    fn caught(&mut self, victim: Victim, tally: &mut Tally) -> Option<i32> {
        let is_worker = !matches!(victim, Victim::WriterKilled | Victim::WriterTerminated);
        let mut found = None;
        wait_for_moment(|| {
            let waiting = self.client.query(
                "SELECT w.pid, (SELECT coalesce(string_agg(DISTINCT c.relname, ' ' ORDER BY c.relname), 'nothing') \
                                  FROM pg_locks h JOIN pg_class c ON c.oid = h.relation \
                                 WHERE h.pid = w.pid AND h.granted AND c.relkind = 'r' \
                                   AND h.mode IN ('RowShareLock', 'RowExclusiveLock') \
                                   AND c.relnamespace = 'memory_agent'::regnamespace) \
                   FROM pg_locks w \
                  WHERE NOT w.granted AND w.relation = ('memory_agent.' || $1)::regclass",
                &[&self.table],
            );
            let Ok(waiting) = waiting else { return true };
            found = waiting.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, String>(1))).find(
                |(pid, _)| {
                    let process = Process::find(*pid);
                    let command = process.map(|process| process.command).unwrap_or_default();
                    command.contains("memory_agent worker") == is_worker
                },
            );
            found.is_some()
        });
        let (pid, holds) = found?;
        let who = if is_worker { "worker" } else { "writer" };
        let place = format!("{who} at {} after {holds}", self.table);
        *tally.places.entry(place).or_default() += 1;
        Some(pid)
    }
}

/// What was done so far.
#[derive(Default)]
pub struct Tally {
    pub kills: BTreeMap<(Victim, Moment), usize>,
    /// Where transactions stood that were stopped in the middle.
    pub places: BTreeMap<String, usize>,
    pub sayings: usize,
    pub facts: i64,
    /// Jobs that were given back because their worker or lease ended.
    pub interrupted: i64,
    /// Answers of the LLM, and those of them that no job recorded.
    pub answers: i64,
    pub unrecorded: i64,
}

impl Tally {
    pub fn killed(&self) -> usize {
        self.kills.values().sum()
    }

    /// For those who watch.
    pub fn print(&self) {
        let sum = |what: fn(&Victim, &Moment) -> String| {
            let mut sums: BTreeMap<String, usize> = BTreeMap::new();
            for ((victim, moment), count) in &self.kills {
                *sums.entry(what(victim, moment)).or_default() += count;
            }
            sums
        };
        println!(
            "{} kills; {} sayings, {} facts; jobs interrupted {} times; {} answers of the LLM, {} of them lost",
            self.killed(),
            self.sayings,
            self.facts,
            self.interrupted,
            self.answers,
            self.unrecorded
        );
        println!("victims: {:?}", sum(|victim, _| format!("{victim:?}")));
        println!("moments: {:?}", sum(|_, moment| format!("{moment:?}")));
        println!("in the middle of transactions: {:#?}", self.places);
    }
}
