//! `memory_status` and `memory_stats`: what runs, what is missing, how much there is.

use memory_agent_e2e::memory::{ingest, ingest_all, run, value, values};
use memory_agent_e2e::{
    Client, Cluster, Json, expect_error, shared, shared_without_worker, wait_until,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// State, detail and hint of a component.
fn status(client: &mut Client, component: &str) -> (String, String, Option<String>) {
    let row = client
        .query_one(
            "SELECT state, detail, hint FROM memory_status() WHERE component = $1",
            &[&component],
        )
        .unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn all_is_well_after_installation() {
    // A cluster of its own: among many databases a worker comes and goes.
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("status_healthy").connect();
    wait_until(PATIENCE, "the models", || client.batch_execute("SELECT memory_embed('x')").is_ok());
    wait_until(PATIENCE, "a worker", || status(&mut client, "worker").0 == "running");
    ingest(&mut client, "s", "The secret word is marmalade.");
    run(&mut client, "SELECT count(*) FROM memory_recall('word')");
    let rows: Vec<String> =
        values(&mut client, "SELECT concat_ws(': ', component, state) FROM memory_status()", &[]);
    assert_eq!(
        rows,
        [
            "library: preloaded",
            "schema: current",
            "identity: setting",
            "model server: running",
            "onnxruntime: found",
            "embedder: loaded",
            "reranker: loaded",
            "embeddings: complete",
            "launcher: running",
            "worker: running",
            "llm: none",
            "extraction: off",
            "replacements: doubted",
            "queue: empty",
            "history: sealed",
            "vector index: not needed",
        ]
    );
    let told: String =
        value(&mut client, "SELECT string_agg(s::text, ' ') FROM memory_status() s", &[]);
    assert!(!told.contains("marmalade"), "counts, never content");
    let hints: Vec<String> =
        values(&mut client, "SELECT component FROM memory_status() WHERE hint IS NOT NULL", &[]);
    assert_eq!(hints, ["llm"], "nothing else to do");
    let pid = cluster.model_server_pid();
    assert!(status(&mut client, "model server").1.starts_with(&format!("pid {pid},")));
    assert!(status(&mut client, "identity").1.contains("\"alice\""));
}

#[test]
fn what_is_missing_is_counted_and_has_a_hint() {
    let mut client = shared_without_worker().database("status_missing").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    ingest_all(&mut client, "s", &["one", "two"]);
    ingest(&mut client, "t", "three");
    let (state, detail, hint) = status(&mut client, "embeddings");
    assert_eq!(state, "incomplete");
    assert!(detail.contains('3') && hint.is_some(), "{detail}");
    let (state, detail, _) = status(&mut client, "queue");
    assert_eq!(state, "waiting");
    assert!(detail.contains("2 pending"), "{detail}");
    assert_eq!(status(&mut client, "launcher").0, "off");
    assert_eq!(status(&mut client, "worker").0, "not running");
    // Turns that nobody extracts from, and a job that was given up.
    let (state, detail, _) = status(&mut client, "extraction");
    assert_eq!(state, "off");
    assert!(
        detail.starts_with("0 user turns wait") && detail.contains("3 were stored"),
        "{detail}"
    );
    run(&mut client, "UPDATE memory_agent.jobs SET status = 'dead', last_error = 'marmalade'");
    let (state, detail, hint) = status(&mut client, "queue");
    assert_eq!(state, "dead jobs");
    assert!(detail.contains("2 dead") && !detail.contains("marmalade"), "{detail}");
    assert!(hint.is_some_and(|hint| hint.contains("memory_retry")));

    run(&mut client, "ANALYZE memory_agent.entries; SET memory_agent.exact_scan_rows = 2");
    assert_eq!(status(&mut client, "vector index").0, "advised");
    run(&mut client, "SELECT memory_create_vector_index()");
    assert_eq!(status(&mut client, "vector index").0, "present");
}

#[test]
fn status_is_for_those_with_a_level() {
    let database = shared().database("status_levels");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE status_reader LOGIN; CREATE ROLE status_nobody LOGIN; SELECT memory_grant('status_reader', 'reader')",
    );
    ingest(&mut owner, "s", "one");
    let mut reader = database.connect_as("status_reader");
    let components = "SELECT string_agg(component, ', ' ORDER BY component) FROM memory_status()";
    let seen: String = value(&mut reader, components, &[]);
    assert_eq!(seen, value::<String>(&mut owner, components, &[]));
    assert!(seen.contains("history") && seen.contains("worker"), "{seen}");
    let mut nobody = database.connect_as("status_nobody");
    expect_error(nobody.query("SELECT * FROM memory_status()", &[]), "42501");
    expect_error(nobody.query("SELECT memory_stats()", &[]), "42501");
}

fn stats(client: &mut Client, arguments: &str) -> Json {
    value(client, &format!("SELECT memory_stats({arguments})"), &[])
}

#[test]
fn stats_count_what_was_stored() {
    let mut client = shared().database("stats").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'hello world', markers => '{goal}', created_at => '2024-01-01 00:00+00');
         SELECT memory_ingest('s', 'tool', 'hello world', markers => '{goal,decision}', created_at => '2024-01-01 00:01+00');
         SELECT memory_ingest('s', 'user', 'hello world', created_at => '2024-01-02 00:00+00');
         SELECT memory_ingest('t', 'user', 'hello world');
         SELECT memory_ingest('s', 'user', 'hello world', agent_id => 'coder');
         SELECT memory_add('hello world', 's', infer => false, created_at => '2024-01-01 12:00+00');
         SELECT memory_add('hello again', infer => false);
         SELECT memory_ingest('s', 'user', 'hello world', user_id => 'bob');
         SET memory_agent.embed_on_ingest = off;
         SELECT memory_ingest('u', 'user', 'hello world');
         UPDATE memory_agent.entries SET state = 'archived' WHERE created_at = '2024-01-01 00:00+00';
         UPDATE memory_agent.entries SET state = 'inactive' WHERE session_id = 'u'",
    );
    let session = stats(&mut client, "'s'");
    for (key, expected) in [
        ("sessions", 1),
        ("turns", 3),
        ("facts", 1),
        ("documents", 0),
        ("archived", 1),
        ("inactive", 0),
        ("tokens", 8),
        ("window_tokens", 4),
        ("without_embedding", 0),
    ] {
        assert_eq!(session[key], expected, "{key}: {session}");
    }
    assert_eq!(session["markers"]["goal"], 2);
    assert_eq!(session["markers"]["decision"], 1);
    assert_eq!(session["episodes"]["closed"], 1);
    assert_eq!(session["episodes"]["open"], 1);
    assert_eq!(session["summaries"]["L3"], 0);
    assert!(session["first_at"].as_str().unwrap().starts_with("2024-01-01T00:00:00"));
    assert!(session["last_at"].as_str().unwrap().starts_with("2024-01-02T00:00:00"));

    let all = stats(&mut client, "");
    assert_eq!(
        (&all["sessions"], &all["turns"], &all["facts"], &all["inactive"]),
        (&4.into(), &5.into(), &2.into(), &1.into())
    );
    let coder = stats(&mut client, "agent_id => 'coder'");
    assert_eq!(
        (&coder["sessions"], &coder["turns"], &coder["facts"]),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!(stats(&mut client, "user_id => 'bob'")["turns"], 1);
    let nobody = stats(&mut client, "'s', 'nobody'");
    assert_eq!((&nobody["turns"], &nobody["tokens"]), (&0.into(), &0.into()));
    expect_error(client.query("SELECT memory_stats('')", &[]), "22023");
}
