//! A memory on its way in or out: a line of JSON on one side, what `memory_import_markdown` reads on the other.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use memory_agent_core::files::markdown::{Entry, Memory, VERSION, conversation_of};
use memory_agent_core::text::entry;
use memory_agent_core::text::raw_json::Json;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use uuid::Uuid;

/// The role of facts.
const FACT: &str = "memory";
/// `extracted_at` of a turn of which no facts are made until `memory_backfill` asks for them.
const SKIPPED: &str = "-infinity";
/// The session of turns that name none.
const SESSION: &str = "import";

/// When something was said: a text in the form of ISO 8601, or seconds since 1970.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Time {
    Text(String),
    Seconds(f64),
}

impl Time {
    /// The time under a key, where there is one.
    pub fn of(value: &Value, key: &str) -> Option<Self> {
        match value.get(key)? {
            Value::String(text) if !text.trim().is_empty() => Some(Self::Text(text.clone())),
            Value::Number(number) => number.as_f64().map(Self::Seconds),
            _ => None,
        }
    }

    /// As an export has it, which the database reads.
    pub fn as_written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Seconds(_) => self.moment().map_or_else(|problem| problem, written),
        }
    }

    fn moment(&self) -> Result<DateTime<Utc>, String> {
        match self {
            Self::Text(text) => iso(text).ok_or_else(|| no_time(text)),
            Self::Seconds(seconds) => {
                DateTime::from_timestamp_micros((seconds * 1e6).round() as i64)
                    .ok_or_else(|| no_time(&seconds.to_string()))
            }
        }
    }
}

fn no_time(said: &str) -> String {
    const SHOWN: usize = 40;
    let said: String = said.chars().take(SHOWN).collect();
    format!("\"{said}\" is no time: write 2026-01-31T10:00:00Z, or seconds since 1970")
}

/// A time in the form of ISO 8601, with a blank for the T too; in UTC where it does not say.
fn iso(text: &str) -> Option<DateTime<Utc>> {
    const WITH_OFFSET: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];
    const WITHOUT: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    // A year of two digits is one of long ago to the reader, and none to the writer.
    let text = text.trim();
    if text.find('-') != Some(4) {
        return None;
    }
    let text = match (text.get(..10), text.get(10..11), text.get(11..)) {
        (Some(day), Some(" "), Some(time)) => format!("{day}T{time}"),
        _ => text.to_owned(),
    };
    let text = text.replace(' ', "").replace("UTC", "Z");
    if let Ok(day) = NaiveDate::parse_from_str(&text, "%Y-%m-%d") {
        return day.and_hms_opt(0, 0, 0).map(|time| time.and_utc());
    }
    let with = WITH_OFFSET.iter().find_map(|form| DateTime::parse_from_str(&text, form).ok());
    let without =
        || WITHOUT.iter().find_map(|form| NaiveDateTime::parse_from_str(&text, form).ok());
    with.map(|time| time.to_utc()).or_else(|| without().map(|time| time.and_utc()))
}

/// Times that a clock may be ahead by.
const AHEAD: TimeDelta = TimeDelta::days(1);

/// Gives each turn of a session a time of its own, later than the one before it: turns are ordered by their times.
#[derive(Debug)]
pub struct Clock {
    now: DateTime<Utc>,
    sessions: HashMap<Option<String>, Before>,
}

/// The turn before, in a session.
#[derive(Debug)]
struct Before {
    /// Its time in the file.
    said: DateTime<Utc>,
    /// The time that it got.
    given: DateTime<Utc>,
}

impl Clock {
    pub fn new(now: DateTime<Utc>) -> Self {
        Self { now, sessions: HashMap::new() }
    }

    /// The time of the next turn. One without a time was said just after the one before it, or at `otherwise`.
    ///
    /// # Errors
    /// What is wrong with the time.
    pub fn next(
        &mut self,
        session: Option<&str>,
        time: Option<&Time>,
        otherwise: DateTime<Utc>,
    ) -> Result<String, String> {
        let session = session.map(str::to_owned);
        let before = self.sessions.get(&session);
        let said = match (time, before) {
            (Some(time), _) => time.moment()?,
            (None, Some(before)) => before.said,
            (None, None) => otherwise,
        };
        if said > self.now + AHEAD {
            return Err(format!("{} has not come yet", written(said)));
        }
        let given = match before {
            // Equal times, and those that were moved by them, keep the order of the file. A time that is earlier
            // in the file is meant so.
            Some(before) if said >= before.said => {
                said.max(before.given + TimeDelta::microseconds(1))
            }
            _ => said,
        };
        self.sessions.insert(session, Before { said, given });
        Ok(written(given))
    }
}

fn written(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A line of a JSONL file. Keys that are not here are left out; `export` writes all of these.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    pub role: String,
    pub content: String,
    pub session_id: Option<String>,
    pub created_at: Option<Time>,
    /// A UUID is kept; of any other id, the memory's id is made.
    pub id: Option<String>,
    pub kind: Option<String>,
    pub agent_id: Option<String>,
    pub metadata: Map<String, Value>,
    pub markers: Option<Vec<String>>,
    pub expires_at: Option<String>,
    pub fact_key: Option<String>,
    pub confidence: Option<f32>,
    pub source_ids: Option<Vec<String>>,
    /// Whether it is in the window of its session, or only recall finds it.
    pub is_active: Option<bool>,
    /// Of a line that `export` wrote. Its facts stand in the same file, so none are made of it.
    pub memory_agent: Option<u32>,
}

impl Line {
    /// Reads a line. A key with null is one that is left out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(mut value: Value) -> Result<Self, String> {
        if let Some(keys) = value.as_object_mut() {
            keys.retain(|_, value| !value.is_null());
        }
        let line: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if line.role.is_empty() {
            return Err(
                "it has no role: user, assistant, system, tool, or memory for a fact".to_owned()
            );
        }
        entry::validate_role(&line.role).map_err(|error| error.to_string())?;
        if line.content.trim().is_empty() {
            return Err("it has no content".to_owned());
        }
        if let (Some(time), None) = (&line.expires_at, line.memory_agent) {
            iso(time).ok_or_else(|| format!("expires_at: {}", no_time(time)))?;
        }
        Ok(line)
    }

    /// Whether the user said it in a conversation: facts are extracted from that.
    pub fn is_the_users_turn(&self) -> bool {
        self.is_new_turn() && self.role == "user"
    }

    /// Whether it is a turn from elsewhere.
    pub fn is_new_turn(&self) -> bool {
        self.memory_agent.is_none()
            && self.role != FACT
            && self.kind.as_deref().is_none_or(|kind| kind == "turn")
    }

    /// The file for `memory_import_markdown`, and the memory's id. `created_at` is its time, `id` one that the same
    /// line has again. Facts are made of the user's turns if `extracts` says so, or when `memory_backfill` does.
    pub fn markdown(self, created_at: String, id: String, extracts: bool) -> (String, Uuid) {
        let is_fact = self.role == FACT;
        let skips = !extracts && self.is_the_users_turn();
        let kind = self.kind.unwrap_or_else(|| if is_fact { "fact" } else { "turn" }.to_owned());
        let is_lost = kind == "turn" && self.memory_agent.is_none();
        let session = self.session_id.as_deref().or(is_lost.then_some(SESSION));
        let (conversation_id, session_id) = conversation_of(session);
        let left_window = self.is_active == Some(false);
        // Its facts are in the file of the export.
        let is_read = self.memory_agent.is_some() && kind == "turn";
        let extracted_at = match skips {
            true => Some(SKIPPED.to_owned()),
            false => is_read.then(|| created_at.clone()),
        };
        let entry = Entry {
            id,
            role: self.role,
            conversation_id,
            session_id,
            kind,
            agent_id: self.agent_id,
            state: left_window.then(|| "archived".to_owned()),
            state_reason: left_window.then(|| "evicted".to_owned()),
            expires_at: self.expires_at,
            markers: self.markers,
            metadata: Some(Json(Value::Object(self.metadata).to_string())),
            fact_key: self.fact_key,
            confidence: self.confidence,
            source_ids: self.source_ids,
            extracted_at,
            created_at: Some(created_at),
            memory_agent: VERSION,
            ..Entry::default()
        };
        let file = Memory::Entry(entry).write(&self.content, |_| false).1;
        // As the database reads it.
        let id = match Memory::read("", &file) {
            Ok((Memory::Entry(entry), _)) => Uuid::parse_str(&entry.id).unwrap_or_default(),
            _ => Uuid::nil(),
        };
        (file, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of turns, each of a session.
    fn times(turns: &[(&str, Option<&str>)]) -> Vec<String> {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(365 * 60);
        let mut clock = Clock::new(now);
        let of = |(session, time): &(&str, Option<&str>)| {
            let time = time.map(|time| Time::Text(format!("2026-01-31T{time}")));
            clock.next(Some(session), time.as_ref(), DateTime::UNIX_EPOCH).unwrap()
        };
        turns.iter().map(of).collect()
    }

    #[test]
    fn turns_of_a_session_keep_their_order() {
        let noon = Some("12:00:00+01:00");
        let turns = [("a", noon), ("a", noon), ("b", noon), ("a", None), ("a", noon), ("b", noon)];
        let expected = [".000000", ".000001", ".000000", ".000002", ".000003", ".000001"];
        assert_eq!(times(&turns), expected.map(|part| format!("2026-01-31T11:00:00{part}Z")));
        // Of times that were moved beyond the next one, too.
        let close = [("a", noon), ("a", noon), ("a", noon), ("a", Some("11:00:00.000001Z"))];
        assert_eq!(times(&close)[3], "2026-01-31T11:00:00.000003Z");
        // What is earlier than the turn before is meant so.
        let earlier = [("a", noon), ("a", noon), ("a", Some("10:00Z")), ("a", Some("10:00Z"))];
        assert_eq!(
            times(&earlier)[2..],
            ["2026-01-31T10:00:00.000000Z", "2026-01-31T10:00:00.000001Z"]
        );
        assert_eq!(times(&[("a", None), ("a", None)])[1], "1970-01-01T00:00:00.000001Z");
    }

    #[test]
    fn a_time_is_iso_8601_or_seconds() {
        for text in [
            "2026-01-31T10:00:00Z",
            "2026-01-31 11:00+01",
            "2026-01-31 11:00:00.000+0100",
            "2026-01-31T11:00:00 +01:00",
            "2026-01-31T10:00",
            "2026-01-31 10:00:00.0",
            "2026-01-31 10:00:00 UTC",
        ] {
            let time = iso(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(written(time), "2026-01-31T10:00:00.000000Z", "{text}");
        }
        assert_eq!(iso("2026-01-31").map(written).as_deref(), Some("2026-01-31T00:00:00.000000Z"));
        for text in ["yesterday", "now", "infinity", "31.01.2026", "26-01-31", "2026-13-01", ""] {
            assert_eq!(iso(text), None, "{text}");
        }
        let mut clock = Clock::new(DateTime::UNIX_EPOCH);
        let mut said = |time| clock.next(None, Some(&time), DateTime::UNIX_EPOCH);
        assert_eq!(said(Time::Seconds(1.5)), Ok("1970-01-01T00:00:01.500000Z".to_owned()));
        let wrong = said(Time::Text("yesterday".to_owned()));
        assert!(wrong.unwrap_err().starts_with("\"yesterday\" is no time: "));
        for late in [Time::Text("2040-01-01".to_owned()), Time::Seconds(1e12)] {
            assert!(said(late.clone()).unwrap_err().ends_with("has not come yet"), "{late:?}");
        }
        assert!(said(Time::Seconds(1e300)).is_err());
    }

    #[test]
    fn a_line_is_a_whole_file() {
        let line = |text: &str| Line::read(serde_json::from_str(text).unwrap());
        let said = line(
            r#"{"role": "user", "content": "---\nHi", "session_id": "s", "metadata": {"a": [1.5]}, "markers": null}"#,
        );
        for (extracts, extracted_at) in [(true, None), (false, Some(SKIPPED))] {
            let time = "2026-01-31T11:00:00Z".to_owned();
            let (text, id) = said.clone().unwrap().markdown(time, "m1".to_owned(), extracts);
            let (memory, body) = Memory::read("", &text).unwrap();
            let Memory::Entry(entry) = memory else { panic!("{text}") };
            assert_eq!(
                (entry.session(), entry.kind.as_str(), body.as_str()),
                (Some("s"), "turn", "---\nHi")
            );
            assert!(entry.is_complete() && entry.extracted_at.as_deref() == extracted_at, "{text}");
            assert_eq!(entry.id, id.to_string());
        }
        for (text, problem) in [
            (r#"{"content": "Hi"}"#, "it has no role: "),
            (r#"{"role": "human", "content": "Hi"}"#, "unknown role \"human\""),
            (r#"{"role": "user", "content": null}"#, "it has no content"),
            (r#"{"role": "user", "content": "Hi", "expires_at": "tomorrow"}"#, "expires_at: "),
        ] {
            let said = line(text).unwrap_err();
            assert!(said.starts_with(problem), "{said}");
        }
    }
}
