//! Processes are killed at random moments, again and again, while people speak, facts are made of what
//! they say, history is sealed and sweeps go on. After each round everything is there, once.
//!
//! A round is decided by the run's seed and its number, and has users of its own: one that fails can be
//! repeated alone. How long kills wait for one another is not decided: processes take their time.
//!
//! | Variable | Is |
//! |---|---|
//! | `MEMORY_AGENT_KILL_SEED` | the seed, a number; by default the clock's, and printed |
//! | `MEMORY_AGENT_KILL_SECONDS` | rounds begin for so long; 60 by default, 300 for a long look |
//! | `MEMORY_AGENT_KILL_ROUNDS` | so many rounds instead, however long they take |
//! | `MEMORY_AGENT_KILL_FROM` | the number of the first round, 1 by default |

mod killer;
mod sabotage;
mod speaker;
mod verdict;

use crate::activity::{start, start_with, workers};
use crate::invariants;
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use killer::{Strike, Tally};
use memory_agent_e2e::llm::{Dice, Document, Fault, FaultPlan, ScriptedModel, Talk};
use memory_agent_e2e::memory::{run, trust_llm, value};
use memory_agent_e2e::{DateTime, Error, Transaction, Utc, processes, wait_until};
use postgres::{IsolationLevel, NoTls};
use speaker::Voice;
use std::sync::atomic::AtomicI32;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use verdict::Heads;

/// How long rounds begin when the environment does not say otherwise.
const SECONDS: u64 = 60;
/// Kills of a round: so many, and up to so many more.
const KILLS: (usize, usize) = (2, 3);
/// Rounds of which some kill has to find a job under way.
const ENOUGH: u64 = 5;
/// LLM calls that may be in flight at once.
const CONCURRENCY: i64 = 4;
const WORKERS: i64 = 2;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[test]
fn killed_processes_lose_nothing_and_repeat_nothing() {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = number("MEMORY_AGENT_KILL_SEED").unwrap_or_else(clock);
    let from = number("MEMORY_AGENT_KILL_FROM").unwrap_or(1);
    let rounds = number("MEMORY_AGENT_KILL_ROUNDS");
    let seconds = number("MEMORY_AGENT_KILL_SECONDS").unwrap_or(SECONDS);
    let settings = [
        ("full_page_writes", "on"),
        ("memory_agent.llm_timeout", "2s"),
        ("memory_agent.llm_max_attempts", "100"),
        ("memory_agent.llm_concurrency", &CONCURRENCY.to_string()),
        ("memory_agent.job_workers", &WORKERS.to_string()),
        ("memory_agent.sweep_interval", "2s"),
        ("memory_agent.max_entries", "8"),
    ];
    let mut scene = start_with(ScriptedModel::new(), &settings);
    // A probe that is not answered has what the LLM changes doubted for an hour.
    trust_llm(&mut scene.client);
    let (mut tally, mut heads) = (Tally::default(), Heads::new());
    let start = Instant::now();
    let mut done = 0;
    while rounds.map_or(start.elapsed().as_secs() < seconds, |rounds| done < rounds) {
        let began = Instant::now();
        let (number, kills) = (from + done, tally.killed());
        print!("MEMORY_AGENT_KILL_SEED={seed} MEMORY_AGENT_KILL_FROM={number}: ");
        let problems = round(&scene, seed, number, &mut tally, &mut heads);
        println!("{} kills in {:?}", tally.killed() - kills, began.elapsed());
        assert!(problems.is_empty(), "round {number} of seed {seed}: {problems:#?}");
        done += 1;
    }
    println!("{done} rounds in {:?}", start.elapsed());
    tally.print();
    expect_everything_sealed(&scene, &mut heads);
    assert!(done < ENOUGH || tally.interrupted > 0, "no kill found a job under way");
    assert!(processes::model_servers(&scene.cluster.data()).len() <= 1, "model servers");
}

/// Several people speak while processes are killed; what is wrong afterwards.
fn round(
    scene: &Scene,
    seed: u64,
    number: u64,
    tally: &mut Tally,
    heads: &mut Heads,
) -> Vec<String> {
    let mut dice = Dice::part(seed, number);
    let talk = Talk::generate(&mut dice, &format!("r{number}"));
    let strikes: Vec<Strike> =
        (0..KILLS.0 + dice.below(KILLS.1)).map(|_| Strike::draw(&mut dice)).collect();
    scene.stub.set_model(talk.model());
    scene.stub.faults(faults(&mut dice));
    let now = Utc::now().timestamp_micros() - 600_000_000;
    let began = DateTime::from_timestamp_micros(now).unwrap_or_default();
    let writers: Vec<AtomicI32> = talk.speakers.iter().map(|_| AtomicI32::new(0)).collect();
    let killed = tally.killed();
    std::thread::scope(|scope| {
        for (index, speaker) in talk.speakers.iter().enumerate() {
            let voice = Voice { cluster: &scene.cluster, speaker, began, backend: &writers[index] };
            let dice = Dice::part(seed ^ number, index as u64);
            scope.spawn(move || voice.speak(dice));
        }
        for strike in &strikes {
            strike.strike(scene, &writers, tally);
        }
    });
    scene.stub.faults(FaultPlan::none());
    let users = talk.users();
    drain(scene, &users);
    let (mut problems, counts) = in_peace(scene, |transaction| {
        let mut problems = verdict::problems(transaction, &talk, began)?;
        problems.extend(verdict::chains(transaction, &users, heads, false)?);
        Ok((problems, Counts::of(transaction, &users)?))
    });
    let calls = scene.stub.take_calls();
    let asked: Vec<String> =
        calls.iter().flat_map(|call| Document::of(call).turns).map(|(_, text)| text).collect();
    problems.extend(verdict::leaked(&talk, &asked));
    // The LLM may be asked more than once, but no answer is recorded that it did not give, and only kills
    // may cost one its record.
    let answers = calls.iter().filter(|call| call.fault.is_none_or(is_harmless)).count() as i64;
    let unrecorded = answers - counts.answers;
    let may_be_lost = (tally.killed() - killed) as i64 * CONCURRENCY * WORKERS;
    if counts.answers > calls.len() as i64 || unrecorded > may_be_lost {
        problems.push(format!(
            "{} answers recorded of {answers} given; {may_be_lost} may be lost",
            counts.answers
        ));
    }
    if !problems.is_empty() {
        for call in &calls {
            let (purpose, fault) = (call.purpose(), call.fault);
            println!("{purpose:?}, {fault:?}, correction {}: {}", call.is_repair(), call.data());
        }
    }
    tally.interrupted += counts.interrupted;
    tally.facts += counts.facts;
    tally.sayings += talk.speakers.iter().flat_map(Talk::committed).count();
    tally.answers += answers;
    tally.unrecorded += unrecorded.max(0);
    problems
}

/// What a round came to.
struct Counts {
    /// Answers of the LLM that were recorded.
    answers: i64,
    /// How often jobs were given back because their worker or their lease had ended.
    interrupted: i64,
    facts: i64,
}

impl Counts {
    fn of(transaction: &mut Transaction<'_>, users: &[String]) -> Result<Self, Error> {
        let row = transaction.query_one(
            "SELECT (SELECT count(*) FROM memory_agent.llm_calls \
                      WHERE user_id = ANY ($1) AND status = 'ok'), \
                    (SELECT coalesce(sum(interrupted), 0)::int8 FROM memory_agent.jobs \
                      WHERE user_id = ANY ($1)), \
                    (SELECT count(*) FROM memory_agent.entries \
                      WHERE user_id = ANY ($1) AND kind = 'fact' AND content <> '')",
            &[&users],
        )?;
        Ok(Self { answers: row.get(0), interrupted: row.get(1), facts: row.get(2) })
    }
}

/// Some answers take a while; in one round of four some are bad as well.
fn faults(dice: &mut Dice) -> FaultPlan {
    let mut kinds = vec![Fault::Delay(Duration::from_millis(40)); 4];
    if dice.below(4) == 0 {
        kinds.extend(Fault::every_kind(Duration::from_millis(40)));
        kinds.push(Fault::Delay(Duration::from_secs(3)));
    }
    FaultPlan::script(
        (0..200).map(|_| (dice.below(4) == 0).then(|| dice.pick(&kinds))).collect::<Vec<_>>(),
    )
    .sparing_last_words()
}

/// Whether an answer is as good as without.
fn is_harmless(fault: Fault) -> bool {
    matches!(fault, Fault::Delay(delay) if delay < Duration::from_secs(1))
}

/// Waits until no job of these users waits or runs, in a server that may still be on its way back.
fn drain(scene: &Scene, users: &[String]) {
    let mut open = String::new();
    let sql = "SELECT coalesce(string_agg(j::text, e'\\n'), '') FROM memory_agent.jobs j \
                WHERE user_id = ANY ($1) AND status IN ('pending', 'running')";
    let start = Instant::now();
    let mut client = None;
    while start.elapsed() < PATIENCE {
        client = client.or_else(|| scene.cluster.config(DATABASE).connect(NoTls).ok());
        let found = client.as_mut().and_then(|client| client.query_one(sql, &[&users]).ok());
        match found.map(|row| row.get::<_, String>(0)) {
            Some(jobs) if jobs.is_empty() => return,
            Some(jobs) => open = jobs,
            None => client = None,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the queue does not drain: {open}");
}

/// Looks at one moment of the database; again, when the last kill ended the session.
fn in_peace<T>(scene: &Scene, mut look: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>) -> T {
    let mut seen = None;
    wait_until(PATIENCE, "a look at the database", || {
        let Ok(mut client) = scene.cluster.config(DATABASE).connect(NoTls) else { return false };
        let found = (client.build_transaction().isolation_level(IsolationLevel::RepeatableRead))
            .start()
            .and_then(|mut transaction| look(&mut transaction));
        match found {
            Ok(found) => seen = Some(found),
            Err(error) => {
                let is_lost = error.code().is_none_or(|code| code.code().starts_with("57P"));
                assert!(is_lost, "{error:?}");
            }
        }
        seen.is_some()
    });
    seen.expect("it was seen")
}

/// In the end all history is sealed, the heads that were kept are in the chains, and all users together
/// have what each round found.
fn expect_everything_sealed(scene: &Scene, heads: &mut Heads) {
    let users: Vec<String> = heads.keys().cloned().collect();
    wait_until(PATIENCE, "all history to be sealed", || {
        in_peace(scene, |transaction| {
            let sql = "SELECT NOT EXISTS (SELECT FROM memory_agent.history WHERE seq IS NULL)";
            Ok(transaction.query_one(sql, &[])?.get(0))
        })
    });
    let problems = in_peace(scene, |transaction| {
        let mut problems = verdict::chains(transaction, &users, heads, true)?;
        problems.extend(invariants::broken(transaction, &users)?);
        Ok(problems)
    });
    assert!(problems.is_empty(), "in the end: {problems:#?}");
}

/// Killed again and again by the same job, a worker takes that job up less and less often, but other
/// jobs go on and the job is done in the end.
#[test]
fn a_worker_that_is_killed_by_a_job_does_not_take_the_others_along() {
    let mut scene = start(echo);
    scene.say_and_wait("Said before.");
    run(&mut scene.client, "SELECT memory_ingest('poison', 'user', 'Poison.')");
    scene.drain();
    run(
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
                    AND status = 'dead' AND last_error LIKE 'interrupted 20 times%')";
        value(&mut scene.client, sql, &[])
    });
    scene.say_and_wait("Said afterwards.");
}

/// A worker that cannot store what becomes of a job, because somebody has its row locked, gives the job back
/// when it can. It does not leave it to the end of the lease, which is minutes away.
#[test]
fn a_job_that_could_not_be_given_back_is_soon() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("Said once.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() > 0);
    let mut other = scene.cluster.connect(DATABASE);
    run(
        &mut other,
        "BEGIN; LOCK TABLE memory_agent.jobs, memory_agent.llm_calls IN EXCLUSIVE MODE",
    );
    scene.stub.hold(false);
    wait_until(PATIENCE, "the worker to stop at the lock, and to go on", || {
        let sql = "SELECT EXISTS (SELECT FROM memory_status() \
                    WHERE component = 'worker' AND detail LIKE '%last error%')";
        value(&mut scene.client, sql, &[])
    });
    run(&mut other, "ROLLBACK");
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: Said once."]);
}

/// The same for what a worker finds that its predecessor left.
#[test]
fn a_dead_workers_job_that_is_locked_is_soon_given_back() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("Said once.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() > 0);
    let mut other = scene.cluster.connect(DATABASE);
    run(&mut other, "BEGIN; SELECT FROM memory_agent.jobs WHERE status = 'running' FOR UPDATE");
    let killed = workers(&mut scene.client, DATABASE)[0];
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&killed]));
    scene.stub.hold(false);
    // Its successor has begun when it did something else.
    run(&mut scene.client, "SELECT memory_ingest('another', 'user', 'Said meanwhile.')");
    wait_until(PATIENCE, "another job", || {
        scene.facts().contains(&"Noted: Said meanwhile.".to_owned())
    });
    run(&mut other, "ROLLBACK");
    scene.drain();
    assert_eq!(scene.facts().len(), 2, "{:?}", scene.facts());
}
