//! What a chat is like when memory, the upstream or the gateway itself fails.

use crate::http::{chat, says, says_streaming, send};
use crate::upstream::Upstream;
use crate::{NEVER_LATE, NO_ANSWERS, PATIENCE, ROLE, cluster, database, for_ann, stored};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Cluster, Gateway, Json, StopMode, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A cluster that is stopped in the test.
pub fn own_cluster() -> Cluster {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    cluster
}

#[test]
fn a_chat_goes_on_without_a_database() {
    let upstream = Upstream::saying("Still here.");
    let cluster = own_cluster();
    drop(database(&cluster, "gone"));
    let to = Gateway::database(&cluster, ROLE, "gone");
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &upstream.url(),
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
    ]);
    assert!(chat(&gateway, &[], &says("s", "First.")).header("x-memory-stored").is_some());
    cluster.stop(StopMode::Immediate);
    for body in [says("s", "Second."), says_streaming("s", "Third.")] {
        let mut reply = chat(&gateway, &[], &body);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("x-memory-stored"), None);
        assert_eq!(reply.header("x-memory-failed"), Some("recall,store"));
        let answer = reply.rest().unwrap();
        assert!(answer.contains("here."), "{answer}");
        assert!(!answer.contains("memory_"), "{answer}");
    }
    let mut health = send(gateway.address(), "GET", "/health", &[], "");
    assert_eq!(health.status, 200);
    let health = health.json();
    assert_eq!(
        (health["status"].as_str(), health["database"].as_str()),
        (Some("degraded"), Some("down"))
    );
    let metrics = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
    assert!(
        metrics.contains("memory_gateway_memory_failures_total{step=\"recall\"} 2"),
        "{metrics}"
    );

    cluster.start();
    let mut client = cluster.connect("gone");
    wait_until(PATIENCE, "memory to be back", || {
        chat(&gateway, &[], &says("s", "Fourth.")).header("x-memory-stored").is_some()
    });
    let turns = stored(&mut client, "ann", "s");
    assert_eq!(turns[0], "user: First.");
    assert_eq!(turns.iter().filter(|turn| *turn == "user: Fourth.").count(), 1, "{turns:?}");
}

#[test]
fn with_require_memory_a_chat_fails_with_memory() {
    let upstream = Upstream::saying("Yes.");
    let cluster = own_cluster();
    drop(database(&cluster, "required"));
    let to = Gateway::database(&cluster, ROLE, "required");
    let url = upstream.url();
    let arguments = [
        "--database",
        &to,
        "--upstream",
        &url,
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
        "--require-memory",
    ];
    let gateway = Gateway::start(&arguments);
    assert_eq!(chat(&gateway, &[], &says("s", "First.")).status, 200);
    cluster.stop(StopMode::Fast);
    let asked = upstream.requests().len();
    let mut reply = chat(&gateway, &[], &says("s", "Second."));
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["error"]["code"], "memory_unavailable");
    let status = |path| send(gateway.address(), "GET", path, &[], "").status;
    // The database is away, and to restart the gateway would not help.
    assert_eq!(["/health", "/health/ready", "/health/live"].map(status), [503, 503, 200]);
    let chats = upstream.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(chats, asked, "the upstream is not asked for nothing");
    drop(gateway);
    let log = Gateway::try_start(&arguments).expect_err("it does not start without");
    let is_said = |line: &Json| {
        let problem = line["problem"].as_str().unwrap_or_default();
        problem.starts_with("the database cannot be reached: ") && problem.contains(" (host=")
    };
    assert!(log.iter().any(is_said), "{log:?}");
}

#[test]
fn an_answer_that_cannot_be_stored_is_an_error_when_memory_is_required() {
    let upstream = Upstream::saying("Not for memory.");
    let (gateway, mut client) = for_ann("failures_unstored", &upstream, &["--require-memory"]);
    run(&mut client, NO_ANSWERS);
    let mut reply = chat(&gateway, &[], &says("s", "First."));
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["error"]["code"], "memory_unavailable");
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Second."));
    assert_eq!(reply.status, 200);
    let answer = reply.rest().unwrap();
    assert!(answer.contains("memory_unavailable"), "{answer}");
    assert!(!answer.contains("[DONE]"), "{answer}");
    assert_eq!(stored(&mut client, "ann", "s"), ["user: First.", "user: Second."]);
}

/// One that streams and one that comes in one piece.
#[test]
fn answers_that_break_off_are_counted() {
    let upstream = Upstream::start(|request, answer| {
        if request.json()["stream"] == true {
            answer.begin();
            answer.says("One");
        } else {
            answer.begin_as("application/json");
            answer.piece("{\"choices\":");
        }
    });
    let (gateway, _client) = for_ann("failures_broken", &upstream, &[]);
    let metric = "memory_gateway_broken_answers_total{by=\"upstream\"}";
    for (broken, body) in [says_streaming("s", "First."), says("s", "Second.")].iter().enumerate() {
        // The client of a stream has its beginning.
        let _ = chat(&gateway, &[], body).rest();
        wait_until(PATIENCE, "the answer to be counted", || {
            let metrics = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
            metrics.contains(&format!("{metric} {}", broken + 1))
        });
    }
}

#[test]
fn late_memory_is_stored_late() {
    let upstream = Upstream::saying("Anyway.");
    let (gateway, mut client) = for_ann("failures_late", &upstream, &["--patience", "300"]);
    let mut blocker = cluster().connect("failures_late");
    let mut lock = blocker.transaction().unwrap();
    lock.batch_execute("LOCK TABLE memory_agent.entries IN ACCESS EXCLUSIVE MODE").unwrap();
    let mut reply = chat(&gateway, &[], &says("s", "Hurry."));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-memory-failed"), Some("recall,store"));
    assert_eq!(reply.header("x-memory-stored"), None);
    let answer = reply.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Anyway.");
    assert!(answer.get("memory_stored").is_none(), "{answer}");
    lock.rollback().unwrap();
    wait_until(PATIENCE, "both turns to be stored", || stored(&mut client, "ann", "s").len() == 2);
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Hurry.", "assistant: Anyway."]);
}

#[test]
fn an_upstream_that_is_not_there_is_named() {
    let upstream = Upstream::saying("Never.");
    let mut client = database(cluster(), "failures_upstream");
    let to = Gateway::database(cluster(), ROLE, "failures_upstream");
    drop(upstream);
    // Nothing listens on the port of a server that is gone.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &url,
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
    ]);
    let mut reply = chat(&gateway, &[], &says("s", "Hello?"));
    assert_eq!(reply.status, 502);
    assert!(reply.header("x-memory-stored").is_some());
    let error = reply.json();
    assert_eq!(error["error"]["code"], "upstream_unavailable");
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Hello?"]);
    assert_eq!(send(gateway.address(), "GET", "/health", &[], "").status, 503);
}

#[test]
fn a_gateway_that_is_told_to_stop_finishes_what_streams() {
    let (go_on, word) = channel();
    let word = Mutex::new(word);
    let upstream = Upstream::start(move |_, answer| {
        answer.begin();
        answer.says("One ");
        let () = word.lock().unwrap().recv().unwrap();
        answer.says("two.");
        answer.done();
    });
    let (mut gateway, mut client) = for_ann("failures_stop", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Count."));
    reply.read_until("One ");
    gateway.signal(libc::SIGTERM);
    wait_until(PATIENCE, "it to stop listening", || {
        std::net::TcpStream::connect(gateway.address()).is_err()
    });
    go_on.send(()).unwrap();
    let rest = reply.rest().unwrap();
    assert!(rest.contains("memory_stored") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(gateway.wait(), "{}", gateway.log());
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Count.", "assistant: One two."]);
}

#[test]
fn a_gateway_that_is_killed_has_stored_what_it_said_it_had() {
    let (begun, has_begun) = channel();
    let begun = Mutex::new(begun);
    let upstream = Upstream::start(move |request, answer| {
        answer.begin();
        answer.says("One ");
        if request.header("x-halt").is_some() {
            begun.lock().unwrap().send(()).unwrap();
            answer.wait_until_left();
        } else {
            answer.says("two.");
            answer.done();
        }
    });
    let (gateway, mut client) = for_ann("failures_killed", &upstream, &[]);
    let body = says_streaming("s", "Count.");
    let mut reply = chat(&gateway, &[("idempotency-key", "k"), ("x-halt", "yes")], &body);
    assert!(reply.header("x-memory-stored").is_some());
    has_begun.recv_timeout(PATIENCE).unwrap();
    reply.read_until("One ");
    gateway.signal(libc::SIGKILL);
    assert!(reply.rest().is_err());
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Count."]);
    let to = Gateway::database(cluster(), ROLE, "failures_killed");
    let next = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &upstream.url(),
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
    ]);
    chat(&next, &[("idempotency-key", "k")], &body).rest().unwrap();
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Count.", "assistant: One two."]);
}

#[test]
fn the_log_says_that_messages_are_too_long_for_a_recall() {
    let upstream = Upstream::saying("Long.");
    let (gateway, _client) = for_ann("failures_long", &upstream, &[]);
    let mut reply = chat(&gateway, &[], &says("s", &"word ".repeat(60_000)));
    assert_eq!((reply.status, reply.header("x-memory-failed")), (200, Some("recall")));
    assert!(reply.rest().is_ok());
    let failed = gateway.logged("memory_failed");
    let reason = failed[0]["reason"].as_str().unwrap();
    assert!(reason.contains("memory_agent.context_limit"), "{reason}");
}

#[test]
fn secrets_go_upstream_and_not_into_memory() {
    let upstream = Upstream::saying("4111 1111 1111 1111 is yours.");
    let (gateway, mut client) = for_ann("failures_secrets", &upstream, &[]);
    let body = says("s", "Is 4111 1111 1111 1111 mine?");
    for _ in 0..2 {
        let mut reply = chat(&gateway, &[("idempotency-key", "k")], &body);
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, None));
        assert!(reply.rest().unwrap().contains("4111 1111 1111 1111 is yours."));
    }
    assert!(upstream.requests()[0].body.contains("Is 4111 1111 1111 1111 mine?"));
    assert_eq!(
        stored(&mut client, "ann", "s"),
        ["user: Is [redacted: card] mine?", "assistant: [redacted: card] is yours."]
    );
    let refuse = "SELECT memory_configure(settings => '{\"secrets\": \"refuse\"}', user_id => '*')";
    run(&mut client, refuse);
    let mut reply = chat(&gateway, &[], &says("refused", "Is 4111 1111 1111 1111 mine?"));
    assert_eq!((reply.status, reply.header("x-memory-failed")), (200, Some("store")));
    assert!(reply.rest().unwrap().contains("is yours."));
    assert_eq!(stored(&mut client, "ann", "refused"), [""; 0]);
}

#[test]
fn a_chat_over_the_quota_goes_on() {
    let upstream = Upstream::saying("Two.");
    let (gateway, mut client) = for_ann("failures_quota", &upstream, &[]);
    run(&mut client, "SELECT memory_set_quota('ann', entries => 2)");
    for failed in [None, Some("store")] {
        let mut reply = chat(&gateway, &[], &says("s", failed.unwrap_or("One?")));
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, failed));
        assert!(reply.rest().unwrap().contains("Two."));
    }
    assert_eq!(stored(&mut client, "ann", "s"), ["user: One?", "assistant: Two."]);
}
