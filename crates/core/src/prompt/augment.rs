//! The form of a user's message that memories were put into, in a [fence], and the way back.
//!
//! An application may store the message it sent to its model instead of the one its user typed.
//! Facts must not be extracted from the memories in it: they would come back as something the
//! user said, again and again.

use crate::prompt::fence;
use crate::text::excerpt::ELLIPSIS;
use serde_json::Value;

/// Opens the summary of the conversation so far.
pub const SUMMARY_HEADER: &str = "Summary of the conversation:";
/// Opens the list of memories, one `[who, date] content` a line.
pub const MEMORY_HEADER: &str = "Long-term memory (facts, then what was said):";
/// The same in prompts of 0.2.0, which applications may have stored.
const MEMORY_HEADER_OF_0_2: &str = "Long-term memory (most relevant first):";
/// Stands before what the user typed, at the start of a line.
pub const MESSAGE_HEADER: &str = "Current message:";

/// With what marks of an [`Outdated`] begin, in brackets.
const WAS: &str = "no longer true";
const NOW: &str = "out of date; now";
const PERHAPS: &str = "perhaps out of date";

/// Longest name of a speaker, in characters, and longest key and value of metadata.
const MAX_NAME: usize = 60;
/// Most keys of metadata that are told.
const MAX_KEYS: usize = 8;

/// A recalled memory as a prompt tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory<'a> {
    /// Who said it, and when: see [`label`].
    pub label: &'a str,
    pub content: &'a str,
    pub outdated: &'a [Outdated],
}

/// Something that a text says and that no longer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// The fact that was replaced.
    Was(String),
    /// What holds now, where it is not known in which words the text says something else.
    Now(String),
    /// What was said later and perhaps instead of it; empty where that is not told.
    Perhaps(String),
}

impl Outdated {
    /// The fact that it names.
    #[must_use]
    pub fn fact(&self) -> &str {
        match self {
            Self::Was(fact) | Self::Now(fact) | Self::Perhaps(fact) => fact,
        }
    }
}

/// What stands in brackets before a memory: the role (`memory` for a fact), the speaker's name if it is
/// known, and the day, as `2026-03-01`. A name that could pass for more than a name is quoted.
#[must_use]
pub fn label(role: &str, name: Option<&str>, day: &str) -> String {
    let name: String = in_brackets(name.unwrap_or_default()).take(MAX_NAME).collect();
    match name.trim() {
        "" => format!("{role}, {day}"),
        name if name.contains([',', ':', '"']) => {
            format!("{role} \"{}\", {day}", name.replace('"', "'"))
        }
        name => format!("{role} {name}, {day}"),
    }
}

/// What stands behind a label: the values that metadata has under these keys, each with its key. Texts are quoted, so
/// that none passes for another key; lists and objects are left out.
#[must_use]
pub fn cited(metadata: &Value, keys: &[&str]) -> String {
    let mut cited = String::new();
    for key in keys.iter().take(MAX_KEYS) {
        let value = match &metadata[key] {
            Value::String(text) => format!("\"{}\"", shortened(&text.replace('"', "'"))),
            Value::Number(number) => shortened(&number.to_string()),
            Value::Bool(value) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        cited.push_str(&format!(", {}: {value}", shortened(key)));
    }
    cited
}

/// A text in one line without brackets, and with an ellipsis if it is long.
fn shortened(text: &str) -> String {
    let mut characters = in_brackets(text);
    let mut kept: String = characters.by_ref().take(MAX_NAME).collect();
    if characters.next().is_some() {
        kept.push_str(ELLIPSIS);
    }
    kept
}

/// The characters of a text, blanks where one would end the brackets or the line.
fn in_brackets(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if c.is_control() || "[]\u{2028}\u{2029}".contains(c) { ' ' } else { c })
}

/// A text with what it says and what no longer holds behind it, each in a line of its own. No line of the text
/// passes for such a mark, and no mark ends a fence or a message.
#[must_use]
pub fn marked(content: &str, outdated: &[Outdated]) -> String {
    let mut text = fence::without_marks(content, &[WAS, NOW, PERHAPS]);
    for mark in outdated {
        let fact = mark.fact().split_whitespace().collect::<Vec<_>>().join(" ");
        let fact = fence::escaped(&fact);
        text.push_str(&match mark {
            Outdated::Was(_) => format!("\n({WAS}: {fact})"),
            Outdated::Now(_) => format!("\n({NOW}: {fact})"),
            Outdated::Perhaps(_) if fact.is_empty() => format!("\n({PERHAPS})"),
            Outdated::Perhaps(_) => format!("\n({PERHAPS}; later: {fact})"),
        });
    }
    text
}

/// What stands before a message: the summary, the memories in the order given, each as `[label] content`, and the
/// header of the message. Without summary and memories it is empty.
#[must_use]
pub fn before_message(summary: Option<&str>, memories: &[Memory<'_>]) -> String {
    remembered(summary, memories)
        .map_or_else(String::new, |remembered| format!("{remembered}\n\n{MESSAGE_HEADER} "))
}

/// A message with what stands before it.
#[cfg(test)]
pub(crate) fn augmented(summary: Option<&str>, memories: &[Memory<'_>], message: &str) -> String {
    before_message(summary, memories) + message
}

/// The summary and the memories in a fence; `None` without any.
#[must_use]
pub fn remembered(summary: Option<&str>, memories: &[Memory<'_>]) -> Option<String> {
    let mut blocks = Vec::new();
    if let Some(summary) = summary {
        blocks.push(text_block(SUMMARY_HEADER, summary));
    }
    if !memories.is_empty() {
        let lines = memories.iter().map(memory_line);
        let block: Vec<String> = std::iter::once(MEMORY_HEADER.to_owned()).chain(lines).collect();
        blocks.push(block.join("\n"));
    }
    (!blocks.is_empty()).then(|| fence::fenced(&blocks.join("\n\n")))
}

/// A text below a heading, as it stands in a fence.
#[must_use]
pub fn text_block(heading: &str, text: &str) -> String {
    format!("{heading}\n  {}", fence::data(text))
}

/// A memory as a line of the list.
#[must_use]
pub fn memory_line(memory: &Memory<'_>) -> String {
    let text = marked(memory.content.trim(), memory.outdated);
    format!("[{}] {}", fence::escaped(memory.label), fence::data(&text))
}

/// What the user typed, of a message that may have been augmented.
///
/// That is what follows [`MESSAGE_HEADER`] on the first line that begins with it after the end of the fence.
/// Without a fence, as until 0.2.0, it is everything after the last line that begins with [`MESSAGE_HEADER`],
/// provided that a line before it begins with [`MEMORY_HEADER`] (with or without its colon), or that the text
/// begins with [`SUMMARY_HEADER`]. Any other text is returned as it is.
#[must_use]
pub fn original_message(content: &str) -> &str {
    after_fence(content).or_else(|| after_list(content)).map_or(content, str::trim)
}

/// Nothing that is remembered can begin a line with the end of the fence.
fn after_fence(content: &str) -> Option<&str> {
    let mut lines = line_starts(content).skip_while(|at| !content[*at..].starts_with(fence::OPEN));
    lines.find(|at| {
        let end = content[*at..].strip_prefix(fence::CLOSE);
        end.is_some_and(|rest| rest.starts_with(['\n', '\r']))
    })?;
    lines.find_map(|at| content[at..].strip_prefix(MESSAGE_HEADER))
}

fn after_list(content: &str) -> Option<&str> {
    let is_header = |at: usize| {
        [MEMORY_HEADER, MEMORY_HEADER_OF_0_2]
            .iter()
            .any(|header| content[at..].starts_with(header.trim_end_matches(':')))
    };
    let summary = content.starts_with(SUMMARY_HEADER).then_some(0);
    let block = summary.or_else(|| line_starts(content).find(|at| is_header(*at)))?;
    let messages = line_starts(content).filter(|at| *at > block);
    messages.filter_map(|at| content[at..].strip_prefix(MESSAGE_HEADER)).last()
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

#[cfg(test)]
#[path = "augment_tests.rs"]
mod tests;
