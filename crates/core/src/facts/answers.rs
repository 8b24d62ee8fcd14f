//! The answers of an LLM that are accepted: the shape that one must have, and how it is checked.

pub use crate::llm::chat::{AnswerError, ChatMessage, ChatRole, estimated_tokens};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    facts::{contradictions, extract, reconcile, rewrite, statement_check},
    llm::json_answer,
};

/// Most ids that a JSON schema lists one by one: providers limit the values of all lists of a
/// schema together. More ids are only checked afterwards.
const MAX_LISTED_IDS: u32 = 200;

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerFormat {
    /// Any text that is not blank. A NUL, which PostgreSQL's texts cannot hold, becomes U+FFFD.
    Text,
    /// Facts of the turns 1 to `turns`, as [`extract::parse`] reads them.
    Facts {
        turns: u32,
        /// Most facts of one turn; more are dropped.
        max_per_turn: u32,
    },
    /// A word for each of the facts 1 to `facts`, as [`statement_check::parse`] reads them.
    Checks { facts: u32 },
    /// How the new facts 1 to `new` relate to the memories 1 to `existing`, as [`reconcile::parse`]
    /// reads it.
    Decisions { existing: u32, new: u32 },
    /// Other wordings of a message, as [`rewrite::parse`] reads them.
    Rewrites {
        /// More are dropped.
        max: u32,
    },
    /// Verdicts on the recalled memories 1 to `rows`, as [`contradictions::parse`] reads them.
    Verdicts { rows: u32 },
}

impl AnswerFormat {
    /// The name of the format, as `json_schema.name` wants one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Facts { .. } => "facts",
            Self::Checks { .. } => "checks",
            Self::Decisions { .. } => "decisions",
            Self::Rewrites { .. } => "rewrites",
            Self::Verdicts { .. } => "verdicts",
        }
    }

    /// The JSON schema of the answer, `None` for text.
    ///
    /// It keeps to what the strict mode of OpenAI's structured outputs knows: every property is
    /// required (an optional one may be null), no other property is allowed. The only bounds are the
    /// lengths of the lists: without them small models repeat themselves until they are cut off.
    #[must_use]
    pub fn json_schema(&self) -> Option<Value> {
        match *self {
            Self::Text => None,
            Self::Facts { turns, max_per_turn } => Some(list_schema(
                "facts",
                turns.saturating_mul(max_per_turn),
                &object_schema(&json!({
                    "turn": id_schema(1, turns),
                    "text": {"type": "string"},
                    "confidence": {"type": ["number", "null"]},
                })),
            )),
            Self::Checks { facts } => {
                let words: Vec<&str> = statement_check::words().collect();
                let word = json!({"type": "string", "enum": words});
                let mut schema = list_schema("checks", facts, &word);
                schema["properties"]["checks"]["minItems"] = facts.into();
                Some(schema)
            }
            Self::Decisions { existing, new } => {
                let choice = choice_schema(existing);
                if new == 1 {
                    return Some(object_schema(&json!({"choice": choice})));
                }
                Some(list_schema(
                    "decisions",
                    new,
                    &object_schema(&json!({
                        "fact": id_schema(1, new),
                        "choice": choice,
                        "text": {"type": ["string", "null"]},
                    })),
                ))
            }
            Self::Rewrites { max } => {
                Some(list_schema("rewrites", max, &json!({"type": "string"})))
            }
            Self::Verdicts { rows } => Some(list_schema(
                "verdicts",
                rows,
                &object_schema(&json!({
                    "id": id_schema(1, rows),
                    "verdict": {"type": "string", "enum": ["KEEP", "UPDATE", "DELETE"]},
                })),
            )),
        }
    }

    /// The answer as clean JSON text, or as text without the model's reasoning.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the answer, for the model's one chance to mend it.
    pub fn check(&self, answer: &str) -> Result<String, AnswerError> {
        let value = match *self {
            Self::Text => return text(answer),
            Self::Facts { turns, max_per_turn } => json_answer::find(answer, |value| {
                extract::facts_in(value, turns, max_per_turn).map(drop)
            })?,
            Self::Checks { facts } => json_answer::find(answer, |value| {
                statement_check::words_in(value, facts).map(drop)
            })?,
            Self::Decisions { existing, new } => json_answer::find(answer, |value| {
                reconcile::decisions_in(value, existing, new).map(drop)
            })?,
            Self::Rewrites { .. } => {
                json_answer::find(answer, |value| rewrite::texts_in(value).map(drop))?
            }
            Self::Verdicts { rows } => json_answer::find(answer, |value| {
                contradictions::verdicts_in(value, rows).map(drop)
            })?,
        };
        Ok(value.to_string())
    }
}

fn text(answer: &str) -> Result<String, AnswerError> {
    match json_answer::without_reasoning(answer)?.trim() {
        "" => Err(AnswerError::new("the answer is empty")),
        text => Ok(text.replace('\0', "\u{fffd}")),
    }
}

/// An object whose only property is a list of at most `most` `items`.
fn list_schema(list: &str, most: u32, items: &Value) -> Value {
    object_schema(&json!({list: {"type": "array", "maxItems": most, "items": items}}))
}

/// An object with `properties`, all of them and no others.
fn object_schema(properties: &Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|o| o.keys()).collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// An integer from `first` to `last`. Where the ids are listed, an endpoint that enforces the
/// schema cannot invent one.
fn id_schema(first: u32, last: u32) -> Value {
    match last.checked_sub(first) {
        Some(more) if more < MAX_LISTED_IDS => {
            json!({"type": "integer", "enum": (first..=last).collect::<Vec<_>>()})
        }
        _ => json!({"type": "integer"}),
    }
}

/// One of the choices between `existing` memories, which are named one by one as ids are.
fn choice_schema(existing: u32) -> Value {
    if existing > MAX_LISTED_IDS / 4 {
        return json!({"type": "string"});
    }
    let of = |memory: u32| {
        reconcile::CHOICES[1..].iter().map(move |choice| format!("{choice} {memory}"))
    };
    let mut choices = vec![reconcile::CHOICES[0].to_owned()];
    choices.extend((1..=existing).flat_map(of));
    json!({"type": "string", "enum": choices})
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
