use super::*;
use proptest::prelude::*;
use serde_json::json;

/// What items say: a turn as role and text, what is wrong after `!`, what is left out after `-`.
fn said(items: impl IntoIterator<Item = Item>) -> Vec<String> {
    let of = |item| match item {
        Item::Told(told) => format!("{}: {}", told.line.role, told.line.content),
        Item::Wrong(problem) => format!("! {problem}"),
        Item::LeftOut(kind) => format!("- {kind}"),
    };
    items.into_iter().map(of).collect()
}

fn of(read: Result<Items, String>) -> Vec<String> {
    said(read.unwrap().into_iter().map(|(_, item)| item))
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// A node of ChatGPT's tree.
fn node(parent: Option<&str>, time: Option<f64>, role: &str, content: Value) -> Value {
    json!({"parent": parent, "message": {"id": null, "author": {"role": role}, "create_time": time,
                                         "content": content}})
}

fn texts(parts: Value) -> Value {
    json!({"content_type": "text", "parts": parts})
}

#[test]
fn a_conversation_of_chatgpt_is_the_branch_it_ended_in() {
    let mut chat = json!({"id": "c", "title": "T", "create_time": 1.0, "current_node": "e", "mapping": {
        "root": {"parent": null, "message": null},
        "s": node(Some("root"), None, "system", texts(json!([""]))),
        "a": node(Some("s"), Some(2.0), "user", texts(json!(["Hello", {"content_type": "image_asset_pointer"}]))),
        "b": node(Some("a"), Some(3.0), "assistant", texts(json!(["Dropped"]))),
        "c": node(Some("a"), Some(4.0), "assistant", json!({"content_type": "thoughts", "thoughts": []})),
        "d": node(Some("c"), Some(5.0), "tool", json!({"content_type": "execution_output", "text": "1"})),
        "e": node(Some("d"), Some(6.0), "assistant", texts(json!(["Kept"]))),
    }});
    let expected = [
        "- system messages",
        "- pictures",
        "user: Hello",
        "- thoughts of the model",
        "- tool results",
        "assistant: Kept",
        "- messages of other branches",
    ];
    assert_eq!(of(chatgpt::read(&chat, now())), expected);
    // Where it does not say which branch that is, it is the one of the latest message.
    for current in [Value::Null, json!("nowhere")] {
        chat["current_node"] = current;
        assert_eq!(of(chatgpt::read(&chat, now())), expected);
    }
    let untimed = json!({"id": "c", "mapping": {
        "z": node(None, None, "user", texts(json!(["Hello"]))),
        "a": node(Some("z"), None, "assistant", texts(json!(["Hi"]))),
    }});
    assert_eq!(of(chatgpt::read(&untimed, now())), ["user: Hello", "assistant: Hi"]);
    for wrong in [json!({}), json!({"id": "c"}), json!(7)] {
        assert!(chatgpt::read(&wrong, now()).is_err(), "{wrong}");
    }
}

#[test]
fn what_was_spoken_with_chatgpt_is_a_text() {
    let spoken = |text: &str| {
        json!({"content_type": "multimodal_text", "parts": [
            {"content_type": "audio_transcription", "text": text, "direction": "in"},
            {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://1"}]})
    };
    let chat = json!({"id": "c", "current_node": "d", "mapping": {
        "a": node(None, Some(1.0), "user", spoken("My puppy is called Biscuit.")),
        "b": node(Some("a"), Some(2.0), "assistant", texts(Value::Null)),
        "c": node(Some("b"), Some(3.0), "narrator", texts(json!(["Who?"]))),
        "d": node(Some("c"), Some(4.0), "assistant", texts(json!(["Noted."]))),
    }});
    assert_eq!(
        of(chatgpt::read(&chat, now())),
        [
            "- recordings",
            "user: My puppy is called Biscuit.",
            "- messages without text",
            "! its author is \"narrator\"",
            "assistant: Noted.",
        ]
    );
}

#[test]
fn what_was_pasted_into_claude_is_a_turn() {
    let chat = json!({"uuid": "k", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": null, "content": [{"type": "text", "text": "Good."}]},
        {"uuid": "2", "sender": "tool", "text": "Odd."},
        {"uuid": "3", "sender": "human", "text": "", "content": null, "attachments": [
            {"file_name": "notes.txt", "extracted_content": "The key hangs behind the boiler."},
            {"file_name": "a.pdf"}], "files": [{"file_name": "b.png"}]},
        {"uuid": "4", "sender": "assistant", "text": "with blocks", "content": [
            {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Green"},
            {"type": "tool_use", "name": "x"}, {"type": "text", "text": "tea."}]},
        {"uuid": "5", "sender": "human", "text": " "},
        7,
    ]});
    assert_eq!(
        of(claude::read(&chat, now())),
        [
            "user: Good.",
            "! the sender is \"tool\", not human or assistant",
            "user: The key hangs behind the boiler.",
            "- files that the export does not contain",
            "- files that the export does not contain",
            "- thoughts of the model",
            "- tool calls",
            "assistant: Green\ntea.",
            "- messages without text",
            "! it has no sender",
        ]
    );
}

#[test]
fn a_session_of_claude_code_is_what_was_typed_and_answered() {
    let mut clock = Clock::new(now());
    let mut read = |line: Value| said(claude_code::read(&line, &mut clock, now()));
    let line = |kind: &str, content: Value| {
        json!({"type": kind, "sessionId": "s", "uuid": "u", "timestamp": "2026-01-31T10:00:00.123Z",
               "message": {"role": kind, "content": content}})
    };
    let blocks = json!([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Done."},
                        {"type": "tool_use", "name": "Read"}]);
    assert_eq!(read(line("user", json!("Add a form."))), ["user: Add a form."]);
    assert_eq!(
        read(line("assistant", blocks)),
        ["- thoughts of the model", "- tool calls", "assistant: Done."]
    );
    let result = json!([{"type": "tool_result", "content": "DB_PASSWORD=1"}]);
    assert_eq!(read(line("user", result)), ["- tool results"]);
    for meta in
        ["<command-name>/clear</command-name>", "<system-reminder>\nMind.</system-reminder>"]
    {
        assert_eq!(read(line("user", json!(meta))), ["- messages of the program"]);
    }
    for (key, kind) in [("isSidechain", "side chains"), ("isMeta", "the program")] {
        let mut hidden = line("user", json!("Hidden."));
        hidden[key] = true.into();
        assert_eq!(read(hidden), [format!("- messages of {kind}")]);
    }
    assert_eq!(
        read(json!({"type": "summary", "summary": "T", "leafUuid": "u"})),
        ["- notes of the program"]
    );
}

#[test]
fn a_graph_of_the_mcp_memory_server_becomes_facts() {
    let mut clock = Clock::new(now());
    let mut read = |line: Value| said(mcp_memory::read(&line, &mut clock, now()));
    let entity = json!({"type": "entity", "name": "Ann", "entityType": "person",
                        "observations": ["Likes tea", 7]});
    assert_eq!(read(entity), ["memory: Ann: Likes tea", "! an observation is no text"]);
    let relation =
        json!({"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"});
    assert_eq!(read(relation), ["memory: Ann works at Acme"]);
    let empty = json!({"type": "entity", "name": "Bob", "observations": []});
    assert_eq!(read(empty), ["- entities without observations"]);
}

/// A value with keys that the formats have.
fn any_value() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "id",
        "uuid",
        "mapping",
        "chat_messages",
        "current_node",
        "parent",
        "message",
        "author",
        "role",
        "sender",
        "content",
        "content_type",
        "parts",
        "text",
        "type",
        "attachments",
        "create_time",
        "created_at",
        "sessionId",
        "observations",
        "name",
        "memory",
        "metadata",
    ]);
    let word = prop::sample::select(vec!["user", "human", "text", "entity", "a", "", "2026-01-31"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..6).prop_map(|all| {
                all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_read_without_panic(value in any_value()) {
        let mut clock = Clock::new(now());
        let _ = (chatgpt::read(&value, now()).is_ok(), claude::read(&value, now()).is_ok());
        let _ = mem0::read(value.clone(), now(), &mut None, false).is_ok();
        let _ = (claude_code::read(&value, &mut clock, now()), mcp_memory::read(&value, &mut clock, now()));
        let _ = Line::read(value).is_ok();
    }
}
