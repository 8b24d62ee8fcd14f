//! Recalls that come together: each reads as much as its share of the budget, all get rows, and what a row's
//! relevance means does not change. `memory_explain` and `memory_status()` say what was left out.

use super::assert_close;
use memory_agent_e2e::memory::{explain, recall, run, value};
use memory_agent_e2e::{Client, Cluster, Database, Json, Uuid, json, retry_until};
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);
const CONNECTIONS: usize = 32;
/// Recalls that are cut short before a test has seen enough.
const ENOUGH: u64 = 30;
/// Days that were talked about; each is a candidate of every question.
const DAYS: usize = 60;
/// At a time of its own, so that no row grows older between two questions.
const AS_OF: &str = "as_of => '2025-06-01'";

/// No two questions share a pair that is remembered, nor does one cost more than another by some tokens.
fn question(number: u64) -> String {
    format!("'What did the harvest of orchard {} cost in all?', {AS_OF}", 1_000 + number)
}

/// How many rows were read, out of which pool, and why not the others.
fn reading(document: &Json) -> (i64, i64, Option<String>) {
    let count = |name: &str| document["rows"][name].as_i64().unwrap();
    let reason = document["rerank_shortened_by"].as_str().map(str::to_owned);
    (count("reranked"), count("pool"), reason)
}

fn detail(client: &mut Client, component: &str) -> String {
    value(client, "SELECT detail FROM memory_status() WHERE component = $1", &[&component])
}

/// How many recalls were shortened by load or the clock, as `memory_status()` counts.
fn cut_short(client: &mut Client) -> u64 {
    let detail = detail(client, "model server");
    let count = detail.split(", ").find_map(|part| part.strip_suffix(" reranks cut short by load"));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{detail}"))
}

/// Asks a question nobody asked yet until the machine is so idle that the clock has no say.
fn explain_alone(client: &mut Client, asked: &AtomicU64) -> Json {
    retry_until(PATIENCE, "a rerank that the clock does not end", || {
        let document = explain(client, &question(asked.fetch_add(1, Ordering::Relaxed)));
        (document["rerank_shortened_by"] != "clock").then_some(document)
    })
}

/// The least power of two in milliseconds in which one recall alone reads all of its pool. Until then the
/// budget is what stops it, and each time it reads no less.
fn least_budget(client: &mut Client, asked: &AtomicU64) -> i64 {
    let mut before = 0;
    for budget in (0..13).map(|power| 1 << power) {
        run(client, &format!("SET memory_agent.rerank_budget = {budget}"));
        let (read, pool, reason) = reading(&explain_alone(client, asked));
        assert!(read >= before.max(1), "{read} rows in {budget} ms, {before} in half of it");
        before = read;
        match reason.as_deref() {
            None => {
                assert_eq!(read, pool);
                return budget;
            }
            Some(reason) => assert_eq!((reason, read < pool), ("budget", true), "{budget} ms"),
        }
    }
    panic!("a pool of {before} rows and more is not read in eight seconds");
}

/// Asks on all connections without pause, each question once, until `is_enough`; the answers of `ask`.
fn together<T: Send>(
    database: &Database<'_>,
    asked: &AtomicU64,
    settings: &str,
    ask: impl Fn(&mut Client, u64) -> T + Sync,
    mut is_enough: impl FnMut() -> bool,
) -> Vec<T> {
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| database.connect()).collect();
    clients.iter_mut().for_each(|client| run(client, settings));
    let (begin, stop) = (Barrier::new(CONNECTIONS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (begin, stop, ask) = (&begin, &stop, &ask);
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || {
                    begin.wait();
                    let mut answers = Vec::new();
                    // Each at least a few times, so that none is left out.
                    while !stop.load(Ordering::Relaxed) || answers.len() < 3 {
                        answers.push(ask(&mut client, asked.fetch_add(1, Ordering::Relaxed)));
                    }
                    answers
                })
            })
            .collect();
        let started = Instant::now();
        // Without a panic before the threads have ended, or they would never end.
        while !is_enough() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Relevance and whether it was read, of each row of the pool.
fn pool(document: &Json) -> HashMap<Uuid, (f64, bool)> {
    let candidates = document["candidates"].as_array().unwrap().iter();
    candidates
        .filter_map(|row| {
            let id = row["id"].as_str().unwrap().parse().unwrap();
            Some((id, (row["relevance"].as_f64()?, !row["logit"].is_null())))
        })
        .collect()
}

#[test]
fn many_at_once_read_less_and_all_say_the_same_of_a_row() {
    let cluster = Cluster::builder().preload(true).start();
    let database = cluster.database("company");
    let mut client = database.connect();
    let turns: Vec<Json> = (0..DAYS)
        .map(|n| {
            let text = format!(
                "On day {n} the harvest of the orchard cost {} in all, with {n} helpers from the village, two \
                 carts, and the long way around the hill because the bridge was closed again.",
                7 * n
            );
            json!({"role": "user", "content": text, "created_at": "2025-05-01"})
        })
        .collect();
    client.execute("SELECT memory_ingest_batch($1, 's')", &[&Json::from(turns)]).unwrap();
    let asked = AtomicU64::new(0);

    // One recall after the other: the budget is what stops it, if anything does.
    let least = least_budget(&mut client, &asked);
    // Twice of what one needs, and less than half of it for each of those that come together.
    let budget = format!("SET memory_agent.rerank_budget = {}", 2 * least);
    run(&mut client, &budget);
    let alone = explain_alone(&mut client, &asked);
    assert_eq!(alone["ranking"], "learned");
    let (read, pool_size, reason) = reading(&alone);
    assert_eq!((read, reason), (pool_size, None), "alone");
    let shown = detail(&mut client, "reranker");
    assert!(
        shown.contains(&format!("in the {} ms of memory_agent.rerank_budget", 2 * least)),
        "{shown}"
    );

    // Together: it is said of each that was cut short, and of no other.
    let before = cut_short(&mut client);
    let documents = together(
        &database,
        &asked,
        &budget,
        |client, number| (number, explain(client, &question(number))),
        || cut_short(&mut client) >= before + ENOUGH,
    );
    let mut cut = Vec::new();
    for (number, document) in &documents {
        let (read, pool_size, reason) = reading(document);
        match reason.as_deref() {
            None => assert_eq!(read, pool_size, "{number}"),
            Some("load" | "clock") => {
                assert!(read < pool_size, "{number}: {read}");
                cut.push((*number, document));
            }
            Some(reason) => panic!("{number}: {reason}, though the budget has room for all"),
        }
    }
    // A share may be less than one row costs, but not everybody's is.
    assert!(documents.iter().any(|(_, document)| reading(document).0 > 0), "nothing was read");
    let by_load = cut.iter().filter(|(_, document)| document["rerank_shortened_by"] == "load");
    assert!(by_load.count() > 0, "only the clock cut {} short", cut.len());
    assert!(cut.len() >= ENOUGH as usize, "{} of {} were cut short", cut.len(), documents.len());
    assert_eq!(cut_short(&mut client) - before, cut.len() as u64, "each is counted once");
    run(&mut client, "SET memory_agent.rerank_budget = 0");
    for (number, document) in cut.into_iter().take(12) {
        expect_same_scale(&mut client, number, document);
    }

    // Together: answered.
    let before = cut_short(&mut client);
    let answers = together(
        &database,
        &asked,
        &budget,
        |client, number| recall(client, &question(number)),
        || cut_short(&mut client) >= before + ENOUGH,
    );
    for rows in &answers {
        assert_eq!(rows.len(), 5, "{rows:?}");
        assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row.relevance)), "{rows:?}");
        assert!(rows.is_sorted_by(|a, b| a.score >= b.score), "{rows:?}");
    }
    let cut = cut_short(&mut client) - before;
    assert!((ENOUGH..=answers.len() as u64).contains(&cut), "{cut} of {}", answers.len());

    // Alone again, and what was said of the others is said no more.
    run(&mut client, &budget);
    retry_until(PATIENCE, "a recall that has no company", || {
        let before = cut_short(&mut client);
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let (read, pool_size, reason) = reading(&explain(&mut client, &question(number)));
        let is_alone = reason.is_none();
        assert_eq!(read == pool_size, is_alone, "{read} of {pool_size}, {reason:?}");
        assert_eq!(cut_short(&mut client) - before, u64::from(!is_alone), "{reason:?}");
        is_alone.then_some(())
    });
    // memory_explain and memory_status() said so, and no message of each call.
    let log = cluster.log();
    let is_of_reranks = |line: &&str| line.contains("WARNING:") && line.contains("rerank");
    let warnings: Vec<&str> = log.lines().filter(is_of_reranks).collect();
    assert_eq!(warnings, Vec::<&str>::new());
}

/// Whatever else of the pool was read, a row that was read has the relevance that it has when all are, and one
/// that was not has the relevance that it has when none is; of those that had a share, the most probable ones were read.
fn expect_same_scale(client: &mut Client, number: u64, document: &Json) {
    let question = question(number);
    let all = pool(&explain(client, &question));
    let none = pool(&explain(client, &format!("{question}, rerank => false")));
    let (mut least_read, mut most_unread) = (f64::INFINITY, 0.0_f64);
    for (id, (relevance, is_read)) in pool(document) {
        let expected = if is_read { all[&id] } else { none[&id] };
        assert_eq!(expected.1, is_read, "{number}");
        assert_close(relevance, expected.0);
        let beforehand = none[&id].0;
        if is_read {
            least_read = least_read.min(beforehand);
        } else {
            most_unread = most_unread.max(beforehand);
        }
    }
    // The clock leaves unread what was to run last, the shortest rows.
    if document["rerank_shortened_by"] == "load" {
        assert!(
            most_unread <= least_read,
            "{number}: {most_unread} was not read, {least_read} was"
        );
    }
    for row in document["candidates"].as_array().unwrap() {
        if let (Some(score), Some(relevance)) = (row["score"].as_f64(), row["relevance"].as_f64()) {
            assert_close(score, relevance);
        }
    }
}
