//! Reads what `import` takes piece by piece: an array one value at a time, JSON lines one line at a time. A file
//! is never in memory as a whole.

use super::conversations::{Told, chatgpt, claude, mem0};
use super::record::{Clock, Line};
use crate::args::Format;
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read};
use std::time::SystemTime;

/// Most bytes of a line.
const MAX_LINE: u64 = 64 << 20;
/// Why reading stops when what is read is not taken. It is never shown.
const STOPPED: &str = "stopped";

/// A memory as `memory_import_markdown` reads it, or what is wrong; and where it is in the file.
pub struct Piece {
    pub place: String,
    pub file: Result<String, String>,
}

/// How a file is read.
pub struct Reading<F> {
    pub format: Option<Format>,
    pub from_user: Option<String>,
    /// Takes what is read; whether to go on.
    pub take: F,
}

impl<F: FnMut(Piece) -> bool> Reading<F> {
    /// Reads it all.
    ///
    /// # Errors
    /// Why it is not read to its end.
    pub fn read(self, mut file: impl BufRead) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("the file cannot be read: {error}");
        let beginning = beginning(&mut file).map_err(broken)?;
        let now = DateTime::<Utc>::from(SystemTime::now());
        let Self { format, from_user, take } = self;
        let is_lines = match format {
            Some(format) => format == Format::Jsonl,
            None => is_lines(&beginning),
        };
        if is_lines {
            return lines(file, now, take).map_err(broken);
        }
        let is_given = from_user.is_some();
        let each = Each { format, from_user, is_given, now, number: 0, take };
        let mut json = serde_json::Deserializer::from_reader(file);
        match Top(each).deserialize(&mut json) {
            Ok(()) => json.end().map_err(|error| format!("the file is not JSON: {error}")),
            Err(error) if error.to_string().starts_with(STOPPED) => Ok(()),
            Err(error) => Err(format!("the file is not JSON from here on: {error}")),
        }
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

/// Whether it is one object a line: neither an array, nor an object that holds one under `results`.
fn is_lines(beginning: &str) -> bool {
    let Some(inside) = beginning.strip_prefix('{') else { return !beginning.starts_with('[') };
    let first_line = inside.lines().next().unwrap_or_default().trim();
    !first_line.is_empty() && !first_line.starts_with("\"results\"")
}

fn lines(
    mut file: impl BufRead,
    now: DateTime<Utc>,
    mut take: impl FnMut(Piece) -> bool,
) -> std::io::Result<()> {
    let mut clock = Clock::default();
    // How often a line without time and id was there before.
    let mut seen: HashMap<(Option<String>, String, String), u32> = HashMap::new();
    for number in 1_u32.. {
        let mut line = Vec::new();
        if (&mut file).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let otherwise = now + TimeDelta::microseconds(i64::from(number));
        let file =
            serde_json::from_slice::<Line>(&line).map_err(|error| error.to_string()).map(|line| {
                let id = line.id.clone().unwrap_or_else(|| match line.created_at {
                    // What it says is its id.
                    Some(_) => String::new(),
                    None => {
                        let key =
                            (line.session_id.clone(), line.role.clone(), line.content.clone());
                        let id = format!("line:{}:{}", line.role, line.content);
                        let before = seen.entry(key).or_default();
                        *before += 1;
                        format!("{before}:{id}")
                    }
                });
                let session = line.session_id.clone();
                let created_at = if line.memory_agent.is_some() {
                    // An export has the order it has; equal times are equal.
                    Clock::default().next(session.as_deref(), line.created_at.as_ref(), otherwise)
                } else {
                    clock.next(session.as_deref(), line.created_at.as_ref(), otherwise)
                };
                line.markdown(created_at, id)
            });
        if !take(Piece { place: format!("line {number}"), file }) {
            break;
        }
    }
    Ok(())
}

/// The whole file: an array, or an object with one under `results`.
struct Top<F>(Each<F>);

impl<'de, F: FnMut(Piece) -> bool> DeserializeSeed<'de> for Top<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Piece) -> bool> Visitor<'de> for Top<F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an array, or an object with an array under \"results\"")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        while let Some(value) = values.next_element::<Value>()? {
            self.0.add::<A::Error>(value)?;
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
struct Each<F> {
    format: Option<Format>,
    from_user: Option<String>,
    is_given: bool,
    now: DateTime<Utc>,
    number: u64,
    take: F,
}

impl<F: FnMut(Piece) -> bool> Each<F> {
    fn add<E: serde::de::Error>(&mut self, value: Value) -> Result<(), E> {
        self.number += 1;
        let number = self.number;
        let pieces = match self.told(value) {
            Ok(told) => told
                .into_iter()
                .enumerate()
                .map(|(at, (line, created_at, id))| Piece {
                    place: format!("entry {number}, message {}", at + 1),
                    file: Ok(line.markdown(created_at, id)),
                })
                .collect(),
            Err(problem) => {
                vec![Piece { place: format!("entry {number}"), file: Err(problem) }]
            }
        };
        match pieces.into_iter().all(&mut self.take) {
            true => Ok(()),
            false => Err(E::custom(STOPPED)),
        }
    }

    fn told(&mut self, value: Value) -> Result<Vec<Told>, String> {
        let format = match self.format {
            Some(format) => format,
            None if value.get("mapping").is_some() => Format::Chatgpt,
            None if value.get("chat_messages").is_some() => Format::Claude,
            None if value.get("memory").is_some() => Format::Mem0,
            None => {
                return Err(
                    "it is no conversation of ChatGPT or Claude, and no memory of mem0: say \
                            with --format what the file is"
                        .to_owned(),
                );
            }
        };
        match format {
            Format::Claude => claude(value, self.now),
            Format::Mem0 => mem0(value, self.now, &mut self.from_user, self.is_given),
            // JSON lines are no array.
            Format::Chatgpt | Format::Jsonl => chatgpt(value, self.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, format: Option<Format>) -> (Vec<Piece>, Result<(), String>) {
        let mut pieces = Vec::new();
        let take = |piece| {
            pieces.push(piece);
            true
        };
        let outcome = Reading { format, from_user: None, take }.read(text.as_bytes());
        (pieces, outcome)
    }

    #[test]
    fn the_format_is_seen() {
        for (text, expected) in [
            ("[{\"mapping\"", false),
            ("{\"results\": [", false),
            ("{\n  \"results\"", false),
            ("{\"role\": \"user\"}", true),
            ("", true),
        ] {
            assert_eq!(is_lines(text), expected, "{text}");
        }
    }

    #[test]
    fn bad_lines_do_not_stop_the_rest() {
        let text = "\u{feff}{\"role\": \"user\", \"content\": \"A\"}\n\n{broken\n\
                    {\"role\": \"user\", \"content\": 1}\n{\"role\": \"user\", \"content\": \"A\"}";
        let (pieces, outcome) = pieces(text, None);
        assert_eq!(outcome, Ok(()));
        let good: Vec<(&str, bool)> =
            pieces.iter().map(|piece| (&*piece.place, piece.file.is_ok())).collect();
        assert_eq!(
            good,
            [("line 1", true), ("line 3", false), ("line 4", false), ("line 5", true)]
        );
        assert_ne!(pieces[0].file, pieces[3].file, "said twice");
    }

    #[test]
    fn a_conversation_is_the_branch_it_ended_in() {
        let text = r#"[{"id": "c", "title": "T", "create_time": 1.0, "current_node": "3", "mapping": {
            "0": {"parent": null, "message": null},
            "1": {"parent": "0", "message": {"id": "1", "author": {"role": "user"}, "create_time": 2.0,
                  "content": {"content_type": "text", "parts": ["Hello"]}}},
            "2": {"parent": "1", "message": {"id": "2", "author": {"role": "assistant"}, "create_time": 3.0,
                  "content": {"content_type": "text", "parts": ["Dropped"]}}},
            "3": {"parent": "1", "message": {"id": "3", "author": {"role": "assistant"}, "create_time": 4.0,
                  "content": {"content_type": "text", "parts": ["Kept", {"picture": 1}]}}}}}, 7]"#;
        let (pieces, outcome) = pieces(text, None);
        assert_eq!(outcome, Ok(()));
        let files: Vec<_> = pieces.iter().map(|piece| piece.file.clone()).collect();
        assert_eq!(files.len(), 3);
        assert!(files[0].as_ref().unwrap().ends_with("Hello\n"), "{files:?}");
        assert!(files[1].as_ref().unwrap().ends_with("Kept\n"), "{files:?}");
        assert!(files[2].is_err(), "{files:?}");
    }

    #[test]
    fn users_of_mem0_are_not_mixed() {
        let text = r#"{"count": 2, "results": [{"id": "1", "memory": "A", "user_id": "x"},
                                              {"id": "2", "memory": "B", "user_id": "y"}]}"#;
        let (pieces, outcome) = pieces(text, Some(Format::Mem0));
        assert_eq!(outcome, Ok(()));
        assert!(pieces[0].file.is_ok());
        assert!(pieces[1].file.as_ref().unwrap_err().contains("--from-user"));
    }

    #[test]
    fn what_is_cut_off_is_said() {
        let (pieces, outcome) = pieces(r#"[{"memory": "A", "id": "1"}, {"memory": "#, None);
        assert!(pieces.len() == 1 && outcome.is_err(), "{outcome:?}");
    }
}
