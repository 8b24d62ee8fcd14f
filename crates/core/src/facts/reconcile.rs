//! New facts against the ones that are known: the question to the LLM, the reading of its
//! answer, and what follows from it.
//!
//! The question is one that a small model can answer: a choice from a short list for each fact.
//! An answer is read leniently where it can mean one thing only, and refused where a memory could
//! be lost by a guess. Whatever it forgets, no new fact is lost: see [`plan()`].

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::extract::{list_in, parse_json, statement};
use crate::llm::chat::{AnswerError, ChatMessage, excerpt};
use crate::llm::json_answer::whole_number;
use crate::llm::questions;
use crate::text::words::parts;

mod concerns;
mod plan;
pub mod probe;

pub use concerns::{concerns_both, is_about_user};
pub use plan::{Deletion, Plan, Update, plan};

pub(crate) const SYSTEM: &str = include_str!("../prompts/reconcile_system.txt");
/// What is added for several facts.
pub(crate) const SEVERAL: &str = include_str!("../prompts/reconcile_several.txt");

/// A fact that is already stored, or one that was just extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DatedFact<'a> {
    pub content: &'a str,
    /// The day it was said, as an ISO date.
    pub since: &'a str,
}

/// What the model says about one new fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The fact's number, from 1.
    pub fact: u32,
    pub choice: Choice,
}

/// How a fact relates to the memories, which are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// No memory says it.
    New,
    /// This memory says the same.
    Same(u32),
    /// It takes the place of this memory.
    Replaces {
        memory: u32,
        /// The fact together with what still holds of the memory: trimmed, not empty, short,
        /// without NUL. Without it the fact's own words are the new memory.
        text: Option<String>,
    },
    /// This memory is over or was wrong, and the fact says so.
    Ends(u32),
}

/// The choices as an answer names them. All but the first are followed by a memory's number.
pub(crate) const CHOICES: [&str; 4] = ["new", "same as", "replaces", "ends"];

/// Other words for the choices, as models have used them.
const SYNONYMS: [&[&str]; 4] = [
    &["new", "add"],
    &["same", "duplicate", "repeats"],
    &["replaces", "replace", "update", "updates"],
    &["ends", "end", "delete", "deletes", "contradicts"],
];

/// The chat that asks how `new` facts relate to `existing` memories, each list numbered from 1. An
/// answer has the format `Decisions`.
#[must_use]
pub fn messages(existing: &[DatedFact], new: &[DatedFact]) -> Vec<ChatMessage> {
    let numbered = |texts: &mut dyn Iterator<Item = &str>| -> Value {
        (1..).zip(texts).map(|(number, text)| (number.to_string(), Value::from(text))).collect()
    };
    let memories = numbered(&mut existing.iter().map(|memory| memory.content));
    match new {
        [only] => {
            questions::chat(SYSTEM.to_owned(), &json!({"memories": memories, "fact": only.content}))
        }
        _ => {
            let facts = numbered(&mut new.iter().map(|fact| fact.content));
            let system = format!("{SYSTEM}{SEVERAL}");
            questions::chat(system, &json!({"memories": memories, "facts": facts}))
        }
    }
}

/// Reads an answer about `existing` memories and `new` facts that was cleaned by
/// [`AnswerFormat::check`](crate::facts::answers::AnswerFormat::check).
///
/// The shape is `{"choice": "replaces 2"}` about one fact, and about several
/// `{"decisions": [{"fact": 1, "choice": "replaces 2", "text": null}, ...]}` or the list alone. Where there is one fact, its number may be left
/// out, and where there is one memory, that one's. Facts need not be listed.
///
/// # Errors
///
/// Another shape, a number that was not sent, an unknown choice, a text that cannot be stored.
pub fn parse(checked_json: &str, existing: u32, new: u32) -> Result<Vec<Decision>, AnswerError> {
    decisions_in(&parse_json(checked_json)?, existing, new)
}

pub(crate) fn decisions_in(
    answer: &Value,
    existing: u32,
    new: u32,
) -> Result<Vec<Decision>, AnswerError> {
    if new == 1 && answer.get("choice").is_some() {
        return Ok(vec![decision(answer, existing, new)?]);
    }
    list_in(answer, "decisions")?.iter().map(|item| decision(item, existing, new)).collect()
}

fn decision(item: &Value, existing: u32, new: u32) -> Result<Decision, AnswerError> {
    let field = |name: &str| item.get(name).filter(|value| !value.is_null());
    let fact = match field("fact") {
        None if new == 1 => 1,
        None => return Err(AnswerError::new("a decision needs the number of its \"fact\"")),
        Some(fact) => number(fact, "fact", new)?,
    };
    let said = field("choice").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let mut words = parts(&said);
    let first = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let memory = || {
        let is_number = |word: &&&str| word.starts_with(|c: char| c.is_ascii_digit());
        let numbers: BTreeSet<&str> = rest.iter().filter(is_number).copied().collect();
        // "replaces none", "same as 2, not 1"
        let is_denied = rest.iter().any(|word| matches!(*word, "none" | "nothing" | "no" | "not"));
        match numbers.first() {
            None if existing == 1 && !is_denied => Ok(1),
            Some(only) if numbers.len() == 1 && !is_denied => {
                number(&Value::from(*only), "memory", existing)
            }
            _ => Err(AnswerError::new(format!("\"{}\" needs a memory's number", excerpt(&said)))),
        }
    };
    let choice = match SYNONYMS.iter().position(|synonyms| synonyms.contains(&first)) {
        Some(0) => Choice::New,
        Some(1) => Choice::Same(memory()?),
        Some(2) => {
            let text = field("text").and_then(Value::as_str).unwrap_or_default();
            Choice::Replaces { memory: memory()?, text: statement(text)? }
        }
        Some(_) => Choice::Ends(memory()?),
        None => {
            let choices = "\"new\", \"same as N\", \"replaces N\" or \"ends N\"";
            let shown = excerpt(&item.to_string());
            return Err(AnswerError::new(format!("\"choice\" must be {choices}: {shown}")));
        }
    };
    Ok(Decision { fact, choice })
}

/// The number in `value`, if so many of these were sent.
fn number(value: &Value, what: &str, count: u32) -> Result<u32, AnswerError> {
    whole_number(value)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| (1..=count).contains(number))
        .ok_or_else(|| {
            let shown = excerpt(&value.to_string());
            AnswerError::new(format!("there is no {what} {shown}: there are 1 to {count}"))
        })
}

#[cfg(test)]
mod tests;
