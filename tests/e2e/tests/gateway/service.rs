//! `/health`, `/metrics`, the log, and how much is let through at once.

use crate::http::{chat, says, says_streaming, send};
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database, for_ann, stored};
use memory_agent_e2e::{Gateway, json, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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
        "memory_gateway_recall_embed_seconds_count 1",
        "memory_gateway_recall_search_seconds_count 1",
        "memory_gateway_recall_rerank_seconds_count 1",
        "memory_gateway_recall_rank_seconds_count 1",
        "memory_gateway_store_seconds_count 2",
        "memory_gateway_chat_seconds_count 1",
        "memory_gateway_jobs{state=\"dead\"} 0",
        "memory_gateway_database_up 1",
        "memory_gateway_upstream_up 1",
        "memory_gateway_model_server_up 1",
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
fn whoever_watches_hears_soon_that_the_database_does_not_answer() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("host=127.0.0.1 port={} user=x dbname=x", silent.local_addr().unwrap().port());
    let upstream = Upstream::saying("Yes.");
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &upstream.url(),
        "--user",
        "ann",
        "--patience",
        "8000",
    ]);
    for (path, found) in
        [("/metrics", "memory_gateway_database_up 0\n"), ("/health", "\"database\":\"down\"")]
    {
        let asked = Instant::now();
        let text = send(gateway.address(), "GET", path, &[], "").rest().unwrap();
        assert!(text.contains(found), "{text}");
        assert!(asked.elapsed() < Duration::from_secs(4), "{path}: {:?}", asked.elapsed());
    }
}

#[test]
fn metrics_come_soon_whatever_does_not_answer() {
    // They take connections, and say nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let took = |gateway: &Gateway, found: &[&str]| {
        let asked = Instant::now();
        let text = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
        for line in found {
            assert!(text.lines().any(|found| found == *line), "{line} is missing:\n{text}");
        }
        asked.elapsed()
    };
    let down = "memory_gateway_upstream_up 0";
    let _client = database(cluster(), "service_silent");
    let to = Gateway::database(cluster(), ROLE, "service_silent");
    let patient = ["--upstream", &url, "--user", "ann", "--patience", "20000"];
    let gateway = Gateway::start(&[&["--database", &to][..], &patient].concat());
    // Soon is before it is settled whether the upstream is there.
    let times = [(); 3].map(|()| took(&gateway, &["memory_gateway_database_up 1", down]));
    assert!(times.iter().any(|took| *took < Duration::from_millis(1_900)), "{times:?}");

    let to = format!("host=127.0.0.1 port={} user=x dbname=x", silent.local_addr().unwrap().port());
    let gateway = Gateway::start(&[&["--database", &to][..], &patient].concat());
    let took = took(&gateway, &["memory_gateway_database_up 0", down]);
    assert!(took < Duration::from_secs(5), "a quarter of the patience is longer: {took:?}");
}

#[test]
fn who_asks_and_leaves_has_nothing_looked_at_anew() {
    let looks = TcpListener::bind("127.0.0.1:0").unwrap();
    looks.set_nonblocking(true).unwrap();
    let url = format!("http://{}/v1", looks.local_addr().unwrap());
    let to = Gateway::database(cluster(), ROLE, "postgres");
    let gateway = Gateway::start(&["--database", &to, "--upstream", &url, "--user", "ann"]);
    // All within the time that one look takes.
    for _ in 0..3 {
        let mut client = TcpStream::connect(gateway.address()).unwrap();
        client.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(client.read(&mut [0]).is_err(), "the look is over");
    }
    let mut connections = Vec::new();
    wait_until(PATIENCE, "the first look", || {
        connections.extend(looks.accept());
        !connections.is_empty()
    });
    while let Ok(connection) = looks.accept() {
        connections.push(connection);
    }
    assert_eq!(connections.len(), 1);
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

#[test]
fn only_so_many_bytes_of_answers_at_once() {
    let upstream = Upstream::start(|request, answer| {
        let is_long = request.body.contains("Epic");
        let text = if is_long { "word ".repeat(16_000) } else { "short ".repeat(10) };
        if request.method == "GET" {
            answer.json("{}");
        } else if request.json()["stream"] == true {
            answer.begin();
            for piece in text.as_bytes().chunks(1_000) {
                answer.says(std::str::from_utf8(piece).unwrap());
            }
            answer.done();
        } else {
            answer.json(&crate::upstream::completion(&text));
        }
    });
    let (gateway, mut client) = for_ann("service_answers", &upstream, &["--max-answers", "40000"]);
    let ask = |session: &str, text: &str| chat(&gateway, &[], &says(session, text));
    // What is held is free again after each.
    for number in 0..10 {
        let mut reply = ask("short", &format!("Question {number}"));
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, None));
        assert!(reply.json()["memory_stored"].is_string());
    }
    let mut long = ask("long", "Epic?");
    assert_eq!((long.status, long.header("x-memory-failed")), (200, Some("store")));
    let answer = long.json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(text.len(), 80_000, "it goes through as it came");
    assert!(answer.get("memory_stored").is_none(), "{answer}");
    assert_eq!(stored(&mut client, "ann", "long"), ["user: Epic?"]);

    let streamed = chat(&gateway, &[], &says_streaming("stream", "Epic?")).rest().unwrap();
    assert_eq!(streamed.matches("word ").count(), 16_000, "all of it goes through");
    assert!(streamed.contains("memory_stored") && streamed.ends_with("data: [DONE]\n\n"));
    let turns = stored(&mut client, "ann", "stream");
    let (kept, mark) = turns[1].rsplit_once(' ').unwrap();
    assert_eq!(mark, "(interrupted)");
    assert!((35_000..45_000).contains(&kept.len()), "{} bytes", kept.len());

    let database = Gateway::database(cluster(), ROLE, "service_answers");
    let url = upstream.url();
    let strict = Gateway::start(&[
        "--database",
        &database,
        "--upstream",
        &url,
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
        "--max-answers",
        "40000",
        "--require-memory",
    ]);
    let mut reply = chat(&strict, &[], &says("strict", "Epic?"));
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["error"]["code"], "memory_unavailable");
}

#[test]
fn an_event_without_room_goes_on_in_pieces() {
    let (go_on, word) = channel::<()>();
    let word = Mutex::new(word);
    let upstream = Upstream::start(move |request, answer| {
        if request.method == "GET" {
            return answer.json("{}");
        }
        answer.begin();
        answer.says("Begun.");
        answer.piece(&format!("data: {}", "x".repeat(100_000)));
        let _ = word.lock().unwrap().recv();
        answer.piece("y\n\n");
        answer.done();
    });
    let (gateway, _client) = for_ann("service_event", &upstream, &["--max-answers", "40000"]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Long?"));
    let begun = reply.read_until(&"x".repeat(70_000));
    assert!(begun.contains("Begun."), "{}", begun.len());
    go_on.send(()).unwrap();
    let rest = reply.rest().unwrap();
    let xs = begun.matches('x').count() + rest.matches('x').count();
    assert!(xs >= 100_000 && rest.ends_with("data: [DONE]\n\n"), "{xs}");
}
