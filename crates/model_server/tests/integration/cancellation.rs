//! A client that leaves costs no more than the sequences that are running.

use memory_agent_model_server::protocol::{Purpose, Request};

use crate::common::{Server, embed_request, embedder, rerank_request, reranker, text, wait_until};

#[test]
fn leaving_takes_the_request_out_of_the_queue() {
    let server = Server::start();
    server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    let documents: Vec<String> = (0..500).map(|seed| text(seed, 200)).collect();
    let mut client = server.connect();
    client.send(&rerank_request("Who moved?", &documents)).unwrap();
    wait_until("the request is queued", || server.status().queue_items > 400);
    drop(client);
    wait_until("the queue is empty", || server.status().queue_items == 0);
    wait_until("the bytes are free", || server.status().queue_bytes <= 1);
    assert!(server.status().sequences < 100);
}

#[test]
fn a_question_does_not_wait_for_a_bulk_request() {
    let server = Server::start();
    let mut bulk = server.connect();
    let mut client = server.connect();
    client.call(&Request::Describe { model: embedder() }).unwrap();
    let texts: Vec<String> = (0..1000).map(|seed| text(seed, 60)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    bulk.send(&embed_request(Purpose::Document, &texts)).unwrap();
    wait_until("the request is queued", || server.status().queue_items > 500);
    for number in 0..5 {
        let question = format!("Where is number {number}?");
        client.call(&embed_request(Purpose::Query, &[&question])).unwrap();
    }
    assert!(server.status().queue_items > 100, "the questions waited for most of the bulk request");
}
