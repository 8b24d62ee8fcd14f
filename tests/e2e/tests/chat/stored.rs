//! What memory_chat leaves behind: both turns, like any others, in the caller's transaction.

use crate::scene::{ANSWER, PATIENCE, Session, said, scene};
use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Cluster, Json, expect_error, wait_until};
use serde_json::json;

#[test]
fn both_turns_are_stored_like_any_others() {
    let mut session = scene().session("stored_turns");
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Earlier."},
        {"role": "user", "content": "We decided to move to Bergen.", "name": "Ann"},
    ]);
    session.chat(&messages, "'s', model => 'stored', agent_id => 'coder'");
    let rows = session
        .client
        .query(
            "SELECT role, content, metadata, markers, kind, user_id, agent_id, embedding IS NOT NULL, \
                    token_count, episode_id = (SELECT open_episode_id FROM memory_agent.sessions) \
               FROM memory_agent.entries ORDER BY created_at, id",
            &[],
        )
        .unwrap();
    assert_eq!(rows.len(), 2);
    let text = |row: usize, column: usize| rows[row].get::<_, String>(column);
    assert_eq!([text(0, 0), text(0, 1)], ["user", "We decided to move to Bergen."]);
    assert_eq!([text(1, 0), text(1, 1)], ["assistant", ANSWER]);
    assert_eq!(rows[0].get::<_, Json>(2), json!({"name": "Ann"}));
    assert_eq!(rows[1].get::<_, Json>(2), json!({}));
    assert_eq!(rows[0].get::<_, Vec<String>>(3), ["decision"]);
    for row in &rows {
        assert_eq!(row.get::<_, String>(4), "turn");
        assert_eq!([row.get::<_, String>(5), row.get::<_, String>(6)], ["alice", "coder"]);
        assert!(row.get::<_, bool>(7) && row.get::<_, i32>(8) > 0 && row.get::<_, bool>(9));
    }
    let jobs: Vec<String> = values(
        &mut session.client,
        "SELECT kind FROM memory_jobs WHERE session_id = 's' AND agent_id = 'coder'",
        &[],
    );
    assert!(jobs.contains(&"extract".to_owned()), "{jobs:?}");
}

#[test]
fn what_an_agent_may_not_store_costs_no_call() {
    let mut session = scene().session("stored_sizes");
    let cap = "SELECT memory_configure('brief', settings => '{\"max_content_bytes\": 20}')";
    run(&mut session.client, cap);
    let long = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello there, stranger.\"}]', 's', \
                model => 'brief', agent_id => 'brief')";
    expect_error(session.client.query(long, &[]), "22023");
    assert!(scene().calls("brief").is_empty());
    session.chat(&said("Hello"), "'s', model => 'brief', agent_id => 'brief'");
    let contents: Vec<String> = values(
        &mut session.client,
        "SELECT content FROM memory_agent.entries ORDER BY created_at, id",
        &[],
    );
    assert_eq!(contents, ["Hello", ANSWER]);
}

/// Whoever sends the conversation shows what was taken back of it; whoever sends a message alone shows nothing.
#[test]
fn what_was_taken_back_ends() {
    let mut session = scene().session("stored_taken_back");
    let arguments = "'s', model => 'taken back'";
    let mut talk = |texts: &[&str]| {
        let message = |(at, text): (usize, &&str)| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text});
        let messages: Json = texts.iter().enumerate().map(message).collect();
        session.chat(&messages, arguments);
        let query = "SELECT content FROM memory_load('s') WHERE role = 'user'";
        let users: Vec<String> = values(&mut session.client, query, &[]);
        let all: i64 = value(&mut session.client, "SELECT count(*) FROM memory_load('s')", &[]);
        assert_eq!(all, 2 * users.len() as i64, "each has one answer");
        users
    };
    assert_eq!(talk(&["Hello."]), ["Hello."]);
    assert_eq!(talk(&["Hello."]), ["Hello.", "Hello."], "said twice");
    let changed = |text: &'static str| ["Hello.", ANSWER, text];
    assert_eq!(talk(&changed("I ski.")), ["Hello.", "I ski."], "another text in its place");
    assert_eq!(talk(&changed("I sail.")), ["Hello.", "I sail."]);
    assert_eq!(talk(&changed("I sail.")), ["Hello.", "I sail."], "answered again");
    assert_eq!(talk(&["Hello.", "Hi.", "Hello.", ANSWER, "I row."]).len(), 3, "another beginning");
}

#[test]
fn a_rollback_leaves_nothing() {
    let mut session = scene().session("stored_rollback");
    run(&mut session.client, "BEGIN");
    let document = session.chat(&said("Hello!"), "'s', model => 'rolled back'");
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER);
    run(&mut session.client, "SAVEPOINT a");
    session.chat(&said("Hello again!"), "'s', model => 'rolled back'");
    run(&mut session.client, "ROLLBACK TO a");
    assert_eq!(session.turns("s").len(), 2);
    run(&mut session.client, "ROLLBACK");
    for table in ["entries", "sessions", "episodes", "jobs", "llm_calls"] {
        let rows: i64 =
            value(&mut session.client, &format!("SELECT count(*) FROM memory_agent.{table}"), &[]);
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn nothing_is_locked_while_the_llm_is_waited_for() {
    let stub = LlmStub::start(|_: &_| ANSWER);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .start();
    let mut session = Session::open(&cluster, "agent");
    let mut other = Session::connect(&cluster, "agent");
    session.know("s", "Anna lives in Lisbon.");
    stub.hold(true);
    let waiting = std::thread::spawn(move || {
        session.chat(&said("Where does Anna live?"), "'s'");
        session
    });
    wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
    // Everything that a chat stores to is free, the session's row too.
    run(
        &mut other.client,
        "SET lock_timeout = '1s';
         SELECT memory_ingest('s', 'user', 'Meanwhile.');
         UPDATE memory_agent.sessions SET settings = settings;
         UPDATE memory_agent.jobs SET priority = priority;
         BEGIN; SELECT FROM memory_agent.entries FOR UPDATE; COMMIT",
    );
    stub.hold(false);
    let mut session = waiting.join().expect("the chat");
    assert_eq!(
        session.turns("s"),
        ["user: Where does Anna live?", &format!("assistant: {ANSWER}"), "user: Meanwhile."]
            .map(str::to_owned),
        "turns of a transaction have the time of its beginning"
    );
}

#[test]
fn facts_are_made_after_the_commit() {
    let model = ScriptedModel::new().knows(
        "I moved to Bergen.",
        "home",
        "Bergen",
        "The user lives in Bergen.",
    );
    let stub = LlmStub::start(model);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .start();
    let mut session = Session::open(&cluster, "agent");
    session.chat(&said("I moved to Bergen."), "'s', post_process => 'background'");
    assert!(value::<bool>(&mut session.client, "SELECT memory_wait('90 s')", &[]));
    let facts: Vec<String> =
        values(&mut session.client, "SELECT content FROM memory_entries WHERE kind = 'fact'", &[]);
    assert_eq!(facts, ["The user lives in Bergen."]);
    let document = session.chat(&said("Where do I live?"), "'s'");
    let hits = document["memory_hits"].to_string();
    assert!(hits.contains("The user lives in Bergen."), "{hits}");
}
