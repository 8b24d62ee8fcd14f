//! Tests of Anthropic's shapes, and of the way back through `anthropic::request`.

use super::super::completion::Finish;
use super::*;

fn read(body: &Value) -> Completion {
    completion(body.to_string().as_bytes()).unwrap()
}

fn calling() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": [
            { "type": "thinking", "thinking": "Hm.", "signature": "s" },
            { "type": "text", "text": "Let me " },
            { "type": "text", "text": "look." },
            { "type": "tool_use", "id": "c1", "name": "weather", "input": { "city": "Bergen" } },
            { "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} },
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": { "input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100,
                   "output_tokens": 4, "service_tier": "standard" },
    })
}

#[test]
fn an_answer_is_a_chat_completion() {
    let found = read(&calling());
    assert_eq!((found.text.as_str(), found.calls_tools), ("Let me look.", true));
    assert_eq!((found.model.as_deref(), found.finish), (Some("claude"), Finish::Stop));
    assert_eq!((found.prompt_tokens, found.completion_tokens), (Some(113), Some(4)));
    assert_eq!(
        found.document,
        json!({
            "id": "msg_1",
            "model": "claude",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "tool_calls": [{ "id": "c1", "type": "function",
                        "function": { "name": "weather", "arguments": "{\"city\":\"Bergen\"}" } }],
                    "thinking_blocks": [{ "type": "thinking", "thinking": "Hm.", "signature": "s" }],
                },
                "finish_reason": "tool_calls",
            }],
            "usage": { "prompt_tokens": 113, "completion_tokens": 4, "total_tokens": 117 },
        })
    );
}

#[test]
fn an_answer_can_be_sent_back() {
    let answer = read(&calling()).document["choices"][0]["message"].take();
    let body = crate::llm::anthropic::request(vec![answer], Map::new()).unwrap();
    let blocks = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "s" },
        { "type": "text", "text": "Let me look." },
        { "type": "tool_use", "id": "c1", "name": "weather", "input": { "city": "Bergen" } },
    ]);
    assert_eq!(body["messages"], json!([{ "role": "assistant", "content": blocks }]));
}

#[test]
fn reasons_for_an_end_have_other_names() {
    let text = json!([{ "type": "text", "text": "Hi" }]);
    let call = json!([{ "type": "tool_use", "id": "c", "name": "f", "input": {} }]);
    for (reason, content, told, finish) in [
        ("end_turn", &text, "stop", Finish::Stop),
        ("stop_sequence", &text, "stop", Finish::Stop),
        ("pause_turn", &text, "length", Finish::Length),
        ("max_tokens", &text, "length", Finish::Length),
        ("model_context_window_exceeded", &text, "length", Finish::Length),
        ("refusal", &text, "content_filter", Finish::ContentFilter),
        ("tool_use", &call, "tool_calls", Finish::ToolCalls),
    ] {
        let found = read(&json!({ "content": content, "stop_reason": reason }));
        assert_eq!(found.document["choices"][0]["finish_reason"], told);
        assert_eq!(found.finish, finish, "{reason}");
    }
}

#[test]
fn what_is_not_told_is_not_invented() {
    let found = read(&json!({ "content": [], "usage": null }));
    let message = json!({ "role": "assistant", "content": null });
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    assert_eq!(found.document, json!({ "model": null, "choices": choices }));
    assert_eq!((found.text.as_str(), found.calls_tools, found.prompt_tokens), ("", false, None));
    let half = read(&json!({ "content": [], "usage": { "output_tokens": 4 } }));
    assert_eq!((half.prompt_tokens, half.completion_tokens), (None, Some(4)));
}

#[test]
fn what_is_no_answer_is_not_repeated() {
    for body in [
        "geheim",
        r#"{"content": "geheim"}"#,
        r#"{"content": ["geheim"]}"#,
        r#"{"content": [{"type": "tool_use", "name": "geheim"}]}"#,
        r#"{"content": [], "usage": {"input_tokens": "geheim"}}"#,
    ] {
        let message = completion(body.as_bytes()).unwrap_err();
        assert!(!message.contains("geheim"), "{message}");
    }
}
