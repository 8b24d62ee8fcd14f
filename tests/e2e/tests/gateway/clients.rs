//! Clients as people use them: OpenAI's and Anthropic's for Python, and curl. Nothing but the address is changed.

use crate::for_ann;
use crate::http::says_streaming;
use crate::stored;
use crate::upstream::{Upstream, completion};
use crate::wire::{self, Wire};
pub use memory_agent_e2e::programs_of_others::{has_their_python, installed};
use memory_agent_e2e::{Json, json};
use std::process::Command;

/// What a script in Python prints, as JSON.
pub fn python(script: &str, arguments: &[&str]) -> Json {
    let scratch = crate::cluster().socket_directory();
    let output = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .args(arguments)
        .env_clear()
        .env("PYTHONPATH", installed("gateway-clients", "tests/gateway/requirements.txt"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // mem0's client writes a file on its user, and would report what it is used for.
        .env("MEM0_DIR", scratch.join("mem0"))
        .env("MEM0_TELEMETRY", "False")
        // LiteLLM would fetch a list of prices.
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn the_openai_client_for_python() {
    if !has_their_python() {
        return;
    }
    let upstream = Upstream::start(|request, answer| {
        match request.path.as_str() {
        "/v1/models" => answer.json(r#"{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"o"}]}"#),
        "/v1/embeddings" => answer.json(r#"{"object":"list","model":"e","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]}],"usage":{"prompt_tokens":1,"total_tokens":1}}"#),
        _ => {
            let body = request.json();
            let last = body["messages"].as_array().unwrap().last().unwrap();
            if body["stream"] == true {
                answer.begin();
                answer.says("Her dog ");
                answer.says("is called Rex.");
                answer.done();
            } else if body["tools"].is_array() && last["role"] == "user" {
                answer.json(r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},"finish_reason":"tool_calls"}]}"#);
            } else if last["content"].as_str().is_some_and(|text| text.ends_with("Fail.")) {
                answer.whole(400, &[("content-type", "application/json")], r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"nope"}}"#);
            } else {
                answer.json(&completion("So it is."));
            }
        }
    }
    });
    let (gateway, mut client) = for_ann("clients_openai", &upstream, &[]);
    let url = format!("http://{}/v1", gateway.address());
    let found = python(include_str!("openai_client.py"), &[&url]);
    assert_eq!(found["answer"], "So it is.");
    assert_eq!(found["streamed"], "Her dog is called Rex.");
    assert!(found["hits"].to_string().contains("My dog is called Rex."), "{found}");
    assert_eq!(found["stored"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["called"], "weather");
    assert_eq!(found["after_tool"], "So it is.");
    assert_eq!(found["error"], "nope");
    assert_eq!(found["models"], serde_json::json!(["m"]));
    assert_eq!(found["embedding"], serde_json::json!([0.5, 0.25]));
    assert_eq!(
        stored(&mut client, "ann", "python"),
        [
            "user: My dog is called Rex.",
            "assistant: So it is.",
            "user: How is my dog called?",
            "assistant: Her dog is called Rex.",
        ]
    );
    assert_eq!(
        stored(&mut client, "ann", "tools"),
        ["user: How is the weather in Rome?", "assistant: So it is."]
    );
    let refused: i64 = memory_agent_e2e::memory::value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE content = 'Fail.' AND state <> 'inactive'",
        &[],
    );
    assert_eq!(refused, 0);
}

/// What an upstream of a protocol answers a client's program.
fn answering(wire: Wire) -> Upstream {
    Upstream::start(move |request, answer| {
        if request.path.contains("count_tokens") {
            return answer.json(r#"{"input_tokens": 7}"#);
        }
        let body = request.json();
        let last = match wire {
            Wire::Responses => {
                body["input"].as_array().map_or(&body["input"], |all| all.last().unwrap())
            }
            Wire::Messages => body["messages"].as_array().unwrap().last().unwrap(),
        };
        if body["stream"] == true {
            wire.begins(answer);
            wire.word(answer, "Her dog ");
            wire.word(answer, "is called Rex.");
            wire.ends(answer, "Her dog is called Rex.");
        } else if body["tools"].is_array() && last["role"] == "user" && last["content"].is_string()
        {
            answer.json(&calls_weather(wire).to_string());
        } else if last.to_string().contains("Fail.") {
            let error = r#"{"type":"error","error":{"message":"no","type":"invalid_request_error","code":"nope"}}"#;
            answer.whole(400, &[("content-type", "application/json")], error);
        } else {
            answer.json(&wire.whole("So it is.").to_string());
        }
    })
}

/// An answer that calls a tool.
fn calls_weather(wire: Wire) -> Json {
    match wire {
        Wire::Responses => {
            let call = json!({"id": "fc_1", "type": "function_call", "call_id": "t1", "name": "weather",
                              "arguments": "{\"city\":\"Rome\"}", "status": "completed"});
            wire::response("completed", &[call])
        }
        Wire::Messages => {
            let mut message = wire::message();
            message["content"] = json!([{"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}]);
            message["stop_reason"] = "tool_use".into();
            message
        }
    }
}

/// Runs a client's program in front of an upstream of its protocol, and checks what both programs do.
fn official_client(wire: Wire, script: &str, base: &str) -> (Upstream, Json) {
    let upstream = answering(wire);
    let (gateway, mut client) = for_ann(&format!("clients_{}", wire.name()), &upstream, &[]);
    let found = python(script, &[&format!("http://{}{base}", gateway.address())]);
    assert_eq!(found["answer"], "So it is.");
    for name in ["streamed", "helped"] {
        assert_eq!(found[name], "Her dog is called Rex.", "{name}");
    }
    for name in ["hits", "helped_hits"] {
        assert!(found[name].to_string().contains("My dog is called Rex."), "{found}");
    }
    assert_eq!(found["called"], "weather");
    assert_eq!(found["after_tool"], "So it is.");
    assert_eq!(found["refused"], "invalid_request");
    let ids: Json = memory_agent_e2e::memory::value(
        &mut client,
        "SELECT jsonb_agg(id ORDER BY created_at, id) FROM memory_agent.entries \
          WHERE session_id = 'python' AND role = 'assistant'",
        &[],
    );
    assert_eq!(found["stored"], ids);
    assert_eq!(
        stored(&mut client, "ann", "python"),
        [
            "user: My dog is called Rex.",
            "assistant: So it is.",
            "user: How is my dog called?",
            "assistant: Her dog is called Rex.",
            "user: And how is he called?",
            "assistant: Her dog is called Rex.",
        ]
    );
    let expected = ["user: How is the weather in Rome?", "assistant: So it is."];
    assert_eq!(stored(&mut client, "ann", "tools"), expected);
    let refused: i64 = memory_agent_e2e::memory::value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE content = 'Fail.' AND state <> 'inactive'",
        &[],
    );
    assert_eq!(refused, 0);
    (upstream, found)
}

#[test]
fn the_openai_client_for_responses() {
    if !has_their_python() {
        return;
    }
    let script = include_str!("responses_client.py");
    let (_, found) = official_client(Wire::Responses, script, "/v1");
    assert_eq!(found["error"], "nope");
    let kinds = found["kinds"].as_array().unwrap();
    assert_eq!((kinds.len(), &kinds[kinds.len() - 1]), (9, &json!("response.completed")));
}

#[test]
fn the_anthropic_client_for_python() {
    if !has_their_python() {
        return;
    }
    let script = include_str!("anthropic_client.py");
    let (upstream, found) = official_client(Wire::Messages, script, "");
    assert_eq!(found["error"], "invalid_request_error");
    assert_eq!(found["stop"], "end_turn");
    assert_eq!(found["tokens"], 7);
    // The client itself leaves pings out.
    let kinds = json!([
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop"
    ]);
    assert_eq!(found["kinds"], kinds);
    let requests = upstream.requests();
    assert!(requests.iter().all(|request| request.header("anthropic-version").is_some()));
    let mut betas = requests.iter().filter_map(|request| request.header("anthropic-beta"));
    assert_eq!(betas.next(), Some("context-1m-2025-08-07"));
}

#[test]
fn curl() {
    let upstream = Upstream::saying("Hello from upstream.");
    let (gateway, mut client) = for_ann("clients_curl", &upstream, &[]);
    let url = format!("http://{}/v1/chat/completions", gateway.address());
    let body = says_streaming("curl", "Hello.");
    let output = Command::new("curl")
        .args(["-sS", "-N", "-f", &url, "-H", "content-type: application/json", "-d", &body])
        .output()
        .unwrap_or_else(|error| panic!("curl: {error}. Run `scripts/setup --tests`."));
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(answer.contains("memory_stored") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    assert_eq!(
        stored(&mut client, "ann", "curl"),
        ["user: Hello.", "assistant: Hello from upstream."]
    );
}
