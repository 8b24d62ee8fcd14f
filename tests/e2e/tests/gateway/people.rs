//! Whose memory a request is about: what the token says, or the one person of this machine. Nothing in a
//! request, and nothing that is left on a connection, makes it another.

use crate::http::{chat, says, send};
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database, stored};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Gateway, expect_error, json, wait_until};

/// A gateway with a key of its own, to which everybody shows a token; one connection serves them all.
pub fn with_tokens(name: &str, upstream: &Upstream, arguments: &[&str]) -> (Gateway, Client) {
    let mut client = database(cluster(), name);
    // What somebody left on each connection: it begins as another user.
    let eve = format!("ALTER ROLE {ROLE} IN DATABASE {name} SET memory_agent.user_id = 'eve'");
    run(&mut client, &eve);
    let key = cluster().socket_directory().join(format!("{name}.key"));
    std::fs::write(&key, "sk-of-the-gateway\n").unwrap();
    let key = key.to_string_lossy().into_owned();
    let (to, url) = (Gateway::database(cluster(), ROLE, name), upstream.url());
    let fixed = [
        "--database",
        &to,
        "--upstream",
        &url,
        "--upstream-key-file",
        &key,
        "--connections",
        "1",
        "--patience",
        NEVER_LATE,
    ];
    (Gateway::start(&[&fixed, arguments].concat()), client)
}

pub fn token(client: &mut Client, user: &str, name: &str) -> String {
    value(client, "SELECT memory_create_token($1, $2)", &[&user, &name])
}

pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn a_token_says_whose_memory_it_is() {
    let upstream = Upstream::saying("Noted.");
    let (gateway, mut client) = with_tokens("people_tokens", &upstream, &[]);
    let (ann, bob) = (token(&mut client, "ann", "laptop"), token(&mut client, "bob", "phone"));
    assert!(ann.starts_with("mat_") && ann.len() == 68 && ann != bob, "{ann}");
    std::thread::scope(|scope| {
        for (user, token) in [("ann", &ann), ("bob", &bob)] {
            let gateway = &gateway;
            scope.spawn(move || {
                for number in 0..8 {
                    let text = format!("The secret number {number} of {user} is {user}{number}.");
                    // A name in the body is nobody's business.
                    let body =
                        says("s", &text).replacen('{', "{\"user\":\"eve\",\"user_id\":\"eve\",", 1);
                    let headers = [("authorization", &*bearer(token)), ("x-user-id", "eve")];
                    let mut reply = chat(gateway, &headers, &body);
                    assert_eq!(reply.status, 200);
                    let hits = reply.json()["memory_hits"].to_string();
                    let other = if user == "ann" { "bob" } else { "ann" };
                    assert!(!hits.contains(other), "{user} got {hits}");
                }
            });
        }
    });
    for user in ["ann", "bob"] {
        let turns = stored(&mut client, user, "s");
        assert_eq!(turns.len(), 16, "{turns:?}");
    }
    let users: String = value(
        &mut client,
        "SELECT string_agg(DISTINCT user_id, ' ' ORDER BY user_id) FROM memory_agent.entries",
        &[],
    );
    assert_eq!(users, "ann bob");
    for request in upstream.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer sk-of-the-gateway"));
        let all = format!("{request:?}");
        assert!(!all.contains("mat_") && !all.contains("x-memory"), "{all}");
    }
    let log = gateway.log();
    for secret in ["mat_", "sk-of", "secret number", "ann", "Noted"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[test]
fn only_a_token_that_holds_lets_in() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("people_refused", &upstream, &[]);
    let status = |headers: &[(&str, &str)]| {
        let mut reply = chat(&gateway, headers, &says("s", "Hello."));
        if reply.status == 401 {
            assert_eq!(reply.json()["error"]["code"], "invalid_memory_token");
        }
        reply.status
    };
    let with = |token: &str| status(&[("authorization", &bearer(token))]);
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("authorization", "Basic YTpi")]), 401);
    assert_eq!(with("mat_0000"), 401);
    assert_eq!(with("' OR true --"), 401);
    let ann = token(&mut client, "ann", "laptop");
    assert_eq!(with(&ann), 200);
    assert_eq!(status(&[("x-memory-token", &ann)]), 200);
    assert_eq!(with(&ann.to_uppercase()), 401);
    assert_eq!(status(&[("authorization", &bearer(&ann)), ("x-memory-token", "mat_1")]), 401);
    let hash: String =
        value(&mut client, "SELECT 'mat_' || encode(hash, 'hex') FROM memory_agent.tokens", &[]);
    assert_eq!(with(&hash), 401, "what is stored lets nobody in");
    for path in ["/v1/models", "/v1/embeddings", "/metrics"] {
        let method = if path == "/v1/embeddings" { "POST" } else { "GET" };
        assert_eq!(send(gateway.address(), method, path, &[], "").status, 401, "{path}");
    }
    assert_eq!(send(gateway.address(), "GET", "/health", &[], "").status, 200);

    run(&mut client, "UPDATE memory_agent.tokens SET expires_at = now() - interval '1 s'");
    assert_eq!(with(&ann), 401);
    run(&mut client, "UPDATE memory_agent.tokens SET expires_at = now() + interval '1 h'");
    assert_eq!(with(&ann), 200);
    assert!(value::<bool>(&mut client, "SELECT memory_revoke_token('ann', 'laptop')", &[]));
    assert!(!value::<bool>(&mut client, "SELECT memory_revoke_token('ann', 'laptop')", &[]));
    assert_eq!(with(&ann), 401);
    let next = token(&mut client, "ann", "laptop");
    assert_eq!(with(&next), 200);
    run(&mut client, "SELECT memory_erase(user_id => 'ann')");
    assert_eq!(with(&next), 401, "who is erased has no token");
}

#[test]
fn guesses_are_limited() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("people_guesses", &upstream, &[]);
    let ann = token(&mut client, "ann", "laptop");
    let with = |token: &str| {
        let headers = [("authorization", &*bearer(token))];
        chat(&gateway, &headers, &says("s", "Hello.")).status
    };
    assert_eq!(with(&ann), 200);
    wait_until(PATIENCE, "guesses to be refused", || with("mat_guess") == 429);
    assert_eq!(with(&ann), 200, "who is known is let in");
}

#[test]
fn with_pass_through_the_memory_token_stays_here() {
    let upstream = Upstream::saying("Yes.");
    let mut client = database(cluster(), "people_through");
    let to = Gateway::database(cluster(), ROLE, "people_through");
    let url = upstream.url();
    let gateway =
        Gateway::start(&["--database", &to, "--upstream", &url, "--patience", NEVER_LATE]);
    let ann = token(&mut client, "ann", "laptop");
    let headers = [("authorization", "Bearer sk-of-ann"), ("x-memory-token", &*ann)];
    assert_eq!(chat(&gateway, &headers, &says("s", "Hello.")).status, 200);
    let sent = upstream.last();
    assert_eq!(sent.header("authorization"), Some("Bearer sk-of-ann"));
    assert!(!format!("{sent:?}").contains("mat_"), "{sent:?}");
    let headers = [("authorization", &*bearer(&ann))];
    let mut reply = chat(&gateway, &headers, &says("s", "Hello."));
    assert_eq!(reply.status, 401);
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("x-memory-token"));
    for (name, value) in [("authorization", &*bearer(&ann)), ("api-key", &*ann)] {
        let also =
            [("authorization", "Bearer sk-of-ann"), ("x-memory-token", &*ann), (name, value)];
        assert_eq!(chat(&gateway, &also, &says("s", "Hello.")).status, 401, "{name}");
    }
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(stored(&mut client, "ann", "s").len(), 2);
}

#[test]
fn a_memory_token_in_another_header_goes_nowhere() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("people_elsewhere", &upstream, &[]);
    let ann = token(&mut client, "ann", "laptop");
    let through = |gateway: &Gateway, headers: &[(&str, &str)]| {
        chat(gateway, headers, &says("s", "Hello.")).status
    };
    let holds = ("authorization", &*bearer(&ann));
    assert_eq!(through(&gateway, &[holds]), 200);
    let in_a_name = format!("x-stainless-{ann}");
    for name in [
        "accept",
        "user-agent",
        "idempotency-key",
        "openai-beta",
        "anthropic-beta",
        "anthropic-version",
        "traceparent",
        "x-request-id",
        "x-stainless-lang",
    ] {
        assert_eq!(through(&gateway, &[holds, (name, &format!("a {ann}"))]), 200, "{name}");
    }
    assert_eq!(through(&gateway, &[holds, (&in_a_name, "1")]), 200);
    // Nobody needs a token here, and one that is sent all the same goes no further.
    let to = Gateway::database(cluster(), ROLE, "people_elsewhere");
    let url = upstream.url();
    let arguments =
        ["--database", &to, "--upstream", &url, "--user", "ann", "--patience", NEVER_LATE];
    let for_one = Gateway::start(&arguments);
    assert_eq!(through(&for_one, &[holds]), 200);
    assert_eq!(through(&for_one, &[("user-agent", &*ann)]), 200);
    assert_eq!(through(&for_one, &[("x-memory-token", &*ann)]), 200);
    assert_eq!(upstream.requests().iter().filter(|request| request.method == "POST").count(), 14);
    assert!(upstream.requests().iter().all(|request| !format!("{request:?}").contains("mat_")));
}

#[test]
fn many_guesses_at_once_are_limited_too() {
    const GUESSES: usize = 100;
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = with_tokens("people_parallel", &upstream, &[]);
    let started = std::time::Instant::now();
    let guess = |number: usize| {
        let token = bearer(&format!("mat_{number}"));
        send(gateway.address(), "GET", "/v1/models", &[("authorization", &token)], "").status
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let guess = &guess;
        let threads: Vec<_> =
            (0..GUESSES).map(|number| scope.spawn(move || guess(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Thirty a minute, and one more every two seconds.
    let most = 31 + started.elapsed().as_secs() as usize / 2;
    let looked_up = statuses.iter().filter(|status| **status == 401).count();
    assert!(looked_up <= most, "{looked_up} of {most}: {statuses:?}");
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!(looked_up + refused, GUESSES, "{statuses:?}");
}

#[test]
fn behind_a_proxy_each_client_has_its_own_guesses() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("people_proxy", &upstream, &["--proxy", "127.0.0.1"]);
    let from = |address: &str, token: &str| {
        let headers = [("authorization", &*bearer(token)), ("x-forwarded-for", address)];
        send(gateway.address(), "GET", "/v1/models", &headers, "").status
    };
    // What a client writes itself does not count.
    wait_until(PATIENCE, "guesses to be refused", || from("6.6.6.6, 192.0.2.1", "mat_x") == 429);
    let ann = token(&mut client, "ann", "laptop");
    assert_eq!(from("192.0.2.2", &ann), 200);
    assert_eq!(from("192.0.2.2", "mat_x"), 401);
}

#[test]
fn a_key_that_the_upstream_refuses_is_not_the_callers() {
    let upstream = Upstream::start(|request, answer| {
        let key = request.header("authorization").unwrap_or_default().to_owned();
        answer.whole(401, &[], &format!("{{\"error\": \"{key} is wrong\"}}"));
    });
    let (gateway, mut client) = with_tokens("people_key", &upstream, &[]);
    let ann = bearer(&token(&mut client, "ann", "laptop"));
    let headers = [("authorization", &*ann)];
    for mut reply in [
        chat(&gateway, &headers, &says("s", "Hello.")),
        send(gateway.address(), "GET", "/v1/models", &headers, ""),
    ] {
        assert_eq!(reply.status, 502);
        let error = reply.json();
        assert_eq!(error["error"]["code"], "upstream_unavailable");
        assert!(!error.to_string().contains("sk-"), "{error}");
    }
}

#[test]
fn each_token_has_its_rate() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("people_rate", &upstream, &["--rate", "3"]);
    let (ann, bob) = (token(&mut client, "ann", "laptop"), token(&mut client, "bob", "phone"));
    let with = |token: &str| {
        send(gateway.address(), "GET", "/v1/models", &[("authorization", &bearer(token))], "")
    };
    wait_until(PATIENCE, "the rate to be used up", || with(&ann).status == 429);
    let refused = with(&ann);
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_ne!(with(&bob).status, 429);
}

#[test]
fn one_person_is_served_on_this_machine_alone() {
    let upstream = Upstream::saying("Yes.");
    drop(database(cluster(), "people_one"));
    let to = Gateway::database(cluster(), ROLE, "people_one");
    let url = upstream.url();
    let arguments = ["--database", &to, "--upstream", &url, "--user", "ann"];
    let gateway = Gateway::start(&arguments);
    let from = |host: &str, origin: Option<&str>| {
        let mut headers = vec![("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        chat(&gateway, &headers, &says("s", "Hello.")).status
    };
    let here = gateway.address().to_string();
    assert_eq!(from(&here, None), 200);
    assert_eq!(from("localhost", Some("http://localhost")), 200);
    assert_eq!(from("localhost", Some("http://localhost:3000")), 403);
    assert_eq!(from("rebound.example", None), 403);
    assert_eq!(from(&here, Some("https://evil.example")), 403);
    assert_eq!(gateway.logged("one_person").len(), 1, "it says so");
    let log = Gateway::try_start(&[&arguments[..], &["--listen", "0.0.0.0:0"]].concat());
    let log = format!("{:?}", log.expect_err("it must not listen elsewhere"));
    assert!(log.contains("--user is for one person on this machine"), "{log}");
}

#[test]
fn where_roles_are_users_it_does_not_start() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.identity", "role").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    drop(database(&cluster, "people_role"));
    let to = Gateway::database(&cluster, ROLE, "people_role");
    let log = Gateway::try_start(&["--database", &to, "--user", "ann", "--patience", NEVER_LATE]);
    let log = format!("{:?}", log.expect_err("it must not start"));
    assert!(log.contains("memory_agent.identity is 'role'"), "{log}");
}

#[test]
fn where_claims_are_users_it_makes_them() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.identity", "claims").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "people_claims");
    let upstream = Upstream::saying("Yes.");
    let (to, url) = (Gateway::database(&cluster, ROLE, "people_claims"), upstream.url());
    let who = ["--user", "ann", "--patience", NEVER_LATE];
    let gateway = Gateway::start(&[&["--database", &to, "--upstream", &url], &who[..]].concat());
    assert!(chat(&gateway, &[], &says("s", "First.")).header("x-memory-stored").is_some());
    wait_until(PATIENCE, "both turns", || stored(&mut client, "ann", "s").len() == 2);
}

#[test]
fn tokens_are_made_by_administrators() {
    let mut client = database(cluster(), "people_admins");
    run(&mut client, "SET memory_agent.user_id = 'root'");
    for (call, expected) in [
        ("memory_create_token('*', 'x')", "22023"),
        ("memory_create_token('', 'x')", "22023"),
        ("memory_create_token(NULL, 'x')", "22023"),
        ("memory_create_token('ann', ' ')", "22023"),
        ("memory_create_token('ann', 'x', now() - interval '1 s')", "22023"),
        ("memory_create_token('ann', repeat('x', 101))", "22023"),
    ] {
        expect_error(client.batch_execute(&format!("SELECT {call}")), expected);
    }
    run(&mut client, "SELECT memory_create_token('ann', 'laptop', now() + interval '1 day')");
    let twice = client.batch_execute("SELECT memory_create_token('ann', 'laptop')");
    assert!(expect_error(twice, "42710").contains("memory_revoke_token"));
    let listed: String = value(
        &mut client,
        "SELECT string_agg(concat(user_id, ' ', name, ' ', expires_at > now()), ',') FROM memory_list_tokens()",
        &[],
    );
    assert_eq!(listed, "ann laptop t");
    let mut gateway = cluster().connect_as("people_admins", ROLE);
    run(&mut gateway, "SET memory_agent.user_id = 'ann'");
    for call in [
        "memory_create_token('ann', 'x')",
        "memory_revoke_token('ann', 'laptop')",
        "memory_list_tokens()",
    ] {
        expect_error(gateway.batch_execute(&format!("SELECT {call}")), "42501");
    }
    expect_error(gateway.batch_execute("SELECT * FROM memory_agent.tokens"), "42501");
    let document =
        value::<memory_agent_e2e::Json>(&mut client, "SELECT memory_erase(user_id => 'ann')", &[]);
    assert_eq!(document["tokens"], json!(1));
}
