//! The library with the schema of an older version: its files are installed and the server was restarted,
//! ALTER EXTENSION UPDATE comes later, or never. Everything that the version had works, worker included.

use crate::{RELEASED, older_database, schema_version, update};
use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, wait_until};
use std::time::Duration;

fn model() -> ScriptedModel {
    ScriptedModel::new()
        .knows("I live in Rome.", "home", "Rome", "The user lives in Rome.")
        .knows("I have moved to Oslo.", "home", "Oslo", "The user lives in Oslo.")
        .knows("My dog is called Rex.", "dog", "Rex", "The user's dog is called Rex.")
}

fn cluster(stub: &LlmStub) -> Cluster {
    Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting("memory_agent.llm_timeout", "10s")
        .setting("memory_agent.sweep_interval", "1s")
        .setting("memory_agent.recent_messages_to_keep", "2")
        .start()
}

fn status(client: &mut Client) -> String {
    let row = "SELECT concat_ws('|', state, detail, hint) FROM memory_status() WHERE component = 'schema'";
    value(client, row, &[])
}

#[track_caller]
fn drain(client: &mut Client) {
    let jobs = "SELECT concat_ws(' ', kind, status, attempts, last_error) FROM memory_jobs \
                 WHERE status <> 'done'";
    if !value::<bool>(client, "SELECT memory_wait('90 s')", &[]) {
        panic!("the queue does not drain: {:#?}", values::<String>(client, jobs, &[]));
    }
    assert_eq!(values::<String>(client, jobs, &[]), [""; 0]);
}

fn facts(client: &mut Client) -> Vec<String> {
    let facts = "SELECT content FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active' ORDER BY 1";
    values(client, facts, &[])
}

/// What the log may not hold: an ERROR of a worker, or of a statement that was not meant to fail.
#[track_caller]
fn assert_no_errors(cluster: &Cluster) {
    let log = cluster.log();
    let errors: Vec<&str> = log
        .lines()
        .filter(|line| {
            line.contains("ERROR:") || line.contains("FATAL:") || line.contains("PANIC:")
        })
        // A client of the harness that looks whether the server is up already.
        .filter(|line| !line.contains("the database system is starting up"))
        .collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn a_database_that_is_not_updated_goes_on() {
    let stub = LlmStub::start(model());
    let cluster = cluster(&stub);
    for version in RELEASED {
        let mut client = older_database(&cluster, &format!("older_{version}"), version);
        let row = status(&mut client);
        assert!(
            row.starts_with(&format!("older|version {version}|"))
                && row.contains("ALTER EXTENSION memory_agent UPDATE"),
            "{row}"
        );

        ingest(&mut client, "s", "I live in Rome.");
        ingest(&mut client, "s", "My dog is called Rex.");
        drain(&mut client);
        ingest(&mut client, "s", "I have moved to Oslo.");
        run(&mut client, "SELECT memory_ingest('s', 'assistant', 'How nice!')");
        drain(&mut client);
        assert_eq!(
            facts(&mut client),
            ["The user lives in Oslo.", "The user's dog is called Rex."]
        );
        let best = recalled_texts(
            &mut client,
            "'Where does the user live now?', kinds => '{fact}', top_k => 1",
        );
        assert_eq!(best, ["The user lives in Oslo."]);

        // The window is compressed, a summary made, an idle session swept, rows expire.
        run(&mut client, "SELECT memory_add('Soon forgotten.', infer => false, ttl => '1 second')");
        run(&mut client, "SELECT memory_compress('s')");
        drain(&mut client);
        let summaries = "SELECT count(*) FROM memory_agent.session_summaries WHERE is_active";
        assert_eq!(value::<i64>(&mut client, summaries, &[]), 1);
        let expired =
            "SELECT state = 'inactive' FROM memory_agent.entries WHERE content = 'Soon forgotten.'";
        wait_until(Duration::from_secs(60), "a sweep", || value(&mut client, expired, &[]));

        run(
            &mut client,
            "SELECT memory_context('s', 'Where do I live?'), memory_explain('dog'), memory_stats()",
        );
        run(
            &mut client,
            "SELECT memory_add_document('# Dogs'||chr(10)||chr(10)||'They bark.', 'Animals')",
        );
        run(
            &mut client,
            "SELECT memory_configure(session_id => 's', settings => '{\"recency_weight\": 0.1}')",
        );
        let chat =
            "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Where do I live?\"}]', 's')";
        let answer: Json = value(&mut client, chat, &[]);
        assert!(answer.get("choices").is_some(), "{answer}");
        let exported: Vec<String> =
            values(&mut client, "SELECT content FROM memory_export_markdown('s')", &[]);
        assert!(!exported.is_empty());
        drain(&mut client);
        assert!(value::<i64>(&mut client, "SELECT memory_clear('s')::int8", &[]) > 0);
        drain(&mut client);
        assert_eq!(schema_version(&mut client), version);
        assert_no_errors(&cluster);
    }
    // What came later is not there, and says so.
    let mut client = older_database(&cluster, "older_lacks", RELEASED[0]);
    expect_error(client.batch_execute("SELECT memory_agent.renew_levels()"), "42883");
}

/// An update while a worker and other sessions are at work: their plans and jobs survive it.
#[test]
fn an_update_while_everything_runs() {
    let stub = LlmStub::start(model());
    let cluster = cluster(&stub);
    for version in RELEASED {
        let name = format!("running_{version}");
        let mut client = older_database(&cluster, &name, version);
        let mut other = cluster.connect(&name);
        run(&mut other, "SET memory_agent.user_id = 'alice'");
        for session in [&mut client, &mut other] {
            ingest(session, "s", "My dog is called Rex.");
            recalled_texts(session, "'dog'");
        }
        drain(&mut client);
        // A job that was queued for the old schema, and is at the LLM when the new one comes.
        stub.hold(true);
        let calls = stub.call_count();
        ingest(&mut client, "s", "I live in Rome.");
        wait_until(Duration::from_secs(60), "the job to ask the LLM", || stub.in_flight() > 0);
        update(&mut client);
        stub.hold(false);
        drain(&mut client);
        assert!(stub.call_count() > calls);
        assert!(facts(&mut client).contains(&"The user lives in Rome.".to_owned()));
        for session in [&mut client, &mut other] {
            ingest(session, "s", "I have moved to Oslo.");
            let found =
                recalled_texts(session, "'Who has moved to Oslo?', kinds => '{turn}', top_k => 1");
            assert_eq!(found, ["I have moved to Oslo."]);
        }
        drain(&mut client);
        assert!(facts(&mut client).contains(&"The user lives in Oslo.".to_owned()));
        assert!(status(&mut other).starts_with("current|"));
        assert_no_errors(&cluster);
    }
}

/// Files that were taken back, or a session that has an older library: nobody promises anything.
#[test]
fn a_newer_schema_is_pointed_out() {
    let mut client = memory_agent_e2e::shared().database("older_newer").connect();
    assert!(status(&mut client).starts_with("current|"));
    run(&mut client, "UPDATE pg_extension SET extversion = '99.0' WHERE extname = 'memory_agent'");
    let row = status(&mut client);
    assert!(row.starts_with("unknown|version 99.0|Restart the server."), "{row}");
}
