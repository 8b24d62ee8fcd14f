//! Processes are killed at random moments, again and again, while a conversation is stored and its
//! facts are extracted: in the end everything is there, once.

use crate::activity::{drain, start, start_with, workers};
use crate::invariants::{expect_consistency, expect_facts};
use crate::models::echo;
use crate::random::Random;
use crate::scene::{DATABASE, PATIENCE};
use memory_agent_e2e::llm::{Conversation, Fault, FaultPlan, ScriptedModel};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{Client, Cluster, wait_until};
use postgres::NoTls;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Rounds when `MEMORY_AGENT_CRASH_ROUNDS` does not say otherwise.
const ROUNDS: usize = 30;
/// A round's kill comes at some time within this after its turns were handed out.
const WITHIN: Duration = Duration::from_millis(900);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    ModelServer,
    Worker,
    /// A worker that is ended by SIGTERM, so that everybody else goes on.
    TerminatedWorker,
    Writer,
    Postmaster,
}

const VICTIMS: [Victim; 5] = [
    Victim::ModelServer,
    Victim::Worker,
    Victim::TerminatedWorker,
    Victim::Writer,
    Victim::Postmaster,
];

/// Hands out turns to the writer, so that all rounds find work under way.
#[derive(Default)]
struct Permits {
    count: Mutex<usize>,
    more: Condvar,
}

impl Permits {
    fn raise_to(&self, count: usize) {
        *self.count.lock().unwrap() = count;
        self.more.notify_all();
    }

    fn wait_for(&self, number: usize) {
        let count = self.count.lock().unwrap();
        drop(self.more.wait_while(count, |count| *count <= number).unwrap());
    }
}

#[test]
fn killed_processes_lose_nothing_and_repeat_nothing() {
    let rounds = std::env::var("MEMORY_AGENT_CRASH_ROUNDS")
        .map_or(ROUNDS, |rounds| rounds.parse().expect("MEMORY_AGENT_CRASH_ROUNDS is a number"));
    let mut random = Random::seeded("crashes");
    let seed = random.below(1 << 32);
    let conversation = Conversation::generate(seed);
    let settings = [
        ("memory_agent.llm_timeout", "2s"),
        ("memory_agent.llm_max_attempts", "100"),
        ("memory_agent.job_workers", "2"),
        ("memory_agent.sweep_interval", "5s"),
    ];
    let scene = start_with(ScriptedModel::of(&conversation), &settings);
    // One answer in ten is bad; half of the others take a while, so that kills find calls in flight.
    let mut kinds = Fault::every_kind(Duration::from_millis(300));
    kinds.push(Fault::Delay(Duration::from_secs(3)));
    let slow = vec![Fault::Delay(Duration::from_millis(150)); 5 * kinds.len()];
    kinds.extend(slow);
    scene.stub.faults(FaultPlan::random(seed, 0.6, kinds));

    let turns = conversation.turns.len();
    let (permits, writer) = (Permits::default(), AtomicI32::new(0));
    let mut kills = [0; VICTIMS.len()];
    std::thread::scope(|scope| {
        let (cluster, permits, writer) = (&scene.cluster, &permits, &writer);
        let conversation = &conversation;
        scope.spawn(move || write(cluster, conversation, permits, writer));
        // Whatever happens here, the writer must not wait for ever.
        let _all = RaiseAtEnd(permits, turns);
        for round in 0..rounds {
            permits.raise_to(turns * (round + 1) / rounds);
            std::thread::sleep(random.time_below(WITHIN));
            let victim = VICTIMS[random.below(VICTIMS.len() as u64) as usize];
            if kill(cluster, victim, writer) {
                kills[victim as usize] += 1;
            }
        }
    });
    println!("{rounds} rounds; killed: {:?}", VICTIMS.iter().zip(kills).collect::<Vec<_>>());
    scene.stub.faults(FaultPlan::none());
    wait_until(PATIENCE, "PostgreSQL to take sessions", || {
        scene.cluster.config(DATABASE).connect(NoTls).is_ok()
    });
    let mut client = scene.cluster.connect(DATABASE);
    drain(&mut client);
    let interrupted: i64 =
        value(&mut client, "SELECT sum(interrupted) FROM memory_agent.jobs", &[]);
    println!("jobs were interrupted {interrupted} times");
    assert!(interrupted > 0, "no kill found a job under way");
    let stored: i64 = value(
        &mut client,
        "SELECT count(DISTINCT metadata->>'number') FROM memory_agent.entries WHERE kind = 'turn'",
        &[],
    );
    let rows: i64 =
        value(&mut client, "SELECT count(*) FROM memory_agent.entries WHERE kind = 'turn'", &[]);
    assert_eq!((stored, rows), (turns as i64, turns as i64), "turns, rows");
    expect_consistency(&mut client);
    expect_facts(&mut client, &conversation.outcome());
}

struct RaiseAtEnd<'a>(&'a Permits, usize);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise_to(self.1);
    }
}

/// Stores the turns one after the other. When the connection is lost, the database knows whether
/// the turn was committed.
fn write(cluster: &Cluster, conversation: &Conversation, permits: &Permits, writer: &AtomicI32) {
    let mut client = None;
    for (number, turn) in conversation.turns.iter().enumerate() {
        permits.wait_for(number);
        let metadata = memory_agent_e2e::json!({"number": number.to_string()});
        wait_until(PATIENCE, "a turn to be stored", || {
            let Some(mut session) = client.take().or_else(|| open(cluster, writer)) else {
                return false;
            };
            let stored = is_stored(&mut session, number).and_then(|stored| match stored {
                true => Ok(()),
                false => session
                    .execute(
                        "SELECT memory_ingest($1, 'user', $2, metadata => $3)",
                        &[&turn.session, &turn.text, &metadata],
                    )
                    .map(|_| ()),
            });
            match stored {
                Ok(()) => client = Some(session),
                // Nothing but the kills may stop a turn from being stored.
                Err(error) => assert!(
                    error
                        .code()
                        .is_none_or(|code| ["57P01", "57P02", "57P03"].contains(&code.code())),
                    "turn {number}: {error:?}"
                ),
            }
            client.is_some()
        });
    }
    writer.store(0, Ordering::SeqCst);
}

fn open(cluster: &Cluster, writer: &AtomicI32) -> Option<Client> {
    let mut client = cluster.config(DATABASE).connect(NoTls).ok()?;
    client.batch_execute("SET memory_agent.user_id = 'alice'").ok()?;
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).ok()?.get(0);
    writer.store(pid, Ordering::SeqCst);
    Some(client)
}

fn is_stored(client: &mut Client, number: usize) -> Result<bool, memory_agent_e2e::Error> {
    let sql = "SELECT EXISTS (SELECT FROM memory_agent.entries \
                               WHERE kind = 'turn' AND metadata->>'number' = $1)";
    Ok(client.query_one(sql, &[&number.to_string()])?.get(0))
}

/// Kills a process if there is one of the kind; whether there was. PostgreSQL restarts itself after
/// the death of any of its processes, but not after the postmaster's.
fn kill(cluster: &Cluster, victim: Victim, writer: &AtomicI32) -> bool {
    let pid = match victim {
        Victim::Postmaster => {
            cluster.kill_postmaster();
            cluster.wait_for_no_processes();
            cluster.start();
            return true;
        }
        Victim::ModelServer => processes::model_servers(&cluster.data()).first().map(|one| one.pid),
        Victim::Worker | Victim::TerminatedWorker => {
            cluster.config("postgres").connect(NoTls).ok().and_then(|mut client| {
                let pids = client.query(
                    "SELECT pid FROM pg_stat_activity \
                  WHERE backend_type = 'memory_agent worker' AND datname = $1 ORDER BY random()",
                    &[&DATABASE],
                );
                pids.ok()?.first().map(|row| row.get(0))
            })
        }
        Victim::Writer => Some(writer.load(Ordering::SeqCst)),
    };
    // An id could be somebody else's by now.
    let of_this_cluster = |pid: &i32| cluster.processes().iter().any(|process| process.pid == *pid);
    let Some(pid) = pid.filter(of_this_cluster) else { return false };
    let signal = if victim == Victim::TerminatedWorker { libc::SIGTERM } else { libc::SIGKILL };
    processes::signal(pid, signal);
    wait_until(PATIENCE, "the killed process to end", || {
        Process::find(pid).is_none_or(|process| process.state == 'Z')
    });
    true
}

/// Killed again and again by the same job, a worker takes that job up less and less often, but other
/// jobs go on and the job is done in the end.
#[test]
fn a_worker_that_is_killed_by_a_job_does_not_take_the_others_along() {
    let mut scene = start(echo);
    scene.say_and_wait("Said before.");
    memory_agent_e2e::memory::run(
        &mut scene.client,
        "SELECT memory_ingest('poison', 'user', 'Poison.')",
    );
    scene.drain();
    memory_agent_e2e::memory::run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET status = 'running', interrupted = 11, finished_at = NULL, \
                leased_by = 'slot 0 of a dead worker', leased_until = now() + interval '1 hour' \
          WHERE session_id = 'poison'",
    );
    let killed = workers(&mut scene.client, DATABASE)[0];
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&killed]));
    wait_until(PATIENCE, "the job to be given back", || {
        let sql = "SELECT EXISTS (SELECT FROM memory_agent.jobs \
                    WHERE session_id = 'poison' AND interrupted = 12 AND run_after > now())";
        value(&mut scene.client, sql, &[])
    });
    scene.say("Said meanwhile.");
    wait_until(PATIENCE, "another job", || {
        scene.facts().contains(&"Noted: Said meanwhile.".to_owned())
    });
    scene.drain();
    // That has an end.
    memory_agent_e2e::memory::run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET status = 'running', interrupted = 19, finished_at = NULL, \
                leased_by = 'slot 0 of a dead worker', leased_until = now() + interval '1 hour' \
          WHERE session_id = 'poison'",
    );
    let killed = workers(&mut scene.client, DATABASE)[0];
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&killed]));
    wait_until(PATIENCE, "the job to be given up", || {
        let sql = "SELECT EXISTS (SELECT FROM memory_agent.jobs WHERE session_id = 'poison' \
                    AND status = 'dead' AND last_error LIKE 'its worker ended 20 times%')";
        value(&mut scene.client, sql, &[])
    });
    scene.say_and_wait("Said afterwards.");
}
