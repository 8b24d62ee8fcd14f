//! Requests of OpenAI's form and what Anthropic is asked instead.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::llm::chat_body::ChatBody;

fn translated(body: Value) -> Result<Value, String> {
    let ChatBody { messages, fields } = ChatBody::parse(body).unwrap();
    request(messages.into_values(), fields).map(Value::from).map_err(|error| error.to_string())
}

/// What becomes of the messages.
fn told(messages: Value) -> Result<Value, String> {
    translated(json!({ "messages": messages }))
}

/// What becomes of the fields.
fn fields(fields: Value) -> Result<Value, String> {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut body = translated(body)?;
    body.as_object_mut().unwrap().shift_remove("messages").unwrap();
    Ok(body)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn called(arguments: &Value) -> Value {
    json!([{ "role": "assistant", "tool_calls": [
        { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": arguments } }] }])
}

#[test]
fn a_round_of_tools_is_told_in_turns() {
    let call = |id: &str, arguments: &str| {
        json!({ "id": id, "type": "function",
            "function": { "name": "weather", "arguments": arguments } })
    };
    let told = told(json!([
        { "role": "system", "content": "Be brief.", "name": "house" },
        { "role": "user", "name": "Ann", "content": "How is the weather?" },
        { "role": "assistant", "content": "Let me look.", "refusal": null, "annotations": [],
          "thinking_blocks": [{ "type": "thinking", "thinking": "Hm.", "signature": "s" }],
          "tool_calls": [call("c1", "{\"city\": \"Bergen\"}"), call("c2", " ")] },
        { "role": "developer", "content": [text("Say degrees."), text(" ")] },
        { "role": "user", "content": "Hurry!" },
        { "role": "tool", "tool_call_id": "c1", "name": "weather", "content": "rain" },
        { "role": "tool", "tool_call_id": "c2", "content": [text("sun")] },
        { "role": "assistant", "content": " " },
        { "role": "user", "content": "And then?" },
        { "role": "assistant", "content": "Mild." },
    ]));
    let result = |id: &str, content: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": [text(content)] });
    let tool_use = |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "weather", "input": input });
    assert_eq!(
        told.unwrap(),
        json!({
            "system": "Be brief.\n\nSay degrees.",
            "messages": [
                { "role": "user", "content": [text("Ann: How is the weather?")] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "s" },
                    text("Let me look."),
                    tool_use("c1", json!({ "city": "Bergen" })),
                    tool_use("c2", json!({})),
                ] },
                { "role": "user", "content": [
                    result("c1", "rain"), result("c2", "sun"), text("Hurry!"), text("And then?")] },
                { "role": "assistant", "content": [text("Mild.")] },
            ],
        })
    );
}

#[test]
fn what_parts_say_beside_their_text_stays() {
    let cached =
        json!({ "type": "text", "text": "Long.", "cache_control": { "type": "ephemeral" } });
    let told = told(json!([
        { "role": "system", "content": "Be brief." },
        { "role": "system", "content": [cached] },
        { "role": "user", "content": [cached, { "type": "document", "source": {} }] },
    ]));
    assert_eq!(
        told.unwrap(),
        json!({
            "system": [text("Be brief."), cached],
            "messages": [{ "role": "user", "content": [cached, { "type": "document", "source": {} }] }],
        })
    );
}

#[test]
fn images_have_sources() {
    let image =
        |url: &str| json!({ "type": "image_url", "image_url": { "url": url, "detail": "auto" } });
    let told = told(json!([
        { "role": "user", "name": "Ann", "content": [
            image("data:image/png;base64,AA=="), image("https://x/y.png"), text("What is this?")] },
        { "role": "assistant", "content": "A dog." },
        { "role": "user", "name": "Ben", "content": [image("data:image/webp;name=a;base64,BB==")] },
        { "role": "user", "name": "Ben", "content": [] },
    ]));
    let base64 = |media_type: &str, data: &str| {
        json!({ "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data } })
    };
    let url = json!({ "type": "image", "source": { "type": "url", "url": "https://x/y.png" } });
    assert_eq!(
        told.unwrap()["messages"],
        json!([
            { "role": "user", "content": [base64("image/png", "AA=="), url, text("Ann: What is this?")] },
            { "role": "assistant", "content": [text("A dog.")] },
            { "role": "user", "content": [text("Ben:"), base64("image/webp", "BB==")] },
        ])
    );
}

#[test]
fn arguments_are_objects() {
    for (arguments, input) in [
        (json!("{\"a\": [1.5, null]}"), json!({ "a": [1.5, null] })),
        (json!({ "a": 1 }), json!({ "a": 1 })),
        (json!(""), json!({})),
        (json!(null), json!({})),
    ] {
        let body = told(called(&arguments)).unwrap();
        assert_eq!(body["messages"][0]["content"][0]["input"], input);
    }
    for arguments in [json!("{\"city\": "), json!("[]"), json!("null"), json!(5)] {
        let error = told(called(&arguments)).unwrap_err();
        assert_eq!(
            error,
            "message 1: the arguments of a call of \"weather\" are not a JSON object"
        );
    }
}

#[test]
fn messages_that_have_no_counterpart_are_refused() {
    let image = |image: Value| json!({ "role": "user", "content": [{ "type": "image_url", "image_url": image }] });
    let part = |kind: &str| json!({ "role": "user", "content": [{ "type": kind }] });
    let assistant = |name: &str, value: Value| json!({ "role": "assistant", name: value });
    for (message, reason) in [
        (json!({ "role": "function", "name": "f", "content": "4" }), "of the role \"function\""),
        (assistant("function_call", json!({ "name": "f" })), "takes no \"function_call\""),
        (assistant("audio", json!({ "id": "a" })), "takes no \"audio\""),
        (assistant("refusal", json!("No.")), "takes no \"refusal\""),
        (assistant("reasoning_content", json!("Hm.")), "takes no \"reasoning_content\""),
        (assistant("tool_calls", json!({})), "its tool_calls are not a list"),
        (assistant("tool_calls", json!([{ "id": "1" }])), "its function no name"),
        (assistant("tool_calls", json!([{ "function": { "name": "f" } }])), "has no id"),
        (json!({ "role": "user", "content": "a", "tool_calls": [1] }), "takes no \"tool_calls\""),
        (json!({ "role": "tool", "content": "4" }), "it has no tool_call_id"),
        (part("input_audio"), "no parts of the type \"input_audio\""),
        (part("file"), "no parts of the type \"file\""),
        (image(json!("https://x")), "an image has no URL"),
        (image(json!({ "url": "https://x", "detail": "low" })), "takes no \"detail\""),
        (image(json!({ "url": "data:image/png,x" })), "not base64"),
        (json!({ "role": "user", "content": "a", "x".repeat(99): 1 }), "takes no \"xxx"),
    ] {
        let error = told(json!([{ "role": "user", "content": "Hi" }, message])).unwrap_err();
        assert!(error.starts_with("message 2: ") && error.contains(reason), "{message}: {error}");
        assert!(!error.contains(&"x".repeat(41)), "{error}");
    }
}

#[test]
fn fields_have_their_own_names() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let function = |members: Value| json!({ "type": "function", "function": members });
    let bash = json!({ "type": "bash_20250124", "name": "bash" });
    let told = fields(json!({
        "tools": [
            function(json!({ "name": "weather", "description": "Now.", "parameters": schema, "strict": true })),
            { "type": "function", "function": { "name": "time", "description": null },
              "cache_control": { "type": "ephemeral" } },
            bash,
        ],
        "stop": "\n\nUser:", "user": "u1", "top_p": 0.9, "top_k": 5, "service_tier": "auto",
        "thinking": { "type": "enabled", "budget_tokens": 1024 }, "unknown": { "a": [1.5, null] },
        "metadata": {}, "output_config": { "effort": "low" },
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "city", "strict": true, "description": "A city.", "schema": schema } },
    }));
    let mut described = schema.clone();
    described["description"] = "A city.".into();
    assert_eq!(
        told.unwrap(),
        json!({
            "tools": [
                { "name": "weather", "description": "Now.", "strict": true, "input_schema": schema },
                { "name": "time", "input_schema": { "type": "object" },
                  "cache_control": { "type": "ephemeral" } },
                bash,
            ],
            "stop_sequences": ["\n\nUser:"], "top_p": 0.9, "top_k": 5, "service_tier": "auto",
            "thinking": { "type": "enabled", "budget_tokens": 1024 }, "unknown": { "a": [1.5, null] },
            "metadata": { "user_id": "u1" },
            "output_config": {
                "effort": "low", "format": { "type": "json_schema", "schema": described } },
        })
    );
    assert_eq!(
        fields(json!({ "stop": ["a", "b"] })).unwrap(),
        json!({ "stop_sequences": ["a", "b"] })
    );
    let user = fields(json!({ "safety_identifier": "u2" }));
    assert_eq!(user.unwrap(), json!({ "metadata": { "user_id": "u2" } }));
}

#[test]
fn of_anthropics_own_tools_those_stay_that_the_caller_runs() {
    let told = |kind: Value| fields(json!({ "tools": [{ "type": kind, "name": "f" }] }));
    for kind in [
        json!(null),
        json!("custom"),
        json!("bash_20250124"),
        json!("computer_20250124"),
        json!("memory_20250818"),
        json!("text_editor_20250728"),
    ] {
        let stays = json!({ "tools": [{ "type": kind, "name": "f" }] });
        assert_eq!(told(kind).unwrap(), stays);
    }
    let untyped = json!({ "tools": [{ "name": "f", "input_schema": { "type": "object" } }] });
    assert_eq!(fields(untyped.clone()).unwrap(), untyped);
    for kind in [
        "web_search_20250305",
        "web_fetch_20250910",
        "code_execution_20250825",
        "tool_search_tool_regex_20251119",
        "mcp_toolset",
        "custom_1",
        "",
    ] {
        let error = told(kind.into()).unwrap_err();
        assert!(error.ends_with(&format!("takes no tools of the type \"{kind}\"")), "{error}");
    }
    assert!(told(json!(5)).unwrap_err().contains("of the type \"\""));
}

#[test]
fn choices_of_tools_are_translated() {
    let named = json!({ "type": "function", "function": { "name": "f" } });
    let one = |kind: &str| json!({ "type": kind, "disable_parallel_tool_use": true });
    for (told, expected) in [
        (json!({ "tool_choice": "auto" }), json!({ "type": "auto" })),
        (json!({ "tool_choice": "none" }), json!({ "type": "none" })),
        (json!({ "tool_choice": "required" }), json!({ "type": "any" })),
        (json!({ "tool_choice": named }), json!({ "type": "tool", "name": "f" })),
        (json!({ "tool_choice": { "type": "any" } }), json!({ "type": "any" })),
        (json!({ "parallel_tool_calls": false }), one("auto")),
        (json!({ "parallel_tool_calls": false, "tool_choice": "required" }), one("any")),
        (json!({ "parallel_tool_calls": false, "tool_choice": "none" }), json!({ "type": "none" })),
        (json!({ "parallel_tool_calls": true, "tool_choice": "auto" }), json!({ "type": "auto" })),
    ] {
        assert_eq!(fields(told.clone()).unwrap(), json!({ "tool_choice": expected }), "{told}");
    }
}

#[test]
fn what_holds_anyway_is_not_said() {
    let usual = json!({
        "n": 1, "stream": false, "seed": null, "thinking": null, "presence_penalty": 0, "logprobs": false,
        "frequency_penalty": 0.0, "store": false, "modalities": ["text"], "parallel_tool_calls": true,
        "response_format": { "type": "text" }, "tools": null, "tool_choice": null, "stop": null,
        // What the call says itself.
        "model": "another", "max_tokens": 5, "max_completion_tokens": 6, "temperature": 2,
    });
    assert_eq!(fields(usual).unwrap(), json!({}));
}

#[test]
fn fields_that_have_no_counterpart_are_refused() {
    for (name, value) in [
        ("audio", json!({ "voice": "v" })),
        ("frequency_penalty", json!(0.5)),
        ("function_call", json!("auto")),
        ("functions", json!([])),
        ("logit_bias", json!({ "1": 5 })),
        ("logprobs", json!(true)),
        ("modalities", json!(["text", "audio"])),
        ("n", json!(2)),
        ("prediction", json!({ "type": "content" })),
        ("presence_penalty", json!(-1)),
        ("prompt_cache_key", json!("k")),
        ("prompt_cache_retention", json!("24h")),
        ("reasoning_effort", json!("low")),
        ("seed", json!(7)),
        ("store", json!(true)),
        ("stream", json!(true)),
        ("stream_options", json!({ "include_usage": true })),
        ("top_logprobs", json!(2)),
        ("verbosity", json!("low")),
        ("web_search_options", json!({})),
    ] {
        let error = fields(json!({ "top_p": 1, name: value })).unwrap_err();
        assert_eq!(error, format!("the provider anthropic takes no \"{name}\""));
    }
    let tool = |tool: Value| json!({ "tools": [tool] });
    for (told, reason) in [
        (json!({ "system": "Be brief." }), "messages of the role system"),
        (json!({ "tools": {} }), "\"tools\" is not a list"),
        (tool(json!(5)), "a tool is not an object"),
        (tool(json!({ "type": "function" })), "has no function"),
        (tool(json!({ "type": "custom", "custom": { "name": "f" } })), "of the type \"custom\""),
        (json!({ "tool_choice": "any" }), "no \"tool_choice\" of \"any\""),
        (json!({ "tool_choice": { "type": "allowed_tools" } }), "of \"allowed_tools\""),
        (json!({ "tool_choice": 5 }), "no \"tool_choice\" of \"\""),
        (json!({ "parallel_tool_calls": 0 }), "neither true nor false"),
        (json!({ "stop": 5 }), "\"stop\" is neither a text nor a list"),
        (json!({ "stop": "a", "stop_sequences": ["b"] }), "\"stop_sequences\" say the same"),
        (json!({ "user": "a", "metadata": { "user_id": "b" } }), "\"user_id\" say the same"),
        (json!({ "user": "a", "metadata": 5 }), "\"metadata\" is not an object"),
        (json!({ "user": "a", "safety_identifier": "a" }), "\"user_id\" say the same"),
        (json!({ "response_format": { "type": "json_object" } }), "of the type \"json_object\""),
        (json!({ "response_format": "json" }), "of the type \"\""),
        (json!({ "response_format": { "type": "json_schema" } }), "has no schema"),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": 5 } }),
            "has no schema",
        ),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": {} } },
                    "output_config": { "format": {} } }),
            "\"response_format\" and \"format\" say the same",
        ),
    ] {
        let error = fields(told.clone()).unwrap_err();
        assert!(error.contains(reason), "{told}: {error}");
    }
}

proptest! {
    #[test]
    fn turns_alternate_and_lose_no_text(
        roles in prop::collection::vec("(user|assistant|system|tool)", 1..12),
    ) {
        // No word is in another one, nor in a body without it.
        let words: Vec<String> = (0..roles.len()).map(|index| format!("w{index}!")).collect();
        let messages: Vec<Value> = roles
            .iter()
            .zip(&words)
            .map(|(role, content)| match role.as_str() {
                "tool" => json!({ "role": role, "content": content, "tool_call_id": "c" }),
                _ => json!({ "role": role, "content": content }),
            })
            .collect();
        let body = told(messages.into()).unwrap();
        let turns = body["messages"].as_array().unwrap();
        prop_assert!(turns.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]));
        let all = body.to_string();
        prop_assert!(words.iter().all(|word| all.matches(word.as_str()).count() == 1), "{}", all);
        for turn in turns {
            let blocks = turn["content"].as_array().unwrap();
            prop_assert!(blocks.is_sorted_by_key(|block| block["type"] != "tool_result"));
        }
    }
}
