//! How long the gateway waits for clients, and how much it takes from them.

use crate::http::{Reply, chat, says, says_streaming, send};
use crate::people::{bearer, token, with_tokens};
use crate::upstream::{Upstream, chunk, completion};
use crate::{PATIENCE, for_ann};
use memory_agent_e2e::{Gateway, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

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

/// The head of a request, and the beginning of its body; the rest never comes.
fn announced(gateway: &Gateway, token: &str, length: usize) -> TcpStream {
    let mut connection = TcpStream::connect(gateway.address()).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-length: {length}\r\n\r\n{{"
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection
}

/// Waits until so many requests are in flight, as somebody sees with a token.
fn in_flight(gateway: &Gateway, token: &str, number: usize) {
    let line = format!("memory_gateway_in_flight {number}");
    let headers = [("authorization", &*bearer(token))];
    wait_until(PATIENCE, "the requests to be there", || {
        let metrics = send(gateway.address(), "GET", "/metrics", &headers, "").rest().unwrap();
        metrics.lines().any(|found| found == line)
    });
}

#[test]
fn what_is_announced_takes_no_room() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("limits_announced", &upstream, &[]);
    let [ann, bob] = ["ann", "bob"].map(|user| token(&mut client, user, "phone"));
    let silent: Vec<TcpStream> = (0..8).map(|_| announced(&gateway, &bob, 32 << 20)).collect();
    in_flight(&gateway, &ann, 8);
    for person in [&ann, &bob] {
        let headers = [("authorization", &*bearer(person))];
        let mut reply = chat(&gateway, &headers, &says("s", "Hello."));
        let (status, said) = (reply.status, reply.rest());
        assert_eq!(status, 200, "{said:?}");
    }
    drop(silent);
}

/// A model, and one that lets wait.
const FAST: &str = "\"model\":\"m\"";
const SLOW: &str = "\"model\":\"slow\"";

/// An upstream that says when it is asked for that model, and answers when it may.
fn holding() -> (Upstream, Receiver<()>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (go_on, word) = channel::<()>();
    let (begun, word) = (Mutex::new(begun), Mutex::new(word));
    let upstream = Upstream::start(move |request, answer| {
        if request.body.contains(SLOW) {
            begun.lock().unwrap().send(()).unwrap();
            let _ = word.lock().unwrap().recv();
        }
        answer.json(&completion("Yes."));
    });
    (upstream, has_begun, go_on)
}

#[track_caller]
fn is_for_one_user(mut refused: Reply) {
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["error"]["code"], "busy");
}

#[test]
fn one_user_leaves_room_for_the_bodies_of_others() {
    let (upstream, has_begun, go_on) = holding();
    let limits = ["--max-body", "100000", "--max-bodies", "400000"];
    let (gateway, mut client) = with_tokens("limits_bodies", &upstream, &limits);
    let [ann, bob] = ["ann", "bob"].map(|user| token(&mut client, user, "phone"));
    let large = |person: &str, model: &str| {
        let body = says("s", &"word ".repeat(16_000)).replacen(FAST, model, 1);
        chat(&gateway, &[("authorization", &*bearer(person))], &body)
    };
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..2).map(|_| scope.spawn(|| large(&bob, SLOW).status)).collect();
        (0..2).for_each(|_| has_begun.recv_timeout(PATIENCE).unwrap());
        // A share holds the largest body that is allowed, and one that comes meanwhile.
        let (refused, answered) = (large(&bob, FAST), large(&ann, FAST));
        (0..2).for_each(|_| go_on.send(()).unwrap());
        is_for_one_user(refused);
        assert_eq!(answered.status, 200);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
    wait_until(PATIENCE, "room", || large(&bob, FAST).status == 200);
}

#[test]
fn one_user_leaves_others_requests_in_flight() {
    let (upstream, has_begun, go_on) = holding();
    let (gateway, mut client) = with_tokens("limits_flight", &upstream, &["--max-in-flight", "8"]);
    let [ann, bob] = ["ann", "bob"].map(|user| token(&mut client, user, "phone"));
    // Another token is no other share.
    let tablet = token(&mut client, "bob", "tablet");
    let ask = |person: &str, model: &str| {
        let body = says("s", "Hello.").replacen(FAST, model, 1);
        chat(&gateway, &[("authorization", &*bearer(person))], &body)
    };
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..2).map(|_| scope.spawn(|| ask(&bob, SLOW).status)).collect();
        (0..2).for_each(|_| has_begun.recv_timeout(PATIENCE).unwrap());
        let (refused, answered) = (ask(&tablet, FAST), ask(&ann, FAST));
        (0..2).for_each(|_| go_on.send(()).unwrap());
        is_for_one_user(refused);
        assert_eq!(answered.status, 200);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
    wait_until(PATIENCE, "bob's turn", || ask(&bob, FAST).status == 200);
}
