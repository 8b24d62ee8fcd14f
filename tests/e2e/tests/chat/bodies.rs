//! Whole requests in OpenAI's format: every field goes to the endpoint, and all that it answers comes back.

use super::scene::{said, scene};
use memory_agent_e2e::memory::{undated, value};
use memory_agent_e2e::{Json, expect_error, json};

fn tools() -> Json {
    json!([{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}])
}

/// The messages of a request with other fields.
fn body(messages: &Json, fields: &Json) -> Json {
    let mut body = json!({ "messages": messages });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn an_augmented_request_keeps_its_fields() {
    let mut session = scene().session("bodies_augment");
    session.know("s", "Anna lives in Lisbon.");
    let fields = json!({"model": "any", "tools": tools(), "tool_choice": "auto", "seed": 7, "stream": true,
        "stop": ["\n"], "temperature": 0.25, "response_format": {"type": "json_object"}, "unknown": {"a": [1.5, null]}});
    let messages = said("Where does Anna live?");
    let mut document = session.augment(&body(&messages, &fields), "'s'");
    let alone = session.augment(&messages, "'s'");
    assert_eq!(document["messages"], alone["messages"]);
    // Scores age from one call to the next.
    let contents = |document: &Json| -> Vec<Json> {
        let hits = document["memory_hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["content"].clone()).collect()
    };
    assert_eq!(contents(&document), ["Anna lives in Lisbon."]);
    assert_eq!(contents(&alone), contents(&document));
    assert_eq!(alone.as_object().unwrap().len(), 3);
    let document = document.as_object_mut().unwrap();
    document.retain(|name, _| !["messages", "memory_hits", "left_out"].contains(&name.as_str()));
    assert_eq!(Json::from(document.clone()), fields);
}

/// As docs/chat.md says: a body is read as JSON.
#[test]
fn numbers_beyond_json_libraries_lose_digits_or_are_refused() {
    let mut session = scene().session("bodies_numbers");
    let augment = "SELECT memory_augment(format('{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"seed\": %s}', $1::text)::jsonb, 's') ->> 'seed'";
    let seed = |session: &mut super::scene::Session, number: &str| {
        session.client.query_one(augment, &[&number]).map(|row| row.get::<_, String>(0))
    };
    assert_eq!(seed(&mut session, "18446744073709551615").unwrap(), "18446744073709551615");
    assert_eq!(seed(&mut session, "18446744073709551617").unwrap(), "18446744073709552000");
    expect_error(seed(&mut session, "1e400"), "22023");
}

/// Texts between images say what each of them is, and a part may have more than a text.
#[test]
fn memories_stand_before_the_first_text_of_several() {
    let mut session = scene().session("bodies_parts");
    session.know("s", "Anna lives in Lisbon.");
    let text =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let parts = |first: &str| {
        json!([{"role": "user", "content": [
            text(first), image("a.png"), text("And where does she live here?"), image("b.png")]}])
    };
    let first = "Where does Anna live here?";
    let document = session.augment(&parts(first), "'s'");
    let told = document["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(
        told.contains("Lisbon") && told.ends_with(&format!("\n\nCurrent message: {first}")),
        "{told}"
    );
    assert_eq!(document["messages"], parts(told));
    // Augmented again, memories are replaced; in a system message, they are taken out.
    assert_eq!(session.augment(&document["messages"], "'s'")["messages"], document["messages"]);
    session.client.batch_execute("SET memory_agent.memory_message = system").unwrap();
    let system = session.augment(&document["messages"], "'s'");
    assert_eq!(system["messages"][1], parts(first)[0]);
}

#[test]
fn a_chat_sends_every_field_and_arguments_win() {
    let mut session = scene().session("bodies_fields");
    let fields = json!({"model": "body fields", "tools": tools(), "tool_choice": "none", "seed": 7, "user": "u",
        "stop": ["\n"], "temperature": 0.25, "max_tokens": 11, "stream": false, "response_format": {"type": "text"},
        "unknown": {"a": [1.5, null]}});
    let messages = json!([{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]);
    let whole = body(&messages, &fields);
    session.chat(&whole, "'s'");
    session.chat(&whole, "'other', temperature => 0.5, max_tokens => 22, top_k => 0");
    let calls = scene().calls("body fields");
    let mut expected = whole.clone();
    expected.as_object_mut().unwrap().remove("stream");
    assert_eq!(calls[0].body, expected);
    expected["temperature"] = 0.5.into();
    expected["max_tokens"] = 22.into();
    assert_eq!(calls[1].body, expected);
    assert_eq!(session.turns("s"), ["user: What is this?", "assistant: As you say."]);
    let argument = session.chat(&whole, "'third', model => 'argument'");
    assert_eq!(argument["model"], "argument");
}

#[test]
fn a_tool_is_called_and_its_result_sent_on() {
    let mut session = scene().session("bodies_tools");
    session.know("s", "Anna lives in Bergen.");
    let fields = json!({"model": "asks a tool", "tools": tools()});
    let mut messages = said("How is the weather where Anna lives?");
    let document = session.chat(&body(&messages, &fields), "'s'");
    let choice = &document["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{document}");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(choice["message"]["content"], Json::Null);
    assert_eq!(document["memory_hits"][0]["content"], "Anna lives in Bergen.");
    // There is no text of an answer to be stored, and so no id of one.
    assert!(document.get("id").is_none());
    assert_eq!(session.turns("s"), ["user: How is the weather where Anna lives?"]);

    let list = messages.as_array_mut().unwrap();
    list.push(choice["message"].clone());
    list.push(json!({"role": "tool", "tool_call_id": "1", "content": "rain"}));
    let document = session.chat(&body(&messages, &fields), "'s'");
    assert_eq!(document["choices"][0]["message"]["content"], "It rains.");
    let stored: String = value(
        &mut session.client,
        "SELECT 'chatcmpl-' || id FROM memory_agent.entries WHERE role = 'assistant'",
        &[],
    );
    assert_eq!(document["id"], Json::from(stored));
    // The user said nothing new.
    let turns = ["user: How is the weather where Anna lives?", "assistant: It rains."];
    assert_eq!(session.turns("s"), turns);
    let second = &scene().calls("asks a tool")[1];
    assert_eq!(second.messages("tool"), ["rain"]);
    assert!(undated(second.messages("user")[0]).contains("[memory] Anna lives in Bergen."));
    // In another session it was not said yet.
    session.chat(&body(&messages, &fields), "'elsewhere'");
    assert_eq!(session.turns("elsewhere"), turns);
}

#[test]
fn all_that_the_endpoint_said_comes_back() {
    let mut session = scene().session("bodies_whole");
    let document =
        session.chat(&body(&said("Hi"), &json!({"model": "two choices", "n": 2})), "'s'");
    assert_eq!(
        document["choices"],
        json!([
            {"index": 0, "message": {"role": "assistant", "content": "One."}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": "Two."}, "finish_reason": "stop"},
        ])
    );
    assert_eq!(document["system_fingerprint"], "fp");
    assert_eq!(document["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
    assert_ne!(document["id"], "chatcmpl-theirs");
    assert_eq!(session.turns("s"), ["user: Hi", "assistant: One."]);
}

#[test]
fn the_tools_count_in_the_budget() {
    let mut session = scene().session("bodies_budget");
    let whole = |fields: Json| body(&said("Hello!"), &fields);
    let long = "A tool for the weather of every city. ".repeat(40);
    let tools = json!({"model": "body budget", "tools": [{"type": "function", "function": {"name": "w", "description": long}}]});
    session.augment(&whole(json!({})), "token_budget => 100");
    let augment = "SELECT memory_augment($1, token_budget => 100)";
    let message =
        expect_error(session.client.query_one(augment, &[&whole(tools.clone())]), "22023");
    assert!(message.contains("the budget is 100"), "{message}");
    let chat = "SELECT memory_chat($1, token_budget => 100)";
    expect_error(session.client.query_one(chat, &[&whole(tools)]), "22023");
    // What the answer may have is not left for the prompt.
    let answer = json!({"model": "body budget", "max_completion_tokens": 127_999});
    for function in ["memory_augment", "memory_chat"] {
        let call = format!("SELECT {function}($1, 's')");
        expect_error(session.client.query_one(call.as_str(), &[&whole(answer.clone())]), "22023");
    }
    assert!(scene().calls("body budget").is_empty());
}

#[test]
fn bodies_that_are_none_are_refused() {
    let mut session = scene().session("bodies_refused");
    for (fields, code, reason) in [
        (json!({"stream": true}), "0A000", "cannot stream"),
        (json!({"model": 5}), "22023", "field model"),
        (json!({"temperature": "warm"}), "22023", "field temperature"),
        (json!({"temperature": 3}), "22023", "temperature must be between"),
        (json!({"max_tokens": 0}), "22023", "max_tokens must be positive"),
        (json!({"max_completion_tokens": "many"}), "22023", "field max_completion_tokens"),
    ] {
        let whole = body(&said("Hello!"), &fields);
        let found = session.client.query_one("SELECT memory_chat($1, 's')", &[&whole]);
        let message = expect_error(found, code);
        assert!(message.contains(reason), "{fields}: {message}");
    }
    let found =
        session.client.query_one("SELECT memory_augment($1, 's')", &[&json!({"model": "m"})]);
    assert!(expect_error(found, "22023").contains("must be a JSON array"));
    assert!(session.turns("s").is_empty());
}
