//! What other programs write, value by value: conversations of ChatGPT, Claude and Claude Code, memories of mem0 and
//! of the MCP memory server. A value that is odd costs itself, and nothing is left out without a word.

pub mod chatgpt;
pub mod claude;
pub mod claude_code;
pub mod mcp_memory;
pub mod mem0;

use super::record::{Clock, Line, Time};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

/// What is left out because it is no text of a conversation.
pub const PICTURES: &str = "pictures";
pub const RECORDINGS: &str = "recordings";
pub const FILES: &str = "files that the export does not contain";
pub const TOOL_CALLS: &str = "tool calls";
pub const TOOL_RESULTS: &str = "tool results";
pub const THOUGHTS: &str = "thoughts of the model";
pub const SYSTEM: &str = "system messages";
pub const HIDDEN: &str = "hidden messages";
pub const OTHER_PARTS: &str = "parts of other kinds";
pub const EMPTY: &str = "messages without text";

/// What a value of a file becomes.
#[derive(Debug)]
pub enum Item {
    Told(Box<Told>),
    /// What is wrong with it.
    Wrong(String),
    /// The kind of what was left out.
    LeftOut(&'static str),
}

/// A line, its time, and the id that it has again in the same export.
#[derive(Debug)]
pub struct Told {
    pub line: Line,
    pub created_at: String,
    pub id: String,
}

/// Items, each with the number of its message.
pub type Items = Vec<(usize, Item)>;

/// A text under a key that is not blank.
pub fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.trim().is_empty())
}

/// The values of a list under a key; none where there is no list.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What a program notes about where something comes from.
pub fn origin(source: &str) -> Map<String, Value> {
    Map::from_iter([("imported_from".to_owned(), Value::from(source))])
}

/// A conversation on its way.
pub struct Talk {
    source: &'static str,
    session: String,
    title: Option<String>,
    began: Option<Time>,
    now: DateTime<Utc>,
    clock: Clock,
    message: usize,
    items: Items,
}

impl Talk {
    pub fn new(
        source: &'static str,
        conversation: &str,
        title: Option<&str>,
        began: Option<Time>,
        now: DateTime<Utc>,
    ) -> Self {
        let session = format!("{source}-{conversation}");
        let (title, clock) = (title.map(str::to_owned), Clock::new(now));
        Self { source, session, title, began, now, clock, message: 0, items: Vec::new() }
    }

    /// Goes on to the next message.
    pub fn next_message(&mut self) {
        self.message += 1;
    }

    /// Adds what was said in the message, with an id that no other part of the conversation has.
    pub fn add(&mut self, role: &str, text: &str, id: &str, time: Option<Time>) {
        self.add_with(role, text, id, time, Map::new());
    }

    /// The same, with more metadata.
    pub fn add_with(
        &mut self,
        role: &str,
        text: &str,
        id: &str,
        time: Option<Time>,
        more: Map<String, Value>,
    ) {
        let began = self.began.take();
        let time = time.or(began);
        let created_at = match self.clock.next(Some(&self.session), time.as_ref(), self.now) {
            Ok(created_at) => created_at,
            Err(problem) => return self.wrong(problem),
        };
        let mut metadata = origin(self.source);
        if let Some(title) = self.title.as_deref() {
            metadata.insert("title".to_owned(), Value::from(title));
        }
        metadata.extend(more);
        let id = format!("{}:{id}", self.session);
        let line = Line {
            role: role.to_owned(),
            content: text.to_owned(),
            session_id: Some(self.session.clone()),
            metadata,
            ..Line::default()
        };
        self.items.push((self.message, Item::Told(Box::new(Told { line, created_at, id }))));
    }

    pub fn wrong(&mut self, problem: impl Into<String>) {
        self.items.push((self.message, Item::Wrong(problem.into())));
    }

    pub fn left_out(&mut self, kind: &'static str) {
        self.items.push((self.message, Item::LeftOut(kind)));
    }

    pub fn items(self) -> Items {
        self.items
    }
}

#[cfg(test)]
mod tests;
