//! New facts against the ones that are known: the question to the LLM, the reading of its
//! answer, and what follows from it.
//!
//! The model decides about every memory by a short number. It may forget, but it must not
//! invent; and whatever it forgets, no new fact is lost: see [`plan()`].

use serde::Serialize;
use serde_json::Value;

use crate::chat::{AnswerError, ChatMessage, excerpt};
use crate::extract::{list_in, parse_json, statement};
use crate::json_answer::whole_number;
use crate::prompts;

mod plan;

pub use plan::{Deletion, Plan, Update, plan};

pub(crate) const SYSTEM: &str = include_str!("prompts/reconcile_system.txt");

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

/// A fact that is already stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Existing<'a> {
    pub content: &'a str,
    /// The day it was said, as an ISO date.
    pub since: &'a str,
}

/// A fact that was just extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct New<'a> {
    pub content: &'a str,
    /// The day it was said, as an ISO date.
    pub since: &'a str,
}

/// What the model says about one memory. Existing memories are numbered from 1, new facts are
/// numbered on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: u32,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new fact says something that no memory says.
    Add,
    /// The existing memory is replaced.
    Update {
        /// The new wording: trimmed, not empty, short, without NUL.
        text: String,
        /// Numbers of the new facts that it takes up; empty if the model did not say.
        from: Vec<u32>,
    },
    /// The existing memory is contradicted.
    Delete {
        /// Numbers of the new facts that contradict it; empty if the model did not say.
        because_of: Vec<u32>,
    },
    /// An existing memory stays, or a new fact adds nothing.
    None {
        /// The number of the memory that says the same.
        same_as: Option<u32>,
    },
}

/// The chat that asks for decisions about `existing`, numbered from 1, and `new`, numbered on.
/// An answer has the format `Decisions`.
#[must_use]
pub fn messages(existing: &[Existing], new: &[New]) -> Vec<ChatMessage> {
    let existing_memories: Vec<Memory<'_>> = (1..)
        .zip(existing)
        .map(|(id, memory)| Memory { id, since: memory.since, text: memory.content })
        .collect();
    let new_facts: Vec<Memory<'_>> = (existing.len() + 1..)
        .zip(new)
        .map(|(id, memory)| Memory { id, since: memory.since, text: memory.content })
        .collect();
    prompts::chat(SYSTEM.to_owned(), &Memories { existing_memories, new_facts })
}

/// Reads an answer about `existing` memories and `new` facts that was cleaned by
/// [`AnswerFormat::check`](crate::answers::AnswerFormat::check).
///
/// The shape is `{"memories": [{"id": 1, "event": "UPDATE", "text": "...", "from": [3]}, ...]}`
/// or the list alone. Decisions that are repeated word for word are returned once; new facts
/// need not be listed.
///
/// # Errors
///
/// Another shape, a number that was not sent, an existing memory that is not listed or about
/// which there are different decisions, an event that does not fit (ADD is for new facts, UPDATE
/// and DELETE for existing ones), an UPDATE without a text that can be stored.
pub fn parse(checked_json: &str, existing: u32, new: u32) -> Result<Vec<Decision>, AnswerError> {
    decisions_in(&parse_json(checked_json)?, existing, new)
}

pub(crate) fn decisions_in(
    answer: &Value,
    existing: u32,
    new: u32,
) -> Result<Vec<Decision>, AnswerError> {
    let ids = Ids { existing, total: existing.saturating_add(new) };
    let mut decisions: Vec<Decision> = Vec::new();
    for item in list_in(answer, "memories")? {
        let decision = ids.decision(item)?;
        let is_existing = ids.is_existing(decision.id);
        match decisions.iter().find(|other| is_existing && other.id == decision.id) {
            None => {}
            Some(same) if *same == decision => continue,
            Some(_) => {
                return Err(AnswerError::new(format!(
                    "memory {} is listed with different decisions: make one",
                    decision.id
                )));
            }
        }
        decisions.push(decision);
    }
    let missing: Vec<String> = (1..=existing)
        .filter(|id| decisions.iter().all(|decision| decision.id != *id))
        .map(|id| id.to_string())
        .collect();
    if missing.is_empty() {
        Ok(decisions)
    } else {
        Err(AnswerError::new(format!(
            "every existing memory needs a decision, missing: {}",
            excerpt(&missing.join(", "))
        )))
    }
}

/// The numbers that were sent.
#[derive(Clone, Copy)]
struct Ids {
    existing: u32,
    total: u32,
}

impl Ids {
    fn is_existing(self, id: u32) -> bool {
        id <= self.existing
    }

    fn decision(self, item: &Value) -> Result<Decision, AnswerError> {
        let wrong =
            |problem: &str| AnswerError::new(format!("{problem}: {}", excerpt(&item.to_string())));
        let field = |name: &str| item.get(name).filter(|value| !value.is_null());
        let id = self.known(field("id").ok_or_else(|| wrong("a decision needs an \"id\""))?)?;
        let from = self.new_facts(field("from"))?;
        let same_as = field("same_as").map(|same| self.known(same)).transpose()?;
        if same_as == Some(id) {
            return Err(wrong("\"same_as\" names the memory itself"));
        }
        let event = field("event").and_then(Value::as_str).unwrap_or_default();
        let event = match event.trim().to_ascii_uppercase().as_str() {
            "ADD" if self.is_existing(id) => {
                return Err(wrong("ADD is for new facts, this memory exists"));
            }
            "UPDATE" | "DELETE" if !self.is_existing(id) => {
                return Err(wrong(
                    "UPDATE and DELETE are for existing memories, this is a new fact",
                ));
            }
            "ADD" => Event::Add,
            "UPDATE" => {
                let text = field("text").and_then(Value::as_str).unwrap_or_default();
                let text =
                    statement(text)?.ok_or_else(|| wrong("UPDATE needs the new \"text\""))?;
                Event::Update { text, from }
            }
            "DELETE" => Event::Delete { because_of: from },
            "NONE" => Event::None { same_as },
            _ => return Err(wrong("\"event\" must be ADD, UPDATE, DELETE or NONE")),
        };
        Ok(Decision { id, event })
    }

    /// The number in `value`, if it was sent.
    fn known(self, value: &Value) -> Result<u32, AnswerError> {
        whole_number(value)
            .and_then(|id| u32::try_from(id).ok())
            .filter(|id| (1..=self.total).contains(id))
            .ok_or_else(|| {
                AnswerError::new(format!(
                    "there is no memory {}: the ids are 1 to {}",
                    excerpt(&value.to_string()),
                    self.total
                ))
            })
    }

    /// The numbers of new facts in `from`: a list, a single one, or nothing.
    fn new_facts(self, from: Option<&Value>) -> Result<Vec<u32>, AnswerError> {
        let listed = match from {
            None => &[],
            Some(Value::Array(listed)) => listed.as_slice(),
            Some(single) => std::slice::from_ref(single),
        };
        let mut ids = Vec::with_capacity(listed.len());
        for value in listed {
            let id = self.known(value)?;
            if self.is_existing(id) {
                return Err(AnswerError::new(format!(
                    "\"from\" lists new facts, {id} is an existing memory"
                )));
            }
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests;
