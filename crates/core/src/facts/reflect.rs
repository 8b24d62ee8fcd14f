//! What a closed episode leaves behind: the question to the LLM, and the reading of its answer.
//!
//! The model sees all turns of the episode and the facts that are known about its subject, and
//! says of each fact whether it is kept, updated or removed, and what is new. What follows from
//! its actions, and that no fact is lost which it forgets, is in [`plan()`].

use serde::Serialize;
use serde_json::Value;

use crate::facts::extract::{list_in, parse_json, statement};
use crate::llm::chat::{AnswerError, ChatMessage, excerpt};
use crate::llm::json_answer::whole_number;
use crate::{llm::questions, text::markers};

mod plan;

pub use plan::{Fact, Plan, Removal, Update, plan};

const SYSTEM: &str = include_str!("../prompts/reflect_system.txt");
/// What is said of tools there.
const TOOLS: &str = "What a tool returned brings no memory of its own.";
/// The same where failures of tools become facts.
const TOOL_FAILURES: &str =
    "What a tool returned counts only as the outcome: that something worked or failed.";

/// A turn of the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeTurn<'a> {
    /// `user`, `assistant`, `system` or `tool`.
    pub role: &'a str,
    /// What was said; of a user's turn without memories that were put into it, see
    /// [`original_message`](crate::facts::extract::original_message).
    pub content: &'a str,
    /// The speaker's name, if the turn has one.
    pub speaker: Option<&'a str>,
    /// The day the turn was said, as an ISO date.
    pub said_at: &'a str,
    /// The markers stored with the turn.
    pub markers: &'a [String],
}

/// A fact that was known before the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorFact<'a> {
    pub content: &'a str,
    /// The day it was said, as an ISO date.
    pub since: &'a str,
    /// The markers stored with the fact.
    pub markers: &'a [String],
}

/// What the model says about one prior fact, or a new one. Prior facts and turns are numbered
/// from 1, as in the chat.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The prior fact stays.
    Keep { id: u32 },
    /// The prior fact is replaced.
    Update { id: u32, statement: Statement },
    /// A new fact.
    Add { statement: Statement },
    /// The prior fact is no longer true.
    Remove {
        id: u32,
        /// The turns that say so; empty if the model did not name them.
        turns: Vec<u32>,
    },
}

/// A statement that the model made out of the episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Trimmed, not empty, at most [`MAX_FACT_CHARS`](crate::facts::extract::MAX_FACT_CHARS) characters,
    /// without NUL.
    pub text: String,
    /// Valid markers, each once; `None` if the model did not say.
    pub markers: Option<Vec<String>>,
    /// How sure the model is that it holds, 0 to 1.
    pub confidence: Option<f32>,
    /// The turns it rests on; empty if the model did not name them.
    pub turns: Vec<u32>,
    /// Turns that say what it takes the place of; empty if the model did not name any.
    pub replaces: Vec<u32>,
}

#[derive(Serialize)]
struct Document<'a> {
    existing_memories: Vec<Memory<'a>>,
    turns: Vec<Turn<'a>>,
}

/// A prior fact as the model sees it.
#[derive(Serialize)]
struct Memory<'a> {
    id: usize,
    since: &'a str,
    markers: &'a [String],
    text: &'a str,
}

/// A turn as the model sees it.
#[derive(Serialize)]
struct Turn<'a> {
    turn: usize,
    role: &'a str,
    said_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    markers: &'a [String],
    text: &'a str,
}

/// The chat that asks what the episode of `turns` means for `prior` facts, and for at most
/// `max_facts` new or changed ones. Both are numbered from 1. An answer has the format
/// `Reflection`.
#[must_use]
pub fn messages(
    prior: &[PriorFact],
    turns: &[EpisodeTurn],
    max_facts: u32,
    tool_failures: bool,
) -> Vec<ChatMessage> {
    let existing_memories: Vec<Memory> = (1..)
        .zip(prior)
        .map(|(id, fact)| Memory {
            id,
            since: fact.since,
            markers: fact.markers,
            text: fact.content,
        })
        .collect();
    let turns: Vec<Turn> = (1..)
        .zip(turns)
        .map(|(turn, said)| Turn {
            turn,
            role: said.role,
            said_at: said.said_at,
            speaker: said.speaker,
            markers: said.markers,
            text: said.content,
        })
        .collect();
    let tools = if tool_failures { TOOL_FAILURES } else { TOOLS };
    let system = SYSTEM.replace("{max_facts}", &max_facts.to_string()).replace("{tools}", tools);
    questions::chat(system, &Document { existing_memories, turns })
}

/// Reads an answer about `existing` prior facts and `turns` that was cleaned by
/// [`AnswerFormat::check`](crate::facts::answers::AnswerFormat::check).
///
/// The shape is `{"actions": [{"action": "update", "id": 1, "text": "...", "markers": [...],
/// "confidence": 0.9, "turns": [2], "replaces": [1]}, ...]}` or the list alone. Prior facts need not be listed;
/// actions that are repeated word for word are returned once. An unknown marker is dropped:
/// it is not worth another call. A blank `add` is dropped. Without prior facts, each statement is an `add`.
///
/// # Errors
///
/// Another shape, a number that was not sent, an unknown action, different actions about one prior
/// fact, an `update` without a text that can be stored, an `add` that names a prior fact.
pub fn parse(checked_json: &str, existing: u32, turns: u32) -> Result<Vec<Action>, AnswerError> {
    actions_in(&parse_json(checked_json)?, existing, turns)
}

pub(crate) fn actions_in(
    answer: &Value,
    existing: u32,
    turns: u32,
) -> Result<Vec<Action>, AnswerError> {
    let sent = Sent { existing, turns };
    let mut actions: Vec<Action> = Vec::new();
    for item in list_in(answer, "actions")? {
        let Some(action) = sent.action(item)? else { continue };
        if actions.contains(&action) {
            continue;
        }
        if let Some(id) = action.id()
            && actions.iter().any(|other| other.id() == Some(id))
        {
            return Err(AnswerError::new(format!(
                "memory {id} is listed with different actions: make one"
            )));
        }
        actions.push(action);
    }
    Ok(actions)
}

impl Action {
    /// The number of the prior fact that it is about.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        match self {
            Self::Keep { id } | Self::Update { id, .. } | Self::Remove { id, .. } => Some(*id),
            Self::Add { .. } => None,
        }
    }

    /// Whether a prior fact is to be updated or removed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Update { .. } | Self::Remove { .. })
    }
}

/// The numbers that were sent.
#[derive(Clone, Copy)]
struct Sent {
    existing: u32,
    turns: u32,
}

impl Sent {
    /// An action, or `None` if it says nothing.
    fn action(self, item: &Value) -> Result<Option<Action>, AnswerError> {
        let wrong =
            |problem: &str| AnswerError::new(format!("{problem}: {}", excerpt(&item.to_string())));
        let field = |name: &str| item.get(name).filter(|value| !value.is_null());
        let id = || match field("id") {
            Some(id) => self.memory(id),
            None => Err(wrong("keep, update and remove need the \"id\" of the memory")),
        };
        let action = field("action").and_then(Value::as_str).unwrap_or_default();
        Ok(match action.trim().to_ascii_lowercase().as_str() {
            // Where nothing is known, there is nothing to keep, and what is updated is new.
            "keep" | "remove" if self.existing == 0 => None,
            "update" | "add" if self.existing == 0 => {
                self.statement(item)?.map(|statement| Action::Add { statement })
            }
            "keep" => Some(Action::Keep { id: id()? }),
            "remove" => Some(Action::Remove { id: id()?, turns: self.turns(field("turns"))? }),
            "update" => {
                let statement = self.statement(item)?;
                let statement = statement.ok_or_else(|| wrong("update needs the new \"text\""))?;
                Some(Action::Update { id: id()?, statement })
            }
            "add" if field("id").is_some() => {
                return Err(wrong("add is for new facts, its \"id\" is null"));
            }
            "add" => self.statement(item)?.map(|statement| Action::Add { statement }),
            _ => return Err(wrong("\"action\" must be keep, update, add or remove")),
        })
    }

    /// What an update or an addition says, `None` if it is blank.
    fn statement(self, item: &Value) -> Result<Option<Statement>, AnswerError> {
        let field = |name: &str| item.get(name).filter(|value| !value.is_null());
        let text = match field("text") {
            None => return Ok(None),
            Some(Value::String(text)) => statement(text)?,
            Some(_) => {
                return Err(AnswerError::new(format!(
                    "\"text\" must be a string: {}",
                    excerpt(&item.to_string())
                )));
            }
        };
        let Some(text) = text else { return Ok(None) };
        // The conversion cannot leave 0 to 1.
        let confidence = field("confidence").and_then(Value::as_f64);
        Ok(Some(Statement {
            text,
            markers: field("markers").map(markers_in),
            confidence: confidence.map(|confidence| confidence.clamp(0.0, 1.0) as f32),
            turns: self.turns(field("turns"))?,
            replaces: self.turns(field("replaces"))?,
        }))
    }

    fn memory(self, value: &Value) -> Result<u32, AnswerError> {
        number(value, self.existing).ok_or_else(|| {
            let shown = excerpt(&value.to_string());
            AnswerError::new(format!(
                "there is no memory {shown}: the ids are 1 to {}",
                self.existing
            ))
        })
    }

    /// The numbers of turns: a list, a single one, or nothing.
    fn turns(self, turns: Option<&Value>) -> Result<Vec<u32>, AnswerError> {
        let mut numbers = Vec::new();
        for value in listed(turns) {
            let turn = number(value, self.turns).ok_or_else(|| {
                AnswerError::new(format!(
                    "there is no turn {}: the turns are 1 to {}",
                    excerpt(&value.to_string()),
                    self.turns
                ))
            })?;
            if !numbers.contains(&turn) {
                numbers.push(turn);
            }
        }
        Ok(numbers)
    }
}

/// The values of a list, a single value, or nothing.
fn listed(value: Option<&Value>) -> &[Value] {
    match value {
        None => &[],
        Some(Value::Array(values)) => values,
        Some(single) => std::slice::from_ref(single),
    }
}

/// The number from 1 to `last` that `value` is.
fn number(value: &Value, last: u32) -> Option<u32> {
    let number = u32::try_from(whole_number(value)?).ok()?;
    (1..=last).contains(&number).then_some(number)
}

/// The markers in a list or a single one, each once.
fn markers_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for marker in listed(Some(value)).iter().filter_map(Value::as_str) {
        let marker = marker.trim();
        // The names of custom markers are their users'; the built-in ones have one spelling.
        let marker = if marker.starts_with(markers::CUSTOM_PREFIX) {
            marker.to_owned()
        } else {
            marker.to_ascii_lowercase()
        };
        if markers::validate(&marker).is_ok() && !found.contains(&marker) {
            found.push(marker);
        }
    }
    found
}

#[cfg(test)]
mod tests;
