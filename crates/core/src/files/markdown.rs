//! Memories as Markdown files: the text is the body, everything else that cannot be worked out again
//! is in the front matter, agent-cli's keys first. A file written here is read to the letter. One
//! written by agent-cli or by hand may say less: its path, and what is usual, tell the rest.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::files::front_matter::{self, Field, FrontMatterError, quote};
use crate::files::memory_path::{self, Place, Shelf};
use crate::limits::{MAX_FRONT_MATTER_LIST, MAX_MARKERS};
use crate::llm::chat::excerpt;
use crate::text::entry::GLOBAL;
use crate::text::raw_json::{Json, Object};

/// The version of the format, under the key `memory_agent` of every file written here.
pub const VERSION: u32 = 1;

/// The session of a file that names none.
const DEFAULT_SESSION: &str = "default";

/// The role of summaries, which are no entries.
const SUMMARY: &str = "summary";

/// A file that is no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkdownError {
    #[error("the front matter cannot be read: {0}")]
    FrontMatter(#[from] FrontMatterError),
    #[error("the front matter cannot be read: {0}")]
    Field(String),
    #[error("the file has version {0} of the format, expected {VERSION}")]
    Version(u32),
    #[error("neither the front matter nor the path says what it is: {0} is missing")]
    Missing(&'static str),
}

/// A turn, fact or document: what its front matter says. Times are texts that PostgreSQL reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entry {
    pub id: String,
    pub role: String,
    pub conversation_id: String,
    pub created_at: Option<String>,
    pub replaced_by: Option<String>,
    pub doubted_by: Option<String>,
    pub kind: String,
    pub agent_id: Option<String>,
    /// Only when the session is called like agent-cli's name of the global memory.
    pub session_id: Option<String>,
    /// `None` is `active`.
    pub state: Option<String>,
    pub state_reason: Option<String>,
    pub state_at: Option<String>,
    pub valid_to: Option<String>,
    pub expires_at: Option<String>,
    /// `None` lets the text show them.
    pub markers: Option<Vec<String>>,
    pub metadata: Option<Json>,
    pub fact_key: Option<String>,
    pub confidence: Option<f32>,
    pub source_ids: Option<Vec<String>>,
    /// agent-cli's one source of a fact.
    pub source_id: Option<String>,
    pub source_relation: Option<String>,
    pub source_key: Option<Json>,
    pub episode_id: Option<String>,
    pub extracted_at: Option<String>,
    pub recorded_at: Option<String>,
    pub updated_at: Option<String>,
    /// 0 in a file that was not written here.
    pub memory_agent: u32,
}

/// A summary: what its front matter says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summary {
    pub id: String,
    pub role: String,
    pub conversation_id: String,
    pub created_at: Option<String>,
    /// The level.
    pub summary_kind: String,
    pub agent_id: Option<String>,
    pub session_id: Option<String>,
    pub ordinal: Option<i32>,
    pub is_active: Option<bool>,
    pub method: Option<String>,
    pub topics: Option<Vec<String>>,
    pub entities: Option<Vec<String>>,
    pub decisions: Option<Vec<String>>,
    pub questions: Option<Vec<String>>,
    pub source_ids: Option<Vec<String>>,
    pub previous_id: Option<String>,
    pub first_entry_id: Option<String>,
    pub last_entry_id: Option<String>,
    pub first_entry_at: Option<String>,
    pub last_entry_at: Option<String>,
    pub message_count: Option<i32>,
    pub input_tokens: Option<i32>,
    pub output_tokens: Option<i32>,
    pub compression_ratio: Option<f32>,
    pub model: Option<String>,
    pub updated_at: Option<String>,
    pub memory_agent: u32,
}

/// Keys whose plain values are numbers or truth values; all others are texts.
const NOT_TEXT: [&str; 8] = [
    "memory_agent",
    "confidence",
    "ordinal",
    "is_active",
    "message_count",
    "input_tokens",
    "output_tokens",
    "compression_ratio",
];

/// What a file is.
#[derive(Debug, Clone, PartialEq)]
pub enum Memory {
    Entry(Entry),
    Summary(Summary),
}

/// The conversation id of a session, and the session id if that does not say it.
pub fn conversation_of(session_id: Option<&str>) -> (String, Option<String>) {
    match session_id {
        None => (GLOBAL.to_owned(), None),
        Some(GLOBAL) => (GLOBAL.to_owned(), Some(GLOBAL.to_owned())),
        Some(session_id) => (session_id.to_owned(), None),
    }
}

fn session_of<'a>(session_id: Option<&'a str>, conversation_id: &'a str) -> Option<&'a str> {
    session_id.or(Some(conversation_id).filter(|id| *id != GLOBAL))
}

impl Entry {
    /// The session; `None` is the user's global memory.
    pub fn session(&self) -> Option<&str> {
        session_of(self.session_id.as_deref(), &self.conversation_id)
    }

    /// Whether the file was written here and says everything.
    pub fn is_complete(&self) -> bool {
        self.memory_agent > 0
    }

    /// Whether it, or what it belongs to, was once a memory and no longer is one. What only was the
    /// source of facts never was one.
    fn is_deleted(&self) -> bool {
        self.state.as_deref() == Some("inactive")
            && (self.state_reason.is_some() || self.replaced_by.is_some())
    }

    fn path(&self) -> String {
        let shelf = match (self.kind.as_str(), self.state.as_deref()) {
            ("fact", _) => Shelf::Fact,
            ("document", _) => Shelf::Document,
            (_, Some("inactive")) if !self.is_deleted() => Shelf::Source,
            _ => Shelf::Turn,
        };
        let created_at = self.created_at.as_deref().unwrap_or_default();
        let is_deleted = self.is_deleted();
        memory_path::of_entry(self.session(), shelf, &self.role, created_at, &self.id, is_deleted)
    }

    /// Fills in what a file says only by its place, or not at all.
    fn complete(&mut self, place: &Place, body: &str) -> Result<(), MarkdownError> {
        if self.role.is_empty() {
            let by_place = place.role.or(place.is_document.then_some("user"));
            self.role = by_place.ok_or(MarkdownError::Missing("role"))?.to_owned();
        }
        if self.kind.is_empty() {
            self.kind = match self.role.as_str() {
                _ if place.is_document => "document",
                "memory" => "fact",
                _ => "turn",
            }
            .to_owned();
        }
        complete_conversation(&mut self.conversation_id, place);
        if self.state.is_none() && (place.is_deleted || self.replaced_by.is_some()) {
            let reason = if self.replaced_by.is_some() { "superseded" } else { "deleted" };
            self.state = Some("inactive".to_owned());
            self.state_reason.get_or_insert_with(|| reason.to_owned());
        }
        if self.source_ids.is_none() {
            self.source_ids = self.source_id.take().map(|id| vec![id]);
        }
        let parts = [&self.role, self.created_at.as_deref().unwrap_or_default(), body];
        complete_id(&mut self.id, &self.conversation_id, place, &parts);
        for id in [&mut self.replaced_by, &mut self.doubted_by, &mut self.episode_id]
            .into_iter()
            .flatten()
        {
            *id = uuid_of(&self.conversation_id, id);
        }
        for id in self.source_ids.iter_mut().flatten() {
            *id = uuid_of(&self.conversation_id, id);
        }
        Ok(())
    }
}

impl Summary {
    /// The session; `None` is the user's global memory, which has no summaries.
    pub fn session(&self) -> Option<&str> {
        session_of(self.session_id.as_deref(), &self.conversation_id)
    }

    /// Whether the file was written here and says everything.
    pub fn is_complete(&self) -> bool {
        self.memory_agent > 0
    }

    /// Where its file lies. `is_taken` says that another summary has the path of the one in force.
    fn path(&self, is_taken: impl Fn(&str) -> bool) -> String {
        let session_id = self.session().unwrap_or(GLOBAL);
        let is_active = self.is_active.unwrap_or(true);
        let ordinal = self.ordinal.unwrap_or_default();
        let path = memory_path::of_active_summary(session_id, &self.summary_kind, ordinal);
        if is_active && !is_taken(&path) {
            return path;
        }
        let created_at = self.created_at.as_deref().unwrap_or_default();
        memory_path::of_summary(session_id, &self.summary_kind, created_at, &self.id, !is_active)
    }

    fn complete(&mut self, place: &Place, body: &str) {
        // agent-cli's kinds are names of its own for the whole.
        if !["L1", "L2", "L3"].contains(&self.summary_kind.as_str()) {
            self.summary_kind = place.level.unwrap_or("L3").to_owned();
        }
        self.ordinal = self.ordinal.or(place.ordinal);
        complete_conversation(&mut self.conversation_id, place);
        if place.is_deleted {
            self.is_active.get_or_insert(false);
        }
        let ordinal = self.ordinal.unwrap_or_default().to_string();
        let parts = [self.summary_kind.as_str(), ordinal.as_str(), body];
        complete_id(&mut self.id, &self.conversation_id, place, &parts);
    }
}

fn complete_conversation(conversation_id: &mut String, place: &Place) {
    if conversation_id.is_empty() {
        *conversation_id = place.conversation.clone().unwrap_or_else(|| DEFAULT_SESSION.to_owned());
    }
}

/// An id that is a UUID: the one given, the one in the path, else one that the same file has again.
fn complete_id(id: &mut String, conversation_id: &str, place: &Place, parts: &[&str]) {
    let given = Some(std::mem::take(id)).filter(|id| !id.is_empty()).or_else(|| place.id.clone());
    *id = match given {
        Some(given) => uuid_of(conversation_id, &given),
        None => derived(conversation_id, parts),
    };
}

/// A UUID as it is; of any other name, which agent-cli gives summaries, the UUID that stands for it.
fn uuid_of(conversation_id: &str, id: &str) -> String {
    Uuid::parse_str(id).map_or_else(|_| derived(conversation_id, &[id]), |id| id.to_string())
}

/// A UUID of version 8: the first 16 bytes of SHA-256 over the parts and their lengths.
fn derived(conversation_id: &str, parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in std::iter::once(&conversation_id).chain(parts) {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes).to_string()
}

impl Memory {
    /// The agent whose memory it is, if it says so.
    pub fn agent_id(&self) -> Option<&str> {
        match self {
            Self::Entry(Entry { agent_id, .. }) | Self::Summary(Summary { agent_id, .. }) => {
                agent_id.as_deref()
            }
        }
    }

    /// The session; `None` is the user's global memory.
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Entry(entry) => entry.session(),
            Self::Summary(summary) => summary.session(),
        }
    }

    /// The path and the text of its file. `is_taken` tells which paths other files have.
    pub fn write(&self, body: &str, is_taken: impl Fn(&str) -> bool) -> (String, String) {
        let (path, json) = match self {
            Self::Entry(entry) => (entry.path(), serde_json::to_string(entry)),
            Self::Summary(summary) => (summary.path(is_taken), serde_json::to_string(summary)),
        };
        let object = json.ok().and_then(|json| serde_json::from_str::<Object>(&json).ok());
        let Object(fields) = object.unwrap_or_default();
        let said = fields.iter().map(|(key, value)| (key.as_str(), value.0.as_str()));
        let front = front_matter::write(said.filter(|(_, json)| *json != "null"));
        (path, format!("{front}{body}\n"))
    }

    /// What a file says, and its body. `path` tells what the front matter leaves out.
    pub fn read(path: &str, text: &str) -> Result<(Self, String), MarkdownError> {
        let (front, body) = front_matter::split(text)?;
        let mut fields = front_matter::parse(front)?;
        let place = memory_path::read(path);
        let is_foreign = match version(&fields)? {
            0 => true,
            VERSION => false,
            other => return Err(MarkdownError::Version(other)),
        };
        let body = match is_foreign {
            true => body.trim(),
            false => body.strip_suffix('\n').unwrap_or(body),
        };
        // A null is a key that was left out, and so is a role without a name.
        let is_empty_role =
            |field: &Field| field.key == "role" && field.value.to_json_text() == quote("");
        fields.retain(|field| field.value != front_matter::Value::Null && !is_empty_role(field));
        let says = |key: &str, text: Option<&str>| {
            let mut found = fields.iter().filter(|field| field.key == key);
            found.any(|field| text.is_none_or(|text| field.value.to_json_text() == quote(text)))
        };
        let is_summary = says("role", Some(SUMMARY))
            || says("summary_kind", None)
            || !says("role", None) && place.role == Some(SUMMARY);
        if is_summary {
            if is_foreign {
                let known = keys_of(&Summary::default());
                fields.retain(|field| known.contains(&field.key));
            }
            let mut summary: Summary = from_fields(&fields)?;
            let lists = [
                ("topics", &summary.topics, MAX_FRONT_MATTER_LIST),
                ("entities", &summary.entities, MAX_FRONT_MATTER_LIST),
                ("decisions", &summary.decisions, MAX_FRONT_MATTER_LIST),
                ("questions", &summary.questions, MAX_FRONT_MATTER_LIST),
                ("source_ids", &summary.source_ids, MAX_FRONT_MATTER_LIST),
            ];
            check_lists(&lists)?;
            summary.role = SUMMARY.to_owned();
            summary.complete(&place, body);
            return Ok((Self::Summary(summary), body.to_owned()));
        }
        let mut others = Vec::new();
        if is_foreign {
            let known = keys_of(&Entry::default());
            (fields, others) =
                fields.into_iter().partition(|field: &Field| known.contains(&field.key));
        }
        let mut entry: Entry = from_fields(&fields)?;
        check_lists(&[
            ("markers", &entry.markers, MAX_MARKERS),
            ("source_ids", &entry.source_ids, MAX_FRONT_MATTER_LIST),
        ])?;
        entry.metadata = with_others(entry.metadata, &others)?;
        entry.complete(&place, body)?;
        Ok((Self::Entry(entry), body.to_owned()))
    }
}

/// Refuses lists that are longer than they may be.
fn check_lists(lists: &[(&str, &Option<Vec<String>>, usize)]) -> Result<(), MarkdownError> {
    for (name, list, most) in lists {
        let entries = list.as_ref().map_or(0, Vec::len);
        if entries > *most {
            let problem = format!("{name} has {entries} entries, expected at most {most}");
            return Err(MarkdownError::Field(problem));
        }
    }
    Ok(())
}

/// The format's version that a file says it has; 0 when it says none.
fn version(fields: &[Field]) -> Result<u32, MarkdownError> {
    let Some(field) = fields.iter().find(|field| field.key == "memory_agent") else {
        return Ok(0);
    };
    field.value.to_json().parse().map_err(|_| {
        MarkdownError::Field(format!("line {}: memory_agent must be {VERSION}", field.line))
    })
}

fn keys_of<T: Serialize>(value: &T) -> Vec<String> {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

fn from_fields<T: for<'de> Deserialize<'de>>(fields: &[Field]) -> Result<T, MarkdownError> {
    let members: Vec<String> = fields
        .iter()
        .map(|field| {
            let json = match NOT_TEXT.contains(&field.key.as_str()) {
                true => field.value.to_json(),
                false => field.value.to_json_text(),
            };
            format!("{}:{json}", quote(&field.key))
        })
        .collect();
    parse(&format!("{{{}}}", members.join(",")))
}

/// An object whose keys and values are those of a type.
pub(crate) fn parse<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, MarkdownError> {
    serde_json::from_str(json).map_err(|error| {
        // The position is one in our own JSON, and the message repeats the text that was wrong.
        let error = error.to_string();
        let message = error.rsplit_once(" at line ").map_or(error.as_str(), |(message, _)| message);
        MarkdownError::Field(excerpt(message))
    })
}

/// Metadata with the keys of a front matter that mean nothing here, unless it has them itself.
fn with_others(metadata: Option<Json>, others: &[Field]) -> Result<Option<Json>, MarkdownError> {
    if others.is_empty() {
        return Ok(metadata);
    }
    let Json(json) = metadata.unwrap_or_else(|| Json("{}".to_owned()));
    let Object(mut members) = serde_json::from_str(&json)
        .map_err(|_| MarkdownError::Field("metadata must be a JSON object".to_owned()))?;
    let own: HashSet<String> = members.iter().map(|(key, _)| key.clone()).collect();
    let added = others.iter().filter(|field| !own.contains(&field.key));
    members.extend(added.map(|field| (field.key.clone(), Json(field.value.to_json()))));
    let members: Vec<String> =
        members.iter().map(|(key, Json(value))| format!("{}: {value}", quote(key))).collect();
    Ok(Some(Json(format!("{{{}}}", members.join(", ")))))
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
