//! Requests for Anthropic's messages. Reference: <https://docs.anthropic.com/en/api/messages>.

use memory_agent_core::facts::answers::{ChatMessage, ChatRole};
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};

use super::openai::message;
use super::{ChatCall, Messages, Wire, json_number, secret_header};
use crate::llm::base_url::BaseUrl;
use crate::llm::structured::{Dialect, Sent};
use crate::protocol::Endpoint;

const DEFAULT_API_VERSION: &str = "2023-06-01";

/// The limit of tokens is required. This one is above any answer that the extension asks for itself.
const DEFAULT_MAX_TOKENS: u32 = 4096;

pub fn chat_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    call: ChatCall<'_>,
) -> Result<Wire, String> {
    let mut body = match call.messages {
        Messages::Texts(texts) => body_of(texts),
        Messages::Body(body) => body.clone(),
    };
    body.insert("model".to_owned(), endpoint.model.as_str().into());
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

fn body_of(texts: &[ChatMessage]) -> Map<String, Value> {
    let of_system = |role: ChatRole| role == ChatRole::System;
    let system: Vec<&str> = texts
        .iter()
        .filter(|message| of_system(message.role))
        .map(|message| message.content.as_str())
        .collect();
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("system".to_owned(), system.join("\n\n").into());
    }
    let turns = texts.iter().filter(|message| !of_system(message.role));
    body.insert("messages".to_owned(), turns.map(message).collect());
    body
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
