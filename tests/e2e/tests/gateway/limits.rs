//! How long the gateway waits for clients, and how much it takes from them.

use crate::http::{chat, says, says_streaming, send};
use crate::upstream::{Upstream, chunk};
use crate::{PATIENCE, for_ann};
use memory_agent_e2e::{Gateway, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// What comes back on a connection on which so much is sent, and no more.
fn after(gateway: &Gateway, sent: &str) -> String {
    let mut connection = TcpStream::connect(gateway.address()).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(sent.as_bytes()).unwrap();
    let mut read = Vec::new();
    let end = connection.read_to_end(&mut read);
    let read = String::from_utf8_lossy(&read).into_owned();
    end.unwrap_or_else(|error| panic!("it is still open: {error}; it said {read:?}"));
    read
}

#[test]
fn a_client_that_says_nothing_is_left() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("limits_silent", &upstream, &["--client-timeout", "1"]);
    let host = gateway.address();
    assert_eq!(after(&gateway, ""), "");
    let half = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nx-half: ");
    assert!(!after(&gateway, &half).contains("200"));
    let unfinished = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n\r\n{{"
    );
    let answer = after(&gateway, &unfinished);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"), "{answer}");
    // A connection that is kept for the next request ends too.
    let whole = format!("GET /health HTTP/1.1\r\nhost: {host}\r\n\r\n");
    assert!(after(&gateway, &whole).starts_with("HTTP/1.1 200 "));
    assert!(upstream.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn a_client_that_does_not_read_is_left() {
    let (left, has_left) = channel();
    let left = Mutex::new(left);
    let upstream = Upstream::start(move |request, answer| {
        if request.method == "POST" {
            answer.begin();
            answer.fill(&format!("data: {}\n\n", chunk(&"x".repeat(10_000))));
            let _ = left.lock().unwrap().send(());
        }
    });
    let (gateway, _client) = for_ann("limits_unread", &upstream, &["--client-timeout", "1"]);
    let reply = chat(&gateway, &[], &says_streaming("s", "Talk."));
    assert_eq!(reply.status, 200);
    has_left.recv_timeout(PATIENCE).expect("the upstream is told that nobody reads");
    wait_until(PATIENCE, "the request to be over", || {
        let metrics = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
        metrics.lines().any(|line| line == "memory_gateway_in_flight 0")
    });
    drop(reply);
}

#[test]
fn a_message_of_many_parts_is_answered() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("limits_parts", &upstream, &[]);
    let body = |count: usize| {
        let parts = vec![r#"{"type":"text","text":""}"#; count].join(",");
        let content = format!(r#"[{parts},{{"type":"text","text":"Hello."}}]"#);
        says("s", "HERE").replacen("\"HERE\"", &content, 1)
    };
    assert_eq!(chat(&gateway, &[], &body(50_000)).status, 200);
    // More is no message of anybody; it goes on without memory.
    let reply = chat(&gateway, &[], &body(200_000));
    assert_eq!((reply.status, reply.header("x-memory-stored")), (200, None));
    let fields = format!("{{{}\"messages\":[]}}", "\"\":0,".repeat(200_000));
    assert_eq!(chat(&gateway, &[], &fields).status, 400);
}
