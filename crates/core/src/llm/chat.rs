//! A chat with an LLM: its messages, and why an answer is not acceptable.

use serde::{Deserialize, Serialize};

use crate::text::tokens::estimate_tokens;

/// Most characters of an answer that an [`AnswerError`] repeats.
const MAX_QUOTED_CHARS: usize = 100;
/// Who speaks in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub content: String,
}

impl ChatMessage {
    #[must_use]
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Tokens of messages, as [`estimate_tokens`] counts them.
#[must_use]
pub fn estimated_tokens(messages: &[ChatMessage]) -> u32 {
    messages.iter().fold(0, |sum, message| sum.saturating_add(estimate_tokens(&message.content)))
}

/// Why an answer is not acceptable, worded so that the model can mend it. It repeats at most
/// 200 characters of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

impl AnswerError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The beginning of a part of an answer, fit to be repeated in an error.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
