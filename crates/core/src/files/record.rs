//! What a user's memory consists of, as JSON objects: memories as in their [Markdown files](crate::files::markdown), with
//! the text as `content`; the documents and conversations of the archive as wholes; episodes; what happened to all of
//! them; traces of reflections; settings.

use serde::{Deserialize, Serialize};

use crate::files::front_matter;
use crate::files::markdown::{MarkdownError, Memory, VERSION, conversation_of, parse};
use crate::text::raw_json::{Json, Object};

/// Where a memory belongs, in a record and in a file. Records of either name are read.
const SESSION: &str = "session_id";
const CONVERSATION: &str = "conversation_id";

/// The roles of records that are no memories.
const ARCHIVE: &str = "archive";
const EPISODE: &str = "episode";
const EVENT: &str = "history";
const TRACE: &str = "trace";
const SETTINGS: &str = "settings";

/// A document, or a conversation that was archived. Times are texts that PostgreSQL reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Archive {
    pub id: String,
    pub role: String,
    pub agent_id: Option<String>,
    pub session_id: Option<String>,
    pub doc_type: String,
    pub title: Option<String>,
    pub metadata: Option<Json>,
    /// The summary that a conversation was archived with.
    pub summary_id: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    /// Event time of the conversation.
    pub ended_at: Option<String>,
    pub is_forgotten: Option<bool>,
    pub memory_agent: u32,
}

/// What is known of an episode beside its turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Episode {
    pub id: String,
    pub role: String,
    pub agent_id: Option<String>,
    pub session_id: String,
    pub status: String,
    pub close_reason: Option<String>,
    pub carried_into: Option<String>,
    pub memory_agent: u32,
}

/// Something that happened to a memory: a row of history, without its place in the chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Event {
    pub id: String,
    pub role: String,
    pub entry_id: Option<String>,
    pub op: String,
    pub at: Option<String>,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub job_id: Option<String>,
    /// The memory after the event; `None` once it was erased.
    pub body: Option<Json>,
    pub memory_agent: u32,
}

/// What a reflection did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    pub id: String,
    pub role: String,
    pub agent_id: Option<String>,
    pub session_id: String,
    pub episode_id: Option<String>,
    pub job_id: Option<String>,
    pub at: Option<String>,
    pub body: Option<Json>,
    pub memory_agent: u32,
}

/// What was configured for an agent, or for one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Configured {
    pub role: String,
    pub agent_id: Option<String>,
    pub session_id: Option<String>,
    pub content_type: Option<String>,
    pub settings: Option<Json>,
    pub memory_agent: u32,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    Memory(Box<Memory>),
    Archive(Archive),
    Episode(Episode),
    Event(Event),
    Trace(Trace),
    Configured(Configured),
}

impl Episode {
    #[must_use]
    pub fn of_this_version(self) -> Self {
        Self { role: EPISODE.to_owned(), memory_agent: VERSION, ..self }
    }
}

impl Event {
    #[must_use]
    pub fn of_this_version(self) -> Self {
        Self { role: EVENT.to_owned(), memory_agent: VERSION, ..self }
    }
}

impl Trace {
    #[must_use]
    pub fn of_this_version(self) -> Self {
        Self { role: TRACE.to_owned(), memory_agent: VERSION, ..self }
    }
}

impl Archive {
    #[must_use]
    pub fn of_this_version(self) -> Self {
        Self { role: ARCHIVE.to_owned(), memory_agent: VERSION, ..self }
    }
}

impl Configured {
    #[must_use]
    pub fn of_this_version(self) -> Self {
        Self { role: SETTINGS.to_owned(), memory_agent: VERSION, ..self }
    }
}

impl Record {
    /// The agent that it belongs to, if it says so.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        match self {
            Self::Memory(memory) => memory.agent_id(),
            Self::Archive(archive) => archive.agent_id.as_deref(),
            Self::Episode(episode) => episode.agent_id.as_deref(),
            Self::Event(_) => None,
            Self::Trace(trace) => trace.agent_id.as_deref(),
            Self::Configured(configured) => configured.agent_id.as_deref(),
        }
    }

    /// The object, with `content` where there is one. What is not known is left out.
    #[must_use]
    pub fn write(&self, content: Option<&str>) -> String {
        let json = match self {
            Self::Memory(memory) => match &**memory {
                Memory::Entry(entry) => serde_json::to_string(entry),
                Memory::Summary(summary) => serde_json::to_string(summary),
            },
            Self::Archive(archive) => serde_json::to_string(archive),
            Self::Episode(episode) => serde_json::to_string(episode),
            Self::Event(event) => serde_json::to_string(event),
            Self::Trace(trace) => serde_json::to_string(trace),
            Self::Configured(configured) => serde_json::to_string(configured),
        };
        let object = json.ok().and_then(|json| serde_json::from_str::<Object>(&json).ok());
        let Object(mut fields) = object.unwrap_or_default();
        if let Self::Memory(memory) = self {
            // As all other records call it; files have agent-cli's name.
            let session = memory.session().map_or_else(|| "null".to_owned(), front_matter::quote);
            fields.retain(|(key, _)| key != SESSION);
            if let Some(field) = fields.iter_mut().find(|(key, _)| key == CONVERSATION) {
                *field = (SESSION.to_owned(), Json(session));
            }
        }
        let content =
            content.map(|content| ("content".to_owned(), Json(front_matter::quote(content))));
        let is_memory = matches!(self, Self::Memory(_));
        let members: Vec<String> = (fields.into_iter().chain(content))
            .filter(|(key, Json(value))| value != "null" || (is_memory && key == SESSION))
            .map(|(key, Json(value))| format!("{}:{value}", front_matter::quote(&key)))
            .collect();
        format!("{{{}}}", members.join(","))
    }

    /// What an object says, and its content. A memory may say as little as a file that was not written here.
    ///
    /// # Errors
    /// Those of [`Memory::read`], and what is no such object.
    pub fn read(json: &str) -> Result<(Self, String), MarkdownError> {
        let wrong = |problem: &str| MarkdownError::Field(problem.to_owned());
        let Object(fields) =
            serde_json::from_str(json).map_err(|_| wrong("a record must be a JSON object"))?;
        let (mut content, mut others) = (None, Vec::new());
        let is_global = fields.iter().any(|(key, Json(value))| key == SESSION && value == "null");
        for (key, Json(value)) in fields {
            match key.as_str() {
                "content" => content = serde_json::from_str::<Option<String>>(&value).ok(),
                _ if value == "null" => {}
                _ if key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) => {
                    others.push((key, value));
                }
                _ => return Err(wrong("a key has more than letters, digits and _-.")),
            }
        }
        let content = content.flatten();
        let text = || content.clone().ok_or_else(|| wrong("content must be a string"));
        let role = others.iter().find(|(key, _)| key == "role").map(|(_, value)| value.as_str());
        let role = role.and_then(|role| serde_json::from_str::<String>(role).ok());
        let known = || {
            let members: Vec<String> = (others.iter())
                .map(|(key, value)| format!("{}:{value}", front_matter::quote(key)))
                .collect();
            format!("{{{}}}", members.join(","))
        };
        match role.as_deref() {
            Some(ARCHIVE) => Ok((Self::Archive(parse(&known())?), text()?)),
            Some(EPISODE) => Ok((Self::Episode(parse(&known())?), String::new())),
            Some(EVENT) => Ok((Self::Event(parse(&known())?), String::new())),
            Some(TRACE) => Ok((Self::Trace(parse(&known())?), String::new())),
            Some(SETTINGS) => Ok((Self::Configured(parse(&known())?), String::new())),
            _ => {
                // A session that is null is the user's global memory; one that is not named is the default one.
                if !others.iter().any(|(key, _)| key == CONVERSATION) {
                    let named = others.iter().find(|(key, _)| key == SESSION);
                    let named: Option<String> =
                        named.and_then(|(_, value)| serde_json::from_str(value).ok());
                    if named.is_some() || is_global {
                        others.retain(|(key, _)| key != SESSION);
                        let (conversation, session) = conversation_of(named.as_deref());
                        others.push((CONVERSATION.to_owned(), front_matter::quote(&conversation)));
                        let session = session.map(|session| front_matter::quote(&session));
                        others.extend(session.map(|session| (SESSION.to_owned(), session)));
                    }
                }
                let said = others.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                let file = format!("{}{}\n", front_matter::write(said), text()?);
                let (memory, body) = Memory::read("", &file)?;
                Ok((Self::Memory(Box::new(memory)), body))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::markdown::Entry;

    fn entry() -> Entry {
        Entry {
            id: "0199c3a5-0000-7000-8000-000000000001".to_owned(),
            role: "user".to_owned(),
            conversation_id: "trip".to_owned(),
            kind: "turn".to_owned(),
            metadata: Some(Json("{\"n\": 1.10}".to_owned())),
            markers: Some(vec!["goal".to_owned()]),
            confidence: Some(0.9),
            memory_agent: VERSION,
            ..Entry::default()
        }
    }

    #[test]
    fn what_is_written_is_read_to_the_letter() {
        for content in
            ["Hi.", "", "\n---\nid: 7\n---\n", " \"a\" \\ \r\n\t\u{2028}\u{7f} ", "日本語"]
        {
            for record in [
                Record::Memory(Box::new(Memory::Entry(entry()))),
                Record::Archive(
                    Archive {
                        id: entry().id,
                        doc_type: "document".to_owned(),
                        title: Some("A \"title\"".to_owned()),
                        metadata: entry().metadata,
                        ..Archive::default()
                    }
                    .of_this_version(),
                ),
            ] {
                let json = record.write(Some(content));
                assert_eq!(Record::read(&json), Ok((record, content.to_owned())), "{json}");
            }
        }
        let id = entry().id;
        let body = Some(Json("{\"content\": \"Hi.\"}".to_owned()));
        let settings = Configured {
            agent_id: Some("a".to_owned()),
            settings: Some(Json("{\"top_k\": 3}".to_owned())),
            ..Configured::default()
        };
        let episode = Episode {
            id: id.clone(),
            session_id: "trip".to_owned(),
            status: "closed".to_owned(),
            ..Episode::default()
        };
        let event =
            Event { id: id.clone(), op: "add".to_owned(), body: body.clone(), ..Event::default() };
        let trace = Trace { id, session_id: "trip".to_owned(), body, ..Trace::default() };
        for record in [
            Record::Configured(settings.of_this_version()),
            Record::Episode(episode.of_this_version()),
            Record::Event(event.of_this_version()),
            Record::Trace(trace.of_this_version()),
        ] {
            assert_eq!(Record::read(&record.write(None)), Ok((record, String::new())));
        }
    }

    #[test]
    fn a_session_has_one_name() {
        let of = |session: Option<&str>| {
            let (conversation_id, session_id) = conversation_of(session);
            let entry = Entry { conversation_id, session_id, ..entry() };
            Record::Memory(Box::new(Memory::Entry(entry)))
        };
        for (session, written) in [
            (None, r#""session_id":null"#),
            (Some("trip"), r#""session_id":"trip""#),
            (Some("global"), r#""session_id":"global""#),
        ] {
            let json = of(session).write(Some("Hi."));
            assert!(json.contains(written) && !json.contains("conversation_id"), "{json}");
            assert_eq!(Record::read(&json), Ok((of(session), "Hi.".to_owned())), "{json}");
        }
        for (said, session) in [
            (r#""conversation_id": "trip""#, Some("trip")),
            (r#""conversation_id": "global""#, None),
            (r#""session_id": "trip""#, Some("trip")),
            (r#""session_id": null"#, None),
            (r#""markers": []"#, Some("default")),
        ] {
            let json = format!(r#"{{"role": "user", "content": "Hi.", {said}}}"#);
            let Ok((Record::Memory(memory), _)) = Record::read(&json) else { panic!("{json}") };
            assert_eq!(memory.session(), session, "{json}");
        }
    }

    #[test]
    fn a_memory_may_say_little() {
        let (record, content) = Record::read(r#"{"role": "user", "content": " Hi. "}"#).unwrap();
        let Record::Memory(memory) = record else { panic!("{record:?}") };
        let Memory::Entry(entry) = *memory else { panic!("{memory:?}") };
        assert_eq!((entry.kind.as_str(), content.as_str()), ("turn", "Hi."));
        assert_eq!(entry.session(), Some("default"));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for json in [
            "[]",
            "7",
            "{}",
            r#"{"role": "user"}"#,
            r#"{"role": "user", "content": 7}"#,
            r#"{"role": "user", "content": "x", "memory_agent": 2}"#,
            r#"{"role": "user", "content": "x", "a\nb": 2}"#,
            r#"{"role": "user", "kind": "turn", "content": "x", "memory_agent": 1, "other": 2}"#,
            r#"{"role": "archive", "content": "x", "other": 2}"#,
            r#"{"role": "archive"}"#,
            r#"{"role": "settings", "top_k": 2}"#,
            r#"{"role": "history", "op": 2}"#,
            r#"{"role": "episode", "turn_count": 2}"#,
            r#"{"role": "trace", "content": "x", "other": 2}"#,
        ] {
            assert!(Record::read(json).is_err(), "{json}");
        }
    }
}
