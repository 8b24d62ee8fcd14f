//! OpenAI's chat completions and embeddings, which Ollama, llama.cpp, vLLM and many more offer
//! under the same paths. Reference: <https://platform.openai.com/docs/api-reference>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_agent_core::answers::{ChatMessage, ChatRole};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ChatCall, Completion, Finish, Messages, Wire, json_number, secret_header};
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
    let mut body = Map::new();
    if let Some(model) = model {
        body.insert("model".to_owned(), model.into());
    }
    let messages = match call.messages {
        Messages::Texts(texts) => texts.iter().map(message).collect(),
        Messages::AsGiven { openai, .. } => Value::from(openai),
    };
    body.insert("messages".to_owned(), messages);
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

#[derive(Deserialize)]
struct ChatBody {
    choices: Vec<Choice>,
    model: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<AnswerMessage>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct AnswerMessage {
    content: Option<Content>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

/// Some servers send parts instead of a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
}

pub fn completion(body: &[u8]) -> Result<Completion, String> {
    let body: ChatBody = serde_json::from_slice(body).map_err(|error| no_answer(&error))?;
    let usage = body.usage.unwrap_or(Usage { prompt_tokens: None, completion_tokens: None });
    let choice = body.choices.into_iter().next();
    let finish = match choice.as_ref().and_then(|choice| choice.finish_reason.as_deref()) {
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        _ => Finish::Stop,
    };
    let message = choice.and_then(|choice| choice.message);
    let message =
        message.unwrap_or(AnswerMessage { content: None, refusal: None, tool_calls: None });
    let text = match message.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
        None => String::new(),
    };
    let calls_tools = message.tool_calls.is_some_and(|calls| !calls.is_empty());
    Ok(Completion {
        finish: if text.is_empty() && calls_tools { Finish::ToolCalls } else { finish },
        text,
        refusal: message.refusal.filter(|refusal| !refusal.is_empty()),
        model: body.model,
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
    })
}

/// The message for a body of another shape. serde's own can contain parts of it.
pub fn no_answer(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => {
            "the answer is JSON, but not of the shape that was expected".to_owned()
        }
        _ => format!("the answer is no JSON (line {}, column {})", error.line(), error.column()),
    }
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

#[derive(Deserialize)]
struct EmbeddingsBody {
    data: Vec<EmbeddingRow>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    index: Option<usize>,
    embedding: Numbers,
}

/// Some servers send base64 although nobody asked.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    List(Vec<f32>),
    Base64(String),
}

pub fn vectors(body: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, String> {
    let body: EmbeddingsBody = serde_json::from_slice(body).map_err(|error| no_answer(&error))?;
    if body.data.len() != texts {
        return Err(format!("{} embeddings came for {texts} texts", body.data.len()));
    }
    let mut rows = vec![None; texts];
    for (position, row) in body.data.into_iter().enumerate() {
        // Servers that leave the index out keep the order.
        let slot = rows.get_mut(row.index.unwrap_or(position));
        match slot {
            Some(slot @ None) => *slot = Some(numbers(row.embedding)?),
            _ => return Err("the indexes of the embeddings are wrong".to_owned()),
        }
    }
    Ok(rows.into_iter().flatten().collect())
}

fn numbers(numbers: Numbers) -> Result<Vec<f32>, String> {
    let text = match numbers {
        Numbers::List(list) => return Ok(list),
        Numbers::Base64(text) => text,
    };
    let wrong = || "an embedding is no base64 of 32-bit numbers".to_owned();
    let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() {
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
