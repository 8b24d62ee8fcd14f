//! `memory_agent.identity = claims`: the user is the `sub` of the claims that PostgREST sets in the transaction of
//! each request.

use crate::{create_roles, grant, remember, set, users};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, expect_error};

const VIEW: &str = "SELECT DISTINCT user_id FROM public.memory_entries";

/// A cluster in this mode, with what PostgREST connects as, and roles that its requests take.
fn cluster(preload: bool) -> Cluster {
    let cluster =
        Cluster::builder().preload(preload).setting("memory_agent.identity", "claims").start();
    let mut superuser = cluster.database("db").connect();
    create_roles(&mut superuser, &["authenticator", "member", "visitor", "service"]);
    run(
        &mut superuser,
        "ALTER ROLE authenticator NOINHERIT; GRANT member, visitor, service TO authenticator; \
         SET memory_agent.embed_on_ingest = off",
    );
    for (role, level) in [("member", "user"), ("visitor", "user"), ("service", "admin")] {
        grant(&mut superuser, role, level);
    }
    for user in ["alice", "bob", "*"] {
        remember(&mut superuser, user, &format!("a memory of {user}"));
    }
    cluster
}

/// Begins a request as PostgREST does.
fn begin(client: &mut Client, role: &str, claims: &str) {
    run(client, "BEGIN");
    client
        .execute(
            "SELECT set_config('search_path', 'public', true), set_config('role', $1, true), \
                    set_config('request.jwt.claims', $2, true), \
                    set_config('request.method', 'POST', true)",
            &[&role, &claims],
        )
        .unwrap();
}

#[test]
fn a_request_acts_for_the_subject_of_its_token() {
    for preload in [true, false] {
        let cluster = cluster(preload);
        let mut pooled = cluster.connect_as("db", "authenticator");
        for user in ["alice", "bob"] {
            begin(&mut pooled, "member", &format!(r#"{{"role": "member", "sub": "{user}"}}"#));
            assert_eq!(users(&mut pooled, VIEW).unwrap(), set(&["*", user]), "preload {preload}");
            let own = format!("SELECT memory_ingest('s', 'user', 'said by {user}')");
            run(&mut pooled, &own);
            // The same name is no contradiction.
            run(&mut pooled, &format!("SELECT memory_load('s', user_id => '{user}')"));
            run(&mut pooled, "COMMIT");
        }
        let mut superuser = cluster.connect("db");
        let said: Vec<String> = values(
            &mut superuser,
            "SELECT user_id FROM memory_agent.entries WHERE content LIKE 'said by %' ORDER BY created_at",
            &[],
        );
        assert_eq!(said, ["alice", "bob"]);
    }
}

#[test]
fn a_request_without_a_subject_is_refused() {
    let cluster = cluster(true);
    let mut pooled = cluster.connect_as("db", "authenticator");
    for claims in [
        r#"{"role": "visitor"}"#,
        r#"{"sub": null}"#,
        r#"{"sub": 7}"#,
        r#"{"sub": "*"}"#,
        "alice",
        "[]",
        "",
    ] {
        for call in [
            VIEW,
            "SELECT memory_load('s')",
            "SELECT memory_load('s', user_id => 'alice')",
            "SELECT memory_ingest('s', 'user', 'x', user_id => 'alice')",
        ] {
            begin(&mut pooled, "visitor", claims);
            expect_error(pooled.batch_execute(call), "42501");
            run(&mut pooled, "ROLLBACK");
        }
    }
    begin(&mut pooled, "visitor", r#"{"sub": " "}"#);
    expect_error(pooled.batch_execute("SELECT memory_load('s')"), "22023");
    run(&mut pooled, "ROLLBACK");
    // After a request nothing of it is left.
    begin(&mut pooled, "member", r#"{"sub": "alice"}"#);
    run(&mut pooled, "COMMIT");
    let mut member = cluster.connect_as("db", "member");
    for client in [&mut pooled, &mut member] {
        run(client, "SET ROLE member");
        expect_error(client.batch_execute("SELECT memory_load('s')"), "42501");
    }
}

#[test]
fn neither_argument_nor_setting_names_another_user() {
    let cluster = cluster(true);
    let mut pooled = cluster.connect_as("db", "authenticator");
    let alice = r#"{"sub": "alice"}"#;
    for call in [
        "SELECT memory_load('s', user_id => 'bob')",
        "SELECT content FROM memory_recall('memory', user_id => 'bob')",
        "SELECT memory_ingest('s', 'user', 'x', user_id => '*')",
    ] {
        begin(&mut pooled, "member", alice);
        expect_error(pooled.batch_execute(call), "42501");
        run(&mut pooled, "ROLLBACK");
    }
    begin(&mut pooled, "member", alice);
    run(&mut pooled, "SET LOCAL memory_agent.user_id = 'bob'");
    assert_eq!(users(&mut pooled, VIEW).unwrap(), set(&["*", "alice"]));
    run(&mut pooled, "ROLLBACK");
}

/// A back end with the key of its owner has no user of its own: it names one in each call.
#[test]
fn administrators_name_users() {
    let cluster = cluster(true);
    let mut pooled = cluster.connect_as("db", "authenticator");
    for claims in ["", r#"{"sub": "alice"}"#] {
        begin(&mut pooled, "service", claims);
        run(&mut pooled, "SELECT memory_ingest('s', 'user', 'about bob', user_id => 'bob')");
        run(&mut pooled, "COMMIT");
    }
    begin(&mut pooled, "service", "");
    expect_error(pooled.batch_execute("SELECT memory_load('s')"), "42501");
    run(&mut pooled, "ROLLBACK");
    let mut superuser = cluster.connect("db");
    let query =
        "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'bob' AND content = 'about bob'";
    assert_eq!(value::<i64>(&mut superuser, query, &[]), 2);
}
