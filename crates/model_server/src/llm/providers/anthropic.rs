//! Anthropic's messages. Reference: <https://docs.anthropic.com/en/api/messages>.

use memory_agent_core::answers::ChatRole;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::openai::{message, no_answer};
use super::{ChatCall, Completion, Finish, Wire, json_number, secret_header};
use crate::llm::base_url::BaseUrl;
use crate::llm::structured::{Dialect, Sent};
use crate::protocol::Endpoint;

const DEFAULT_API_VERSION: &str = "2023-06-01";

/// The limit of tokens is required. This one is above any answer that the extension asks for.
const DEFAULT_MAX_TOKENS: u32 = 4096;

pub fn chat_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    call: ChatCall<'_>,
) -> Result<Wire, String> {
    let mut body = Map::new();
    body.insert("model".to_owned(), endpoint.model.as_str().into());
    let of_system = |role: ChatRole| role == ChatRole::System;
    let texts = call.messages.texts();
    let system: Vec<&str> = texts
        .iter()
        .filter(|message| of_system(message.role))
        .map(|message| message.content.as_str())
        .collect();
    if !system.is_empty() {
        body.insert("system".to_owned(), system.join("\n\n").into());
    }
    let turns = texts.iter().filter(|message| !of_system(message.role));
    body.insert("messages".to_owned(), turns.map(message).collect());
    let max_tokens = match call.max_answer_tokens {
        0 => DEFAULT_MAX_TOKENS,
        tokens => tokens,
    };
    body.insert("max_tokens".to_owned(), max_tokens.into());
    let temperature = call.temperature.filter(|_| dialect.temperature);
    if let Some(temperature) = temperature {
        // The scale ends at 1 here, at 2 elsewhere.
        body.insert("temperature".to_owned(), json_number(temperature.min(1.0)));
    }
    let sent = Sent { temperature: temperature.is_some(), ..Sent::default() };
    // People put the version into the URL of other providers and also of this one.
    let path: &[&str] = if base.ends_with("v1") { &["messages"] } else { &["v1", "messages"] };
    let url = base.join(path);
    Ok(Wire { url, headers: headers(endpoint)?, body: Value::Object(body), sent })
}

fn headers(endpoint: &Endpoint) -> Result<Vec<(&'static str, HeaderValue)>, String> {
    let version = match endpoint.api_version.as_str() {
        "" => DEFAULT_API_VERSION,
        version => version,
    };
    let version = HeaderValue::from_str(version)
        .map_err(|_| "the API version contains characters that cannot be sent".to_owned())?;
    let mut headers = vec![("anthropic-version", version)];
    if !endpoint.api_key.is_empty() {
        headers.push(("x-api-key", secret_header(endpoint.api_key.expose())?));
    }
    Ok(headers)
}

#[derive(Deserialize)]
struct MessageBody {
    content: Vec<Block>,
    model: Option<String>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

/// A part of the answer; only blocks of type `text` have one.
#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
}

pub fn completion(body: &[u8]) -> Result<Completion, String> {
    let body: MessageBody = serde_json::from_slice(body).map_err(|error| no_answer(&error))?;
    let text: String = body.content.into_iter().filter_map(|block| block.text).collect();
    let finish = match body.stop_reason.as_deref() {
        Some("max_tokens") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        Some("tool_use") if text.is_empty() => Finish::ToolCalls,
        _ => Finish::Stop,
    };
    let (prompt_tokens, completion_tokens) =
        body.usage.map_or((None, None), |usage| (usage.input_tokens, usage.output_tokens));
    Ok(Completion {
        text,
        finish,
        refusal: None,
        model: body.model,
        prompt_tokens,
        completion_tokens,
    })
}
