//! Who leaves before the upstream says what an answer took, has spent at least what is known of it.

use crate::http::{says, send};
use crate::people::{bearer, token};
use crate::upstream::{Answer, Request, Upstream, chunk};
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Client, Gateway, Json, json, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// What is said in each of these answers, in bytes.
const SAID: usize = 20_000;
const USAGE: &str =
    r#"{"id":"c","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":11}}"#;

/// A gateway with a key for both upstreams, tokens, and a limit of spending.
fn gateway(name: &str, upstream: &Upstream) -> (Gateway, Client) {
    let client = database(cluster(), name);
    let key = cluster().socket_directory().join(format!("{name}.key"));
    std::fs::write(&key, "sk-of-the-gateway\n").unwrap();
    let key = key.to_string_lossy().into_owned();
    let (to, url) = (Gateway::database(cluster(), ROLE, name), upstream.url());
    let mut arguments = vec!["--database", &to, "--patience", NEVER_LATE];
    arguments.extend(["--upstream", &url, "--upstream-key-file", &key]);
    arguments.extend(["--messages-upstream", &url, "--messages-upstream-key-file", &key]);
    arguments.extend(["--daily-tokens", "10000000"]);
    (Gateway::start(&arguments), client)
}

fn spent(client: &mut Client, user: &str) -> i64 {
    value(client, "SELECT spent_today FROM memory_list_tokens() WHERE user_id = $1", &[&user])
}

/// Tokens of so many bytes.
fn tokens(bytes: usize) -> i64 {
    i64::try_from(bytes.div_ceil(4)).unwrap()
}

/// A request with more in it.
fn with(more: Json) -> Json {
    let mut body: Json = serde_json::from_str(&says("s", "Talk at length.")).unwrap();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A chunk of a chat completion.
fn delta(index: u32, delta: Json) -> String {
    json!({"choices": [{"index": index, "delta": delta, "finish_reason": null}]}).to_string()
}

/// Says the events, which end with a word that nothing else has, and goes on when the gateway has left.
fn says_and_waits(answer: &mut Answer, events: &[String]) {
    answer.begin();
    for event in events {
        answer.piece(&format!("data: {event}\n\n"));
    }
    answer.piece("data: {\"the\": \"end for now\"}\n\n");
    answer.wait_until_left();
}

#[test]
fn everything_that_passed_counts() {
    let text = || "x".repeat(SAID);
    let scripts: Vec<(&str, Json, Vec<String>, i64)> = vec![
        (
            "/v1/messages",
            with(json!({"max_tokens": 64_000, "stream": true})),
            vec![
                json!({"type": "message_start", "message": {"content": [],
                       "usage": {"input_tokens": 12, "output_tokens": 1}}})
                .to_string(),
                json!({"type": "content_block_delta", "index": 0,
                       "delta": {"type": "text_delta", "text": text()}})
                .to_string(),
            ],
            64_000,
        ),
        (
            "/v1/messages",
            with(json!({"max_tokens": 1, "stream": true})),
            vec![
                json!({"type": "content_block_delta", "index": 0,
                       "delta": {"type": "thinking_delta", "thinking": text()}})
                .to_string(),
            ],
            tokens(SAID),
        ),
        (
            "/v1/chat/completions",
            with(json!({"stream": true})),
            vec![delta(
                0,
                json!({"tool_calls": [{"index": 0, "function": {"arguments": text()}}]}),
            )],
            tokens(SAID),
        ),
        (
            "/v1/chat/completions",
            with(json!({"stream": true, "n": 2})),
            vec![delta(1, json!({"content": text()}))],
            tokens(SAID),
        ),
        (
            "/v1/chat/completions",
            with(json!({"stream": true})),
            vec![delta(0, json!({"reasoning_content": text()}))],
            tokens(SAID),
        ),
        (
            "/v1/chat/completions",
            with(json!({"stream": true, "n": 3, "max_tokens": 9_000})),
            vec![delta(0, json!({"content": "Hm"}))],
            27_000,
        ),
        (
            "/v1/chat/completions",
            with(json!({"stream": true, "max_tokens": "9000", "max_completion_tokens": 1.0})),
            vec![delta(0, json!({"content": "Hm"}))],
            9_000,
        ),
        (
            "/v1/responses",
            json!({"input": "Talk.", "stream": true}),
            vec![
                json!({"type": "response.function_call_arguments.delta", "delta": text()})
                    .to_string(),
            ],
            tokens(SAID),
        ),
    ];
    let events: Vec<(String, Vec<String>)> = scripts
        .iter()
        .enumerate()
        .map(|(number, script)| (format!("row{number}"), script.2.clone()))
        .collect();
    let upstream = Upstream::start(move |request: &Request, answer| {
        let row = events.iter().find(|(row, _)| request.body.contains(row));
        says_and_waits(answer, &row.expect("a row").1);
    });
    let (gateway, mut client) = gateway("broken_passed", &upstream);
    for (number, (path, mut body, _, answer)) in scripts.into_iter().enumerate() {
        let row = format!("row{number}");
        body["user"] = row.clone().into();
        let body = body.to_string();
        let token = token(&mut client, &row, "phone");
        let headers = [("authorization", &*bearer(&token))];
        let mut reply = send(gateway.address(), "POST", path, &headers, &body);
        reply.read_until("end for now");
        drop(reply);
        let expected = tokens(body.len()) + answer;
        wait_until(PATIENCE, &format!("{row} to be counted"), || {
            spent(&mut client, &row) == expected
        });
    }
}

#[test]
fn what_is_not_looked_into_counts_by_its_length() {
    let upstream = Upstream::start(|_, answer| {
        answer.whole(200, &[("content-type", "text/plain")], &"x".repeat(SAID));
    });
    let (gateway, mut client) = gateway("broken_unread", &upstream);
    let ann = token(&mut client, "ann", "phone");
    let (body, headers) = (says("s", "Talk."), [("authorization", &*bearer(&ann))]);
    let mut reply = send(gateway.address(), "POST", "/v1/chat/completions", &headers, &body);
    assert_eq!(reply.rest().unwrap().len(), SAID);
    let expected = tokens(body.len()) + tokens(SAID);
    wait_until(PATIENCE, "it to be counted", || spent(&mut client, "ann") == expected);
}

#[test]
fn who_leaves_before_an_answer_begins_has_spent_the_estimate() {
    let (begun, has_begun) = channel();
    let begun = Mutex::new(begun);
    let upstream = Upstream::start(move |_, answer| {
        begun.lock().unwrap().send(()).unwrap();
        answer.wait_until_left();
    });
    let (mut gateway, mut client) = gateway("broken_early", &upstream);
    let mut expected = Vec::new();
    for (user, more, answer) in [
        ("ann", json!({}), 0),
        ("bob", json!({"n": 2.0, "max_tokens": 500}), 1_000),
        ("eve", json!({"stream": "yes", "max_completion_tokens": 500}), 500),
    ] {
        let (token, body) = (token(&mut client, user, "phone"), with(more).to_string());
        let mut connection = TcpStream::connect(gateway.address()).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        has_begun.recv_timeout(PATIENCE).unwrap();
        expected.push((user, tokens(body.len()) + answer));
    }
    // It ends when everything is counted.
    gateway.signal(libc::SIGTERM);
    assert!(gateway.wait());
    for (user, expected) in expected {
        assert_eq!(spent(&mut client, user), expected, "{user}");
    }
}

#[test]
fn a_stream_says_what_it_took_however_it_is_asked_for() {
    let (go_on, word) = channel::<()>();
    let word = Mutex::new(word);
    let upstream = Upstream::start(move |request, answer| {
        answer.begin();
        answer.piece(&format!("data: {}\n\n", chunk("Yes.")));
        answer.piece(
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        );
        if request.body.contains("Leave") {
            let _ = word.lock().unwrap().recv();
        }
        if request.json()["stream_options"]["include_usage"] == true {
            answer.piece(&format!("data: {USAGE}\n\n"));
        }
        answer.piece("data: [DONE]\n\n");
        answer.end();
    });
    let (gateway, mut client) = gateway("broken_asked", &upstream);
    let ann = token(&mut client, "ann", "phone");
    let headers = [("authorization", &*bearer(&ann))];
    let ask = |body: &Json| {
        let body = body.to_string();
        send(gateway.address(), "POST", "/v1/chat/completions", &headers, &body)
    };
    let mut expected = 0;
    for stream in [json!(true), json!(1), json!("true")] {
        let answer = ask(&with(json!({"stream": stream}))).rest().unwrap();
        assert!(!answer.contains("prompt_tokens"), "{answer}");
        expected += 111;
        wait_until(PATIENCE, "it to be counted", || spent(&mut client, "ann") == expected);
    }
    // Who leaves when everything is said pays what it took, and not for the longest answer.
    let mut body = with(json!({"stream": true, "max_tokens": 50_000}));
    body["messages"][0]["content"] = "Leave.".into();
    let mut reply = ask(&body);
    reply.read_until("finish_reason\":\"stop");
    drop(reply);
    go_on.send(()).unwrap();
    wait_until(PATIENCE, "it to be counted", || spent(&mut client, "ann") == expected + 111);
    // What runs in the background would not be counted.
    let background = json!({"input": "Hello.", "background": 1}).to_string();
    assert_eq!(send(gateway.address(), "POST", "/v1/responses", &headers, &background).status, 400);
}
