//! What memory_chat leaves behind: both turns, like any others, in the caller's transaction.

use crate::scene::{ANSWER, CONFIGURED, PATIENCE, Session, said, scene};
use memory_agent_e2e::llm::{Call, LlmStub, Reply, ScriptedModel};
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

/// A client that sends the conversation shows what was taken back of it; one that sends a message alone shows nothing.
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
fn what_is_not_to_be_stored_is_recalled_for() {
    let mut session = scene().session("stored_not");
    session.know("s", "Anna lives in Lisbon.");
    let count = |session: &mut Session, table: &str| -> i64 {
        value(&mut session.client, &format!("SELECT count(*) FROM memory_agent.{table}"), &[])
    };
    let tables = ["entries", "sessions", "episodes", "jobs", "history", "traces"];
    let before = tables.map(|table| count(&mut session, table));
    for arguments in [
        "'s', model => 'not stored', store => false",
        "token_budget => 1000, session_id => 's', model => 'not stored', store => false",
        "'unknown', model => 'not stored', store => false",
    ] {
        let document = session.chat(&said("Where does Anna live?"), arguments);
        assert_eq!(document["choices"][0]["message"]["content"], ANSWER);
    }
    assert_eq!(tables.map(|table| count(&mut session, table)), before);
    let prompts = scene().calls("not stored");
    assert!(prompts[0].messages("user")[0].contains("Anna lives in Lisbon."));
    // What it cost is counted.
    assert_eq!(count(&mut session, "llm_calls"), 3);
    session.chat(&said("Where does Anna live?"), "'s', model => 'not stored', store => NULL");
    assert_eq!(session.turns("s").len(), 2);
}

#[test]
fn a_trace_keeps_no_text_of_what_is_not_to_be_stored() {
    let stub = LlmStub::start(|_: &Call| Reply::from(ANSWER));
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", CONFIGURED)
        .setting("memory_agent.trace", "calls")
        .start();
    let mut session = Session::open(&cluster, "stored_trace");
    let texts =
        "SELECT count(*) FILTER (WHERE c::text LIKE '%Where is%') FROM memory_agent.llm_calls c";
    for (arguments, expected) in [("'s', store => false", 0i64), ("'s'", 1)] {
        session.chat(&said("Where is Anna?"), arguments);
        assert_eq!(value::<i64>(&mut session.client, texts, &[]), expected);
    }
}

/// The LLM is asked what the user asks. What is stored of it has no secrets.
#[test]
fn secrets_are_not_stored() {
    let card = "4111 1111 1111 1111";
    let stub = LlmStub::start(move |_: &Call| Reply::from(format!("{card}, {}", "x".repeat(200))));
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", CONFIGURED)
        .start();
    let mut session = Session::open(&cluster, "stored_secrets");
    let question = format!("Is {card} mine?");
    let document = session.chat(&said(&question), "'s'");
    let answer = document["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(answer.starts_with(card), "{answer}");
    assert!(stub.calls()[0].messages("user")[0].contains(&question));
    let kept = format!("assistant: [redacted: card], {}", "x".repeat(200));
    assert_eq!(session.turns("s"), ["user: Is [redacted: card] mine?", &kept]);
    // The secret is found before the answer is cut in the middle of it.
    run(
        &mut session.client,
        "SELECT memory_configure('brief', settings => '{\"max_content_bytes\": 60}')",
    );
    session.chat(&said("Mine?"), "'cut', agent_id => 'brief'");
    let cut = format!("assistant: [redacted: card], {}", "x".repeat(42));
    assert_eq!(session.turns("cut"), ["user: Mine?", &cut]);
    let metadata =
        "SELECT metadata FROM memory_agent.entries WHERE session_id = 'cut' AND role = 'assistant'";
    let metadata: Json = value(&mut session.client, metadata, &[]);
    assert_eq!(metadata, json!({"redacted": {"card": 1}, "truncated": true}));
    // In a tool loop the message comes again.
    let again = json!([
        {"role": "user", "content": question},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "Yes."},
    ]);
    for _ in 0..2 {
        session.chat(&again, "'loop'");
    }
    let questions = session.turns("loop").iter().filter(|turn| turn.starts_with("user")).count();
    assert_eq!(questions, 1, "{:?}", session.turns("loop"));

    run(&mut session.client, "SELECT memory_configure(settings => '{\"secrets\": \"refuse\"}')");
    let calls = stub.calls().len();
    let chat = "SELECT memory_chat($1, 'refused')";
    expect_error(session.client.query(chat, &[&said(&question)]), "23514");
    assert_eq!(stub.calls().len(), calls, "it costs no call");
    let document = session.chat(&said("And now?"), "'refused'");
    assert!(document["choices"][0]["message"]["content"].as_str().unwrap().starts_with(card));
    assert_eq!(session.turns("refused"), ["user: And now?"]);
    let warnings = session.take_warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("not stored"), "{warnings:?}");
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
