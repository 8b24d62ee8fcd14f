//! Finds the JSON value that an LLM's answer holds.
//!
//! Models that cannot be made to answer in JSON alone put it into code fences, explain it, think
//! aloud before it, or leave a comma too many. All that is put aside or mended here; a value is
//! never guessed: JSON that stops in the middle, or several answers that differ, are an error,
//! and the model is asked again.
//!
//! `serde_json` does the parsing. The code here finds where a value begins and ends, in one pass.

use serde_json::Value;

use crate::llm::chat::{AnswerError, excerpt};

/// How deep the brackets of an answer among other text may be nested; the formats need three.
const MAX_DEPTH: usize = 32;

/// The one value in `answer` that `accept` takes.
///
/// An answer that is JSON as a whole is taken as it is. Otherwise all objects and lists in it
/// are looked at, except those inside of others and those in the model's reasoning. A list or
/// object without content counts only on lines of its own, as `[ ]` is also a way to write a
/// check box.
///
/// # Errors
///
/// There is no JSON, it is not complete, it is not valid, or `accept` refused it; or it accepted
/// several values that are not equal.
pub fn find(
    answer: &str,
    accept: impl Fn(&Value) -> Result<(), AnswerError>,
) -> Result<Value, AnswerError> {
    let answer = answer.trim_start_matches('\u{feff}').trim();
    if answer.is_empty() {
        return Err(AnswerError::new("the answer is empty"));
    }
    if let Ok(value) = serde_json::from_str(answer) {
        return accept(&value).map(|()| value);
    }
    let mut accepted: Option<Value> = None;
    let mut refusal = None;
    for candidate in candidates(answer)? {
        match parse_mended(candidate).and_then(|value| accept(&value).map(|()| value)) {
            Ok(value) if accepted.as_ref().is_some_and(|earlier| *earlier != value) => {
                return Err(AnswerError::new(
                    "the answer holds several JSON values that differ: send one",
                ));
            }
            Ok(value) => accepted = Some(value),
            Err(error) => refusal = Some(error),
        }
    }
    accepted.ok_or_else(|| {
        refusal.unwrap_or_else(|| {
            AnswerError::new(format!("there is no JSON in the answer: {}", excerpt(answer)))
        })
    })
}

/// The answer without the reasoning that some models put before it.
///
/// # Errors
///
/// The answer ends within the reasoning.
pub fn without_reasoning(answer: &str) -> Result<&str, AnswerError> {
    let mut rest = answer.trim_start_matches('\u{feff}').trim_start();
    while let Some(opened) = strip_tag(rest, THINK_OPEN) {
        rest = after_tag(opened, THINK_CLOSE).ok_or_else(unfinished_reasoning)?.trim_start();
    }
    Ok(rest)
}

/// What an answer says to who asked: all of it, or what follows the reasoning before it; nothing while that goes on.
#[must_use]
pub fn said(answer: &str) -> &str {
    let begin = answer.trim_start_matches('\u{feff}').trim_start();
    match strip_tag(begin, THINK_OPEN) {
        Some(_) => without_reasoning(begin).unwrap_or_default(),
        None => answer,
    }
}

/// The whole number that `value` is. Models that are not held to a schema also write `"1"` and
/// `1.0`.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            // Exact in a float and in the integer; ids are far smaller.
            let is_whole = float.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&float);
            is_whole.then_some(float as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

const THINK_OPEN: &[&str] = &["<think>", "<thinking>", "<reasoning>"];
const THINK_CLOSE: &[&str] = &["</think>", "</thinking>", "</reasoning>"];

fn unfinished_reasoning() -> AnswerError {
    AnswerError::new("the answer ends before the reasoning does")
}

fn strip_tag<'a>(text: &'a str, tags: &[&str]) -> Option<&'a str> {
    let has = |tag: &&&str| text.get(..tag.len()).is_some_and(|t| t.eq_ignore_ascii_case(tag));
    tags.iter().find(has).and_then(|tag| text.get(tag.len()..))
}

/// What follows the first of the tags.
fn after_tag<'a>(text: &'a str, tags: &[&str]) -> Option<&'a str> {
    text.match_indices('<').find_map(|(at, _)| strip_tag(&text[at..], tags))
}

/// The texts in `answer` that look like objects or lists. Those before a closing tag of
/// reasoning belong to it: not every server returns the opening one.
fn candidates(answer: &str) -> Result<Vec<&str>, AnswerError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = answer[at..].find(['<', '{', '[']) {
        let start = at + offset;
        let here = &answer[start..];
        if let Some(opened) = strip_tag(here, THINK_OPEN) {
            let after = after_tag(opened, THINK_CLOSE).ok_or_else(unfinished_reasoning)?;
            at = answer.len() - after.len();
        } else if let Some(after) = strip_tag(here, THINK_CLOSE) {
            found.clear();
            at = answer.len() - after.len();
        } else if looks_like_json(here) {
            let end = start + length(here)?;
            let candidate = &answer[start..end];
            if !is_empty(candidate) || is_alone(&answer[..start], &answer[end..]) {
                found.push(candidate);
            }
            at = end;
        } else {
            at = start + 1;
        }
    }
    Ok(found)
}

/// Whether the bracket at the start of `text` opens JSON, as far as the next character tells.
fn looks_like_json(text: &str) -> bool {
    let mut chars = text.chars();
    let bracket = chars.next();
    let inside = chars.find(|c| !c.is_whitespace());
    match bracket {
        Some('{') => matches!(inside, Some('"' | '}')),
        Some('[') => {
            matches!(inside, Some('"' | '{' | '[' | ']' | '-' | '0'..='9' | 't' | 'f' | 'n'))
        }
        _ => false,
    }
}

/// The bytes up to the bracket that closes the first one, which is at the start of `text`.
///
/// # Errors
///
/// There is none. What follows such a bracket may be a part of something bigger that was cut
/// off, so nothing of it is used.
fn length(text: &str) -> Result<usize, AnswerError> {
    let mut open = Vec::with_capacity(MAX_DEPTH);
    let mut scanner = StringScanner::default();
    for (at, byte) in text.bytes().enumerate() {
        if scanner.is_text(byte) {
            continue;
        }
        match byte {
            b'{' | b'[' if open.len() == MAX_DEPTH => {
                return Err(AnswerError::new("the JSON in the answer is nested too deeply"));
            }
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' if open.pop() != Some(byte) => {
                return Err(AnswerError::new(format!(
                    "the brackets of the JSON in the answer do not match: {}",
                    excerpt(text)
                )));
            }
            b'}' | b']' if open.is_empty() => return Ok(at + 1),
            _ => {}
        }
    }
    Err(AnswerError::new(format!("the JSON in the answer is not complete: {}", excerpt(text))))
}

/// Whether there is nothing between the brackets.
fn is_empty(candidate: &str) -> bool {
    candidate[1..candidate.len() - 1].trim().is_empty()
}

/// Whether nothing else is on the line between `before` and `after`.
fn is_alone(before: &str, after: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t']);
    let after = after.trim_start_matches([' ', '\t', '\r']);
    (before.is_empty() || before.ends_with('\n')) && (after.is_empty() || after.starts_with('\n'))
}

/// Parses a text that was written like JSON: a comma may follow the last element, and strings
/// may hold line breaks and other control characters as they are.
fn parse_mended(text: &str) -> Result<Value, AnswerError> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&mend(text))).map_err(|error| {
        // The message of `serde_json` may repeat a string of the answer in full.
        AnswerError::new(format!("the JSON is not valid: {}", excerpt(&error.to_string())))
    })
}

fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut scanner = StringScanner::default();
    let mut holds_comma = false;
    let mut last = '\0';
    for c in text.chars() {
        // Characters of several bytes have no meaning to JSON.
        let is_text = scanner.is_text(u8::try_from(c).unwrap_or(b'?'));
        if !is_text && c.is_whitespace() {
            mended.push(c);
            continue;
        }
        if is_text && c.is_ascii_control() {
            mended.push_str(&format!("\\u{:04x}", u32::from(c)));
            continue;
        }
        if std::mem::take(&mut holds_comma) && (is_text || !matches!(c, '}' | ']')) {
            mended.push(',');
        }
        // A comma without an element before it is no comma too many, but something missing.
        holds_comma = !is_text && c == ',' && !matches!(last, '{' | '[' | ',' | ':');
        if !holds_comma {
            mended.push(c);
        }
        last = c;
    }
    mended
}

/// Tells the text of JSON strings from what is around it.
#[derive(Default)]
struct StringScanner {
    in_string: bool,
    escaped: bool,
}

impl StringScanner {
    /// Whether `byte`, the next one, belongs to a string; its quotes do.
    fn is_text(&mut self, byte: u8) -> bool {
        let was_in_string = self.in_string;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if was_in_string => self.escaped = true,
            b'"' => self.in_string = !was_in_string,
            _ => {}
        }
        was_in_string || self.in_string
    }
}

#[cfg(test)]
#[path = "json_answer_tests.rs"]
mod tests;
