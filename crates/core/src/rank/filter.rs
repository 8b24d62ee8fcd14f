//! The `filter` argument of recall: a closed grammar over metadata and columns.
//!
//! A filter is a JSON object. It never becomes SQL text; the caller passes the
//! parsed values as parameters. All keys are optional and joined by AND; a key
//! with the value null counts as not given. Where a list is expected, a single
//! string will do. An empty list matches no row, except for `markers_all`, which
//! it does not restrict.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use crate::limits::{MAX_FILTER_DEPTH, MAX_FILTER_LIST};
use crate::text::entry::{KINDS, ROLES};
use crate::text::markers;

/// The keys a filter can have.
pub const KEYS: [&str; 11] = [
    "metadata",
    "role",
    "kind",
    "markers_any",
    "markers_all",
    "created_after",
    "created_before",
    "session_id",
    "episode_id",
    "agent_id",
    "trust",
];

/// Whether what was said bears a fact out: what is verified is memory.
pub const TRUST: [&str; 2] = ["verified", "unverified"];

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FilterError {
    #[error("filter must be a JSON object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("unknown filter key {key:?}: expected one of {}", KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("filter key {key:?} must be {expected}, not {found}")]
    WrongType { key: &'static str, expected: &'static str, found: &'static str },
    #[error("invalid value {value:?} for filter key {key:?}: expected {expected}")]
    InvalidValue { key: &'static str, value: String, expected: String },
    #[error("filter key {key:?} holds a NUL character (U+0000), which PostgreSQL cannot store")]
    Nul { key: &'static str },
    #[error("filter key {key:?} has {entries} entries, expected at most {MAX_FILTER_LIST}")]
    TooLong { key: &'static str, entries: usize },
    #[error("filter key {key:?} is nested too deeply, expected at most {MAX_FILTER_DEPTH} levels")]
    TooDeep { key: &'static str },
}

/// A parsed filter. `None` means no restriction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// An object that the entry's metadata must contain (jsonb `@>`).
    pub metadata: Option<Value>,
    /// The entry's role is one of these.
    pub roles: Option<Vec<String>>,
    /// The entry's kind is one of these.
    pub kinds: Option<Vec<String>>,
    /// The entry has at least one of these markers.
    pub markers_any: Option<Vec<String>>,
    /// The entry has all of these markers.
    pub markers_all: Option<Vec<String>>,
    /// Event time from which on entries match, inclusive; RFC 3339 in UTC.
    pub created_after: Option<String>,
    /// Event time before which entries match, exclusive; RFC 3339 in UTC.
    pub created_before: Option<String>,
    /// The entry belongs to one of these sessions.
    pub session_ids: Option<Vec<String>>,
    /// The entry belongs to this episode; a UUID.
    pub episode_id: Option<String>,
    /// The entry belongs to one of these agents.
    pub agent_ids: Option<Vec<String>>,
    /// What is memory (`verified`), facts that what was said does not bear out (`unverified`), or both;
    /// `None` is what is memory.
    pub trust: Option<Vec<String>>,
}

impl Filter {
    /// Reads a filter. JSON null is the empty filter.
    pub fn parse(filter: &Value) -> Result<Self, FilterError> {
        let object = match filter {
            Value::Null => return Ok(Self::default()),
            Value::Object(object) => object,
            other => {
                return Err(FilterError::NotAnObject { found: type_of(other) });
            }
        };
        if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(FilterError::UnknownKey { key: shown(key) });
        }
        Ok(Self {
            metadata: metadata(object)?,
            roles: one_of(object, "role", &ROLES)?,
            kinds: one_of(object, "kind", &KINDS)?,
            markers_any: marker_list(object, "markers_any")?,
            markers_all: marker_list(object, "markers_all")?,
            created_after: time(object, "created_after")?,
            created_before: time(object, "created_before")?,
            session_ids: strings(object, "session_id")?,
            episode_id: uuid(object, "episode_id")?,
            agent_ids: strings(object, "agent_id")?,
            trust: one_of(object, "trust", &TRUST)?,
        })
    }
}

/// The value of a key that is given and not null.
fn given<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn metadata(object: &Map<String, Value>) -> Result<Option<Value>, FilterError> {
    let key = "metadata";
    match given(object, key) {
        None => Ok(None),
        Some(value) if !is_at_most(value, MAX_FILTER_DEPTH) => Err(FilterError::TooDeep { key }),
        Some(value) if has_nul(value) => Err(FilterError::Nul { key }),
        Some(value @ Value::Object(_)) => Ok(Some(value.clone())),
        Some(other) => {
            Err(FilterError::WrongType { key, expected: "an object", found: type_of(other) })
        }
    }
}

/// A string or a list of strings.
fn strings(
    object: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<Vec<String>>, FilterError> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let items = match value {
        Value::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    if items.len() > MAX_FILTER_LIST {
        return Err(FilterError::TooLong { key, entries: items.len() });
    }
    items
        .iter()
        .map(|item| match item {
            Value::String(text) => without_nul(key, text),
            other => Err(FilterError::WrongType {
                key,
                expected: "a string or an array of strings",
                found: if value.is_array() { element_type_of(other) } else { type_of(other) },
            }),
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

fn one_of(
    object: &Map<String, Value>,
    key: &'static str,
    known: &[&str],
) -> Result<Option<Vec<String>>, FilterError> {
    let values = strings(object, key)?;
    let unknown = values.iter().flatten().find(|value| !known.contains(&value.as_str()));
    match unknown {
        Some(value) => Err(FilterError::InvalidValue {
            key,
            value: shown(value),
            expected: format!("one of {}", known.join(", ")),
        }),
        None => Ok(values),
    }
}

fn marker_list(
    object: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<Vec<String>>, FilterError> {
    let values = strings(object, key)?;
    // An entry cannot carry any other marker, so a typing error is worth an error.
    for value in values.iter().flatten() {
        markers::validate(value).map_err(|_| FilterError::InvalidValue {
            key,
            value: shown(value),
            expected: "decision, constraint, failure, goal, or custom:name".to_owned(),
        })?;
    }
    Ok(values)
}

fn string<'a>(
    object: &'a Map<String, Value>,
    key: &'static str,
    expected: &'static str,
) -> Result<Option<&'a str>, FilterError> {
    match given(object, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(FilterError::WrongType { key, expected, found: type_of(other) }),
    }
}

/// A time stamp with its zone, or a day, which means its midnight in UTC.
fn time(object: &Map<String, Value>, key: &'static str) -> Result<Option<String>, FilterError> {
    let expected = "a time like 2025-03-01T09:30:00Z or a day like 2025-03-01";
    let Some(text) = string(object, key, expected)? else {
        return Ok(None);
    };
    let parsed = match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(day) if text.len() == "2025-03-01".len() => Some(day.and_time(NaiveTime::MIN).and_utc()),
        _ => DateTime::parse_from_rfc3339(text).ok().map(|time| time.with_timezone(&Utc)),
    };
    match parsed {
        // PostgreSQL has no year 0 and writes later years with more digits.
        Some(time) if (1..=9999).contains(&time.year()) => {
            Ok(Some(time.to_rfc3339_opts(SecondsFormat::AutoSi, true)))
        }
        _ => Err(FilterError::InvalidValue {
            key,
            value: shown(text),
            expected: expected.to_owned(),
        }),
    }
}

fn uuid(object: &Map<String, Value>, key: &'static str) -> Result<Option<String>, FilterError> {
    let expected = "a UUID like 018f4d2e-7c3a-7b1e-9a52-3f6d2c1b0a99";
    let Some(text) = string(object, key, expected)? else {
        return Ok(None);
    };
    let groups: Vec<&str> = text.split('-').collect();
    let is_uuid = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_uuid {
        Ok(Some(text.to_owned()))
    } else {
        Err(FilterError::InvalidValue { key, value: shown(text), expected: expected.to_owned() })
    }
}

fn without_nul(key: &'static str, text: &str) -> Result<String, FilterError> {
    if text.contains('\0') { Err(FilterError::Nul { key }) } else { Ok(text.to_owned()) }
}

/// Whether a value is nested at most so many levels deep.
fn is_at_most(value: &Value, levels: usize) -> bool {
    let deeper = |value| levels.checked_sub(1).is_some_and(|levels| is_at_most(value, levels));
    match value {
        Value::Array(items) => items.iter().all(deeper),
        Value::Object(object) => object.values().all(deeper),
        _ => true,
    }
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(object) => {
            object.iter().any(|(key, value)| key.contains('\0') || has_nul(value))
        }
        _ => false,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn element_type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "an array with null",
        Value::Bool(_) => "an array with a boolean",
        Value::Number(_) => "an array with a number",
        Value::String(_) => "an array of strings",
        Value::Array(_) => "an array of arrays",
        Value::Object(_) => "an array with an object",
    }
}

/// An error message must not repeat a megabyte of input.
fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
