//! What a caller is told, in errors and in messages of every severity, never shows the content of
//! anybody's memory, nor what the server's machine looks like.

use crate::{create_roles, grant};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, shared, sqlstate};
use std::sync::{Arc, Mutex};

/// A word that only alice's memory holds.
const SECRET: &str = "zebrafish";

/// A session that keeps all messages it is sent.
fn listening_session(database: &str, role: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&messages);
    let mut config = shared().config(database);
    config
        .user(role)
        .notice_callback(move |notice| kept.lock().unwrap().push(format!("{notice:?}")));
    let mut client = config.connect(postgres::NoTls).unwrap();
    client.batch_execute("SET client_min_messages = debug1").unwrap();
    (client, messages)
}

#[test]
fn errors_and_messages_show_no_content() {
    let database = shared().database("messages");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["messages_alice", "messages_mallory"]);
    grant(&mut superuser, "messages_alice", "user");
    grant(&mut superuser, "messages_mallory", "user");

    let (mut alice, of_alice) = listening_session(database.name(), "messages_alice");
    for call in [
        "SELECT memory_ingest('s', 'user', 'The zebrafish sleeps', metadata => '{\"k\": \"zebrafish\"}')",
        "SELECT memory_add('The pin is zebrafish', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_add('The pin is zebrafish again', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_recall('zebrafish', 's')",
        "SELECT memory_context('s', 'zebrafish')",
    ] {
        alice.batch_execute(call).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    // Every ingest and recall tells its counts at DEBUG1.
    let debug = of_alice.lock().unwrap().join("\n");
    assert!(debug.contains("memory_agent: recall"), "{debug}");
    assert!(!debug.contains(SECRET), "{debug}");

    let (mut mallory, of_mallory) = listening_session(database.name(), "messages_mallory");
    mallory.batch_execute("SET memory_agent.user_id = 'mallory'").unwrap();
    let mut errors = 0;
    for call in [
        // The same session, agent, key and text, all of them alice's already.
        "SELECT memory_ingest('s', 'user', 'mine')",
        "SELECT memory_add('my pin', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_close_episode('s')",
        "SELECT memory_recall('pin sleeps', 's')",
        "SELECT memory_explain('pin sleeps', 's')::text",
        "SELECT memory_context('s', 'pin sleeps')::text",
        "SELECT memory_stats('s')::text",
        "SELECT memory_status()",
        "SELECT * FROM memory_entries",
        "SELECT * FROM memory_sessions",
        // Errors of each kind.
        "SELECT memory_recall('pin', 's', user_id => 'messages_alice')",
        "SELECT memory_stats('s', user_id => 'messages_alice')",
        "SELECT memory_add('x', 's', user_id => 'messages_alice', infer => false, fact_key => 'pin')",
        "SELECT memory_recall('pin', 's', query_embedding => '[1,2]')",
        "SELECT memory_recall('pin', filter => '{\"metadata\": {\"k\": 1}, \"x\": 1}')",
        "SELECT memory_recall('pin', score_threshold => 7)",
        "SELECT memory_context('s', 'pin sleeps', 1)",
        "SELECT content::int FROM memory_entries",
        "INSERT INTO memory_agent.entries DEFAULT VALUES",
        "UPDATE memory_agent.entries SET content = content",
        "DELETE FROM memory_agent.entries",
        "SELECT body FROM memory_agent.history",
        "SELECT memory_register_model('m', 'embedder', '/etc')",
    ] {
        match mallory.simple_query(call) {
            Ok(rows) => assert!(!format!("{rows:?}").contains(SECRET), "{call}: {rows:?}"),
            Err(error) => {
                errors += 1;
                assert!(!format!("{error:?}").contains(SECRET), "{call}: {error:?}");
            }
        }
    }
    assert!(errors >= 12, "only {errors} of the calls that should fail did");
    let messages = of_mallory.lock().unwrap().join("\n");
    assert!(!messages.contains(SECRET), "{messages}");
}

/// The environment of the server asks Rust for stack traces. Errors of ours, of PostgreSQL and of code that
/// our statements run, internal ones and panics carry none, in sessions, triggers and workers.
#[test]
fn errors_carry_no_stack_trace() {
    for (own, of_libraries) in [("1", "1"), ("full", "full")] {
        let cluster = Cluster::builder()
            .preload(true)
            .environment("RUST_BACKTRACE", own)
            .environment("RUST_LIB_BACKTRACE", of_libraries)
            .start();
        let mut client = cluster.database("db").connect();
        run(
            &mut client,
            "CREATE TYPE tag AS ENUM ('x'); \
             CREATE FUNCTION failing(tag) RETURNS json LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING DETAIL = 'said'; END $$; \
             CREATE CAST (tag AS json) WITH FUNCTION failing(tag); \
             CREATE TABLE notes (id int PRIMARY KEY, body text, tag tag); INSERT INTO notes VALUES (1, 'one', 'x'); \
             SELECT memory_attach('notes', 'body', metadata_columns => '{tag}', user_id => 'alice')",
        );
        run(
            &mut client,
            "UPDATE memory_agent.jobs SET max_attempts = 1 WHERE kind = 'attach' AND status = 'pending'",
        );
        for (statement, expected, detail) in [
            ("SELECT memory_ingest('s', 'user', '')", "22023", None),
            (
                "SELECT memory_ingest_batch('[{\"role\": \"user\", \"content\": \"x\", \"ttl\": \"never\"}]', 's')",
                "22023",
                None,
            ),
            ("INSERT INTO notes VALUES (2, 'two', 'x')", "P0001", Some("said")),
            // A trigger's function that is called as if it were none: a panic.
            ("SELECT memory_agent.attached_rows()", "XX000", None),
            (
                "ALTER TABLE memory_agent.entries RENAME embedding TO elsewhere; SELECT memory_recall('x')",
                "XX000",
                None,
            ),
        ] {
            let error = client.batch_execute(statement).expect_err(statement);
            assert_eq!(sqlstate(&error), expected, "{statement}: {error:?}");
            let error = error.as_db_error().expect("the server's");
            assert_eq!(error.detail(), detail, "{statement}: {error:?}");
            assert!(!format!("{error:?}").contains(".rs:"), "{statement}: {error:?}");
            let caught = format!(
                "DO $do$ DECLARE detail text; BEGIN EXECUTE $call$ {statement} $call$; \
                 EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL; \
                     PERFORM set_config('test.detail', coalesce(detail, ''), false); END $do$"
            );
            client.batch_execute(&caught).expect("caught");
            let caught: String = value(&mut client, "SELECT current_setting('test.detail')", &[]);
            assert_eq!(caught, detail.unwrap_or_default(), "{statement}");
        }
        run(&mut client, "SELECT memory_wait('60 s')");
        let told: Vec<String> = memory_agent_e2e::memory::values(
            &mut client,
            "SELECT last_error FROM memory_agent.jobs WHERE last_error IS NOT NULL \
             UNION ALL SELECT detail FROM memory_status() WHERE detail IS NOT NULL",
            &[],
        );
        assert!(
            told.iter().any(|told| told.contains("P0001")),
            "the worker met the error: {told:#?}"
        );
        assert!(!told.iter().any(|told| told.contains(".rs:")), "{told:#?}");
    }
}

/// At DEBUG1 every call that stores says so in one line.
#[test]
fn every_call_that_stores_says_so_once() {
    let database = shared().database("messages_storing");
    let (mut client, messages) = listening_session(database.name(), "postgres");
    client
        .batch_execute(
            "SET memory_agent.user_id = 'alice'; CREATE TABLE notes (id int PRIMARY KEY, body text)",
        )
        .unwrap();
    let fact =
        "(SELECT id FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active' LIMIT 1)";
    for (call, said) in [
        ("memory_ingest('s', 'user', 'a')", "ingest"),
        ("memory_ingest_batch('[{\"role\": \"user\", \"content\": \"b\"}]', 's')", "ingest"),
        ("memory_ingest_once('s', 'assistant', 'c', 'k')", "ingest"),
        ("memory_add('d', infer => false)", "add"),
        // The same again, which is not stored twice.
        ("memory_add('d', infer => false)", "add"),
        (&format!("memory_update({fact}, 'e')"), "update"),
        (&format!("memory_forget({fact})"), "forget"),
        (
            "memory_restore((SELECT id FROM memory_agent.entries WHERE kind = 'fact' \
            AND state_reason = 'deleted'))",
            "restore",
        ),
        ("memory_add_document('f')", "document"),
        ("memory_close_episode('s')", "close episode"),
        ("memory_archive('s')", "archive"),
        ("memory_configure(settings => '{\"default_top_k\": 3}')", "configure"),
        ("memory_import_json('{\"role\": \"user\", \"content\": \"g\"}')", "import"),
        ("memory_import_markdown('', E'---\\nrole: summary\\n---\\nh')", "import"),
        ("memory_create_token('alice', 'laptop')", "create token"),
        ("memory_revoke_token('alice', 'laptop')", "revoke token"),
        ("memory_spend(sha256('x'), 7)", "spend"),
        ("memory_set_quota('alice', 1000)", "set quota"),
        ("memory_set_endpoint('e', 'https://llm.example/v1', 'm')", "set endpoint"),
        ("memory_enable_endpoint('e')", "enable endpoint"),
        ("memory_use_endpoint('e', 'a')", "use endpoint"),
        ("memory_use_endpoint(NULL, 'a')", "use endpoint"),
        ("memory_drop_endpoint('e')", "drop endpoint"),
        ("memory_retry(gen_random_uuid())", "retry"),
        ("memory_create_vector_index('hnsw')", "create index"),
        ("memory_register_model('all-MiniLM-L6-v2', 'embedder')", "register model"),
        ("memory_use_embedding_model('all-MiniLM-L6-v2')", "use model"),
        ("memory_attach('notes', 'body', user_id => 'alice')", "attach"),
        ("memory_detach('notes')", "detach"),
        ("memory_reserve_tokens('s', 1)", "reserve"),
        ("memory_clear('s')", "clear"),
        ("memory_erase('alice')", "erase"),
    ] {
        messages.lock().unwrap().clear();
        client.batch_execute(&format!("SELECT {call}")).unwrap_or_else(|e| panic!("{call}: {e:?}"));
        let heard = messages.lock().unwrap();
        let lines = heard.iter().filter(|line| line.contains(&format!("memory_agent: {said} ")));
        assert_eq!(lines.count(), 1, "{call}: {heard:#?}");
    }
}
