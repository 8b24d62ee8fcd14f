//! Memories that exclude each other among those that were recalled: the question to the LLM, and
//! the reading of its answer.
//!
//! What is found decides only what an assistant is shown; nothing that is stored changes. So every
//! doubt keeps a memory, and a caller that gets no answer shows all.

use serde::Serialize;
use serde_json::Value;

use crate::facts::extract::{list_in, parse_json};
use crate::llm::chat::{AnswerError, ChatMessage, excerpt};
use crate::llm::json_answer::whole_number;
use crate::llm::questions;

const SYSTEM: &str = include_str!("../prompts/contradiction_system.txt");

/// A recalled memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled<'a> {
    /// `user`, `assistant`, `system`, `tool` or `memory`.
    pub role: &'a str,
    pub content: &'a str,
    /// The day it was said, as an ISO date.
    pub since: &'a str,
}

/// What the model says about one memory, the one that keeps most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It stands.
    Keep,
    /// It is newer than another one about the same topic. It is shown as it is.
    Update,
    /// Another one contradicts or repeats it. It is not shown.
    Delete,
}

#[derive(Serialize)]
struct Document<'a> {
    memories: Vec<Memory<'a>>,
}

/// A memory as the model sees it.
#[derive(Serialize)]
struct Memory<'a> {
    id: usize,
    role: &'a str,
    since: &'a str,
    text: &'a str,
}

/// The chat that asks for a verdict on each memory; they are numbered from 1. With less than two
/// there is nothing to ask. An answer has the format `Verdicts`.
#[must_use]
pub fn messages(memories: &[Recalled]) -> Vec<ChatMessage> {
    let memories = (1..)
        .zip(memories)
        .map(|(id, memory)| Memory {
            id,
            role: memory.role,
            since: memory.since,
            text: memory.content,
        })
        .collect();
    questions::chat(SYSTEM.to_owned(), &Document { memories })
}

/// Reads an answer about `rows` memories that was cleaned by
/// [`AnswerFormat::check`](crate::facts::answers::AnswerFormat::check): one verdict for each, in order.
///
/// The shape is `{"verdicts": [{"id": 1, "verdict": "DELETE"}, ...]}` or the list alone. A memory
/// that is not listed is kept; of different verdicts on one memory the one that keeps more counts.
///
/// # Errors
///
/// Another shape, a number that was not sent, an unknown verdict.
pub fn parse(checked_json: &str, rows: u32) -> Result<Vec<Verdict>, AnswerError> {
    verdicts_in(&parse_json(checked_json)?, rows)
}

pub(crate) fn verdicts_in(answer: &Value, rows: u32) -> Result<Vec<Verdict>, AnswerError> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; rows as usize];
    for item in list_in(answer, "verdicts")? {
        let (index, verdict) = verdict(item, rows)?;
        let earlier = verdicts[index];
        verdicts[index] = Some(earlier.map_or(verdict, |earlier| earlier.min(verdict)));
    }
    Ok(verdicts.into_iter().map(|verdict| verdict.unwrap_or(Verdict::Keep)).collect())
}

/// The index of a memory and what is said about it.
fn verdict(item: &Value, rows: u32) -> Result<(usize, Verdict), AnswerError> {
    let wrong =
        |problem: &str| AnswerError::new(format!("{problem}: {}", excerpt(&item.to_string())));
    let id = item.get("id").ok_or_else(|| wrong("a verdict needs an \"id\""))?;
    let index = whole_number(id)
        .filter(|id| (1..=u64::from(rows)).contains(id))
        .and_then(|id| usize::try_from(id - 1).ok())
        .ok_or_else(|| {
            AnswerError::new(format!(
                "there is no memory {}: the ids are 1 to {rows}",
                excerpt(&id.to_string())
            ))
        })?;
    let verdict = item.get("verdict").and_then(Value::as_str).unwrap_or_default();
    let verdict = match verdict.trim().to_ascii_uppercase().as_str() {
        "KEEP" => Verdict::Keep,
        "UPDATE" => Verdict::Update,
        "DELETE" => Verdict::Delete,
        _ => return Err(wrong("\"verdict\" must be KEEP, UPDATE or DELETE")),
    };
    Ok((index, verdict))
}

/// The indexes of the memories to show: all but the deleted ones. If every one is deleted, all are
/// shown: a contradiction has two sides, and one of them holds.
#[must_use]
pub fn kept(verdicts: &[Verdict]) -> Vec<usize> {
    let all = 0..verdicts.len();
    let kept: Vec<usize> =
        all.clone().filter(|index| verdicts[*index] != Verdict::Delete).collect();
    if kept.is_empty() { all.collect() } else { kept }
}

#[cfg(test)]
#[path = "contradictions_tests.rs"]
mod tests;
