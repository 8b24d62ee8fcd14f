//! `/v1/responses` and `/v1/messages`: each promise of a chat, in each protocol.

use crate::http::{Reply, send};
use crate::upstream::Upstream;
use crate::wire::{self, BOTH, Wire};
use crate::{NEVER_LATE, NO_ANSWERS, PATIENCE, ROLE, cluster, database, for_ann, stored};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Gateway, Json, StopMode, json, wait_until};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A gateway for ann in front of an upstream of this protocol.
fn gateway(wire: Wire, name: &str, upstream: &Upstream, arguments: &[&str]) -> (Gateway, Client) {
    for_ann(&format!("protocols_{name}_{}", wire.name()), upstream, arguments)
}

fn post(gateway: &Gateway, wire: Wire, headers: &[(&str, &str)], body: &Json) -> Reply {
    send(gateway.address(), "POST", wire.path(), headers, &body.to_string())
}

fn streaming(wire: Wire, session: &str, text: &str) -> Json {
    let mut body = wire.says(session, text);
    body["stream"] = true.into();
    body
}

#[test]
fn a_chat_remembers() {
    for wire in BOTH {
        let upstream = wire.saying("Lena should not eat them.");
        let (gateway, mut client) = gateway(wire, "remembers", &upstream, &[]);
        let first = "My daughter Lena is allergic to hazelnuts.";
        let mut reply = post(&gateway, wire, &[], &wire.says("s", first));
        assert_eq!(reply.status, 200);
        let heard = reply.header("x-memory-stored").unwrap().to_owned();
        let answer = reply.json();
        assert_eq!(wire.text(&answer), "Lena should not eat them.");
        assert_eq!(answer["memory_hits"], json!([]));
        let ids: String = value(
            &mut client,
            "SELECT string_agg(id::text, ' ' ORDER BY created_at, id) FROM memory_agent.entries",
            &[],
        );
        assert_eq!(ids, format!("{heard} {}", answer["memory_stored"].as_str().unwrap()));
        assert_eq!(upstream.last().path, wire.path());

        let question = "Is Lena allergic to hazelnuts?";
        let answer = post(&gateway, wire, &[("x-memory-id", "s")], &{
            let mut body = wire.says("", question);
            body.as_object_mut().unwrap().remove("memory_id");
            body
        });
        let answer = { answer }.json();
        let hits = answer["memory_hits"].as_array().unwrap();
        assert!(hits.iter().any(|hit| hit["content"] == first), "{answer}");
        let said = wire.said(&upstream.last().json());
        assert!(
            said.contains(first) && said.ends_with(&format!("\n\nCurrent message: {question}")),
            "{said}"
        );
        let expected = [first, "Lena should not eat them.", question, "Lena should not eat them."];
        let roles = ["user", "assistant"].iter().cycle();
        let expected: Vec<String> =
            roles.zip(expected).map(|(role, text)| format!("{role}: {text}")).collect();
        assert_eq!(stored(&mut client, "ann", "s"), expected);
    }
}

#[test]
fn only_the_users_text_changes() {
    let system = "\"system\": [ {\"type\":\"text\",\"text\":\"You are\\u0020Claude Code.\",\"cache_control\":{\"type\":\"ephemeral\"}} ]";
    let reminder =
        "{\"type\":\"text\",\"text\":\"<system-reminder>Read CLAUDE.md</system-reminder>\"}";
    let result = "{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"12:00\"}";
    for (wire, body) in [
        (
            Wire::Responses,
            "{ \"instructions\": \"Be\\u0020brief.\", \"max_output_tokens\": 1.0e2,\n \"input\": [ \
             {\"role\":\"developer\",\"content\":\"d\"}, {\"type\":\"message\",\"role\":\"user\",\"content\":[\
             {\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,AAAA\"}, \
             {\"type\":\"input_text\",\"text\":\"QUESTION\"}]} ], MEMORY \"z\": 12345678901234567890123 }"
                .to_owned(),
        ),
        (
            Wire::Messages,
            format!(
                "{{ {system}, \"max_tokens\": 1.0e2,\n \"messages\": [ {{\"role\":\"user\",\"content\":[{reminder}, \
                 {{\"type\":\"text\",\"text\":\"QUESTION\"}}]}} ], MEMORY \"z\": 12345678901234567890123 }}"
            ),
        ),
        (
            Wire::Messages,
            format!(
                "{{ {system}, \"messages\": [ {{\"role\":\"user\",\"content\":\"QUESTION\"}}, {{\"role\":\"assistant\",\
                 \"content\":[{{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"now\",\"input\":{{\"n\":1.0}}}}]}}, \
                 {{\"role\":\"user\",\"content\":[{result}]}} ], MEMORY \"z\":1 }}"
            ),
        ),
    ] {
        let upstream = wire.saying("At noon.");
        let number = body.len();
        let (gateway, mut client) = gateway(wire, &format!("bytes_{number}"), &upstream, &[]);
        run(
            &mut client,
            "SELECT set_config('memory_agent.user_id', 'ann', false); \
             SELECT memory_add('Lunch is at noon.', infer => false)",
        );
        let sent = body.replace("MEMORY ", "\"memory_id\": \"b\",").replace("QUESTION", "When is l\\u0075nch?");
        let mut reply = send(gateway.address(), "POST", wire.path(), &[], &sent);
        let answer = reply.rest();
    assert_eq!(reply.status, 200, "{answer:?}");
        let got = upstream.last().body;
        let (before, after) = body.split_once("QUESTION").unwrap();
        let after = after.replace("MEMORY ", "");
        let middle = got.strip_prefix(before).and_then(|rest| rest.strip_suffix(&*after));
        let middle = middle.unwrap_or_else(|| panic!("{got}"));
        assert!(middle.contains("Lunch is at noon."), "{middle}");
        assert!(middle.ends_with("Current message: When is l\\u0075nch?"), "{middle}");
        assert_eq!(stored(&mut client, "ann", "b"), ["user: When is lunch?", "assistant: At noon."]);
    }
}

#[test]
fn an_answer_comes_as_it_is_said() {
    for wire in BOTH {
        let (go_on, word) = channel::<()>();
        let word = Mutex::new(word);
        let upstream = Upstream::start(move |_, answer| {
            wire.begins(answer);
            wire.word(answer, "One ");
            let _ = word.lock().unwrap().recv();
            wire.word(answer, "two.");
            wire.ends(answer, "One two.");
        });
        let (gateway, mut client) = gateway(wire, "streams", &upstream, &[]);
        let mut reply = post(&gateway, wire, &[], &streaming(wire, "s", "Count, please."));
        assert!(reply.header("x-memory-stored").is_some());
        // The upstream waits for the test, so this came before the rest was said.
        let begun = reply.read_until("One ");
        assert_eq!(wire.told(&wire::events(&begun)[0], "memory_hits"), &json!([]), "{begun}");
        assert_eq!(stored(&mut client, "ann", "s"), ["user: Count, please."]);
        go_on.send(()).unwrap();
        let rest = format!("{begun}{}", reply.rest().unwrap());
        let events = wire::events(&rest);
        let stored_id: String = value(
            &mut client,
            "SELECT id::text FROM memory_agent.entries WHERE role = 'assistant'",
            &[],
        );
        let told =
            events.iter().filter(|event| wire.told(event, "memory_stored") == &json!(stored_id));
        assert_eq!(told.count(), 1, "{rest}");
        let kind = events.last().unwrap()["type"].as_str().unwrap();
        assert_eq!(
            kind,
            if wire == Wire::Responses { "response.completed" } else { "message_stop" }
        );
        // Nothing but that was added: no event, and no other member.
        let known = ["memory_hits", "memory_stored"];
        let untold = known.iter().fold(rest.clone(), |rest, name| {
            let at = rest.find(&format!(",\"{name}\":")).unwrap();
            let end = at + rest[at + 1..].find([',', '}']).unwrap() + 1;
            format!("{}{}", &rest[..at], &rest[end..])
        });
        let direct = send(
            upstream.url().trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap(),
            "POST",
            wire.path(),
            &[],
            "{}",
        );
        go_on.send(()).unwrap();
        assert_eq!(untold, { direct }.rest().unwrap());
        assert_eq!(
            stored(&mut client, "ann", "s"),
            ["user: Count, please.", "assistant: One two."]
        );
    }
}

#[test]
fn what_was_said_is_kept_whoever_leaves() {
    for wire in BOTH {
        let (left, has_left) = channel();
        let left = Mutex::new(left);
        let upstream = Upstream::start(move |request, answer| {
            wire.begins(answer);
            wire.word(answer, "One two");
            match request.header("x-then") {
                Some("wait") => {
                    answer.wait_until_left();
                    let _ = left.lock().unwrap().send(());
                }
                Some("end") => {
                    wire.word(answer, " three.");
                    wire.ends(answer, "One two three.");
                }
                _ => {}
            }
        });
        let (gateway, mut client) = gateway(wire, "leaves", &upstream, &[]);
        let count = |session: &str| streaming(wire, session, "Count, please.");
        let mut reply = post(&gateway, wire, &[("x-then", "wait")], &count("client"));
        reply.read_until("two");
        drop(reply);
        has_left.recv_timeout(PATIENCE).expect("the upstream is told that nobody listens");
        wait_until(PATIENCE, "the answer to be stored", || {
            stored(&mut client, "ann", "client").len() == 2
        });
        let expected = ["user: Count, please.", "assistant: One two (interrupted)"];
        assert_eq!(stored(&mut client, "ann", "client"), expected);

        let key = ("idempotency-key", "k");
        let mut reply = post(&gateway, wire, &[key], &count("upstream"));
        let rest = reply.rest().expect_err("the client sees that it broke off");
        assert!(!rest.contains("memory_stored"), "{rest}");
        assert_eq!(stored(&mut client, "ann", "upstream"), expected);
        // Asked again, it is answered to the end, and nothing is there twice.
        let mut reply = post(&gateway, wire, &[key, ("x-then", "end")], &count("upstream"));
        assert!(reply.rest().unwrap().contains("memory_stored"));
        let expected = ["user: Count, please.", "assistant: One two three."];
        assert_eq!(stored(&mut client, "ann", "upstream"), expected);
    }
}

#[test]
fn errors_pass_through_and_the_gateways_own_are_understood() {
    for wire in BOTH {
        let said =
            r#"{"type":"error","error":{"type":"overloaded_error","message":"later","n":1.0}}"#;
        let upstream = Upstream::start(move |_, answer| {
            answer.whole(529, &[("content-type", "application/json"), ("retry-after", "7")], said);
        });
        let (gateway, mut client) = gateway(wire, "errors", &upstream, &[]);
        let mut reply = post(&gateway, wire, &[], &wire.says("s", "Hello."));
        assert_eq!((reply.status, reply.header("retry-after")), (529, Some("7")));
        assert_eq!(reply.rest().unwrap(), said);
        assert_eq!(stored(&mut client, "ann", "s"), ["user: Hello."]);
        let mut reply =
            post(&gateway, wire, &[], &json!({"input": [], "messages": [], "memory_top_k": "x"}));
        assert_eq!(reply.status, 400);
        let error = reply.json();
        assert_eq!(
            (&error["type"], &error["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        // An error in the middle of a stream is no answer.
        let upstream = Upstream::start(move |_, answer| {
            wire.begins(answer);
            wire.word(answer, "One ");
            wire::send(
                answer,
                &json!({"type": "error", "error": {"type": "overloaded_error", "message": "later"}}),
            );
            answer.end();
        });
        let (gateway, mut client) = self::gateway(wire, "midway", &upstream, &[]);
        let mut reply = post(&gateway, wire, &[], &streaming(wire, "s", "Count."));
        assert!(reply.rest().unwrap().contains("overloaded_error"));
        assert_eq!(
            stored(&mut client, "ann", "s"),
            ["user: Count.", "assistant: One  (interrupted)"]
        );
    }
}

#[test]
fn without_memory_it_goes_on_or_fails_as_it_was_told() {
    for wire in BOTH {
        let cluster =
            Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
        run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
        drop(database(&cluster, "gone"));
        let upstream = wire.saying("Still here.");
        let (to, url) = (Gateway::database(&cluster, ROLE, "gone"), upstream.url());
        let fixed =
            ["--database", &to, "--upstream", &url, "--messages-upstream", &url, "--user", "ann"];
        let fixed = [&fixed[..], &["--patience", NEVER_LATE]].concat();
        let lenient = Gateway::start(&fixed);
        let strict = Gateway::start(&[&fixed[..], &["--require-memory"]].concat());
        assert_eq!(post(&strict, wire, &[], &wire.says("s", "First.")).status, 200);
        cluster.stop(StopMode::Fast);
        for body in [wire.says("s", "Second."), streaming(wire, "s", "Third.")] {
            let mut reply = post(&lenient, wire, &[], &body);
            assert_eq!(
                (reply.status, reply.header("x-memory-failed")),
                (200, Some("recall,store"))
            );
            let answer = reply.rest().unwrap();
            assert!(answer.contains("here.") && !answer.contains("memory_"), "{answer}");
            let mut reply = post(&strict, wire, &[], &body);
            assert_eq!(reply.status, 503);
            assert_eq!(reply.json()["error"]["code"], "memory_unavailable");
        }
    }
}

#[test]
fn an_answer_that_cannot_be_stored_is_an_error_when_memory_is_required() {
    for wire in BOTH {
        let upstream = wire.saying("Not for memory.");
        let (gateway, mut client) = gateway(wire, "unstored", &upstream, &["--require-memory"]);
        run(&mut client, NO_ANSWERS);
        let mut reply = post(&gateway, wire, &[], &wire.says("s", "First."));
        assert_eq!(reply.status, 503);
        assert_eq!(reply.json()["error"]["code"], "memory_unavailable");
        let mut reply = post(&gateway, wire, &[], &streaming(wire, "s", "Second."));
        assert_eq!(reply.status, 200);
        let answer = reply.rest().unwrap();
        let last = wire::events(&answer).pop().unwrap();
        assert_eq!(last["error"]["code"], "memory_unavailable", "{answer}");
        assert!(answer.contains("\nevent: error\ndata: "), "{answer}");
        for end in ["response.completed", "message_stop"] {
            assert!(!answer.contains(end), "{answer}");
        }
        assert_eq!(stored(&mut client, "ann", "s"), ["user: First.", "user: Second."]);
    }
}

#[test]
fn each_upstream_gets_its_own_key() {
    let upstream = Upstream::start(|request, answer| {
        let wire =
            if request.path.starts_with("/v1/messages") { Wire::Messages } else { Wire::Responses };
        answer.json(&wire.whole("Yes.").to_string());
    });
    let mut client = database(cluster(), "protocols_keys");
    let key = |name: &str, text: &str| {
        let file = cluster().socket_directory().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_string_lossy().into_owned()
    };
    let (to, url) = (Gateway::database(cluster(), ROLE, "protocols_keys"), upstream.url());
    let (openai, anthropic) = (key("openai.key", "sk-openai\n"), key("anthropic.key", "sk-ant\n"));
    let fixed = [
        "--database",
        &to,
        "--upstream",
        &url,
        "--messages-upstream",
        &url,
        "--patience",
        NEVER_LATE,
    ];
    let token: String = value(&mut client, "SELECT memory_create_token('ann', 'laptop')", &[]);
    let bearer = format!("Bearer {token}");
    let status = |gateway: &Gateway, wire: Wire, headers: &[(&str, &str)]| {
        let headers =
            [headers, &[("anthropic-version", "2023-06-01"), ("anthropic-beta", "b1")]].concat();
        post(gateway, wire, &headers, &wire.says("s", "Hello.")).status
    };

    let both = ["--upstream-key-file", &openai, "--messages-upstream-key-file", &anthropic];
    let gateway = Gateway::start(&[&fixed[..], &both].concat());
    for headers in
        [[("x-api-key", &*token)], [("authorization", &*bearer)], [("x-memory-token", &*token)]]
    {
        assert_eq!(status(&gateway, Wire::Messages, &headers), 200, "{headers:?}");
        let sent = upstream.last();
        assert_eq!(
            (sent.header("x-api-key"), sent.header("authorization")),
            (Some("sk-ant"), None)
        );
        assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(sent.header("anthropic-beta"), Some("b1"));
        assert_eq!(status(&gateway, Wire::Responses, &headers), 200, "{headers:?}");
        let sent = upstream.last();
        assert_eq!(
            (sent.header("x-api-key"), sent.header("authorization")),
            (None, Some("Bearer sk-openai"))
        );
    }
    assert_eq!(status(&gateway, Wire::Messages, &[("x-api-key", "sk-ant")]), 401);

    // A key for one of them is none for the other.
    let gateway = Gateway::start(&[&fixed[..], &both[..2]].concat());
    assert_eq!(status(&gateway, Wire::Responses, &[("authorization", &bearer)]), 200);
    for headers in [[("x-api-key", &*token)], [("authorization", &*bearer)]] {
        assert_eq!(status(&gateway, Wire::Messages, &headers), 401);
    }
    let through = [("x-api-key", "sk-of-ann"), ("x-memory-token", &*token)];
    assert_eq!(status(&gateway, Wire::Messages, &through), 200);
    assert_eq!(upstream.last().header("x-api-key"), Some("sk-of-ann"));
    assert!(upstream.requests().iter().all(|request| !format!("{request:?}").contains("mat_")));
}

#[test]
fn paths_are_fixed_words() {
    let upstream =
        Upstream::start(|request, answer| answer.json(&format!("{{\"echo\": {}}}", request.body)));
    let (gateway, _client) = for_ann("protocols_paths", &upstream, &[]);
    let to =
        |method, path| send(gateway.address(), method, path, &[], r#"{"messages": [], "n": 1.0}"#);
    for (path, expected) in [
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/messages?key=../x", "/v1/messages"),
        ("/v1/messages/count_tokens?beta=true", "/v1/messages/count_tokens?beta=true"),
        ("/v1/messages/count_tokens", "/v1/messages/count_tokens"),
    ] {
        let mut reply = to("POST", path);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(upstream.last().path, expected);
        assert!(reply.rest().unwrap().contains(r#"{"echo": {"messages": [], "n": 1.0}"#), "{path}");
    }
    assert_eq!(to("POST", "/v1/messages/").status, 404);
}

#[test]
fn curl() {
    for wire in BOTH {
        let upstream = wire.saying("Hello from upstream.");
        let (gateway, mut client) = gateway(wire, "curl", &upstream, &[]);
        let url = format!("http://{}{}", gateway.address(), wire.path());
        let body = streaming(wire, "curl", "Hello.").to_string();
        let output = Command::new("curl")
            .args(["-sS", "-N", "-f", &url, "-H", "content-type: application/json", "-d", &body])
            .output()
            .unwrap_or_else(|error| panic!("curl: {error}. Run `scripts/setup --tests`."));
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(answer.contains("memory_stored"), "{answer}");
        let expected = ["user: Hello.", "assistant: Hello from upstream."];
        assert_eq!(stored(&mut client, "ann", "curl"), expected);
    }
}
