//! What only administrators see, and the connection that it comes through.

use crate::http::send;
use crate::people::{token, with_tokens};
use crate::upstream::Upstream;
use crate::{ROLE, cluster, database};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway, wait_until};

/// A role of the level `admin`.
const ADMIN_ROLE: &str = "gateway_admin";

/// Gives it its level in a database.
fn admin_role(client: &mut Client) {
    run(
        client,
        &format!(
            "DO $$ BEGIN CREATE ROLE {ADMIN_ROLE} LOGIN; \
                   EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$; \
             SELECT memory_grant('{ADMIN_ROLE}', 'admin')"
        ),
    );
}

#[test]
fn only_an_administrators_token_shows_what_was_spent() {
    let upstream = Upstream::saying("Yes.");
    let name = "admins_metrics";
    let to = Gateway::database(cluster(), ADMIN_ROLE, name);
    // The role has its level later than the gateway starts, so this one has no administrators.
    let (without, mut client) = with_tokens(name, &upstream, &[]);
    admin_role(&mut client);
    let key = cluster().socket_directory().join(format!("{name}.key"));
    let (place, url) = (Gateway::database(cluster(), ROLE, name), upstream.url());
    let key = key.to_string_lossy().into_owned();
    let with = Gateway::start(&[
        "--database",
        &place,
        "--upstream",
        &url,
        "--upstream-key-file",
        &key,
        "--admin-database",
        &to,
        "--admin",
        "ops",
        "--admin",
        "root",
    ]);
    let (ann, ops) = (token(&mut client, "ann", "laptop"), token(&mut client, "ops", "prometheus"));
    let _: Option<i64> =
        value(&mut client, "SELECT memory_spend(sha256(convert_to($1, 'UTF8')), 77)", &[&ann]);
    // Users of JWTs spend too, and have no token.
    let _: Option<i64> = value(&mut client, "SELECT memory_spend(sha256('user bob'), 5)", &[]);
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, session_id, status, attempts, last_error) \
         VALUES (gen_random_uuid(), 'extract', 'bob', 's', 'dead', 5, 'about bob')",
    );
    let metrics = |gateway: &Gateway, token: &str| {
        let headers = [("authorization", &*format!("Bearer {token}"))];
        let mut reply = send(gateway.address(), "GET", "/metrics", &headers, "");
        assert_eq!(reply.status, 200);
        reply.rest().unwrap()
    };
    let (spent, dead) =
        ("memory_gateway_llm_tokens_today", "memory_gateway_jobs{state=\"dead\"} 1\n");
    // What was looked at a second ago may be told again.
    wait_until(crate::PATIENCE, "the dead job to be counted", || {
        metrics(&with, &ann).contains(dead) && metrics(&without, &ann).contains(dead)
    });
    for (gateway, token) in [(&with, &ann), (&without, &ann), (&without, &ops)] {
        let text = metrics(gateway, token);
        assert!(!text.contains(spent), "{text}");
        assert!(text.contains("memory_gateway_database_up 1\n"), "{text}");
    }
    let text = metrics(&with, &ops);
    assert!(text.contains(&format!("{spent}{{key=\"gateway\"}} 82\n")), "{text}");
    assert!(text.contains(&format!("{spent}{{key=\"database\"}} 0\n")), "{text}");
    // The user ops is told from others by the token alone.
    let headers = [("authorization", &*format!("Bearer {ann}")), ("x-memory-user", "ops")];
    let text = send(with.address(), "GET", "/metrics?user=ops", &headers, "").rest().unwrap();
    assert!(!text.contains(spent), "{text}");
}

#[test]
fn a_connection_that_is_no_administrators_is_refused_at_once() {
    let mut client = database(cluster(), "admins_refused");
    let to = Gateway::database(cluster(), ROLE, "admins_refused");
    let start = |admin: &str| {
        let arguments =
            ["--database", &to, "--upstream", "http://127.0.0.1:9", "--admin-database", admin];
        Gateway::try_start(&[&arguments[..], &["--admin", "ops"]].concat())
    };
    let log = format!("{:?}", start(&to).expect_err("its role has no such level"));
    assert!(log.contains("needs the level admin (SQLSTATE 42501)"), "{log}");
    let log = format!("{:?}", start("no address").expect_err("it is none"));
    assert!(log.contains("--admin-database: invalid database address"), "{log}");
    // One that is away may come back.
    assert!(start("host=/nowhere user=x").is_ok());
    admin_role(&mut client);
    assert!(start(&Gateway::database(cluster(), ADMIN_ROLE, "admins_refused")).is_ok());
}
