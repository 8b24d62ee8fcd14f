//! Answers that stream: they come as they are said, with memories in the first event, and end when they
//! are stored. Whichever side leaves in the middle, what was said is kept.

use crate::http::{chat, says, says_streaming};
use crate::upstream::{Upstream, chunk};
use crate::{PATIENCE, for_ann, stored};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Json, json, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// An upstream that says "One two", waits for the word, and goes on as the word says.
fn halting() -> (Upstream, Sender<Then>, Receiver<()>) {
    let (go_on, word) = channel();
    let (left, has_left) = channel();
    let (word, left) = (Mutex::new(word), Mutex::new(left));
    let upstream = Upstream::start(move |_, answer| {
        answer.begin();
        answer.says("One ");
        answer.says("two");
        match word.lock().unwrap().recv() {
            Ok(Then::End) => {
                answer.says(" three.");
                answer.done();
            }
            Ok(Then::WaitForTheOther) => {
                answer.wait_until_left();
                let _ = left.lock().unwrap().send(());
            }
            Ok(Then::Stop) => answer.end(),
            Ok(Then::Break) | Err(_) => {}
        }
    });
    (upstream, go_on, has_left)
}

enum Then {
    End,
    Break,
    /// The body ends as it should, the answer does not.
    Stop,
    WaitForTheOther,
}

#[test]
fn an_answer_comes_as_it_is_said() {
    let (upstream, go_on, _) = halting();
    let (gateway, mut client) = for_ann("streams_come", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Count, please."));
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").unwrap().starts_with("text/event-stream"));
    let heard = reply.header("x-memory-stored").unwrap().to_owned();
    // The upstream waits for the test, so this came before the rest was said.
    let begun = reply.read_until("two");
    let first = begun.split("\n\n").next().unwrap();
    let expected = chunk("One ");
    let expected = expected.strip_suffix('}').unwrap();
    assert_eq!(first, format!("data: {expected},\"memory_hits\":[]}}"));
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Count, please."]);
    go_on.send(Then::End).unwrap();
    let rest = reply.rest().unwrap();
    let events: Vec<&str> = rest.split("\n\n").filter(|event| !event.is_empty()).collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"));
    let told: Json = serde_json::from_str(&events[events.len() - 2]["data: ".len()..]).unwrap();
    let id: String = value(
        &mut client,
        "SELECT id::text FROM memory_agent.entries WHERE role = 'assistant'",
        &[],
    );
    assert_eq!(told["memory_stored"], id);
    assert_eq!((&told["id"], &told["model"]), (&json!("chatcmpl-1"), &json!("m")));
    assert_eq!(told["choices"][0]["delta"], json!({}));
    assert_ne!(heard, id);
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Count, please.", "assistant: One two three."]
    );
}

#[test]
fn a_client_that_leaves_has_its_answer_stored_so_far() {
    let (upstream, go_on, has_left) = halting();
    let (gateway, mut client) = for_ann("streams_left", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Count, please."));
    reply.read_until("two");
    go_on.send(Then::WaitForTheOther).unwrap();
    drop(reply);
    has_left.recv_timeout(PATIENCE).expect("the upstream is told that nobody listens");
    wait_until(PATIENCE, "the answer to be stored", || stored(&mut client, "ann", "s").len() == 2);
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Count, please.", "assistant: One two (interrupted)"]
    );
}

#[test]
fn an_upstream_that_breaks_off_has_its_answer_stored_so_far() {
    let (upstream, go_on, _) = halting();
    let (gateway, mut client) = for_ann("streams_broken", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Count, please."));
    reply.read_until("two");
    go_on.send(Then::Break).unwrap();
    let rest = reply.rest().expect_err("the client sees that it broke off");
    assert!(!rest.contains("memory_stored") && !rest.contains("[DONE]"), "{rest}");
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Count, please.", "assistant: One two (interrupted)"]
    );
}

#[test]
fn an_answer_without_an_end_is_not_acknowledged() {
    let (upstream, go_on, _) = halting();
    let (gateway, mut client) = for_ann("streams_endless", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Count, please."));
    reply.read_until("two");
    go_on.send(Then::Stop).unwrap();
    let rest = reply.rest().expect("the body ends as the upstream's does");
    assert!(!rest.contains("memory_stored") && !rest.contains("[DONE]"), "{rest}");
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Count, please.", "assistant: One two (interrupted)"]
    );
}

#[test]
fn an_answer_that_broke_off_is_replaced_when_the_request_is_repeated() {
    let (upstream, go_on, _) = halting();
    let (gateway, mut client) = for_ann("streams_repeated", &upstream, &[]);
    let key = [("idempotency-key", "k")];
    for then in [Then::Break, Then::End, Then::Break] {
        let mut reply = chat(&gateway, &key, &says_streaming("s", "Count, please."));
        reply.read_until("two");
        go_on.send(then).unwrap();
        let _ = reply.rest();
    }
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Count, please.", "assistant: One two three."]
    );
}

#[test]
fn a_client_that_leaves_before_the_answer_is_not_answered() {
    let (begun, has_begun) = channel();
    let (left, has_left) = channel();
    let (begun, left) = (Mutex::new(begun), Mutex::new(left));
    let upstream = Upstream::start(move |_, answer| {
        begun.lock().unwrap().send(()).unwrap();
        answer.wait_until_left();
        left.lock().unwrap().send(()).unwrap();
    });
    let (gateway, mut client) = for_ann("streams_early", &upstream, &[]);
    let address = gateway.address();
    let body = says("s", "Are you there?");
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(
        &mut connection,
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    )
    .unwrap();
    has_begun.recv_timeout(PATIENCE).expect("the upstream is asked");
    drop(connection);
    has_left.recv_timeout(PATIENCE).expect("the upstream is told that nobody waits");
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Are you there?"]);
}

#[test]
fn what_is_no_answer_passes_through() {
    let upstream = Upstream::start(|_, answer| {
        answer.begin();
        answer.piece(": thinking\n\nevent: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n");
        answer.piece("data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
        answer.piece("data: [DONE]\n");
        answer.piece("\n");
        answer.done();
    });
    let (gateway, mut client) = for_ann("streams_other", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Hello."));
    let expected = ": thinking\n\nevent: ping\r\ndata: {\"type\": \"ping\",\"memory_hits\":[]}\r\n\r\n\
                    data: {\"error\":{\"message\":\"overloaded\"}}\n\ndata: [DONE]\n\n";
    assert_eq!(reply.rest().unwrap(), expected);
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Hello."]);
}

#[test]
fn many_streams_at_once() {
    let upstream = Upstream::saying("One two three four five.");
    let (gateway, mut client) = for_ann("streams_many", &upstream, &["--connections", "4"]);
    std::thread::scope(|scope| {
        for number in 0..40 {
            let gateway = &gateway;
            scope.spawn(move || {
                let body = says_streaming(&format!("s{number}"), "Count, please.");
                let mut reply = chat(gateway, &[], &body);
                let answer = reply.rest().unwrap();
                assert!(answer.contains("memory_stored"), "{answer}");
            });
        }
    });
    let turns: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(turns, 80);
    assert_eq!(gateway.logged("memory_failed"), [Json::Null; 0]);
}
