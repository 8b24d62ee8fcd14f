//! The front matter of a Markdown file: the block between two `---` lines, as much of YAML as
//! memories need. Written is what every YAML reader understands: one line a key, its value as JSON.
//! Read is also what people and PyYAML's `safe_dump` write: plain and quoted scalars over several
//! lines, and lists of scalars. Everything else is refused with its line.

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

use crate::limits::MAX_FRONT_MATTER_KEYS;

/// The line that begins and ends a front matter.
const FENCE: &str = "---";

/// What the values `null` may be spelled as.
const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// A file whose front matter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontMatterError {
    #[error("the first line is not ---")]
    NoBegin,
    #[error("the line --- that ends the front matter is missing")]
    NoEnd,
    #[error("there are more than {MAX_FRONT_MATTER_KEYS} keys")]
    Keys,
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: &'static str },
}

/// A key with its value, and the line of the file it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub key: String,
    pub value: Value,
    pub line: usize,
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    /// Without quotes: a text, a number, a truth value.
    Plain(String),
    Quoted(String),
    /// `{..}` or `[..]`, as it is written.
    Json(String),
    List(Vec<Value>),
}

impl Value {
    /// The value as JSON. A plain scalar that JSON knows as number or truth value is one.
    pub fn to_json(&self) -> String {
        match self {
            Self::Plain(plain) if is_json(plain) => plain.clone(),
            _ => self.to_json_text(),
        }
    }

    /// The value as JSON; a plain scalar is a text.
    pub fn to_json_text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Plain(text) | Self::Quoted(text) => quote(text),
            Self::Json(json) => json.clone(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_json_text).collect();
                format!("[{}]", items.join(","))
            }
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A text as a JSON string that is a YAML scalar too.
pub fn quote(text: &str) -> String {
    printable(&serde_json::Value::from(text).to_string())
}

/// JSON with everything escaped that YAML has no place for: it is only allowed within strings.
pub fn printable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            _ => out.push(character),
        }
    }
    out
}

/// A front matter out of keys and values in JSON, with both fences.
pub fn write<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = format!("{FENCE}\n");
    for (key, json) in fields {
        out.push_str(key);
        out.push_str(": ");
        out.push_str(&printable(json));
        out.push('\n');
    }
    out.push_str(FENCE);
    out.push('\n');
    out
}

/// A file's front matter without its fences, and what follows the line that ends it.
pub fn split(text: &str) -> Result<(&str, &str), FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut begin = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_end() == FENCE;
        match begin {
            None if is_fence => begin = Some(at + line.len()),
            None => return Err(FrontMatterError::NoBegin),
            Some(begin) if is_fence => return Ok((&text[begin..at], &text[at + line.len()..])),
            Some(_) => {}
        }
        at += line.len();
    }
    Err(if begin.is_some() { FrontMatterError::NoEnd } else { FrontMatterError::NoBegin })
}

/// Reads what is between the fences. Each key may be there once.
pub fn parse(front: &str) -> Result<Vec<Field>, FrontMatterError> {
    let lines: Vec<&str> = front.lines().collect();
    let mut fields: Vec<Field> = Vec::new();
    let mut keys = HashSet::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        if line.trim().is_empty() || line.starts_with('#') {
            at += 1;
            continue;
        }
        // The opening fence is line 1.
        let number = at + 2;
        let wrong = |problem| FrontMatterError::Line { line: number, problem };
        let (key, rest) = key_and_rest(line).ok_or_else(|| wrong("expected `key: value`"))?;
        if !keys.insert(key) {
            return Err(wrong("this key is there already"));
        }
        if keys.len() > MAX_FRONT_MATTER_KEYS {
            return Err(FrontMatterError::Keys);
        }
        let more = lines[at + 1..].iter().take_while(|line| belongs_to_value(line)).count();
        let value = value(rest, &lines[at + 1..at + 1 + more]).map_err(wrong)?;
        fields.push(Field { key: key.to_owned(), value, line: number });
        at += 1 + more;
    }
    Ok(fields)
}

fn key_and_rest(line: &str) -> Option<(&str, &str)> {
    let end = line.match_indices(':').map(|(at, _)| at).find(|&at| {
        let after = line[at + 1..].chars().next();
        after.is_none_or(|after| after == ' ' || after == '\t')
    })?;
    let key = line[..end].trim_end();
    let is_name = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let begins_well = key.starts_with(|first: char| first.is_alphanumeric() || first == '_');
    (begins_well && key.chars().all(is_name)).then(|| (key, line[end + 1..].trim()))
}

/// Whether a line continues the value of the key before.
fn belongs_to_value(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with([' ', '\t']) || is_item(line)
}

fn is_item(line: &str) -> bool {
    line.starts_with("- ") || line == "-"
}

/// A value that begins after its key and goes on in the lines below.
fn value(rest: &str, more: &[&str]) -> Result<Value, &'static str> {
    let continued = || {
        let mut whole = rest.to_owned();
        for line in more {
            whole.push('\n');
            whole.push_str(line);
        }
        whole
    };
    match rest.chars().next() {
        None | Some('#') => list(more),
        Some('{' | '[') => {
            let json = continued().replace('\n', " ").trim().to_owned();
            if is_json(&json) {
                Ok(Value::Json(json))
            } else {
                Err("what begins with { or [ must be JSON")
            }
        }
        Some('|' | '>' | '&' | '*' | '!' | '%' | '@' | '`') => {
            Err("expected a plain or quoted value, JSON, or a list; put quotes around the text")
        }
        Some(_) => scalar(&continued()),
    }
}

/// The lines `- item`; none of them is null.
fn list(lines: &[&str]) -> Result<Value, &'static str> {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let lines: Vec<&str> =
        lines.into_iter().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.is_empty() {
        return Ok(Value::Null);
    }
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (is_item(line), items.last_mut()) {
            (true, _) => items.push(line[1..].trim().to_owned()),
            (false, Some(item)) => {
                item.push('\n');
                item.push_str(line);
            }
            (false, None) => return Err("mappings within mappings are not read; write JSON"),
        }
    }
    Ok(Value::List(items.iter().map(|item| scalar(item)).collect::<Result<_, _>>()?))
}

fn scalar(text: &str) -> Result<Value, &'static str> {
    match text.chars().next() {
        Some('"') => double_quoted(text).map(Value::Quoted),
        Some('\'') => single_quoted(text).map(Value::Quoted),
        _ => Ok(plain(text)),
    }
}

fn plain(text: &str) -> Value {
    let lines = text.lines().map(|line| line.find(" #").map_or(line, |at| &line[..at]).trim());
    let text = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    if NULLS.contains(&text.as_str()) { Value::Null } else { Value::Plain(text) }
}

fn single_quoted(text: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    characters.next();
    loop {
        match characters.next().ok_or(UNCLOSED)? {
            '\'' if characters.peek() == Some(&'\'') => {
                characters.next();
                out.push('\'');
            }
            '\'' => return end_of_scalar(characters, out),
            '\n' => fold(&mut characters, &mut out, 0),
            other => out.push(other),
        }
    }
}

fn double_quoted(text: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    // What was escaped is not trimmed when lines are folded.
    let mut escaped = 0;
    let mut characters = text.chars().peekable();
    characters.next();
    loop {
        match characters.next().ok_or(UNCLOSED)? {
            '"' => return end_of_scalar(characters, out),
            '\\' if characters.peek() == Some(&'\n') => {
                characters.next();
                while characters.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
                escaped = out.len();
            }
            '\\' => {
                out.push(escape(&mut characters)?);
                escaped = out.len();
            }
            '\n' => {
                fold(&mut characters, &mut out, escaped);
                escaped = out.len();
            }
            other => out.push(other),
        }
    }
}

const UNCLOSED: &str = "the closing quote is missing";

/// After a closing quote only a comment may follow.
fn end_of_scalar(rest: Peekable<Chars<'_>>, out: String) -> Result<String, &'static str> {
    let rest: String = rest.collect();
    let rest = rest.trim();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(out)
    } else {
        Err("something follows the closing quote")
    }
}

/// A line break within quotes is a space, several are one less; white space around them goes, but
/// not that within the first `kept` bytes.
fn fold(characters: &mut Peekable<Chars<'_>>, out: &mut String, kept: usize) {
    while out.len() > kept && out.ends_with([' ', '\t']) {
        out.pop();
    }
    let mut further_breaks = 0;
    while let Some(next) = characters.next_if(|next| matches!(next, ' ' | '\t' | '\n')) {
        further_breaks += usize::from(next == '\n');
    }
    match further_breaks {
        0 => out.push(' '),
        count => out.extend(std::iter::repeat_n('\n', count)),
    }
}

/// The character that is written after a backslash.
fn escape(characters: &mut Peekable<Chars<'_>>) -> Result<char, &'static str> {
    Ok(match characters.next().ok_or(UNCLOSED)? {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        'x' => code_point(characters, 2)?,
        'u' => code_point(characters, 4)?,
        'U' => code_point(characters, 8)?,
        same @ (' ' | '"' | '/' | '\\') => same,
        _ => return Err("unknown escape after a backslash"),
    })
}

/// A character by its number; JSON writes one beyond U+FFFF as two halves.
fn code_point(characters: &mut Peekable<Chars<'_>>, digits: u32) -> Result<char, &'static str> {
    const BAD: &str = "an escape has no valid number";
    let number = |characters: &mut Peekable<Chars<'_>>| {
        (0..digits).try_fold(0u32, |number, _| {
            let digit = characters.next().and_then(|digit| digit.to_digit(16)).ok_or(BAD)?;
            Ok::<u32, &'static str>(number << 4 | digit)
        })
    };
    let mut code = number(characters)?;
    if digits == 4 && (0xd800..0xdc00).contains(&code) {
        if characters.next() != Some('\\') || characters.next() != Some('u') {
            return Err(BAD);
        }
        let low = number(characters)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(BAD);
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    char::from_u32(code).ok_or(BAD)
}

#[cfg(test)]
#[path = "front_matter_tests.rs"]
mod tests;
