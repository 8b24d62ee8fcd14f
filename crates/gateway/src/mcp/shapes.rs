//! What tools are called with, and what they answer.

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A memory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Entry {
    /// For get_memory, update_memory and delete_memory.
    pub id: String,
    /// fact: a statement that holds; turn: said in a conversation; document: a passage of a document.
    pub kind: String,
    /// Who said it: user, assistant, system or tool; a fact has the role memory.
    pub role: String,
    pub text: String,
    /// True where text is a part of a long memory: get_memory returns all of it, piece by piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// The conversation it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was said, in UTC.
    pub created_at: String,
}

/// A memory that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Found {
    #[serde(flatten)]
    pub entry: Entry,
    /// How well it answers the query; higher is better.
    pub score: f64,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Hits {
    /// Best first.
    pub memories: Vec<Found>,
}

/// Some of all memories.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Page {
    /// Newest first.
    pub memories: Vec<Entry>,
    /// Pass it as cursor for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A memory, or a piece of its text, and its history.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Whole {
    #[serde(flatten)]
    pub entry: Entry,
    /// Pass it as offset to read on; absent where the text ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// What the program that stored it said of it.
    pub metadata: JsonObject,
    /// What happened to it, oldest first, with its earlier versions.
    pub history: Vec<Event>,
}

/// Something that happened to a memory.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Event {
    /// When, in UTC.
    pub at: String,
    /// ingest, add, import, update, supersede, delete, restore or expire.
    pub event: String,
    /// The text then, or the beginning of a long one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which memory holds now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Stored {
    /// The id of the memory that holds now.
    pub id: String,
}

/// Which memory was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Deleted {
    /// The id of the memory that was forgotten.
    pub id: String,
}

/// A condensed text.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Summary {
    pub summary: String,
    /// Of the summary.
    pub token_count: i64,
    /// The language model; null if the text was short enough to be its own summary.
    pub model: Option<String>,
    pub created_at: String,
    /// The SHA-256 of the text, in hexadecimal digits.
    pub text_sha256: String,
    /// The key of the signature; null without one.
    pub key_id: Option<String>,
    /// HMAC-SHA-256 over text_sha256, created_at and summary; null if the server signs nothing.
    pub signature: Option<String>,
}

/// What ChatGPT's connectors expect of a search.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Results {
    /// Best first.
    pub results: Vec<Link>,
}

/// A result of a search.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Link {
    /// For fetch.
    pub id: String,
    /// The beginning of the text.
    pub title: String,
    /// A name of the memory that stays the same.
    pub url: String,
}

/// What ChatGPT's connectors expect of a document.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Document {
    pub id: String,
    /// The beginning of the text.
    pub title: String,
    pub text: String,
    /// A name of the memory that stays the same.
    pub url: String,
    pub metadata: JsonObject,
}

/// Arguments of `search_memories` and `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct SearchMemories {
    /// A question, or what the memory is about, in natural language.
    pub query: String,
    /// Most memories to return, 1 to 100; 10 if left out.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<i32>,
}

/// Arguments of `add_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct AddMemory {
    /// One statement that is clear by itself: "Ann's daughter Lena is allergic to nuts.", not "She is".
    pub text: String,
}

/// Arguments of `list_memories`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct ListMemories {
    /// fact (if left out): a statement that holds; turn: said in a conversation; document: a passage of one.
    pub kind: Option<Kind>,
    /// Most memories to return, 1 to 100; 20 if left out.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<i32>,
    /// The next_cursor of the page before.
    pub cursor: Option<String>,
}

/// What a memory is.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Fact,
    Turn,
    Document,
}

impl Kind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Turn => "turn",
            Self::Document => "document",
        }
    }
}

/// Arguments of `get_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct GetMemory {
    /// An id that a search or a list returned.
    pub id: String,
    /// How many characters of the text to skip: the next_offset of the piece before. 0 if left out.
    #[schemars(range(min = 0))]
    pub offset: Option<usize>,
}

/// Arguments of `fetch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct ById {
    /// An id that a search or a list returned.
    pub id: String,
}

/// Arguments of `update_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct UpdateMemory {
    /// An id that a search or a list returned.
    pub id: String,
    /// The whole new text: one statement that is clear by itself.
    pub text: String,
}

/// Arguments of `delete_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct DeleteMemory {
    /// An id that a search or a list returned.
    pub id: String,
    /// Why, in a few words, for the history.
    pub reason: Option<String>,
}

/// Arguments of `summarize_text`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct SummarizeText {
    /// The text, at most about 1 MB.
    pub text: String,
    /// Most tokens of the summary; 128 if left out.
    #[schemars(range(min = 16, max = 100_000))]
    pub max_tokens: Option<i32>,
    /// conversation, journal or document; conversation if left out.
    pub content_type: Option<String>,
}

impl From<Entry> for Link {
    fn from(entry: Entry) -> Self {
        Self { title: title(&entry.text), url: url(&entry.id), id: entry.id }
    }
}

impl Document {
    /// A memory in the form that ChatGPT's connectors expect.
    pub fn new(entry: Entry, metadata: JsonObject) -> Self {
        let mut shown = metadata;
        let session = entry.session.map(Value::from);
        let fixed = [
            ("kind", Some(entry.kind.into())),
            ("role", Some(entry.role.into())),
            ("created_at", Some(entry.created_at.into())),
            ("session", session),
        ];
        for (name, value) in fixed {
            if let Some(value) = value {
                shown.insert(name.to_owned(), value);
            }
        }
        let (title, url) = (title(&entry.text), url(&entry.id));
        Self { id: entry.id, title, text: entry.text, url, metadata: shown }
    }
}

/// The beginning of a text.
fn title(text: &str) -> String {
    const MOST: usize = 80;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// A name for citations. Memories have no page that every reader could open.
fn url(id: &str) -> String {
    format!("urn:uuid:{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_beginning_of_the_text() {
        assert_eq!(title("\n  Ann likes tea.  \nA lot."), "Ann likes tea.");
        assert_eq!(title(&"ä".repeat(80)), "ä".repeat(80));
        assert_eq!(title(&format!("{} ää", "ä".repeat(79))), format!("{}…", "ä".repeat(79)));
        assert_eq!(title(" \n"), "");
    }
}
