//! Where the LLM is, and where there is none: settings, keys, providers.

use crate::scene::{ANSWER, Session, said};
use memory_agent_e2e::llm::{Call, LlmStub, Reply};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, shared};
use serde_json::json;

const KEY: &str = "sk-e2e-geheim-0123456789abcdef";

fn chat(client: &mut Client) -> Result<Json, memory_agent_e2e::Error> {
    let row = client.query_one("SELECT memory_chat($1, 's')", &[&said("Hello!")])?;
    Ok(row.get(0))
}

#[test]
fn without_an_llm_there_is_no_chat_and_memories_all_the_same() {
    let mut client = shared().database("endpoint_none").connect();
    let message = expect_error(chat(&mut client), "55000");
    assert!(message.contains("llm_base_url"), "{message}");
    run(
        &mut client,
        "SELECT memory_add('Anna lives in Lisbon.', session_id => 's', infer => false)",
    );
    let document: Json =
        value(&mut client, "SELECT memory_augment($1, 's')", &[&said("Where does Anna live?")]);
    assert_eq!(document["memory_hits"][0]["content"], "Anna lives in Lisbon.");
    let stored: i64 =
        value(&mut client, "SELECT count(*) FROM memory_agent.entries WHERE kind = 'turn'", &[]);
    assert_eq!(stored, 0);
    // An option without anybody who could do it is said to do nothing.
    let mut session = Session::connect(shared(), "endpoint_none");
    run(&mut session.client, "SET memory_agent.query_rewrite = on");
    let document = session.augment(&said("Where does Anna live?"), "'s'");
    assert_eq!(document["memory_hits"].as_array().map(Vec::len), Some(1));
    let warnings = session.take_warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("no LLM is configured"), "{warnings:?}");
}

#[test]
fn a_backend_that_runs_the_models_itself_calls_no_llm() {
    let stub = LlmStub::start(|_: &_| ANSWER);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.inference", "backend")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .start();
    let mut client = cluster.database("agent").connect();
    let message = expect_error(chat(&mut client), "55000");
    assert!(message.contains("memory_agent.inference"), "{message}");
    assert_eq!(stub.call_count(), 0);
}

/// Repeats the key wherever an endpoint could.
fn parrot(call: &Call) -> Reply {
    let key = call.header("authorization").unwrap_or_default().to_owned();
    match call.number % 3 {
        0 => Reply::error(500, &format!("who is {key}?")),
        1 => Reply::error(400, &format!("{key} is not allowed")),
        _ => format!("Your key is {key}").into(),
    }
}

#[test]
fn a_key_is_sent_and_shown_nowhere() {
    let path = std::env::temp_dir().join(format!("ma_e2e_chat_key_{}", std::process::id()));
    std::fs::write(&path, format!("{KEY}\n")).expect("a key file");
    let stub = LlmStub::start(parrot);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("log_min_messages", "debug1")
        .setting("memory_agent.trace", "calls")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .setting("memory_agent.llm_api_key_file", path.to_string_lossy())
        .start();
    let mut session = Session::open(&cluster, "agent");
    let mut shown = String::new();
    for _ in 0..3 {
        shown.push_str(&session.chat(&said("Hello!"), "'s'").to_string());
    }
    for call in stub.calls() {
        assert_eq!(call.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
    assert_eq!(stub.call_count(), 3);
    for table in ["entries", "llm_calls", "jobs", "history"] {
        let rows: Vec<String> = values(
            &mut session.client,
            &format!("SELECT t::text FROM memory_agent.{table} t"),
            &[],
        );
        shown.push_str(&rows.join("\n"));
    }
    shown.push_str(
        &values::<String>(&mut session.client, "SELECT s::text FROM memory_status() s", &[])
            .join("\n"),
    );
    shown.push_str(&cluster.log());
    assert!(shown.contains("***"), "the key was not masked but lost");
    assert!(!shown.contains(KEY) && !shown.contains("geheim"), "the key is shown");
    // While calls are traced, their texts are kept.
    let asked: Vec<Json> =
        values(&mut session.client, "SELECT request FROM memory_agent.llm_calls", &[]);
    assert_eq!(asked, vec![said("Hello!"); 3]);

    // Without the file nothing is sent, and what the user said is stored.
    std::fs::remove_file(&path).expect("the key file");
    let document = session.chat(&said("And now?"), "'missing'");
    assert_eq!(document["error"]["code"], "unavailable", "{document}");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("llm_api_key_file") && !message.contains("ma_e2e"), "{message}");
    assert_eq!(session.turns("missing"), ["user: And now?"]);
    assert_eq!(stub.call_count(), 3);
}

#[test]
fn providers_with_another_protocol_get_texts() {
    // It does not speak that protocol; what counts is what it is asked.
    let stub = LlmStub::start(|_: &_| ANSWER);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_provider", "anthropic")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "claude")
        .start();
    let mut session = Session::open(&cluster, "agent");
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "name": "weather", "tool_call_id": "1", "content": "18 °C"},
        {"role": "user", "name": "Ann", "content": [
            {"type": "text", "text": "And here?"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    ]);
    session.chat(&messages, "'s', top_k => 0, temperature => 2");
    let body = &stub.calls()[0].body;
    assert_eq!(body["system"], "Be brief.");
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "[weather] 18 °C"},
            {"role": "user", "content": "Ann: And here?\n\n[image_url]"},
        ])
    );
    assert_eq!(body["temperature"], 1.0);
    // What cannot be told there is refused, not left out.
    let whole = json!({"messages": messages, "temperature": 2, "tools": []});
    let found = session.client.query_one("SELECT memory_chat($1, 's')", &[&whole]);
    assert!(expect_error(found, "0A000").contains("takes no \"tools\""));
    assert_eq!(stub.call_count(), 1);
}

#[test]
fn the_first_call_of_a_cluster_without_preload_is_answered() {
    let stub = LlmStub::start(|_: &_| ANSWER);
    let cluster = Cluster::builder()
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .start();
    let mut client = cluster.database("agent").connect();
    let document = chat(&mut client).expect("a chat");
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER, "{document}");
}
