//! Reranks that come together: which of them are refused, and what is run once.

use memory_agent_model_server::protocol::{Purpose, Request, Response};

use crate::common::{
    Server, embed_request, logits, rerank_request, rerank_unless_busy, reranker, text, wait_until,
};

fn documents(count: usize, words: usize) -> Vec<String> {
    (0..count).map(|seed| text(seed, words)).collect()
}

/// Whether a rerank that does not wait was carried out.
fn is_carried_out(server: &Server, seed: usize) -> bool {
    let documents = [text(seed, 10), text(seed + 1, 10)];
    let response = server.connect().call(&rerank_unless_busy("Who moved?", &documents)).unwrap();
    let Response::Logits(scores) = response else { panic!("{response:?}") };
    scores.inspect(|scores| assert_eq!(scores.len(), 2)).is_some()
}

#[test]
fn a_rerank_that_does_not_wait_is_refused_among_many() {
    let server = Server::start_with(&["--threads", "1"]);
    server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    assert!(is_carried_out(&server, 0), "alone");
    // Bulk, which takes seconds.
    let mut busy: Vec<_> = ["Who waits?", "Who waits longer?"]
        .map(|query| (server.connect(), rerank_request(query, &documents(400, 60))))
        .into_iter()
        .map(|(mut client, request)| {
            client.send(&request).unwrap();
            client
        })
        .collect();
    wait_until("both to be under way", || server.status().queue_items > 400);
    assert!(!is_carried_out(&server, 10));
    let status = server.status();
    assert_eq!((status.reranks_refused, status.rejected), (1, 0));
    assert!(status.queue_items > 0, "it did not wait");
    // Everything else has its turn.
    let waiting = rerank_request("Who moved?", &documents(3, 10));
    assert_eq!(logits(server.connect().call(&waiting).unwrap()).len(), 3);
    server.connect().call(&embed_request(Purpose::Query, &["Who moved?"])).unwrap();
    assert_eq!(server.status().reranks_refused, 1);
    // Who leaves makes room.
    busy.pop();
    wait_until("a place", || is_carried_out(&server, 20));
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
