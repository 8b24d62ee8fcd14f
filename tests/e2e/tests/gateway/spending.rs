//! What a token may spend of the gateway's key: tokens of the language model a day, counted in the database.

use crate::http::{Reply, chat, says, says_streaming, send};
use crate::upstream::Upstream;
use crate::wire::{BOTH, Wire};
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway, expect_error, json, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::channel;

fn spend(client: &mut Client, arguments: &str) -> Option<i64> {
    let query = format!("SELECT memory_spend(sha256('a'), {arguments})");
    client.query_one(&query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}

#[test]
fn a_day_has_so_many_tokens() {
    let mut client = database(cluster(), "spending_sql");
    let mut gateway = cluster().connect_as("spending_sql", ROLE);
    assert_eq!(spend(&mut gateway, "60, 100"), Some(60));
    assert_eq!(spend(&mut gateway, "60, 100"), Some(120), "the last one may go beyond");
    assert_eq!(spend(&mut gateway, "1, 100"), None);
    assert_eq!(spend(&mut gateway, "1"), Some(121));
    assert_eq!(spend(&mut gateway, "38, reserved => 60"), Some(99), "a guess is corrected");
    assert_eq!(spend(&mut gateway, "1, 100"), Some(100));
    let other = "SELECT memory_spend(sha256('b'), 7, 1)";
    assert_eq!(value::<i64>(&mut gateway, other, &[]), 7, "each has its own");
    // A day in UTC: yesterday's are not today's, and what is taken back is no credit.
    run(&mut client, "UPDATE memory_agent.spending SET day = day - 1");
    assert_eq!(spend(&mut gateway, "10, reserved => 60"), Some(0));
    assert_eq!(spend(&mut gateway, "5, 1"), Some(5));
    for (arguments, state) in [
        ("NULL, 1", "22023"),
        ("sha256('a'), NULL", "22023"),
        ("'\\x00', 1", "22023"),
        ("sha256('a'), 9223372036854775807", "22023"),
        ("sha256('a'), -1", "22023"),
        ("sha256('a'), 1, reserved => -1", "22023"),
        ("sha256('a'), 1, 1, 1", "22023"),
    ] {
        expect_error(gateway.batch_execute(&format!("SELECT memory_spend({arguments})")), state);
    }
    expect_error(gateway.batch_execute("SELECT * FROM memory_agent.spending"), "42501");
    // A token shows what was spent with it today.
    let ann: String = value(&mut client, "SELECT memory_create_token('ann', 'laptop')", &[]);
    client.execute("SELECT memory_spend(sha256($1::text::bytea), 42)", &[&ann]).unwrap();
    assert_eq!(spent(&mut client), 42);
}

/// Nobody's day is emptied: not by a settlement of what was never reserved, nor by a second one.
#[test]
fn no_more_is_taken_back_than_was_reserved() {
    drop(database(cluster(), "spending_back"));
    let mut gateway = cluster().connect_as("spending_back", ROLE);
    assert_eq!(spend(&mut gateway, "0, reserved => 1000000"), Some(0));
    assert_eq!(spend(&mut gateway, "70"), Some(70));
    assert_eq!(spend(&mut gateway, "0, reserved => 1000000"), Some(70));
    assert_eq!(spend(&mut gateway, "100, 1000"), Some(170));
    assert_eq!(spend(&mut gateway, "50, 1000"), Some(220));
    assert_eq!(spend(&mut gateway, "30, reserved => 100"), Some(150));
    assert_eq!(spend(&mut gateway, "30, reserved => 100"), Some(100), "only 50 were left");
    assert_eq!(spend(&mut gateway, "30, reserved => 100"), Some(100));
    assert_eq!(spend(&mut gateway, "45, reserved => 40"), Some(105), "a call took more");
}

/// Rows of callers that do not come back do not stay for ever.
#[test]
fn who_was_not_here_for_a_week_is_forgotten() {
    let mut client = database(cluster(), "spending_tidy");
    let mut gateway = cluster().connect_as("spending_tidy", ROLE);
    let spends =
        "SELECT count(memory_spend(sha256(n::text::bytea), 1)) FROM generate_series($1::int, $2) n";
    assert_eq!(value::<i64>(&mut gateway, spends, &[&1, &100]), 100);
    run(
        &mut client,
        "UPDATE memory_agent.spending \
            SET day = day - CASE token_hash WHEN sha256('1') THEN 0 WHEN sha256('2') THEN 7 ELSE 8 END",
    );
    let left = "SELECT count(*) FROM memory_agent.spending";
    // One of them is back just now, and forgets the others in a transaction that nobody waits for.
    let mut other = cluster().connect_as("spending_tidy", ROLE);
    run(&mut other, "BEGIN; SELECT memory_spend(sha256('3'), 1)");
    run(&mut gateway, "SET lock_timeout = '10s'");
    assert_eq!(value::<i64>(&mut gateway, spends, &[&200, &200]), 1);
    assert_eq!(value::<i64>(&mut client, left, &[]), 101);
    run(&mut other, "COMMIT");
    assert_eq!(value::<i64>(&mut client, left, &[]), 4, "1, 2, 3 and 200");
}

/// Each user of the database could empty the day of the own token, or fill another's.
#[test]
fn users_neither_spend_nor_look_tokens_up() {
    let mut client = database(cluster(), "spending_users");
    let ann: String = value(&mut client, "SELECT memory_create_token('ann', 'laptop')", &[]);
    run(
        &mut client,
        "CREATE ROLE spending_user LOGIN; SELECT memory_grant('spending_user', 'user')",
    );
    let mut user = cluster().connect_as("spending_users", "spending_user");
    for call in ["memory_spend(sha256('user ann'), 1000000000)", "memory_spend(sha256('x'), 1)"] {
        let message = expect_error(user.batch_execute(&format!("SELECT {call}")), "42501");
        assert!(message.contains("permission denied"), "{message}");
    }
    let looked_up = user.execute("SELECT memory_token_user(sha256($1::text::bytea))", &[&ann]);
    expect_error(looked_up, "42501");
    // Nor by EXECUTE that somebody grants by hand.
    run(&mut client, "GRANT EXECUTE ON FUNCTION memory_spend, memory_token_user TO spending_user");
    let spent = user.batch_execute("SELECT memory_spend(sha256('x'), 1)");
    let message = expect_error(spent, "42501");
    assert!(message.contains("memory_grant('spending_user', 'gateway')"), "{message}");
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM memory_agent.spending", &[]), 0);
    // A gateway for tokens says so when it starts, and one person's needs no more.
    let to = Gateway::database(cluster(), "spending_user", "spending_users");
    let log = Gateway::try_start(&["--database", &to]).expect_err("it must not start");
    assert!(format!("{log:?}").contains("memory_grant('ROLE', 'gateway')"), "{log:?}");
    drop(Gateway::start(&["--database", &to, "--user", "ann"]));
}

/// What the one token has spent today.
fn spent(client: &mut Client) -> i64 {
    value(client, "SELECT spent_today FROM memory_list_tokens()", &[])
}

#[test]
fn many_at_once_spend_what_they_spend() {
    let mut client = database(cluster(), "spending_many");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = cluster().connect_as("spending_many", ROLE);
                for _ in 0..10 {
                    spend(&mut client, "1, 1000");
                }
            });
        }
    });
    assert_eq!(spend(&mut client, "0"), Some(80));
}

/// A gateway with a key and a limit; each call makes another over the same database.
fn limited(name: &str, upstream: &Upstream, daily: &str) -> Gateway {
    let key = cluster().socket_directory().join(format!("{name}.key"));
    std::fs::write(&key, "sk-of-the-gateway\n").unwrap();
    let key = key.to_string_lossy().into_owned();
    let (to, url) = (Gateway::database(cluster(), ROLE, name), upstream.url());
    let mut arguments = vec!["--database", &to, "--upstream", &url, "--upstream-key-file", &key];
    arguments.extend(["--patience", NEVER_LATE, "--daily-tokens", daily]);
    Gateway::start(&arguments)
}

fn token(client: &mut Client, user: &str) -> String {
    let token: String = value(client, "SELECT memory_create_token($1, 'laptop')", &[&user]);
    format!("Bearer {token}")
}

#[test]
fn a_token_that_has_spent_its_day_is_refused() {
    // Each answer takes 9 + 4 tokens.
    let upstream = Upstream::saying("Yes.");
    let mut client = database(cluster(), "spending_day");
    let ann = token(&mut client, "ann");
    let first = limited("spending_day", &upstream, "20");
    let ask = |gateway: &Gateway, token: &str, text: &str| -> Reply {
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        chat(gateway, &[("authorization", token)], &body)
    };
    assert_eq!(ask(&first, &ann, "One.").status, 200);
    wait_until(PATIENCE, "the guess to be corrected", || spent(&mut client) == 13);
    assert_eq!(ask(&first, &ann, "Two.").status, 200);
    wait_until(PATIENCE, "both to be counted", || spent(&mut client) == 26);
    // It holds for another gateway as well, and after a restart.
    let second = limited("spending_day", &upstream, "20");
    drop(first);
    let asked = upstream.requests().len();
    let mut refused = ask(&second, &ann, "Three.");
    assert_eq!(refused.status, 429);
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    let error = refused.json();
    assert_eq!(error["error"]["code"], "spending_limit_reached");
    let headers = [("authorization", &*ann)];
    let embeddings =
        send(second.address(), "POST", "/v1/embeddings", &headers, "{\"input\":\"a\"}");
    assert_eq!(embeddings.status, 429);
    assert_eq!(send(second.address(), "GET", "/v1/models", &headers, "").status, 200);
    let posts = upstream.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, asked, "the upstream is not asked");
    let bob = token(&mut client, "bob");
    assert_eq!(ask(&second, &bob, "One.").status, 200, "each token has its own");
    run(&mut client, "UPDATE memory_agent.spending SET day = day - 1");
    assert_eq!(ask(&second, &ann, "Four.").status, 200, "a new day");
}

#[test]
fn a_stream_says_what_it_took() {
    const USAGE: &str =
        r#"{"id":"c","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":11}}"#;
    let upstream = Upstream::start(|request, answer| {
        answer.begin();
        answer.says("Yes.");
        if request.json()["stream_options"]["include_usage"] == true {
            answer.piece(&format!("data: {USAGE}\n\n"));
        }
        answer.done();
    });
    let mut client = database(cluster(), "spending_stream");
    let ann = token(&mut client, "ann");
    let gateway = limited("spending_stream", &upstream, "1000000");
    let headers = [("authorization", &*ann)];
    // The client did not ask for it, so it does not see it.
    let answer = chat(&gateway, &headers, &says_streaming("s", "Well?")).rest().unwrap();
    assert!(!answer.contains("prompt_tokens") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    wait_until(PATIENCE, "the stream to be counted", || spent(&mut client) == 111);
    let asks = says_streaming("s", "Well?").replacen(
        '{',
        "{\"stream_options\":{\"include_usage\":true},",
        1,
    );
    let answer = chat(&gateway, &headers, &asks).rest().unwrap();
    assert!(answer.contains(USAGE), "{answer}");
    wait_until(PATIENCE, "both to be counted", || spent(&mut client) == 222);
}

#[test]
fn what_is_not_answered_costs_nothing() {
    let upstream = Upstream::start(|_, answer| {
        answer.whole(500, &[("content-type", "application/json")], "{}");
    });
    let mut client = database(cluster(), "spending_failed");
    let ann = token(&mut client, "ann");
    let gateway = limited("spending_failed", &upstream, "1000");
    assert_eq!(chat(&gateway, &[("authorization", &ann)], &says("s", "Hello?")).status, 500);
    wait_until(PATIENCE, "the guess to be taken back", || spent(&mut client) == 0);
}

#[test]
fn what_is_not_read_stays_as_it_was_guessed() {
    let (begun, has_begun) = channel();
    let begun = Mutex::new(begun);
    let upstream = Upstream::start(move |request, answer| {
        if request.body.contains("Wait") {
            begun.lock().unwrap().send(()).unwrap();
            answer.wait_until_left();
        } else if request.body.contains("input") {
            answer.json(r#"{"data": []}"#);
        } else {
            answer.whole(200, &[("content-type", "text/plain")], "Yes.");
        }
    });
    let mut client = database(cluster(), "spending_guess");
    let ann = token(&mut client, "ann");
    let mut gateway = limited("spending_guess", &upstream, "100000");
    let body = |text: &str| {
        let mut body: memory_agent_e2e::Json = serde_json::from_str(&says("s", text)).unwrap();
        body["max_completion_tokens"] = 600.into();
        body.to_string()
    };
    let headers = [("authorization", &*ann)];
    let plain = body("Hello?");
    assert_eq!(chat(&gateway, &headers, &plain).rest().unwrap(), "Yes.");
    let embedded = r#"{"input": "A text of some words."}"#;
    let mut reply = send(gateway.address(), "POST", "/v1/embeddings", &headers, embedded);
    assert_eq!((reply.status, reply.rest().is_ok()), (200, true));
    let waits = body("Wait.");
    let mut connection = std::net::TcpStream::connect(gateway.address()).unwrap();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: {ann}");
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{waits}", waits.len());
    std::io::Write::write_all(&mut connection, request.as_bytes()).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    drop(connection);
    // It ends when everything is counted.
    gateway.signal(libc::SIGTERM);
    assert!(gateway.wait());
    let guessed = |body: &str| i64::try_from(body.len().div_ceil(4)).unwrap();
    let expected = guessed(&plain) + 600 + guessed(embedded) + guessed(&waits) + 600;
    assert_eq!(spent(&mut client), expected);
}

#[test]
fn what_is_being_answered_counts_already_and_stays_when_the_gateway_is_killed() {
    let (begun, has_begun) = channel();
    let begun = Mutex::new(begun);
    let upstream = Upstream::start(move |_, answer| {
        begun.lock().unwrap().send(()).unwrap();
        answer.wait_until_left();
    });
    let mut client = database(cluster(), "spending_killed");
    let ann = token(&mut client, "ann");
    let gateway = limited("spending_killed", &upstream, "500");
    let address = gateway.address();
    let mut body: memory_agent_e2e::Json = serde_json::from_str(&says("s", "Hello?")).unwrap();
    body["max_completion_tokens"] = 600.into();
    let body = body.to_string();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: {ann}");
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    std::io::Write::write_all(&mut connection, request.as_bytes()).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    assert!(spent(&mut client) >= 600);
    assert_eq!(chat(&gateway, &[("authorization", &ann)], &says("s", "And I?")).status, 429);
    gateway.signal(libc::SIGKILL);
    drop(gateway);
    assert!(spent(&mut client) >= 600);
}

#[test]
fn a_limit_without_a_key_or_a_database_is_none() {
    let log = Gateway::try_start(&["--database", "dbname=x", "--daily-tokens", "5"]);
    let log = format!("{:?}", log.expect_err("it must not start"));
    assert!(log.contains("--upstream-key-file"), "{log}");
    let upstream = Upstream::saying("Yes.");
    let mut client = database(cluster(), "spending_locked");
    let ann = token(&mut client, "ann");
    let gateway = limited("spending_locked", &upstream, "500");
    run(
        &mut client,
        &format!(
            "REVOKE EXECUTE ON FUNCTION memory_spend(bytea, bigint, bigint, bigint) FROM {ROLE}"
        ),
    );
    let mut refused = chat(&gateway, &[("authorization", &ann)], &says("s", "Hello?"));
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["error"]["code"], "memory_unavailable");
    assert!(upstream.requests().is_empty());
}

#[test]
fn every_protocol_spends() {
    let upstream = Upstream::start(|request, answer| {
        let is_anthropics = request.path.starts_with("/v1/messages");
        let wire = if is_anthropics { Wire::Messages } else { Wire::Responses };
        if request.json()["stream"] == true {
            wire.begins(answer);
            wire.word(answer, "Yes.");
            wire.ends(answer, "Yes.");
        } else {
            answer.json(&wire.whole("Yes.").to_string());
        }
    });
    let mut client = database(cluster(), "spending_protocols");
    let key = cluster().socket_directory().join("spending_protocols.key");
    std::fs::write(&key, "sk-of-the-gateway\n").unwrap();
    let key = key.to_string_lossy().into_owned();
    let (to, url) = (Gateway::database(cluster(), ROLE, "spending_protocols"), upstream.url());
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &url,
        "--upstream-key-file",
        &key,
        "--messages-upstream",
        &url,
        "--messages-upstream-key-file",
        &key,
        "--patience",
        NEVER_LATE,
        "--daily-tokens",
        "100000",
    ]);
    let ann = token(&mut client, "ann");
    let mut expected = 0;
    for wire in BOTH {
        for stream in [false, true] {
            let mut body = wire.says("s", "Hello.");
            body["stream"] = stream.into();
            let headers = [("authorization", &*ann)];
            let mut reply =
                send(gateway.address(), "POST", wire.path(), &headers, &body.to_string());
            assert_eq!(reply.status, 200);
            reply.rest().unwrap();
            // What the upstream says, in the place of the guess; what a client asked for is no more than that.
            expected += 13;
            wait_until(PATIENCE, "the spending to be counted", || spent(&mut client) == expected);
        }
    }
    assert!(!upstream.last().body.contains("stream_options"));
    // What such a response takes, nobody sees.
    let asked = upstream.requests().len();
    let mut body = Wire::Responses.says("s", "Hello.");
    body["background"] = true.into();
    let (path, headers) = (Wire::Responses.path(), [("authorization", &*ann)]);
    let mut refused = send(gateway.address(), "POST", path, &headers, &body.to_string());
    assert_eq!((refused.status, upstream.requests().len()), (400, asked), "{:?}", refused.rest());
}
