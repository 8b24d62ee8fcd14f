//! Other wordings of what a user asks, to be searched for as well: the question to the LLM, and the
//! reading of its answer.
//!
//! A rewrite only widens the search. So whatever is wrong with a single one costs that rewrite and
//! nothing else, and a caller that gets no answer searches for the message alone.

use serde::Serialize;
use serde_json::Value;

use crate::facts::extract::{list_in, parse_json};
use crate::llm::chat::{AnswerError, ChatMessage, excerpt};
use crate::llm::questions;

/// Most rewrites of one message; with the message itself three queries.
pub const MAX_REWRITES: u32 = 2;
/// Most characters of a rewrite. A longer one is no query.
pub const MAX_REWRITE_CHARS: usize = 500;

const SYSTEM: &str = include_str!("../prompts/rewrite_system.txt");

/// A message before the one that is rewritten. It tells what pronouns stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Earlier<'a> {
    /// `user`, `assistant`, `system` or `tool`.
    pub role: &'a str,
    pub text: &'a str,
}

#[derive(Serialize)]
struct Document<'a> {
    earlier: &'a [Earlier<'a>],
    message: &'a str,
}

/// The chat that asks for at most `max` rewrites of `message`, which was said after `earlier`,
/// oldest first. An answer has the format `Rewrites`.
#[must_use]
pub fn messages(message: &str, earlier: &[Earlier], max: u32) -> Vec<ChatMessage> {
    let system = SYSTEM.replace("{max}", &max.to_string());
    questions::chat(system, &Document { earlier, message })
}

/// Reads an answer that was cleaned by
/// [`AnswerFormat::check`](crate::facts::answers::AnswerFormat::check).
///
/// The shape is `{"rewrites": ["...", "..."]}` or the list alone. Blank rewrites, repeated ones,
/// those that repeat `message`, those longer than [`MAX_REWRITE_CHARS`] or with a NUL, and those
/// over `max` are dropped. Case does not make a difference.
///
/// # Errors
///
/// Another shape.
pub fn parse(checked_json: &str, message: &str, max: u32) -> Result<Vec<String>, AnswerError> {
    let mut rewrites: Vec<String> = Vec::new();
    for rewrite in texts_in(&parse_json(checked_json)?)? {
        let rewrite = rewrite.trim();
        let is_query = !rewrite.is_empty()
            && !rewrite.contains('\0')
            && rewrite.chars().nth(MAX_REWRITE_CHARS).is_none();
        let repeats = |other: &str| rewrite.to_lowercase() == other.trim().to_lowercase();
        if is_query && !repeats(message) && !rewrites.iter().any(|other| repeats(other)) {
            rewrites.push(rewrite.to_owned());
        }
    }
    rewrites.truncate(max as usize);
    Ok(rewrites)
}

/// The texts of an answer.
pub(crate) fn texts_in(answer: &Value) -> Result<Vec<&str>, AnswerError> {
    let text = |item| {
        Value::as_str(item).ok_or_else(|| {
            let shown = excerpt(&item.to_string());
            AnswerError::new(format!("each rewrite must be a string: {shown}"))
        })
    };
    list_in(answer, "rewrites")?.iter().map(text).collect()
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
