//! Reranks within a budget: what is scored, with company and without.

use memory_agent_model_server::protocol::{Request, Response, Scores, Shortened};

use crate::common::{
    Server, logits, rerank_request, rerank_within, reranker, scores, text, wait_until,
};

/// Longer than any test takes, in milliseconds: its clock never ends anything.
const AMPLE: u32 = 60_000;

fn documents(count: usize, words: usize) -> Vec<String> {
    (0..count).map(|seed| text(seed, words)).collect()
}

/// How many were scored: the first ones.
fn scored(scores: &Scores) -> usize {
    let count = scores.logits.iter().flatten().count();
    assert!(scores.logits[..count].iter().all(Option::is_some), "{scores:?}");
    count
}

/// A server with the reranker loaded, and the tokens it reads in a millisecond.
fn server_and_speed(options: &[&str]) -> (Server, f64) {
    let server = Server::start_with(options);
    let described = server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    let Response::Description(description) = described else { panic!("{described:?}") };
    assert!(description.tokens_per_second > 0);
    (server, f64::from(description.tokens_per_second) / 1000.0)
}

#[test]
fn a_budget_scores_the_first_ones_and_always_as_many() {
    let (server, tokens_per_ms) = server_and_speed(&[]);
    let mut client = server.connect();
    let documents = documents(40, 40);
    let all = logits(client.call(&rerank_request("Who moved?", &documents)).unwrap());
    let mut ask =
        |budget| scores(client.call(&rerank_within(budget, "Who moved?", &documents)).unwrap());

    let least = ask(1);
    assert!((1..40).contains(&scored(&least)));
    assert_eq!(least.shortened, Some(Shortened::Budget));
    let most = ask(AMPLE);
    assert_eq!((scored(&most), most.shortened), (40, None));

    // Some 45 tokens each: half of them.
    let half = (40.0 * 45.0 / 2.0 / tokens_per_ms).ceil() as u32;
    let some = ask(half);
    assert!((10..=30).contains(&scored(&some)), "{} in {half} ms", scored(&some));
    assert_eq!(some.shortened, Some(Shortened::Budget));
    for (logit, expected) in some.logits.iter().flatten().zip(&all) {
        assert_eq!(logit, expected);
    }
    // Whether the scores are remembered makes no difference.
    client.call(&Request::FlushCaches).unwrap();
    let mut ask =
        |budget| scores(client.call(&rerank_within(budget, "Who moved?", &documents)).unwrap());
    assert_eq!(ask(half), some);
    assert_eq!(ask(half), some);
    let status = server.status();
    assert_eq!((status.shortened_by_load, status.shortened_by_clock), (0, 0));
}

#[test]
fn reranks_that_come_together_share() {
    let (server, tokens_per_ms) = server_and_speed(&[]);
    let mut busy = server.connect();
    // Bulk, which takes seconds.
    busy.send(&rerank_request("Who waits?", &documents(800, 60))).unwrap();
    wait_until("the others to be under way", || server.status().queue_items > 0);

    let mut client = server.connect();
    let documents = documents(40, 40);
    let request = rerank_within(AMPLE, "Who moved?", &documents);
    let alone = scores(client.call(&request).unwrap());
    assert_eq!((scored(&alone), alone.shortened), (40, None), "a share of that budget is ample");

    // A budget for half of them, of which it gets a part now. The clock runs as well.
    let half = (40.0 * 45.0 / 2.0 / tokens_per_ms).ceil() as u32;
    wait_until("its share to be less", || {
        client.call(&Request::FlushCaches).unwrap();
        let some = scores(client.call(&rerank_within(half, "Who moved?", &documents)).unwrap());
        some.shortened == Some(Shortened::Load) && (1..15).contains(&scored(&some))
    });
    assert!(server.status().shortened_by_load > 0);
}

#[test]
fn the_clock_ends_what_waits_too_long() {
    let (server, _) = server_and_speed(&[]);
    // As urgent as a single short pair, and so long that none shares a run with it: seconds of work.
    let mut busy: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for seed in 0..300 {
        busy[seed % 6].send(&rerank_request("Who waits?", &[text(seed, 400)])).unwrap();
    }
    wait_until("the others to be under way", || server.status().queue_items > 200);
    let ask = |needs_first| {
        let documents = vec![text(7, 10)];
        let (model, query) = (reranker(), "Who moved?".to_owned());
        let request = Request::Rerank { model, query, documents, budget: 1, needs_first };
        let cut = scores(server.connect().call(&request).unwrap());
        (scored(&cut), cut.shortened)
    };
    assert_eq!(ask(false), (0, Some(Shortened::Load)), "a share of a millisecond has no room");
    // With room for the first pair only the clock is left.
    assert_eq!(ask(true), (0, Some(Shortened::Clock)));
    assert_eq!(server.status().shortened_by_clock, 1);
}

#[test]
fn requests_alike_are_run_once() {
    let server = Server::start_with(&["--cache-entries", "0"]);
    let mut client = server.connect();
    client.call(&Request::Describe { model: reranker() }).unwrap();
    let before = server.status().sequences;
    let request = rerank_request("Who moved?", &documents(60, 60));
    let ids: Vec<u64> = (0..4).map(|_| client.send(&request).unwrap()).collect();
    let answers: Vec<Response> = ids.iter().map(|_| client.receive().unwrap().1).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(logits(answers[0].clone()).len(), 60);
    assert_eq!(server.status().sequences - before, 60);
}
