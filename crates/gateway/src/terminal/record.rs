//! A memory on its way in or out: a line of JSON on one side, what `memory_import_markdown` reads on the other.

use chrono::{DateTime, SecondsFormat, Utc};
use memory_agent_core::markdown::{Entry, Memory, VERSION, conversation_of};
use memory_agent_core::raw_json::Json;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The role of facts.
const FACT: &str = "memory";
/// The session of turns that name none.
const SESSION: &str = "import";

/// When something was said: a text that the database reads, or seconds since 1970.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Time {
    Text(String),
    Seconds(f64),
}

impl Time {
    /// The moment, if this program can read it.
    fn moment(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Text(text) => DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
            Self::Seconds(seconds) => {
                DateTime::from_timestamp_micros((seconds * 1e6).round() as i64)
            }
        }
    }
}

/// Gives each turn of a session a time of its own, later than the one before it: turns are ordered by their times.
#[derive(Debug, Default)]
pub struct Clock {
    session: Option<String>,
    last: Option<DateTime<Utc>>,
}

impl Clock {
    /// The time of the next turn. One without a time was said just after the one before it, or at `otherwise`.
    pub fn next(
        &mut self,
        session: Option<&str>,
        time: Option<&Time>,
        otherwise: DateTime<Utc>,
    ) -> String {
        if self.session.as_deref() != session {
            *self = Self { session: session.map(str::to_owned), last: None };
        }
        let moment = match time {
            Some(time) => match (time.moment(), time) {
                (Some(moment), _) => moment,
                // The database reads more, or says what is wrong.
                (None, Time::Text(text)) => return text.clone(),
                (None, Time::Seconds(seconds)) => return seconds.to_string(),
            },
            None => self.last.unwrap_or(otherwise),
        };
        let step = chrono::TimeDelta::microseconds(1);
        let moment = match self.last {
            // An earlier time than the one before is meant so.
            Some(last) if moment == last => last + step,
            _ => moment,
        };
        self.last = Some(moment);
        moment.to_rfc3339_opts(SecondsFormat::Micros, true)
    }
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
    /// The file for `memory_import_markdown`. `created_at` is its time, `id` one that the same line has again.
    pub fn markdown(self, created_at: String, id: String) -> String {
        let is_fact = self.role == FACT;
        let kind = self.kind.unwrap_or_else(|| if is_fact { "fact" } else { "turn" }.to_owned());
        let is_lost = kind == "turn" && self.memory_agent.is_none();
        let session = self.session_id.as_deref().or(is_lost.then_some(SESSION));
        let (conversation_id, session_id) = conversation_of(session);
        let left_window = self.is_active == Some(false);
        let is_read = self.memory_agent.is_some() && kind == "turn";
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
            extracted_at: is_read.then(|| created_at.clone()),
            created_at: Some(created_at),
            memory_agent: VERSION,
            ..Entry::default()
        };
        Memory::Entry(entry).write(&self.content, |_| false).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_a_session_keep_their_order() {
        let mut clock = Clock::default();
        let now = DateTime::UNIX_EPOCH;
        let noon = Time::Text("2026-01-31T12:00:00+01:00".to_owned());
        assert_eq!(clock.next(Some("a"), Some(&noon), now), "2026-01-31T11:00:00.000000Z");
        assert_eq!(clock.next(Some("a"), Some(&noon), now), "2026-01-31T11:00:00.000001Z");
        assert_eq!(clock.next(Some("a"), None, now), "2026-01-31T11:00:00.000002Z");
        assert_eq!(clock.next(Some("b"), None, now), "1970-01-01T00:00:00.000000Z");
        let later = Time::Seconds(1.5);
        assert_eq!(clock.next(Some("b"), Some(&later), now), "1970-01-01T00:00:01.500000Z");
        let words = Time::Text("yesterday".to_owned());
        assert_eq!(clock.next(Some("b"), Some(&words), now), "yesterday");
    }

    #[test]
    fn a_line_is_a_whole_file() {
        let line: Line = serde_json::from_str(
            r#"{"role": "user", "content": "---\nHi", "session_id": "s", "metadata": {"a": [1.5]}}"#,
        )
        .unwrap();
        let text = line.markdown("2026-01-31T11:00:00Z".to_owned(), "m1".to_owned());
        let (memory, body) = Memory::read("", &text).unwrap();
        let Memory::Entry(entry) = memory else { panic!("{text}") };
        assert_eq!(
            (entry.session(), entry.kind.as_str(), body.as_str()),
            (Some("s"), "turn", "---\nHi")
        );
        assert!(entry.is_complete() && entry.extracted_at.is_none(), "{text}");
    }
}
