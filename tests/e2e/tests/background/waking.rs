//! What wakes a worker: the commit of a transaction that queued jobs, and nothing else but a look every
//! ten seconds.

use crate::activity::{last_change, launcher, start_with, worker};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, DateTime, Utc, wait_until};
use std::time::{Duration, Instant};

/// Nothing is to wake the worker but what a test does, and nothing it does is to stay unseen.
const QUIET: [(&str, &str); 4] = [
    ("memory_agent.sweep_interval", "1h"),
    ("autovacuum", "off"),
    ("log_statement", "all"),
    ("log_min_duration_statement", "0"),
];

/// Waits for the worker's next transaction after `before`, and returns when the last one ended.
fn next_change(observer: &mut Client, pid: i32, before: DateTime<Utc>) -> DateTime<Utc> {
    let mut changed = before;
    wait_until(PATIENCE, "the worker's next look", || {
        changed = last_change(observer, pid);
        changed > before
    });
    // One look is several transactions.
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let again = last_change(observer, pid);
        if again == changed {
            return changed;
        }
        changed = again;
    }
}

#[test]
fn a_worker_without_work_looks_every_ten_seconds_and_says_nothing() {
    let Scene { mut client, cluster, stub } = start_with(echo, &QUIET);
    let pid = worker(&mut client, DATABASE);
    drop(client);
    let mut observer = cluster.connect("postgres");
    let start = last_change(&mut observer, pid);
    let first = next_change(&mut observer, pid, start);
    let seen_launcher = launcher(&mut observer);
    let launched = last_change(&mut observer, seen_launcher);
    let (commits, log) = (commits(&mut observer), cluster.log());
    let second = next_change(&mut observer, pid, first);
    let pause = second.signed_duration_since(first).num_milliseconds();
    assert!(pause >= 8000, "it looked after {pause} ms");
    let used = self::commits(&mut observer) - commits;
    // One for each kind of job, and what all share.
    assert!(used <= 13, "{used} transactions in one look");
    assert_eq!(last_change(&mut observer, seen_launcher), launched, "the launcher did something");
    let written = cluster.log();
    for writer in [pid, seen_launcher] {
        let marked = format!("[{writer}]");
        let lines: Vec<&str> = written
            .lines()
            .skip(log.lines().count())
            .filter(|line| line.contains(&marked))
            .collect();
        assert_eq!(lines, [""; 0]);
    }
    assert_eq!(stub.call_count(), 0);
    println!("an idle worker: {used} transactions every {pause} ms");
}

fn commits(observer: &mut Client) -> i64 {
    let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
    value(observer, sql, &[&DATABASE])
}

#[test]
fn a_commit_wakes_the_worker_at_once() {
    let mut scene = start_with(echo, &QUIET);
    worker(&mut scene.client, DATABASE);
    scene.say_and_wait("The first call loads what is needed.");
    let mut fastest = Duration::MAX;
    for round in 0..3 {
        let started = Instant::now();
        scene.say_and_wait(&format!("Round {round}."));
        fastest = fastest.min(started.elapsed());
    }
    assert_eq!(scene.facts().len(), 4);
    // The look that needs no waking comes after ten seconds, five on average.
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
    println!("from ingest to stored facts: {fastest:?}");
}

#[test]
fn a_transaction_wakes_the_worker_when_it_commits_and_not_before() {
    let mut scene = start_with(echo, &QUIET);
    let pid = worker(&mut scene.client, DATABASE);
    scene.say_and_wait("The first call loads what is needed.");
    let mut observer = scene.cluster.connect("postgres");
    let mut looks = 0;
    let mut last = next_change(&mut observer, pid, DateTime::<Utc>::MIN_UTC);
    let started = Instant::now();
    for _ in 0..20 {
        run(&mut scene.client, "BEGIN; SELECT memory_ingest('s', 'user', 'Taken back.'); ROLLBACK");
        let now = last_change(&mut observer, pid);
        looks += u32::from(now != last);
        last = now;
    }
    let mut transaction = scene.client.transaction().expect("a transaction");
    for number in 0..20 {
        let text = format!("Sentence {number}.");
        transaction.execute("SELECT memory_ingest('s', 'user', $1)", &[&text]).expect("ingest");
        let now = last_change(&mut observer, pid);
        looks += u32::from(now != last);
        last = now;
    }
    let by_itself = started.elapsed().as_secs() as u32 / 10 + 1;
    assert!(looks <= by_itself, "{looks} looks in {:?}", started.elapsed());
    assert_eq!(scene.stub.call_count(), 1);
    transaction.commit().expect("COMMIT");
    scene.drain();
    assert_eq!(scene.facts().len(), 21);
    let jobs: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.jobs WHERE kind = 'extract' AND interrupted = 0",
        &[],
    );
    assert!(jobs <= 4, "{jobs} jobs for twenty turns of one transaction");
}

/// A prepared transaction has nobody to wake the worker: it finds the jobs itself.
#[test]
fn jobs_of_a_prepared_transaction_are_found() {
    let mut settings = QUIET.to_vec();
    settings.push(("max_prepared_transactions", "2"));
    let mut scene = start_with(echo, &settings);
    worker(&mut scene.client, DATABASE);
    run(
        &mut scene.client,
        "BEGIN; SELECT memory_ingest('s', 'user', 'I live in Oslo.'); PREPARE TRANSACTION 'turn'",
    );
    assert!(
        value::<bool>(&mut scene.client, "SELECT memory_wait('1 s')", &[]),
        "nobody sees it yet"
    );
    run(&mut scene.client, "COMMIT PREPARED 'turn'");
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}
