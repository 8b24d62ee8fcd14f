//! Requests for OpenAI's chat completions and embeddings, which Ollama, llama.cpp, vLLM and many
//! more offer under the same paths. Reference: <https://platform.openai.com/docs/api-reference>.

use memory_agent_core::facts::answers::{ChatMessage, ChatRole};
use reqwest::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::{ChatCall, Messages, Wire, json_number, secret_header};
use crate::llm::base_url::BaseUrl;
use crate::llm::structured::{AnswerMode, Dialect, Sent};
use crate::protocol::Endpoint;

pub fn chat_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    call: ChatCall<'_>,
) -> Result<Wire, String> {
    let (body, sent) = chat_body(Some(&endpoint.model), dialect, call);
    let url = base.join(&["chat", "completions"]);
    Ok(Wire { url, headers: headers(endpoint)?, body, sent })
}

/// The body of a chat call.
///
/// * `model`: left out if the URL names it.
pub fn chat_body(model: Option<&str>, dialect: Dialect, call: ChatCall<'_>) -> (Value, Sent) {
    let mut body = match call.messages {
        Messages::Texts(texts) => {
            Map::from_iter([("messages".to_owned(), texts.iter().map(message).collect())])
        }
        Messages::Body(body) => body.clone(),
    };
    if let Some(model) = model {
        body.insert("model".to_owned(), model.into());
    }
    let mut sent = Sent::default();
    if call.max_answer_tokens > 0 {
        let name = if dialect.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.to_owned(), call.max_answer_tokens.into());
        sent.token_limit = true;
    }
    if let Some(temperature) = call.temperature.filter(|_| dialect.temperature) {
        body.insert("temperature".to_owned(), json_number(temperature));
        sent.temperature = true;
    }
    if let Some(schema) = call.answer.json_schema() {
        let format = match dialect.mode {
            AnswerMode::JsonSchema => Some(json!({
                "type": "json_schema",
                "json_schema": { "name": call.answer.name(), "strict": true, "schema": schema },
            })),
            AnswerMode::JsonObject => Some(json!({ "type": "json_object" })),
            AnswerMode::Plain => None,
        };
        sent.response_format = format.is_some();
        body.extend(format.map(|format| ("response_format".to_owned(), format)));
    }
    (Value::Object(body), sent)
}

pub fn message(message: &ChatMessage) -> Value {
    let role = match message.role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
    };
    json!({ "role": role, "content": message.content })
}

fn headers(endpoint: &Endpoint) -> Result<Vec<(&'static str, HeaderValue)>, String> {
    if endpoint.api_key.is_empty() {
        return Ok(Vec::new());
    }
    let value = secret_header(&format!("Bearer {}", endpoint.api_key.expose()))?;
    Ok(vec![("authorization", value)])
}

pub fn embeddings_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    texts: &[String],
    dimension: Option<u32>,
) -> Result<Wire, String> {
    let (body, sent) = embeddings_body(Some(&endpoint.model), dialect, texts, dimension);
    let url = base.join(&["embeddings"]);
    Ok(Wire { url, headers: headers(endpoint)?, body, sent })
}

/// The body of a request for embeddings.
///
/// * `model`: left out if the URL names it.
pub fn embeddings_body(
    model: Option<&str>,
    dialect: Dialect,
    texts: &[String],
    dimension: Option<u32>,
) -> (Value, Sent) {
    let mut body = Map::new();
    if let Some(model) = model {
        body.insert("model".to_owned(), model.into());
    }
    body.insert("input".to_owned(), texts.into());
    let dimension = dimension.filter(|_| dialect.dimensions);
    body.extend(dimension.map(|dimension| ("dimensions".to_owned(), dimension.into())));
    (Value::Object(body), Sent { dimensions: dimension.is_some(), ..Sent::default() })
}
