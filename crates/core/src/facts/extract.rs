//! Facts out of what users said: the question to the LLM, and the reading of its answer.

use serde::Serialize;
use serde_json::Value;

use crate::facts::earlier::EarlierMessage;
use crate::facts::grounding::{is_bare_change, may_state, statements};
use crate::llm::chat::{AnswerError, ChatMessage, excerpt};
use crate::llm::json_answer::whole_number;
use crate::llm::questions;
pub use crate::prompt::augment::original_message;
use crate::text::words::parts;

pub(crate) const SYSTEM: &str = include_str!("../prompts/extract_system.txt");
/// What is said besides where turns have markers, and where an assistant's decisions are among them.
pub(crate) const MARKED: &str = include_str!("../prompts/extract_marked.txt");
pub(crate) const DECISIONS: &str = include_str!("../prompts/extract_decisions.txt");
/// What is said besides where turns are shown with what came before them.
pub(crate) const BEFORE: &str = include_str!("../prompts/extract_before.txt");

/// Most characters of a fact. A longer one is no atomic statement but a retold conversation.
pub const MAX_FACT_CHARS: usize = 1_000;

/// Most entries of the list that an answer is, of any format: entries are compared with each other,
/// and what an endpoint sends can be megabytes.
const MAX_LISTED: usize = 4_096;

/// A user's turn from which facts are to be extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PendingTurn<'a> {
    /// What the user said, see [`original_message`].
    pub content: &'a str,
    /// The user's name, if the turn has one.
    pub speaker: Option<&'a str>,
    /// The day the turn was said, as an ISO date.
    pub said_at: &'a str,
}

/// What a turn is, beside what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks<'a> {
    pub markers: &'a [String],
    /// Whether the assistant said it, who decided something there.
    pub is_assistants: bool,
    /// What came just before it, oldest first; only to understand what it refers to.
    pub before: &'a [EarlierMessage],
}

/// Whether facts may be found in a turn: it states something, or it answers a question of the assistant's, as "yes"
/// does.
#[must_use]
pub fn is_worth_asking(content: &str, before: &[EarlierMessage]) -> bool {
    may_state(content) || before.last().is_some_and(EarlierMessage::asks)
}

/// One statement that holds without its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractedFact {
    /// Trimmed, not empty, at most [`MAX_FACT_CHARS`] characters, without NUL.
    pub text: String,
    /// The place of its turn among the turns that were sent, from 0.
    pub turn: usize,
    /// How sure the model is that the user said so, 0 to 1.
    pub confidence: Option<f32>,
}

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
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    markers: &'a [String],
    #[serde(skip_serializing_if = "<[EarlierMessage]>::is_empty")]
    before: &'a [EarlierMessage],
    text: &'a str,
}

/// The chat that asks for at most `max_per_turn` facts of each turn. The turns are numbered from
/// 1; an answer has the format `Facts`.
#[must_use]
pub fn messages(turns: &[PendingTurn], max_per_turn: u32) -> Vec<ChatMessage> {
    marked_messages(turns, &[], max_per_turn)
}

/// [`messages`] that say what turns are; those behind the last of `marks` are nothing in particular.
#[must_use]
pub fn marked_messages(
    turns: &[PendingTurn],
    marks: &[Marks<'_>],
    max_per_turn: u32,
) -> Vec<ChatMessage> {
    let marks = marks.iter().copied().chain(std::iter::repeat(Marks::default()));
    let turns: Vec<Turn<'_>> = (1..)
        .zip(turns.iter().zip(marks))
        .map(|(turn, (pending, marks))| Turn {
            turn,
            said_at: pending.said_at,
            speaker: pending.speaker,
            role: marks.is_assistants.then_some("assistant"),
            markers: marks.markers,
            before: marks.before,
            text: pending.content,
        })
        .collect();
    let mut system = SYSTEM.replace("{max_per_turn}", &max_per_turn.to_string());
    for (is_needed, text) in [
        (turns.iter().any(|turn| !turn.markers.is_empty()), MARKED),
        (turns.iter().any(|turn| turn.role.is_some()), DECISIONS),
        (turns.iter().any(|turn| !turn.before.is_empty()), BEFORE),
    ] {
        if is_needed {
            system = format!("{}\n\n{text}", system.trim_end());
        }
    }
    questions::chat(system, &Turns { turns })
}

/// Reads an answer about the turns 1 to `turns` that was cleaned by
/// [`AnswerFormat::check`](crate::facts::answers::AnswerFormat::check).
///
/// The shape is `{"facts": [{"turn": 1, "text": "...", "confidence": 0.9}]}` or the list alone.
/// If there is one turn, its number may be left out, and a fact may be just its text. Blank
/// facts, repeated ones and those over `max_per_turn` (the later ones of a turn) are dropped.
///
/// # Errors
///
/// Another shape, a number of no turn that was sent, a missing text, or a text that is too long
/// or holds a NUL, which PostgreSQL cannot store.
pub fn parse(
    checked_json: &str,
    turns: u32,
    max_per_turn: u32,
) -> Result<Vec<ExtractedFact>, AnswerError> {
    facts_in(&parse_json(checked_json)?, turns, max_per_turn)
}

pub(crate) fn facts_in(
    answer: &Value,
    turns: u32,
    max_per_turn: u32,
) -> Result<Vec<ExtractedFact>, AnswerError> {
    let mut facts: Vec<ExtractedFact> = Vec::new();
    for item in list_in(answer, "facts")? {
        let Some(fact) = fact(item, turns)? else { continue };
        for text in statements(&fact.text) {
            let of_turn = facts.iter().filter(|other| other.turn == fact.turn);
            let is_repeated = of_turn.clone().any(|other| other.text == text);
            if !is_repeated && of_turn.count() < max_per_turn as usize {
                facts.push(ExtractedFact { text, ..fact });
            }
        }
    }
    // Another fact says to what it changed.
    let says_more = |fact: &ExtractedFact| {
        let is_other = |other: &&ExtractedFact| other.turn == fact.turn && other.text != fact.text;
        facts.iter().filter(is_other).any(|other| !is_bare_change(&other.text))
    };
    let is_kept = |fact: &&ExtractedFact| !(is_bare_change(&fact.text) && says_more(fact));
    Ok(facts.iter().filter(is_kept).cloned().collect())
}

/// A fact, or `None` if it says nothing.
fn fact(item: &Value, turns: u32) -> Result<Option<ExtractedFact>, AnswerError> {
    let (text, turn, confidence) = match item {
        Value::String(text) if turns == 1 => (text, 1, None),
        Value::Object(fields) => {
            let Some(Value::String(text)) = fields.get("text") else {
                return Err(AnswerError::new(format!(
                    "each fact needs a \"text\" that is a string: {}",
                    excerpt(&item.to_string())
                )));
            };
            let turn = match fields.get("turn").filter(|turn| !turn.is_null()) {
                None if turns == 1 => 1,
                None => return Err(AnswerError::new("each fact needs the \"turn\" it is from")),
                Some(turn) => turn_number(turn, turns)?,
            };
            (text, turn, fields.get("confidence").and_then(Value::as_f64))
        }
        _ => {
            return Err(AnswerError::new(format!(
                "each fact must be an object with \"turn\" and \"text\": {}",
                excerpt(&item.to_string())
            )));
        }
    };
    let text = statement(text)?;
    // The conversion cannot leave 0 to 1.
    let confidence = confidence.map(|confidence| confidence.clamp(0.0, 1.0) as f32);
    Ok(text.map(|text| ExtractedFact { text, turn: turn - 1, confidence }))
}

fn turn_number(turn: &Value, turns: u32) -> Result<usize, AnswerError> {
    whole_number(turn)
        .filter(|number| (1..=u64::from(turns)).contains(number))
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| {
            AnswerError::new(format!(
                "there is no turn {}: the turns are 1 to {turns}",
                excerpt(&turn.to_string())
            ))
        })
}

/// A statement that can be stored, `None` if it is blank.
pub(crate) fn statement(text: &str) -> Result<Option<String>, AnswerError> {
    let text = text.trim();
    if text.chars().nth(MAX_FACT_CHARS).is_some() {
        return Err(AnswerError::new(format!(
            "a text is longer than {MAX_FACT_CHARS} characters, facts are single short \
             statements: {}",
            excerpt(text)
        )));
    }
    if text.contains('\0') {
        return Err(AnswerError::new(format!(
            "a text holds the character U+0000: {}",
            excerpt(text)
        )));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// The list that `answer` is or has as its property `name`.
pub(crate) fn list_in<'a>(answer: &'a Value, name: &str) -> Result<&'a [Value], AnswerError> {
    match answer {
        Value::Array(items) => Some(items),
        Value::Object(fields) => fields.get(name).and_then(Value::as_array),
        _ => None,
    }
    .map(Vec::as_slice)
    .filter(|items| items.len() <= MAX_LISTED)
    .ok_or_else(|| {
        AnswerError::new(format!(
            "the answer must be a JSON object with the list \"{name}\" of at most {MAX_LISTED}: {}",
            excerpt(&answer.to_string())
        ))
    })
}

pub(crate) fn parse_json(checked_json: &str) -> Result<Value, AnswerError> {
    serde_json::from_str(checked_json).map_err(|error| {
        AnswerError::new(format!("the answer is not JSON: {}", excerpt(&error.to_string())))
    })
}

/// Shorter words are in every text.
const EXAMPLE_CHARS: usize = 4;
const EXAMPLE_EMPTY: [&str; 6] = ["user", "with", "named", "wants", "does", "more"];

/// Whether a fact is an example of our own prompt, which small models like to repeat, and not what
/// the turn says.
#[must_use]
pub fn is_example(fact: &str, turn: &str) -> bool {
    let fact = fact.trim_end_matches('.');
    if !SYSTEM.contains(&format!("\"text\":\"{fact}\",\"confidence\"")) {
        return false;
    }
    let turn = turn.to_lowercase();
    let fact = fact.to_lowercase();
    let mut words = parts(&fact)
        .filter(|word| word.chars().count() >= EXAMPLE_CHARS && !EXAMPLE_EMPTY.contains(word));
    !words.any(|word| turn.contains(word))
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
