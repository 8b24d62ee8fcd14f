//! What an upstream answers that is no chat: it passes through as it came.

use crate::http::{chat, says, send};
use crate::upstream::{Upstream, chunk};
use crate::{PATIENCE, for_ann, stored};
use memory_agent_e2e::wait_until;

#[test]
fn what_is_no_json_passes_through() {
    let upstream = Upstream::start(|request, answer| {
        let (kind, body) =
            request.said().split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        answer.whole(200, &[("content-type", &kind)], &body);
    });
    let (gateway, mut client) = for_ann("answers_other", &upstream, &["--require-memory"]);
    for (kind, body) in [
        ("text/html", "<script>{}</script>}"),
        ("application/json", "oops }"),
        ("application/json", "[{\"a\":1}]"),
        ("application/octet-stream", "{\"choices\":[{\"message\":{\"content\":\"x\"}}]}"),
    ] {
        let question =
            says("s", &format!("{kind}|{body}")).replacen('{', "{\"memory_top_k\":0,", 1);
        let mut reply = chat(&gateway, &[], &question);
        assert_eq!(reply.status, 200, "{kind}");
        assert!(reply.header("x-memory-stored").is_some());
        assert_eq!(reply.rest().unwrap(), body, "{kind}");
    }
    assert!(stored(&mut client, "ann", "s").iter().all(|turn| turn.starts_with("user: ")));
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let upstream = Upstream::start(|_, answer| {
        answer.bytes(&[("content-type", "application/json")], &[b'{', 0xff, 0xfe, b'}']);
    });
    let (gateway, _client) = for_ann("answers_bytes", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says("s", "Hello."));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.bytes(), [b'{', 0xff, 0xfe, b'}']);
}

#[test]
fn an_answer_too_large_to_be_kept_passes_through() {
    const CHUNK: usize = 1 << 20;
    let upstream = Upstream::start(|_, answer| {
        answer.begin_as("application/json");
        for _ in 0..66 {
            answer.piece(&" ".repeat(CHUNK));
        }
        answer.piece("{}");
        answer.end();
    });
    let (gateway, _client) = for_ann("answers_large", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says("s", "Hello."));
    assert_eq!(reply.status, 200);
    let body = reply.rest().unwrap();
    assert_eq!(body.len(), 66 * CHUNK + 2);
    assert!(body.ends_with(" {}"));
}

#[test]
fn a_stream_is_one_however_its_type_is_written() {
    let upstream = Upstream::start(|_, answer| {
        answer.begin_as("Text/Event-Stream");
        answer.piece(&format!("data: {}\n\n", chunk("One.")));
        answer.wait_until_left();
    });
    let (gateway, mut client) = for_ann("answers_type", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says("s", "Count."));
    // It comes though the upstream does not end it.
    reply.read_until("memory_hits");
    drop(reply);
    wait_until(PATIENCE, "what was said to be stored", || {
        stored(&mut client, "ann", "s").len() == 2
    });
}

#[test]
fn no_answer_is_kept_or_read_by_others() {
    let upstream = Upstream::start(|_, answer| {
        let headers = [
            ("content-type", "application/json"),
            ("cache-control", "public, max-age=600"),
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h3=\":443\""),
            ("set-cookie", "a=b"),
        ];
        answer.whole(200, &headers, "{}");
    });
    let (gateway, _client) = for_ann("answers_cache", &upstream, &[]);
    for (method, path) in [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/embeddings"),
        ("GET", "/v1/models"),
        ("GET", "/health"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
    ] {
        let reply = send(gateway.address(), method, path, &[], &says("s", "Hello."));
        let of = |name: &str| {
            reply
                .headers
                .iter()
                .filter(|header| header.0 == name)
                .map(|header| &*header.1)
                .collect()
        };
        let found: Vec<Vec<&str>> = ["cache-control", "x-content-type-options"].map(of).to_vec();
        assert_eq!(found, [["no-store"], ["nosniff"]], "{path}");
        for name in ["access-control-allow-origin", "alt-svc", "set-cookie"] {
            assert_eq!(reply.header(name), None, "{path}");
        }
    }
}

#[test]
fn an_answer_that_is_too_long_for_memory_goes_through() {
    let upstream = Upstream::start(|_, answer| {
        answer.json(&crate::upstream::completion(&"word ".repeat(220_000)));
    });
    let (gateway, mut client) = for_ann("answers_long", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says("s", "Well?"));
    assert_eq!((reply.status, reply.header("x-memory-failed")), (200, Some("store")));
    let answer = reply.json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!((text.len(), answer.get("memory_stored")), (1_100_000, None));
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Well?"]);
}
