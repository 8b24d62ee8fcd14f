//! Recalls while the reranker has more to do than it can: all are answered, each is read as far as `rerank_rows` says or
//! not at all, and `memory_explain` and `memory_status()` tell which.

use super::assert_close;
use super::common::slow::Slow;
use memory_agent_e2e::memory::{explain, recall, run, value};
use memory_agent_e2e::{Client, Cluster, Database, Json, json, retry_until};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);
const CONNECTIONS: usize = 32;
/// Reranks that hold the reranker: more than may wait or run beside others.
const HOLDERS: usize = 10;
/// Recalls without a reranker before a test has seen enough.
const ENOUGH: u64 = 30;
/// Days that were talked about; each is a candidate of every question.
const DAYS: usize = 40;
const BUSY: &str = "skipped: the reranker is busy";
const READ: &str = "ms-marco-MiniLM-L-12-v2";

/// A question that nobody asked yet, at a time of its own, so that no row grows older between two of them.
fn question() -> String {
    static ASKED: AtomicU64 = AtomicU64::new(1_000);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    format!("'What did the harvest of orchard {number} cost in all?', as_of => '2025-06-01'")
}

fn two_threads() -> Cluster {
    Cluster::builder().preload(true).setting("memory_agent.inference_threads", 2).start()
}

fn remember(client: &mut Client) {
    let turns: Vec<Json> = (0..DAYS)
        .map(|n| {
            let text = format!(
                "On day {n} the harvest of the orchard cost {} in all, with {n} helpers.",
                7 * n
            );
            json!({"role": "user", "content": text, "created_at": "2025-05-01"})
        })
        .collect();
    client.execute("SELECT memory_ingest_batch($1, 's')", &[&Json::from(turns)]).unwrap();
}

/// How many reranks were refused so far, as `memory_status()` counts.
fn refused(client: &mut Client) -> u64 {
    let detail: String =
        value(client, "SELECT detail FROM memory_status() WHERE component = 'model server'", &[]);
    let count = detail.split(", ").find_map(|part| part.strip_suffix(" reranks refused"));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{detail}"))
}

/// What became of reranking, and how many rows were read.
fn reading(document: &Json) -> (&str, usize) {
    let candidates = document["candidates"].as_array().unwrap();
    let read = candidates.iter().filter(|row| row["logit"].is_number()).count();
    assert_eq!(document["rows"]["reranked"], read, "{document}");
    (document["reranking"].as_str().unwrap(), read)
}

#[test]
fn beside_a_full_queue_all_recalls_go_on_without_the_reranker() {
    let cluster = two_threads();
    let database = cluster.database("busy");
    let mut client = database.connect();
    remember(&mut client);
    let rows: String = value(&mut client, "SHOW memory_agent.rerank_rows", &[]);
    let all = (READ, rows.parse().unwrap());
    for _ in 0..10 {
        assert_eq!(reading(&explain(&mut client, &question())), all, "alone");
    }
    assert_eq!(refused(&mut client), 0);

    std::thread::scope(|scope| {
        let tokens: Vec<_> = (0..HOLDERS)
            .map(|_| {
                let mut holder = database.connect();
                let token = holder.cancel_token();
                scope.spawn(move || holder.batch_execute(&Slow::Rerank.statement()));
                token
            })
            .collect();
        // A panic before they end would wait for them.
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            beside_holders(&database, &mut client);
        }));
        tokens.iter().for_each(|token| token.cancel_query(postgres::NoTls).unwrap());
        seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    retry_until(PATIENCE, "a recall that is read again", || {
        (reading(&explain(&mut client, &question())) == all).then_some(())
    });
    // memory_explain and memory_status() said so, and no message of each call.
    let log = cluster.log();
    let is_of_reranks = |line: &&str| line.contains("WARNING:") && line.contains("rerank");
    assert_eq!(log.lines().filter(is_of_reranks).count(), 0, "{log}");
}

fn beside_holders(database: &Database<'_>, client: &mut Client) {
    retry_until(PATIENCE, "the queue to be full", || {
        (reading(&explain(client, &question())) == (BUSY, 0)).then_some(())
    });
    let before = refused(client);
    let documents: Vec<(String, Json)> = std::thread::scope(|scope| {
        let ask = || {
            let mut client = database.connect();
            let question = question();
            let document = explain(&mut client, &question);
            assert_eq!(recall(&mut client, &question).len(), 5);
            (question, document)
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(refused(client) - before, 2 * CONNECTIONS as u64, "each is counted once");
    for (question, document) in &documents {
        assert_eq!(reading(document), (BUSY, 0));
        let without = explain(client, &format!("{question}, rerank => false"));
        let pairs = |document: &Json| -> Vec<(String, f64)> {
            let rows = document["candidates"].as_array().unwrap().iter();
            rows.map(|row| (row["id"].to_string(), row["score"].as_f64().unwrap())).collect()
        };
        for (found, expected) in pairs(document).into_iter().zip(pairs(&without)) {
            assert_eq!(found.0, expected.0, "{question}");
            assert_close(found.1, expected.1);
        }
    }
    // What is asked for itself waits for its turn.
    let scores: Vec<f32> = value(client, "SELECT memory_rerank('Who?', '{Ada}')", &[]);
    assert_eq!(scores.len(), 1);
}

#[test]
fn many_at_once_are_read_whole_or_not_at_all() {
    let cluster = two_threads();
    let database = cluster.database("crowd");
    let mut client = database.connect();
    remember(&mut client);
    run(&mut client, "SELECT memory_rerank('a', '{b}')");
    let (begin, stop) = (Barrier::new(CONNECTIONS), AtomicBool::new(false));
    let documents: Vec<Json> = std::thread::scope(|scope| {
        let ask = || {
            let mut client = database.connect();
            begin.wait();
            let mut documents = Vec::new();
            // Each at least a few times, so that none is left out.
            while !stop.load(Ordering::Relaxed) || documents.len() < 3 {
                documents.push(explain(&mut client, &format!("{}, rerank_rows => 12", question())));
            }
            documents
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        let started = Instant::now();
        // Without a panic before the threads have ended, or they would never end.
        while refused(&mut client) < ENOUGH && started.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let without = documents.iter().filter(|document| reading(document) == (BUSY, 0)).count();
    let read = documents.iter().filter(|document| reading(document) == (READ, 12)).count();
    assert_eq!(without + read, documents.len(), "{without} without, {read} with a reranker");
    assert!(read > 0 && without >= ENOUGH as usize, "{without} without, {read} with a reranker");
    assert_eq!(refused(&mut client), without as u64);
}
