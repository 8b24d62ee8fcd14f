//! The shapes of requests, one file a provider. Everything here is translation: nothing is sent,
//! and nothing is decided. Answers are read by `memory_agent_core::wire::llm_answers`.

mod anthropic;
mod azure;
mod openai;

use memory_agent_core::facts::answers::{AnswerFormat, ChatMessage};
use memory_agent_core::llm::anthropic::Untranslatable;
pub use memory_agent_core::wire::llm_answers::{ApiError, Completion, Finish, completion, vectors};
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};

use super::base_url::BaseUrl;
use super::structured::{Dialect, Sent};
use crate::protocol::{Endpoint, Provider};

/// One chat call to be translated.
#[derive(Debug, Clone, Copy)]
pub struct ChatCall<'a> {
    pub messages: Messages<'a>,
    pub answer: &'a AnswerFormat,
    /// 0: not sent, where the provider allows that.
    pub max_answer_tokens: u32,
    pub temperature: Option<f32>,
}

/// The messages of a chat call.
#[derive(Debug, Clone, Copy)]
pub enum Messages<'a> {
    Texts(&'a [ChatMessage]),
    /// An application's, with further fields of its request: what [`body`] made of them.
    Body(&'a Map<String, Value>),
}

/// The body of an application's request in OpenAI's format, in the format of the provider: what the call
/// says itself, such as the model, is put in later.
///
/// # Errors
/// What the provider has no word for.
pub fn body(
    provider: Provider,
    messages: Vec<Value>,
    mut fields: Map<String, Value>,
) -> Result<Map<String, Value>, Untranslatable> {
    match provider {
        Provider::OpenAi | Provider::Azure => {
            fields.insert("messages".to_owned(), messages.into());
            Ok(fields)
        }
        Provider::Anthropic => memory_agent_core::llm::anthropic::request(messages, fields),
    }
}

/// A request as it goes over the wire.
#[derive(Debug)]
pub struct Wire {
    pub url: Url,
    pub headers: Vec<(&'static str, HeaderValue)>,
    pub body: Value,
    /// Which parts of the body an endpoint might not know.
    pub sent: Sent,
}

/// Translates a chat call.
///
/// # Errors
/// A message, if the key cannot be sent in a header.
pub fn chat_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    call: ChatCall<'_>,
) -> Result<Wire, String> {
    match endpoint.provider {
        Provider::OpenAi => openai::chat_request(endpoint, base, dialect, call),
        Provider::Azure => azure::chat_request(endpoint, base, dialect, call),
        Provider::Anthropic => anthropic::chat_request(endpoint, base, dialect, call),
    }
}

/// Translates a request for embeddings, or `None` if the provider has no such thing.
///
/// * `dimension`: the length to ask for, if any.
///
/// # Errors
/// A message, if the key cannot be sent in a header.
pub fn embeddings_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    texts: &[String],
    dimension: Option<u32>,
) -> Result<Wire, String> {
    match endpoint.provider {
        Provider::OpenAi => openai::embeddings_request(endpoint, base, dialect, texts, dimension),
        Provider::Azure => azure::embeddings_request(endpoint, base, dialect, texts, dimension),
        Provider::Anthropic => Err("the provider anthropic has no embeddings".to_owned()),
    }
}

/// A header that libraries do not log.
fn secret_header(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| "the API key contains characters that cannot be sent".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The temperature as people write it: the nearest f64 of .1_f32 is .10000000149.
fn json_number(value: f32) -> Value {
    let shortest: f64 = value.to_string().parse().unwrap_or(0.0);
    Value::from(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_written_as_short_as_they_were() {
        assert_eq!(json_number(0.1).to_string(), "0.1");
        assert_eq!(json_number(0.0).to_string(), "0.0");
        assert_eq!(json_number(f32::NAN).to_string(), "null");
    }
}
