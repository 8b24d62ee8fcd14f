//! Where the LLM is, and where there is none: settings, keys, providers.

use crate::scene::{ANSWER, Session, said};
use memory_agent_e2e::llm::{Call, LlmStub, Reply};
use memory_agent_e2e::memory::{run, undated, value, values};
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

/// What Anthropic's service answers: a call of the tool, and with its result a text.
fn claude(call: &Call) -> Reply {
    let (content, stop_reason) = if call.body["messages"].to_string().contains("tool_result") {
        (json!([{"type": "text", "text": "It rains."}]), "end_turn")
    } else {
        let input = json!({"city": "Bergen"});
        (
            json!([{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": input}]),
            "tool_use",
        )
    };
    Reply::body(&json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": content,
        "stop_reason": stop_reason, "usage": {"input_tokens": 12, "output_tokens": 7},
    }))
}

#[test]
fn a_round_of_tools_in_anthropics_protocol() {
    let stub = LlmStub::start(claude);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_provider", "anthropic")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "claude")
        .start();
    let mut session = Session::open(&cluster, "agent");
    session.know("s", "Anna lives in Bergen.");
    let question = "How is the weather where Anna lives?";
    let mut messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "Ann", "content": [
            {"type": "text", "text": question},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
    ]);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let whole = |messages: &Json| {
        json!({"messages": messages, "tool_choice": "required", "stop": "User:", "user": "u", "n": 1,
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": schema}}]})
    };
    let document = session.chat(&whole(&messages), "'s', temperature => 2");
    let choice = &document["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{document}");
    assert_eq!(
        choice["message"],
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "toolu_1", "type": "function",
            "function": {"name": "weather", "arguments": "{\"city\":\"Bergen\"}"}}]})
    );
    assert_eq!(document["memory_hits"][0]["content"], "Anna lives in Bergen.");
    assert_eq!(session.turns("s"), [format!("user: {question}")]);
    let first = &stub.calls()[0].body;
    assert_eq!(
        (&first["system"], &first["temperature"], &first["tool_choice"]),
        (&json!("Be brief."), &json!(1.0), &json!({"type": "any"}))
    );
    assert_eq!(first["tools"], json!([{"name": "weather", "input_schema": schema}]));
    assert_eq!(
        (&first["stop_sequences"], &first["metadata"]),
        (&json!(["User:"]), &json!({"user_id": "u"}))
    );
    let asked = first["messages"][0]["content"].as_array().unwrap();
    let told = undated(asked[0]["text"].as_str().unwrap());
    assert!(told.starts_with("Ann: ") && told.contains("[memory] Anna lives in Bergen."), "{told}");
    assert!(told.ends_with(&format!("Current message: {question}")), "{told}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    assert_eq!(asked[1], json!({"type": "image", "source": source}));

    let list = messages.as_array_mut().unwrap();
    list.push(choice["message"].clone());
    list.push(json!({"role": "tool", "tool_call_id": "toolu_1", "content": "rain"}));
    let document = session.chat(&whole(&messages), "'s'");
    assert_eq!(document["choices"][0]["message"]["content"], "It rains.", "{document}");
    assert_eq!(
        (&document["model"], &document["usage"]["total_tokens"]),
        (&json!("claude-1"), &json!(19))
    );
    let stored: String = value(
        &mut session.client,
        "SELECT 'chatcmpl-' || id FROM memory_agent.entries WHERE role = 'assistant'",
        &[],
    );
    assert_eq!(document["id"], Json::from(stored));
    let turns = [format!("user: {question}"), "assistant: It rains.".to_owned()];
    assert_eq!(session.turns("s"), turns);
    let second = &stub.calls()[1].body["messages"];
    assert_eq!(
        second[1]["content"],
        json!([{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bergen"}}])
    );
    assert_eq!(
        second[2],
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
            "content": [{"type": "text", "text": "rain"}]}]})
    );

    // What cannot be told there is refused, not left out.
    let mut seeded = whole(&messages);
    seeded["seed"] = 7.into();
    messages[2]["tool_calls"][0]["function"]["arguments"] = "{".into();
    for (refused, reason) in
        [(seeded, "takes no \"seed\""), (whole(&messages), "message 3: the arguments")]
    {
        let found = session.client.query_one("SELECT memory_chat($1, 's')", &[&refused]);
        let message = expect_error(found, "0A000");
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(stub.call_count(), 2);
    assert_eq!(session.turns("s"), turns);
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
