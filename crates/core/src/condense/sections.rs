//! The five sections of the answer to a request to compress a conversation: the
//! summary, and lists of what was found in the conversation.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condense::preamble::{clean, json_fields};
use crate::text::words::parts;

/// Most entries of a list; a longer one is no selection.
const MAX_ENTRIES: usize = 50;
/// Most characters of an entry.
const MAX_ENTRY_CHARS: usize = 500;
/// "No unresolved questions were identified in this conversation." has eight words.
const MAX_DENIAL_WORDS: usize = 10;

/// What a compressed conversation is replaced with. Texts are trimmed and without NUL, lists are
/// without blank and repeated entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sections {
    pub summary: String,
    pub topics: Vec<String>,
    pub entities: Vec<String>,
    /// What was decided, one statement an entry.
    pub decisions: Vec<String>,
    /// What was asked and not answered yet.
    pub questions: Vec<String>,
}

impl Sections {
    /// Whether there is more than the summary.
    #[must_use]
    pub fn has_lists(&self) -> bool {
        let Self { summary: _, topics, entities, decisions, questions } = self;
        [topics, entities, decisions, questions].into_iter().any(|list| !list.is_empty())
    }
}

/// The sections as they are asked for; [`sections`] reads them back.
impl fmt::Display for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |list: &[String], separator: &str| match list {
            [] => "None".to_owned(),
            list => list.join(separator),
        };
        writeln!(f, "## SUMMARY\n{}", self.summary)?;
        writeln!(f, "## TOPICS\n{}", or_none(&self.topics, ", "))?;
        writeln!(f, "## ENTITIES\n{}", or_none(&self.entities, ", "))?;
        writeln!(f, "## DECISIONS\n{}", or_none(&self.decisions, "\n"))?;
        write!(f, "## QUESTIONS\n{}", or_none(&self.questions, "\n"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Summary,
    Topics,
    Entities,
    Decisions,
    Questions,
    /// A heading that was not asked for.
    Other,
}

/// Words that models put beside the name of a section.
const QUALIFIERS: [&str; 15] = [
    "MAIN",
    "KEY",
    "OPEN",
    "UNRESOLVED",
    "MADE",
    "MENTIONED",
    "DISCUSSED",
    "CONVERSATION",
    "THE",
    "UPDATED",
    "IMPORTANT",
    "UNANSWERED",
    "REMAINING",
    "OUTSTANDING",
    "SECTION",
];

impl Section {
    /// The section that a heading names, given without its marks.
    fn named(heading: &str) -> Option<Self> {
        let upper = heading.to_uppercase();
        let is_name =
            |word: &&str| !QUALIFIERS.contains(word) && !word.bytes().all(|b| b.is_ascii_digit());
        let mut names = parts(&upper).filter(is_name);
        let name = names.next()?;
        if names.next().is_some() {
            return None;
        }
        match name {
            "SUMMARY" => Some(Self::Summary),
            "TOPICS" | "TOPIC" => Some(Self::Topics),
            "ENTITIES" | "ENTITY" => Some(Self::Entities),
            "DECISIONS" | "DECISION" => Some(Self::Decisions),
            "QUESTIONS" | "QUESTION" => Some(Self::Questions),
            _ => None,
        }
    }
}

/// Reads the sections out of an answer, as far as they are there.
///
/// A heading may be `## TOPICS`, `**Topics:**`, `TOPICS` or `Topics: a, b`; sections may be missing
/// or in another order. An answer without any heading is the summary. "None" is an empty list;
/// topics and entities are divided at commas or lines, decisions and questions at lines. A JSON
/// object with these names is read too.
#[must_use]
pub fn sections(answer: &str) -> Sections {
    if let Some(fields) = json_fields(answer) {
        let text = |name: &str| fields.get(name).map(json_lines).unwrap_or_default();
        return Sections {
            summary: clean(&text("summary")),
            topics: entries(&text("topics"), true),
            entities: entries(&text("entities"), true),
            decisions: entries(&text("decisions"), false),
            questions: entries(&text("questions"), false),
        };
    }
    let answer = clean(answer);
    let mut bodies: Vec<(Option<Section>, String)> = vec![(None, String::new())];
    for line in answer.lines() {
        match heading(line) {
            // Headings of its own are a part of the summary.
            Some((Section::Other, _)) if is_summary(&bodies) => push_line(&mut bodies, line),
            Some((section, rest)) => bodies.push((Some(section), format!("{rest}\n"))),
            None => push_line(&mut bodies, line),
        }
    }
    let body = |section: Section| -> String {
        let wanted = bodies.iter().filter(|(found, _)| *found == Some(section));
        wanted.map(|(_, body)| body.as_str()).collect()
    };
    let mut summary = body(Section::Summary);
    if summary.trim().is_empty() {
        // What stands before the first list.
        summary = bodies.first().map(|(_, body)| body.clone()).unwrap_or_default();
    }
    Sections {
        summary: clean(&summary),
        topics: entries(&body(Section::Topics), true),
        entities: entries(&body(Section::Entities), true),
        decisions: entries(&body(Section::Decisions), false),
        questions: entries(&body(Section::Questions), false),
    }
}

/// A text, or the texts of a list one on each line.
fn json_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\0', ""),
        Value::Array(values) => values.iter().map(json_lines).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn is_summary(bodies: &[(Option<Section>, String)]) -> bool {
    bodies.last().is_some_and(|(section, _)| matches!(section, None | Some(Section::Summary)))
}

fn push_line(bodies: &mut [(Option<Section>, String)], line: &str) {
    if let Some((_, body)) = bodies.last_mut() {
        body.push_str(line);
        body.push('\n');
    }
}

/// The section that a line opens, and what follows the heading on the same line.
fn heading(line: &str) -> Option<(Section, &str)> {
    let line = line.trim();
    if without_bullet(line).len() < line.len() && !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let bare = line.trim_start_matches(['#', '*', '_', ' ']);
    let marked = bare.len() < line.len();
    if let Some((name, rest)) = bare.split_once(':')
        && let Some(section) = Section::named(name)
    {
        return Some((section, rest.trim_start_matches(['*', '_']).trim()));
    }
    let name = bare.trim_end_matches(['#', '*', '_', ' ']);
    let is_upper = !name.chars().any(char::is_lowercase);
    match Section::named(name) {
        Some(section) if marked || is_upper => Some((section, "")),
        None if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') => {
            Some((Section::Other, ""))
        }
        _ => None,
    }
}

/// The entries of a list: its lines, divided further at commas if `at_commas`.
fn entries(body: &str, at_commas: bool) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for line in body.lines() {
        let line = without_bullet(line);
        let parts = if at_commas { at_outer_commas(line) } else { vec![line] };
        for part in parts {
            let entry: String = bare_entry(part, at_commas).chars().take(MAX_ENTRY_CHARS).collect();
            if entry.is_empty() || is_nothing(&entry) {
                continue;
            }
            if known.len() == MAX_ENTRIES {
                break;
            }
            if known.insert(entry.to_lowercase()) {
                entries.push(entry);
            }
        }
    }
    if let [only] = entries.as_slice()
        && is_denial(only)
    {
        entries.clear();
    }
    entries
}

/// A line without the mark of a list item.
fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    let rest = line.trim_start_matches(['-', '*', '+', '•', '–']);
    if rest.len() < line.len() && (rest.is_empty() || rest.starts_with(char::is_whitespace)) {
        let rest = rest.trim_start();
        let boxes = ["[ ]", "[x]", "[X]"];
        return boxes.iter().find_map(|mark| rest.strip_prefix(mark)).unwrap_or(rest).trim_start();
    }
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = number.len() < line.len();
    match number.strip_prefix(['.', ')']) {
        Some(rest) if is_number && rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => line,
    }
}

/// Divides at the commas that are not in brackets or in a number.
fn at_outer_commas(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, character) in line.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' | ';' | '、' | '，' if depth == 0 => {
                let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
                let after = at + character.len_utf8();
                if is_digit(line[..at].chars().next_back())
                    && is_digit(line[after..].chars().next())
                {
                    continue;
                }
                parts.push(&line[start..at]);
                start = after;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts
}

/// An entry without marks around it. A name (`is_name`) has no full stop and no "and" either.
fn bare_entry(entry: &str, is_name: bool) -> String {
    let mut entry = entry.trim();
    if is_name {
        entry = entry.strip_prefix("and ").unwrap_or(entry).trim_end_matches('.');
    }
    for (open, close) in [("**", "**"), ("`", "`"), ("\"", "\""), ("“", "”")] {
        let inner = entry.strip_prefix(open).and_then(|entry| entry.strip_suffix(close));
        entry = inner.filter(|inner| !inner.contains(open)).unwrap_or(entry).trim();
    }
    entry.to_owned()
}

/// Whether an entry is a word for an empty list.
fn is_nothing(entry: &str) -> bool {
    let lower = entry.to_lowercase();
    let said = lower.trim_matches(|c: char| !c.is_alphanumeric());
    ["", "none", "n/a", "na", "nothing", "no"].contains(&said)
}

/// Whether the only entry of a list is a sentence that says that there is none.
fn is_denial(entry: &str) -> bool {
    let lower = entry.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    ["no", "none", "there"].contains(&words[0])
        && words.iter().any(|word| ["no", "none"].contains(word))
        && words.iter().any(|word| {
            ["decision", "question", "topic", "entit"].iter().any(|name| word.starts_with(name))
        })
        && words.len() <= MAX_DENIAL_WORDS
}

#[cfg(test)]
#[path = "sections_tests.rs"]
mod tests;
