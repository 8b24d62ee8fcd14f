//! Answers through the socket: the same as in this process, cached, pipelined, of any size.

use std::ops::ControlFlow;

use memory_agent_model_server::protocol::{ErrorCode, Purpose, Request, Response};
use memory_agent_model_server::{Engine, EngineOptions};

use crate::common::{
    Server, cosine, embed_request, embedder, logits, onnxruntime, rerank_request, reranker,
    single_windows, text, wait_until,
};

#[test]
fn one_request_embeds_and_counts() {
    let server = Server::start();
    let request = Request::Prepare {
        model: Some(embedder()),
        purpose: Purpose::Document,
        texts: vec!["hello world".to_owned(), text(1, 1200)],
        token_texts: vec!["hello world".to_owned(), String::new(), "<|endoftext|>".to_owned()],
    };
    let response = server.connect().call(&request).unwrap();
    let Response::Prepared { embeddings, token_counts } = response else { panic!("{response:?}") };
    let windows: Vec<usize> = embeddings.iter().map(Vec::len).collect();
    assert_eq!(windows[0], 1);
    assert!(windows[1] >= 3, "{windows:?}");
    assert!(embeddings.iter().flatten().all(|vector| vector.len() == 384));
    assert_eq!(token_counts, [2, 0, 7]);
}

#[test]
fn answers_are_those_of_an_engine_in_this_process() {
    let engine =
        Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 1 }).unwrap();
    let mut go_on = || ControlFlow::Continue(());
    let server = Server::start();
    let mut client = server.connect();
    let documents: Vec<String> = (0..20).map(|seed| text(seed, 5 + seed * 4)).collect();
    let borrowed: Vec<&str> = documents.iter().map(String::as_str).collect();

    let expected = engine.rerank(&reranker(), "Who moved?", &borrowed, &mut go_on).unwrap();
    let scores = logits(client.call(&rerank_request("Who moved?", &documents)).unwrap());
    for (score, expected) in scores.iter().zip(&expected) {
        assert!((score - expected).abs() < 1e-3, "{score} {expected}");
    }
    let expected =
        engine.embed(&embedder(), Purpose::Document, &borrowed, &mut go_on).unwrap().concat();
    let vectors =
        single_windows(client.call(&embed_request(Purpose::Document, &borrowed)).unwrap());
    for (vector, expected) in vectors.iter().zip(&expected) {
        assert!(cosine(vector, expected) > 0.99999);
    }
}

#[test]
fn a_repeated_question_and_rerank_run_no_model() {
    let server = Server::start();
    let mut client = server.connect();
    let documents: Vec<String> = (0..5).map(|seed| text(seed, 10)).collect();
    let mut ask = || {
        let question = client.call(&embed_request(Purpose::Query, &["Who moved?"])).unwrap();
        let scores = client.call(&rerank_request("Who moved?", &documents)).unwrap();
        (single_windows(question), logits(scores))
    };
    let first = ask();
    let before = server.status();
    let second = ask();
    let after = server.status();
    assert_eq!(first, second);
    assert_eq!(after.sequences, before.sequences);
    assert_eq!((after.query_cache_hits, after.query_cache_misses), (1, 1));
    assert_eq!((after.pair_cache_hits, after.pair_cache_misses), (5, 5));

    assert_eq!(server.connect().call(&Request::FlushCaches).unwrap(), Response::Flushed);
    assert_eq!(ask(), first);
    assert_eq!(server.status().sequences, after.sequences + 6);
}

#[test]
fn a_partly_cached_rerank_keeps_the_order() {
    let server = Server::start();
    let mut client = server.connect();
    let documents: Vec<String> = (0..6).map(|seed| text(seed, 10)).collect();
    let odd: Vec<String> = documents.iter().skip(1).step_by(2).cloned().collect();
    client.call(&rerank_request("Who moved?", &odd)).unwrap();
    let mixed = logits(client.call(&rerank_request("Who moved?", &documents)).unwrap());
    client.call(&Request::FlushCaches).unwrap();
    assert_eq!(mixed, logits(client.call(&rerank_request("Who moved?", &documents)).unwrap()));
}

#[test]
fn documents_are_not_cached() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.call(&embed_request(Purpose::Document, &["Anna moved."])).unwrap();
    }
    let status = server.status();
    assert_eq!(status.sequences, 2);
    assert_eq!(status.query_cache_hits + status.query_cache_misses, 0);
}

#[test]
fn requests_on_one_connection_may_overlap() {
    let server = Server::start();
    let mut client = server.connect();
    let documents: Vec<String> = (0..40).map(|seed| text(seed, 60)).collect();
    let slow = client.send(&rerank_request("Who moved?", &documents)).unwrap();
    let quick = client.send(&Request::Status).unwrap();
    let (first, _) = client.receive().unwrap();
    let (second, response) = client.receive().unwrap();
    assert_eq!((first, second), (quick, slow));
    assert_eq!(logits(response).len(), 40);
}

#[test]
fn megabytes_are_answered() {
    let server = Server::start();
    let mut client = server.connect();
    let long = "She said that it rained. ".repeat(40_000);
    let request = Request::Prepare {
        model: None,
        purpose: Purpose::Document,
        texts: Vec::new(),
        token_texts: vec![long.clone(), long],
    };
    let response = client.call(&request).unwrap();
    let Response::Prepared { token_counts, .. } = response else { panic!("{response:?}") };
    assert_eq!(token_counts[0], token_counts[1]);
    assert!(token_counts[0] >= 240_000);
}

#[test]
fn a_full_queue_answers_busy_and_recovers() {
    let server = Server::start_with(&["--queue-items", "20"]);
    let mut slow = server.connect();
    let documents: Vec<String> = (0..20).map(|seed| text(seed, 200)).collect();
    server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    slow.send(&rerank_request("Who moved?", &documents)).unwrap();
    wait_until("the request is queued", || server.status().queue_items > 10);
    let mut client = server.connect();
    let more: Vec<String> = (20..40).map(|seed| text(seed, 5)).collect();
    let response = client.call(&rerank_request("Who moved?", &more)).unwrap();
    let Response::Error { code, message } = response else { panic!("{response:?}") };
    assert_eq!(code, ErrorCode::Busy);
    assert!(message.contains("full") && message.contains("20"), "{message}");
    assert_eq!(server.status().rejected, 1);
    slow.receive().unwrap();
    assert_eq!(logits(client.call(&rerank_request("Who moved?", &more)).unwrap()).len(), 20);

    let too_many: Vec<String> = (0..21).map(|seed| text(seed, 5)).collect();
    let response = client.call(&rerank_request("Why?", &too_many)).unwrap();
    let Response::Error { code, .. } = response else { panic!("{response:?}") };
    assert_eq!(code, ErrorCode::InvalidRequest);
}

#[test]
fn bytes_beyond_the_limit_are_refused_without_closing_the_connection() {
    let server = Server::start_with(&["--queue-bytes", "100000"]);
    let mut client = server.connect();
    let request = Request::Prepare {
        model: None,
        purpose: Purpose::Document,
        texts: Vec::new(),
        token_texts: vec!["x".repeat(200_000)],
    };
    let response = client.call(&request).unwrap();
    let Response::Error { code, message } = response else { panic!("{response:?}") };
    assert_eq!(code, ErrorCode::InvalidRequest);
    assert!(message.contains("100000"), "{message}");
    assert_eq!(server.status().queue_bytes, 1, "only the status request itself is held");
}

#[test]
fn a_connection_that_sends_without_end_is_answered_busy() {
    let server = Server::start();
    let mut client = server.connect();
    client.call(&Request::Describe { model: reranker() }).unwrap();
    let documents: Vec<String> = (0..30).map(|seed| text(seed, 50)).collect();
    const SENT: usize = 100;
    for number in 0..SENT {
        let query = format!("Who moved to number {number}?");
        client.send(&rerank_request(&query, &documents)).unwrap();
    }
    // The server may have answered some before the last was sent, but not as many as are too many.
    let refused = (0..SENT)
        .find_map(|_| match client.receive().unwrap().1 {
            Response::Error { code, message } => Some((code, message)),
            _ => None,
        })
        .expect("no request was refused");
    assert_eq!(refused.0, ErrorCode::Busy);
    assert!(refused.1.contains("unanswered"), "{}", refused.1);
}

#[test]
fn too_many_texts_are_refused() {
    let server = Server::start();
    let request = Request::Prepare {
        model: None,
        purpose: Purpose::Document,
        texts: Vec::new(),
        token_texts: vec![String::new(); 20_000],
    };
    let response = server.connect().call(&request).unwrap();
    let Response::Error { code, .. } = response else { panic!("{response:?}") };
    assert_eq!(code, ErrorCode::InvalidRequest);
}

#[test]
fn status_names_the_loaded_models() {
    let server = Server::start();
    assert!(server.status().models.is_empty());
    server.connect().call(&Request::Describe { model: embedder() }).unwrap();
    let status = server.status();
    assert_eq!(status.pid, server.child.id());
    assert_eq!(status.threads, 2);
    assert_eq!(status.models.len(), 1);
    assert_eq!(status.models[0].name, embedder().name);
    assert!(status.resident_bytes > 50_000_000, "{}", status.resident_bytes);
}
