//! The request for a chat completion in OpenAI's format as a request for Anthropic's messages.
//! What that protocol cannot express is refused; the little that is left out, docs/chat.md names. The answer's
//! way back is in `llm_answers/anthropic.rs`. References:
//! <https://platform.openai.com/docs/api-reference/chat/create>,
//! <https://docs.anthropic.com/en/api/messages>.

use serde_json::{Map, Value};

mod fields;
mod messages;
mod refusals;

/// Why a request cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Untranslatable(String);

/// The body of the request, without `model`, `max_tokens` and `temperature`, which are not fields of a
/// chat here.
///
/// * `messages`: as [`ChatMessages`](crate::llm::chat_messages::ChatMessages) has checked them.
///
/// # Errors
/// Names the field, or the message and what of it has no counterpart.
pub fn request(
    messages: Vec<Value>,
    fields: Map<String, Value>,
) -> Result<Map<String, Value>, Untranslatable> {
    let mut body = fields::translated(fields).map_err(Untranslatable)?;
    let (system, turns) = messages::translated(messages).map_err(Untranslatable)?;
    body.extend(system.map(|system| ("system".to_owned(), system)));
    body.insert("messages".to_owned(), turns.into());
    Ok(body)
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
