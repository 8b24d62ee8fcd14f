//! Reads what `import` takes piece by piece: an array one value at a time, JSON lines one line at a time. A file
//! is never in memory as a whole.

use super::record::{Clock, Line};
use super::sources::{Item, Items, Told, chatgpt, claude, claude_code, mcp_memory, mem0};
use crate::args::Format;
use chrono::{DateTime, TimeDelta, Utc};
use memory_agent_core::text::tokens::estimate_tokens;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read};
use std::time::SystemTime;
use uuid::Uuid;

/// Most bytes of a line.
const MAX_LINE: u64 = 64 << 20;
/// Why reading stops when what is read is not taken, or is refused. It is never shown.
const STOPPED: &str = "stopped";
/// What is said of a file that no format fits.
const UNKNOWN: &str = "it is no conversation of ChatGPT or Claude, and no memory of mem0: say with --format what the \
                       file is";

/// Something in a file, and where it is.
pub struct Piece {
    pub place: String,
    pub what: What,
}

/// What it is.
pub enum What {
    Memory(Ready),
    /// What is wrong with it.
    Wrong(String),
    /// The kind of what was left out.
    LeftOut(&'static str),
}

/// A memory as `memory_import_markdown` reads it.
#[derive(Debug, PartialEq)]
pub struct Ready {
    pub file: String,
    pub id: Uuid,
    /// Whether facts can be extracted from it, and about how many tokens of a conversation it has.
    pub is_the_users: bool,
    pub tokens: u64,
    /// Its conversation and its time, for who asks what is in a file.
    pub session_id: Option<String>,
    pub created_at: String,
}

impl Ready {
    fn new(told: Told, extracts: bool) -> Self {
        let Told { line, created_at, id } = told;
        let is_the_users = line.is_the_users_turn();
        let tokens = if line.is_new_turn() { estimate_tokens(&line.content) as u64 } else { 0 };
        let session_id = line.session_id.clone();
        let (file, id) = line.markdown(created_at.clone(), id, extracts);
        Self { file, id, is_the_users, tokens, session_id, created_at }
    }
}

/// How files are read.
pub struct Reading<'a, F> {
    pub format: Option<Format>,
    /// The user of mem0 whose memories are taken, once that is known, and whether the caller named one.
    pub from_user: &'a mut Option<String>,
    pub is_given: bool,
    /// Whether facts are to be extracted from what the user said.
    pub extracts: bool,
    /// Takes what is read; whether to go on.
    pub take: F,
}

impl<F: FnMut(Piece) -> bool> Reading<'_, F> {
    /// Reads a file to its end, or until nothing more is taken.
    ///
    /// # Errors
    /// Why it is not read to its end.
    pub fn read(self, mut file: impl BufRead) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("the file cannot be read: {error}");
        let beginning = beginning(&mut file).map_err(broken)?;
        let now = DateTime::<Utc>::from(SystemTime::now());
        let is_lines = match self.format {
            Some(Format::Jsonl | Format::ClaudeCode | Format::McpMemory) => true,
            Some(_) => false,
            None if beginning.is_empty() => return Ok(()),
            None if !beginning.starts_with(['{', '[']) => {
                return Err("it is neither JSON nor JSON lines".to_owned());
            }
            None => is_lines(&beginning),
        };
        let mut each = Each { reading: self, now, number: 0, refused: None };
        if is_lines {
            return each.lines(file);
        }
        let mut json = serde_json::Deserializer::from_reader(file);
        let outcome = Top(&mut each).deserialize(&mut json);
        match (outcome, each.refused) {
            (_, Some(problem)) => Err(problem),
            (Ok(()), _) => json.end().map_err(|error| format!("the file is not JSON: {error}")),
            (Err(error), _) if error.to_string().starts_with(STOPPED) => Ok(()),
            (Err(error), _) => Err(format!("the file is not JSON from here on: {error}")),
        }
    }

    fn give(&mut self, place: String, item: Item) -> bool {
        let what = match item {
            Item::Told(told) => What::Memory(Ready::new(*told, self.extracts)),
            Item::Wrong(problem) => What::Wrong(problem),
            Item::LeftOut(kind) => What::LeftOut(kind),
        };
        (self.take)(Piece { place, what })
    }
}

/// What a file begins with, white space left out.
fn beginning(file: &mut impl BufRead) -> std::io::Result<String> {
    const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    if file.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        file.consume(BYTE_ORDER_MARK.len());
    }
    loop {
        let buffer = file.fill_buf()?;
        let space = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if space == 0 {
            return Ok(String::from_utf8_lossy(buffer).into_owned());
        }
        file.consume(space);
    }
}

/// Whether what begins with a brace is one object a line, and none that holds an array under `results`.
fn is_lines(beginning: &str) -> bool {
    let Some(inside) = beginning.strip_prefix('{') else { return false };
    let first_line = inside.lines().next().unwrap_or_default().trim();
    !first_line.is_empty() && !first_line.starts_with("\"results\"")
}

/// The whole file: an array, or an object with one under `results`.
struct Top<'a, 'b, F>(&'a mut Each<'b, F>);

impl<'de, F: FnMut(Piece) -> bool> DeserializeSeed<'de> for Top<'_, '_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Piece) -> bool> Visitor<'de> for Top<'_, '_, F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an array, or an object with an array under \"results\"")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while let Some(value) = values.next_element::<Value>()? {
            if !self.0.add(value) {
                return Err(serde::de::Error::custom(STOPPED));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut rest = Some(self.0);
        while let Some(key) = members.next_key::<String>()? {
            match rest.take() {
                Some(each) if key == "results" => members.next_value_seed(Top(each))?,
                other => {
                    rest = other;
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        match rest {
            None => Ok(()),
            Some(_) => Err(serde::de::Error::missing_field("results")),
        }
    }
}

/// Takes values one by one.
struct Each<'a, F> {
    reading: Reading<'a, F>,
    now: DateTime<Utc>,
    number: u64,
    /// Why the file is not read at all.
    refused: Option<String>,
}

impl<F: FnMut(Piece) -> bool> Each<'_, F> {
    /// Takes a value; whether to go on.
    fn add(&mut self, value: Value) -> bool {
        self.number += 1;
        let Some(format) = self.reading.format.or_else(|| format_of(&value)) else {
            if self.number == 1 {
                self.refused = Some(UNKNOWN.to_owned());
                return false;
            }
            return self.give("entry", Item::Wrong(UNKNOWN.to_owned()));
        };
        match self.items(format, value) {
            Ok(items) => items.into_iter().all(|(message, item)| {
                let place = format!("entry {}, message {message}", self.number);
                self.reading.give(place, item)
            }),
            Err(problem) => self.give("entry", Item::Wrong(problem)),
        }
    }

    fn items(&mut self, format: Format, value: Value) -> Result<Items, String> {
        match format {
            Format::Claude => claude::read(&value, self.now),
            Format::Mem0 => {
                let Reading { from_user, is_given, .. } = &mut self.reading;
                let item = mem0::read(value, self.now, from_user, *is_given)?;
                Ok(vec![(1, item)])
            }
            // The others are no arrays.
            _ => chatgpt::read(&value, self.now),
        }
    }

    /// Gives what the value as a whole is.
    fn give(&mut self, name: &str, item: Item) -> bool {
        let place = format!("{name} {}", self.number);
        self.reading.give(place, item)
    }

    fn lines(&mut self, mut file: impl BufRead) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("the file cannot be read: {error}");
        let mut lines = Lines { clock: Clock::new(self.now), seen: HashMap::new() };
        let (mut format, mut is_first) = (self.reading.format, true);
        for number in 1_u32.. {
            let mut line = Vec::new();
            let read = (&mut file).take(MAX_LINE).read_until(b'\n', &mut line).map_err(broken)?;
            if read == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.number = number.into();
            let is_first = std::mem::take(&mut is_first);
            let value = match serde_json::from_slice::<Value>(&line) {
                Ok(value) => value,
                Err(error) if self.give("line", Item::Wrong(error.to_string())) => continue,
                Err(_) => break,
            };
            // What the first line is, all are.
            if format.is_none() {
                format = format_of_line(&value);
                if format.is_none() && is_first {
                    return Err(unknown(&value));
                }
            }
            let otherwise = self.now + TimeDelta::microseconds(number.into());
            let items = match format {
                None | Some(Format::Jsonl) => vec![lines.read(value, otherwise)],
                Some(Format::ClaudeCode) => claude_code::read(&value, &mut lines.clock, otherwise),
                Some(Format::McpMemory) => mcp_memory::read(&value, &mut lines.clock, otherwise),
                Some(format) => match self.items(format, value) {
                    Ok(items) => items.into_iter().map(|(_, item)| item).collect(),
                    Err(problem) => vec![Item::Wrong(problem)],
                },
            };
            if !items.into_iter().all(|item| self.give("line", item)) {
                break;
            }
        }
        Ok(())
    }
}

/// What a value of an array is.
fn format_of(value: &Value) -> Option<Format> {
    let keys =
        [("mapping", Format::Chatgpt), ("chat_messages", Format::Claude), ("memory", Format::Mem0)];
    keys.into_iter().find(|(key, _)| value.get(key).is_some()).map(|(_, format)| format)
}

/// What a line is.
fn format_of_line(value: &Value) -> Option<Format> {
    match value {
        value if mcp_memory::is_line(value) => Some(Format::McpMemory),
        value if claude_code::is_line(value) => Some(Format::ClaudeCode),
        value if value.get("role").is_some() || value.get("content").is_some() => {
            Some(Format::Jsonl)
        }
        value => format_of(value),
    }
}

/// What is said of a file whose first line belongs to no format.
fn unknown(value: &Value) -> String {
    const SHOWN: usize = 8;
    let keys = value.as_object().into_iter().flat_map(serde_json::Map::keys).take(SHOWN);
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    format!(
        "its lines are of no format that import knows: the first one has the keys {}, neither role nor content",
        keys.join(", ")
    )
}

/// JSON lines so far.
struct Lines {
    clock: Clock,
    /// How often a line without time and id was there before.
    seen: HashMap<(Option<String>, String, String), u32>,
}

impl Lines {
    fn read(&mut self, value: Value, otherwise: DateTime<Utc>) -> Item {
        let told = Line::read(value).and_then(|line| {
            let session = line.session_id.as_deref();
            let time = line.created_at.as_ref();
            let created_at = match (line.memory_agent, time) {
                // An export has the order it has; equal times are equal.
                (Some(_), Some(time)) => time.as_written(),
                (Some(_), None) => Clock::new(otherwise).next(session, None, otherwise)?,
                (None, time) => self.clock.next(session, time, otherwise)?,
            };
            let id = line.id.clone().unwrap_or_else(|| match time {
                // What it says is its id.
                Some(_) => String::new(),
                None => {
                    let key = (line.session_id.clone(), line.role.clone(), line.content.clone());
                    let before = self.seen.entry(key).or_default();
                    *before += 1;
                    format!("{before}:line:{}:{}", line.role, line.content)
                }
            });
            Ok(Told { line, created_at, id })
        });
        told.map_or_else(Item::Wrong, |told| Item::Told(Box::new(told)))
    }
}

#[cfg(test)]
mod tests;
