//! Libraries that applications talk to models with, through each of their providers: two turns, a stream, and a tool.

use crate::clients::{has_their_python, installed, python};
use crate::upstream::{Answer, Request, Upstream, completion};
use crate::wire::{self, Wire};
use crate::{for_ann, stored};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Json, json};
use std::process::Command;

const KNOWN: &str = "Lena is allergic to hazelnuts.";
const WORDS: &str = "A lemon cake.";
const AFTER_TOOL: &str = "It costs 20 euros.";

/// The protocol of a path, as the docs call it.
pub fn path_of(path: &str) -> &'static str {
    match path.split('?').next() {
        Some("/v1/chat/completions") => "chat completions",
        Some("/v1/responses") => "responses",
        Some("/v1/messages") => "messages",
        _ => panic!("{path}"),
    }
}

fn wire_of(request: &Request) -> Option<Wire> {
    match path_of(&request.path) {
        "responses" => Some(Wire::Responses),
        "messages" => Some(Wire::Messages),
        _ => None,
    }
}

/// Answers a request of any protocol with a text, as a stream to who wants one; without one, as where only tools are
/// called.
pub fn answers_of(request: &Request, answer: &mut Answer, text: Option<&str>) {
    let text = text.unwrap_or_default();
    let words = || text.split_inclusive(' ').filter(|word| !word.is_empty());
    match (wire_of(request), request.json()["stream"] == true) {
        (None, false) => answer.json(&completion(text)),
        (Some(wire), false) => answer.json(&wire.whole(text).to_string()),
        (None, true) => {
            answer.begin();
            words().for_each(|word| answer.says(word));
            answer.done();
        }
        (Some(wire), true) => {
            wire.begins(answer);
            words().for_each(|word| wire.word(answer, word));
            wire.ends(answer, text);
        }
    }
}

/// An answer that calls the tool of the scripts.
fn calls_shop(wire: Option<Wire>) -> Json {
    let arguments = r#"{"item":"cake"}"#;
    match wire {
        None => {
            let call = json!({"id": "t1", "type": "function", "function": {"name": "shop", "arguments": arguments}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        }
        Some(Wire::Responses) => {
            let call = json!({"id": "fc_1", "type": "function_call", "call_id": "t1", "name": "shop",
                              "arguments": arguments, "status": "completed"});
            wire::response("completed", &[call])
        }
        Some(Wire::Messages) => {
            let mut message = wire::message();
            message["content"] = json!([{"type": "tool_use", "id": "t1", "name": "shop", "input": {"item": "cake"}}]);
            message["stop_reason"] = "tool_use".into();
            message
        }
    }
}

/// Runs a script through a provider, and checks what both sides see.
fn check(library: &str, provider: &str, script: impl FnOnce(&str) -> Json) {
    let upstream = Upstream::start(|request, answer| {
        let body = request.json();
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let is_answered = request.body.contains("20 euros");
        match (has_tools, is_answered) {
            (true, false) => answer.json(&calls_shop(wire_of(request)).to_string()),
            (_, is_answered) => {
                answers_of(request, answer, Some(if is_answered { AFTER_TOOL } else { WORDS }));
            }
        }
    });
    let (gateway, mut client) = for_ann(&format!("libraries_{library}_{provider}"), &upstream, &[]);
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    client.execute("SELECT memory_add($1, infer => false)", &[&KNOWN]).unwrap();
    let found = script(&gateway.address().to_string());
    let expected = json!({"answer": WORDS, "streamed": WORDS, "called": ["shop", {"item": "cake"}],
                          "after_tool": AFTER_TOOL});
    assert_eq!(found, expected, "{library}, {provider}");

    let requests = upstream.requests();
    assert_eq!(requests.len(), 4, "{library}, {provider}");
    for request in &requests {
        assert_eq!(request.body.matches(KNOWN).count(), 1, "{provider}: {}", request.body);
    }
    let streams: Vec<bool> =
        requests.iter().map(|request| request.json()["stream"] == true).collect();
    assert_eq!(streams, [false, true, false, false], "{library}, {provider}");
    let sessions: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT session_id FROM memory_agent.entries WHERE kind = 'turn'",
        &[],
    );
    let [session] = &*sessions else { panic!("{library}, {provider}: {sessions:?}") };
    assert_eq!(
        stored(&mut client, "ann", session),
        [
            "user: What can I bake for Lena?",
            "assistant: A lemon cake.",
            "user: And to drink?",
            "assistant: A lemon cake.",
            "user: What does the cake cost?",
            "assistant: It costs 20 euros.",
        ],
        "{library}, {provider}"
    );
}

#[test]
fn langchain() {
    if !has_their_python() {
        return;
    }
    for provider in ["completions", "responses", "messages"] {
        check("langchain", provider, |address| {
            python(include_str!("libraries/langchain_client.py"), &[provider, address])
        });
    }
}

#[test]
fn litellm() {
    if !has_their_python() {
        return;
    }
    for provider in ["completions", "messages"] {
        check("litellm", provider, |address| {
            python(include_str!("libraries/litellm_client.py"), &[provider, address])
        });
    }
}

/// Whether the machine's Node.js is new enough; Debian 12's is not.
pub fn has_their_node() -> bool {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    let major =
        version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    let is_theirs = major.is_some_and(|major: u32| major >= 20);
    if !is_theirs {
        eprintln!("left out: it needs Node.js 20");
    }
    is_theirs
}

#[test]
fn the_ai_sdk_of_vercel() {
    if !has_their_node() {
        return;
    }
    let home = installed("gateway-libraries", "tests/gateway/libraries/package-lock.json");
    for provider in ["completions", "responses", "messages", "compatible"] {
        check("ai", provider, |address| {
            let mut node = Command::new("node");
            node.args(["--input-type=module", "-e", include_str!("libraries/ai_client.mjs"), "--"]);
            let output = node.arg(&home).args([provider, address]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
        });
    }
}
