//! How prompts of the LLM calls are put together: the texts are in `prompts/`, here is the data that goes
//! with them.
//!
//! What users said and what is remembered is data. It goes into strings of one JSON document,
//! which is the whole user message: nothing in a text can end its string, so no text can pass
//! for a part of the prompt. The system prompt says that nothing in there is an instruction.

use serde::Serialize;

use crate::llm::chat::{ChatMessage, ChatRole};

const REPAIR: &str = include_str!("../prompts/repair.txt");

/// The text that asks once more for an answer that was not acceptable: `error` says why, and is
/// best an [`AnswerError`](crate::facts::answers::AnswerError). It follows the chat so far and the answer.
#[must_use]
pub fn repair(error: &str) -> String {
    REPAIR.trim_end().replace("{error}", error)
}

/// A system prompt and the data it is about, as one JSON document.
pub(crate) fn chat(system: String, document: &impl Serialize) -> Vec<ChatMessage> {
    // Strings and numbers in structs: there is nothing that could not be written as JSON.
    let document = serde_json::to_string(document).unwrap_or_default();
    vec![
        ChatMessage::new(ChatRole::System, system.trim_end()),
        ChatMessage::new(ChatRole::User, document),
    ]
}

#[cfg(test)]
#[path = "questions_tests.rs"]
pub(crate) mod tests;
