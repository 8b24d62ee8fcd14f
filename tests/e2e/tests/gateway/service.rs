//! `/health`, `/metrics`, the log, and how much is let through at once.

use crate::http::{chat, says, send};
use crate::upstream::Upstream;
use crate::{PATIENCE, for_ann};
use memory_agent_e2e::{Gateway, json, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::channel;

#[test]
fn health_says_what_is_there() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("service_health", &upstream, &[]);
    let mut reply = send(gateway.address(), "GET", "/health", &[("host", "anything")], "");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let health = reply.json();
    for (name, expected) in [
        ("status", json!("ok")),
        ("live", json!(true)),
        ("ready", json!(true)),
        ("database", json!("ok")),
        ("upstream", json!("ok")),
    ] {
        assert_eq!(health[name], expected, "{health}");
    }
    assert!(health["model_server"].is_string(), "{health}");
}

#[test]
fn what_happens_is_counted_and_logged_without_words() {
    let upstream = Upstream::saying("A quiet answer.");
    let (gateway, _client) = for_ann("service_metrics", &upstream, &[]);
    chat(&gateway, &[], &says("s-secret", "A quiet question.")).json();
    send(gateway.address(), "GET", "/secret-path", &[], "");
    wait_until(PATIENCE, "the chat to be logged", || gateway.logged("chat").len() == 1);
    let text = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
    for line in [
        "memory_gateway_requests_total{status=\"200\"} 1",
        "memory_gateway_refused_total{reason=\"unknown_path\"} 1",
        "memory_gateway_turns_stored_total{role=\"user\"} 1",
        "memory_gateway_turns_stored_total{role=\"assistant\"} 1",
        "memory_gateway_llm_tokens_total{kind=\"prompt\"} 9",
        "memory_gateway_llm_tokens_total{kind=\"completion\"} 4",
        "memory_gateway_recall_seconds_count 1",
        "memory_gateway_store_seconds_count 2",
        "memory_gateway_chat_seconds_count 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
    }
    // Prometheus takes it: each name has one type, and each sample a number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("memory_gateway_") && value.parse::<f64>().is_ok(), "{line}");
    }
    let log = gateway.log();
    for word in ["quiet", "secret", "ann"] {
        assert!(!log.contains(word) && !text.contains(word), "{word}:\n{log}\n{text}");
    }
}

#[test]
fn only_so_many_at_once() {
    let (begun, has_begun) = channel();
    let (go_on, word) = channel::<()>();
    let (begun, word) = (Mutex::new(begun), Mutex::new(word));
    let upstream = Upstream::start(move |request, answer| {
        if request.method == "POST" {
            begun.lock().unwrap().send(()).unwrap();
            let _ = word.lock().unwrap().recv();
        }
        answer.json(&crate::upstream::completion("Yes."));
    });
    let (gateway, _client) = for_ann("service_busy", &upstream, &["--max-in-flight", "1"]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| chat(&gateway, &[], &says("s", "Hello.")).status);
        has_begun.recv_timeout(PATIENCE).unwrap();
        let mut second = chat(&gateway, &[], &says("s", "Hello?"));
        assert_eq!(second.status, 503);
        assert_eq!(second.json()["error"]["code"], "busy");
        assert_eq!(send(gateway.address(), "GET", "/health", &[], "").status, 200);
        go_on.send(()).unwrap();
        assert_eq!(first.join().unwrap(), 200);
    });
}

#[test]
fn only_so_many_bytes_at_once() {
    let (begun, has_begun) = channel();
    let (go_on, word) = channel::<()>();
    let (begun, word) = (Mutex::new(begun), Mutex::new(word));
    let upstream = Upstream::start(move |request, answer| {
        if request.method == "POST" {
            begun.lock().unwrap().send(()).unwrap();
            let _ = word.lock().unwrap().recv();
        }
        answer.json(&crate::upstream::completion("Yes."));
    });
    let limits = ["--max-body", "100000", "--max-bodies", "150000"];
    let (gateway, _client) = for_ann("service_bytes", &upstream, &limits);
    let large = says("s", &"word ".repeat(16_000));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| chat(&gateway, &[], &large).status);
        has_begun.recv_timeout(PATIENCE).unwrap();
        let mut second = chat(&gateway, &[], &large);
        assert_eq!(second.status, 503);
        assert!(second.header("retry-after").is_some());
        assert_eq!(second.json()["error"]["code"], "busy");
        // There is room for a small one.
        let small = scope.spawn(|| chat(&gateway, &[], &says("s", "Hello.")).status);
        has_begun.recv_timeout(PATIENCE).unwrap();
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        assert_eq!((first.join().unwrap(), small.join().unwrap()), (200, 200));
        // What was held is free again, once the answer is stored.
        go_on.send(()).unwrap();
        wait_until(PATIENCE, "room", || chat(&gateway, &[], &large).status == 200);
    });
    let log = Gateway::try_start(&["--user", "ann", "--database", "x", "--max-bodies", "1"]);
    let log = format!("{:?}", log.expect_err("it does not start"));
    assert!(log.contains("--max-bodies is less than --max-body"), "{log}");
}
