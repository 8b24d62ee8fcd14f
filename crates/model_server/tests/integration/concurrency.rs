//! Many clients at once, for a long time: right answers, fair times, constant memory.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use memory_agent_model_server::protocol::{Purpose, Request};
use memory_agent_model_server::{Engine, EngineOptions};

use crate::common::{
    Server, embed_request, embedder, logits, onnxruntime, rerank_request, reranker, text,
};

#[test]
fn thirty_two_clients_get_their_own_answers_in_fair_times() {
    const CLIENTS: usize = 32;
    const ROUNDS: usize = 3;
    let engine =
        Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 1 }).unwrap();
    let pool: Vec<String> = (0..CLIENTS * ROUNDS).map(|seed| text(seed, 8 + seed % 16)).collect();
    let borrowed: Vec<&str> = pool.iter().map(String::as_str).collect();
    let query = "Who moved?";
    let expected =
        engine.rerank(&reranker(), query, &borrowed, &mut || ControlFlow::Continue(())).unwrap();

    // Without the cache, which would answer almost all.
    let server = Server::start_with(&["--cache-entries", "0"]);
    server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (server, pool, expected) = (&server, &pool, &expected);
                scope.spawn(move || {
                    let mut client = server.connect();
                    let started = Instant::now();
                    for round in 0..ROUNDS {
                        let picks: Vec<usize> =
                            (0..6).map(|n| (number * ROUNDS + round + n) % pool.len()).collect();
                        let documents: Vec<String> =
                            picks.iter().map(|pick| pool[*pick].clone()).collect();
                        // Different for each: requests alike are run once.
                        let request = rerank_request(query, &documents);
                        let scores = logits(client.call(&request).unwrap());
                        for (score, pick) in scores.iter().zip(&picks) {
                            assert!((score - expected[*pick]).abs() < 1e-3);
                        }
                    }
                    started.elapsed()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*most < *least * 3, "between {least:?} and {most:?}");
    assert_eq!(server.status().sequences, (CLIENTS * ROUNDS * 6) as u64);
}

#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    let server = Server::start();
    let mut client = server.connect();
    let mut mixed = |number: usize| {
        let request = match number % 4 {
            0 => embed_request(Purpose::Query, &[&text(number, 3 + number % 20)]),
            1 => embed_request(Purpose::Document, &[&text(number, 5 + number * 7 % 150)]),
            2 => rerank_request(
                &text(number, 6),
                &[text(number + 1, 5 + number % 50), text(number + 2, 30)],
            ),
            _ => Request::Prepare {
                model: None,
                purpose: Purpose::Document,
                texts: Vec::new(),
                token_texts: vec![text(number, number * 11 % 5000)],
            },
        };
        client.call(&request).unwrap();
    };
    (0..500).for_each(&mut mixed);
    let early = server.status().resident_bytes;
    (500..2000).for_each(&mut mixed);
    let late = server.status().resident_bytes;
    // The caches hold up to a few megabytes more.
    assert!(late as f64 <= early as f64 * 1.1, "{early} bytes grew to {late}");
}

#[test]
fn the_memory_of_a_long_sequence_is_given_back() {
    let server = Server::start();
    let mut client = server.connect();
    let mut resident_after = |words: usize, seed: usize| {
        client.call(&embed_request(Purpose::Document, &[&text(seed, words)])).unwrap();
        client.call(&rerank_request("Who moved?", &[text(seed, words)])).unwrap();
        server.status().resident_bytes / 1_000_000
    };
    let before = resident_after(20, 1);
    let long = resident_after(500, 2);
    assert!(long > before + 20, "{before} MB, {long} MB");
    // The runs of these give back what the long ones took.
    let after = resident_after(20, 3);
    assert!(after < before + 10, "{before} MB, {long} MB, {after} MB");
}

#[test]
fn an_idle_server_uses_no_processor_time() {
    let server = Server::start();
    let mut client = server.connect();
    client.call(&embed_request(Purpose::Query, &["Who moved?"])).unwrap();
    client.call(&Request::Describe { model: embedder() }).unwrap();
    // Planning threads end after ten idle seconds; that is their last sign of life.
    std::thread::sleep(Duration::from_millis(500));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // User and system time in hundredths of a second.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    assert!(ticks() - before <= 1, "{} ticks in 3 s", ticks() - before);
}
