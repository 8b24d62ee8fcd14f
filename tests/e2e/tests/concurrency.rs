//! Many connections at once, for as long as `MEMORY_AGENT_LOAD_SECONDS` says (15; 60 is what the
//! project promises): no error, no WARNING, fair shares, and no memory that grows with time.

mod common;

use common::Session;
use memory_agent_e2e::{Cluster, Json, json, shared, wait_until};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const READERS: usize = 32;
const WRITERS: usize = 2;
/// Recalls of all readers that a run has to see, however slow the machine, to say what is fair.
const LEAST_RECALLS: u64 = 4 * READERS as u64;
const SUBJECTS: [&str; 8] = [
    "the garden",
    "a train journey",
    "green curry",
    "the budget",
    "a broken bicycle",
    "piano lessons",
    "the dog",
    "rent",
];

/// Private memory of a process that every call leaves a little behind would grow by much more.
const GROWTH_OF_A_BACKEND_KB: u64 = 2048;
/// The model server's caches fill during the run: some 100 bytes a pair, 2 kB a question.
const GROWTH_OF_THE_SERVER_KB: u64 = 24 * 1024;

/// What one connection did.
struct Share {
    pid: i32,
    completed: u64,
    longest: Duration,
    warnings: usize,
}

/// Resident private memory at one moment.
struct Memory {
    backends: Vec<u64>,
    server: u64,
}

#[test]
fn many_connections_share_fairly_and_leak_nothing() {
    let seconds = std::env::var("MEMORY_AGENT_LOAD_SECONDS")
        .map_or(15, |seconds| seconds.parse().expect("MEMORY_AGENT_LOAD_SECONDS is a number"));
    let cluster = shared();
    let mut session = Session::with_memories(cluster, "load");
    let turns: Vec<Json> = (0..400)
        .map(|n| {
            let subject = SUBJECTS[n % SUBJECTS.len()];
            json!({"role": "user", "content": format!("On day {n} {subject} cost {} in all.", n * 7)})
        })
        .collect();
    session.client.execute("SELECT memory_ingest_batch($1, 's')", &[&Json::from(turns)]).unwrap();
    let (shares, memory) = load(cluster, Duration::from_secs(seconds));
    let (readers, writers) = shares.split_at(READERS);

    let total: u64 = readers.iter().map(|share| share.completed).sum();
    let longest = readers.iter().map(|share| share.longest).max().unwrap();
    let mut completed: Vec<u64> = readers.iter().map(|share| share.completed).collect();
    completed.sort_unstable();
    let median = completed[completed.len() / 2];
    println!(
        "{READERS} connections in {seconds} s: {total} recalls, {} ingests; per connection {} to {}, median {median}; \
         slowest call {longest:?}",
        writers.iter().map(|share| share.completed).sum::<u64>(),
        completed[0],
        completed[READERS - 1],
    );
    assert!(shares.iter().all(|share| share.warnings == 0), "some calls went on without models");
    assert!(writers.iter().all(|share| share.completed > 0), "the readers starved ingest");
    assert!(completed[0] * 3 >= median, "unfair: {completed:?}");

    let [early, late] = memory;
    println!("kB of the model server: {} then {}", early.server, late.server);
    println!("kB of the backends: {:?} then {:?}", early.backends, late.backends);
    assert!(late.server <= early.server + GROWTH_OF_THE_SERVER_KB, "the model server grows");
    for (early, late) in early.backends.iter().zip(&late.backends) {
        assert!(
            late <= &(early + GROWTH_OF_A_BACKEND_KB),
            "a backend grows: {early} kB, then {late} kB"
        );
    }
}

/// Runs readers and writers for so long, longer on a slow machine; what each did, and the memory at a
/// third of it and at the end.
fn load(cluster: &Cluster, duration: Duration) -> (Vec<Share>, [Memory; 2]) {
    let sessions: Vec<Session> =
        (0..READERS + WRITERS).map(|_| Session::open(cluster, "load")).collect();
    let backends: Vec<i32> = sessions.iter().map(|session| session.pid).collect();
    let (begin, stop) = (Barrier::new(sessions.len() + 1), AtomicBool::new(false));
    let (asked, said) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(index, session)| {
                let (begin, stop, asked, said) = (&begin, &stop, &asked, &said);
                scope.spawn(move || {
                    begin.wait();
                    if index < READERS {
                        recall(session, stop, asked)
                    } else {
                        ingest(session, stop, said)
                    }
                })
            })
            .collect();
        begin.wait();
        std::thread::sleep(duration / 3);
        let early = memory_of(cluster, &backends);
        std::thread::sleep(duration - duration / 3);
        wait_until(10 * duration, "enough recalls", || {
            asked.load(Ordering::Relaxed) >= LEAST_RECALLS
        });
        let late = memory_of(cluster, &backends);
        stop.store(true, Ordering::Relaxed);
        let shares: Vec<Share> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(shares.iter().map(|share| share.pid).collect::<Vec<_>>(), backends);
        (shares, [early, late])
    })
}

/// Recalls with the reranker. Every question is a new one, so that no cache answers it.
fn recall(session: Session, stop: &AtomicBool, asked: &AtomicU64) -> Share {
    repeat(session, stop, |session| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let subject = SUBJECTS[number as usize % SUBJECTS.len()];
        let rows = session.recall(&format!("What did {subject} cost on day {number}?")).unwrap();
        assert!(rows.iter().all(|row| row.similarity.is_some()) && !rows.is_empty(), "{rows:?}");
    })
}

fn ingest(session: Session, stop: &AtomicBool, said: &AtomicU64) -> Share {
    repeat(session, stop, |session| {
        let number = said.fetch_add(1, Ordering::Relaxed);
        session.remember(&format!("Later, for the {number}th time, rent came up again.")).unwrap();
    })
}

/// Calls `call` until it is told to stop.
fn repeat(mut session: Session, stop: &AtomicBool, mut call: impl FnMut(&mut Session)) -> Share {
    let (mut completed, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        call(&mut session);
        longest = longest.max(start.elapsed());
        completed += 1;
    }
    let warnings = session.take_warnings().len();
    Share { pid: session.pid, completed, longest, warnings }
}

fn memory_of(cluster: &Cluster, backends: &[i32]) -> Memory {
    Memory {
        backends: backends.iter().map(|&pid| private_kb(pid)).collect(),
        server: private_kb(cluster.model_server_pid()),
    }
}

/// Anonymous resident memory: what no other process shares.
fn private_kb(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let value =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or later");
    value.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}
