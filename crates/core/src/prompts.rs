//! The prompts of the LLM calls: the texts in `prompts/`, and the data that goes with them.
//!
//! What users said and what is remembered is data. It goes into strings of one JSON document,
//! which is the whole user message: nothing in a text can end its string, so no text can pass
//! for a part of the prompt. The system prompt says that nothing in there is an instruction.

use serde::Serialize;

use crate::answers::{ChatMessage, ChatRole};
use crate::extract::PendingTurn;
use crate::reconcile::{Existing, New};

const EXTRACT_SYSTEM: &str = include_str!("prompts/extract_system.txt");
const RECONCILE_SYSTEM: &str = include_str!("prompts/reconcile_system.txt");
const REPAIR: &str = include_str!("prompts/repair.txt");

#[derive(Serialize)]
struct Turns<'a> {
    turns: Vec<Turn<'a>>,
}

/// A turn as the model sees it.
#[derive(Serialize)]
struct Turn<'a> {
    turn: usize,
    said_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    text: &'a str,
}

#[derive(Serialize)]
struct Memories<'a> {
    existing_memories: Vec<Memory<'a>>,
    new_facts: Vec<Memory<'a>>,
}

/// A memory as the model sees it.
#[derive(Serialize)]
struct Memory<'a> {
    id: usize,
    since: &'a str,
    text: &'a str,
}

/// Asks for at most `max_per_turn` facts of each turn.
pub(crate) fn extract(turns: &[PendingTurn], max_per_turn: u32) -> Vec<ChatMessage> {
    let turns: Vec<Turn> = (1..)
        .zip(turns)
        .map(|(turn, pending)| Turn {
            turn,
            said_at: pending.said_at,
            speaker: pending.speaker,
            text: pending.content,
        })
        .collect();
    let system = EXTRACT_SYSTEM.replace("{max_per_turn}", &max_per_turn.to_string());
    chat(system, &Turns { turns })
}

/// Asks for a decision about each memory, existing and new.
pub(crate) fn reconcile(existing: &[Existing], new: &[New]) -> Vec<ChatMessage> {
    let existing_memories: Vec<Memory> = (1..)
        .zip(existing)
        .map(|(id, memory)| Memory { id, since: memory.since, text: memory.content })
        .collect();
    let new_facts: Vec<Memory> = (existing.len() + 1..)
        .zip(new)
        .map(|(id, memory)| Memory { id, since: memory.since, text: memory.content })
        .collect();
    chat(RECONCILE_SYSTEM.to_owned(), &Memories { existing_memories, new_facts })
}

/// The text that asks once more for an answer that was not acceptable: `error` says why, and is
/// best an [`AnswerError`](crate::answers::AnswerError). It follows the chat so far and the answer.
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
#[path = "prompts_tests.rs"]
pub(crate) mod tests;
