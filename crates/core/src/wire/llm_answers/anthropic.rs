//! Answers of Anthropic's messages, read as the chat completion in OpenAI's format that says the same.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::completion::Completion;
use super::openai;

#[derive(Deserialize)]
struct MessageBody {
    id: Option<String>,
    content: Vec<Map<String, Value>>,
    model: Option<String>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct ToolUse {
    id: String,
    name: String,
    input: Value,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u32>,
    /// Tokens of the prompt that `input_tokens` leaves out.
    cache_creation_input_tokens: Option<u32>,
    cache_read_input_tokens: Option<u32>,
    output_tokens: Option<u32>,
}

pub fn completion(body: &[u8]) -> Result<Completion, String> {
    let document = serde_json::from_slice(body).and_then(document);
    document.and_then(openai::of_document).map_err(|error| openai::no_answer(&error))
}

fn document(body: MessageBody) -> serde_json::Result<Value> {
    let (mut text, mut calls, mut thoughts) = (String::new(), Vec::new(), Vec::new());
    for block in body.content {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                text.push_str(block.get("text").and_then(Value::as_str).unwrap_or_default());
            }
            Some("tool_use") => calls.push(call(ToolUse::deserialize(Value::from(block))?)),
            Some("thinking" | "redacted_thinking") => thoughts.push(Value::from(block)),
            _ => {}
        }
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    // The endpoint wants them back with the results of tools, and they are signed.
    if !thoughts.is_empty() {
        message["thinking_blocks"] = thoughts.into();
    }
    let finish_reason = match body.stop_reason.as_deref() {
        // A turn that Anthropic pauses is not at its end either.
        Some("max_tokens" | "model_context_window_exceeded" | "pause_turn") => "length",
        Some("tool_use") => "tool_calls",
        Some("refusal") => "content_filter",
        _ => "stop",
    };
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason });
    let mut document = json!({ "model": body.model, "choices": [choice] });
    if let Some(id) = body.id {
        document["id"] = id.into();
    }
    if let Some(usage) = body.usage.as_ref().and_then(usage) {
        document["usage"] = usage;
    }
    Ok(document)
}

fn call(ToolUse { id, name, input }: ToolUse) -> Value {
    let function = json!({ "name": name, "arguments": input.to_string() });
    json!({ "id": id, "type": "function", "function": function })
}

fn usage(usage: &Usage) -> Option<Value> {
    let cached = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
    let prompt = usage
        .input_tokens
        .map(|tokens| cached.into_iter().flatten().fold(tokens, u32::saturating_add));
    let total = u64::from(prompt.unwrap_or(0)) + u64::from(usage.output_tokens.unwrap_or(0));
    (prompt.is_some() || usage.output_tokens.is_some()).then(|| {
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": total,
        })
    })
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
