//! Conversations as ChatGPT and Claude export them, and memories as mem0 lists them: each value becomes lines.

use super::record::{Clock, Line, Time};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A line, its time, and the id that it has again in the same export.
pub type Told = (Line, String, String);

#[derive(Deserialize)]
struct ChatGpt {
    #[serde(alias = "conversation_id")]
    id: String,
    title: Option<String>,
    create_time: Option<Time>,
    current_node: Option<String>,
    mapping: HashMap<String, Node>,
}

#[derive(Deserialize)]
struct Node {
    parent: Option<String>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    author: Author,
    create_time: Option<Time>,
    content: Option<Content>,
    #[serde(default)]
    metadata: Option<Hidden>,
}

#[derive(Deserialize)]
struct Hidden {
    #[serde(default)]
    is_visually_hidden_from_conversation: Option<bool>,
}

#[derive(Deserialize)]
struct Author {
    role: String,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    content_type: String,
    /// Texts; pictures and files are objects.
    #[serde(default)]
    parts: Vec<Value>,
}

/// What was said in a conversation with ChatGPT, along the branch that it ended in.
pub fn chatgpt(value: Value, now: DateTime<Utc>) -> Result<Vec<Told>, String> {
    // Older exports have both keys.
    let value = without_second_id(value);
    let mut chat: ChatGpt = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let mut at = chat.current_node.take().ok_or("the conversation has no current_node")?;
    let mut branch = Vec::new();
    // Each node is taken once, so a circle ends.
    while let Some(node) = chat.mapping.remove(&at) {
        branch.extend(node.message);
        let Some(parent) = node.parent else { break };
        at = parent;
    }
    let mut talk = Talk::new("chatgpt", &chat.id, chat.title, chat.create_time, now);
    for message in branch.into_iter().rev() {
        let hidden = message.metadata.and_then(|all| all.is_visually_hidden_from_conversation);
        let is_text =
            |content: &Content| matches!(&*content.content_type, "text" | "multimodal_text");
        let Some(content) = message.content.filter(is_text) else { continue };
        if hidden == Some(true) || !matches!(&*message.author.role, "user" | "assistant") {
            continue;
        }
        let parts: Vec<&str> = content.parts.iter().filter_map(Value::as_str).collect();
        talk.add(&message.author.role, &parts.join("\n"), &message.id, message.create_time);
    }
    Ok(talk.told)
}

fn without_second_id(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut()
        && object.contains_key("id")
    {
        object.remove("conversation_id");
    }
    value
}

#[derive(Deserialize)]
struct Claude {
    uuid: String,
    name: Option<String>,
    created_at: Option<Time>,
    chat_messages: Vec<Spoken>,
}

#[derive(Deserialize)]
struct Spoken {
    uuid: String,
    sender: String,
    created_at: Option<Time>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    content: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

/// What was said in a conversation with Claude.
pub fn claude(value: Value, now: DateTime<Utc>) -> Result<Vec<Told>, String> {
    let chat: Claude = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let mut talk = Talk::new("claude", &chat.uuid, chat.name, chat.created_at, now);
    for message in chat.chat_messages {
        let role = match &*message.sender {
            "human" => "user",
            "assistant" => "assistant",
            other => return Err(format!("the sender is \"{other}\", not human or assistant")),
        };
        let texts = message.content.into_iter().filter(|part| part.kind == "text");
        let texts: Vec<String> = texts.filter_map(|part| part.text).collect();
        let text = if texts.is_empty() { message.text } else { texts.join("\n") };
        talk.add(role, &text, &message.uuid, message.created_at);
    }
    Ok(talk.told)
}

/// A conversation on its way.
struct Talk {
    source: &'static str,
    conversation: String,
    title: Option<String>,
    began: Option<Time>,
    now: DateTime<Utc>,
    clock: Clock,
    told: Vec<Told>,
}

impl Talk {
    fn new(
        source: &'static str,
        conversation: &str,
        title: Option<String>,
        began: Option<Time>,
        now: DateTime<Utc>,
    ) -> Self {
        let (conversation, told) = (conversation.to_owned(), Vec::new());
        Self { source, conversation, title, began, now, clock: Clock::default(), told }
    }

    fn add(&mut self, role: &str, text: &str, id: &str, time: Option<Time>) {
        if text.trim().is_empty() {
            return;
        }
        let Self { source, conversation, .. } = self;
        let session = format!("{source}-{conversation}");
        let began = self.began.take();
        let time = time.or(began);
        let created_at = self.clock.next(Some(&session), time.as_ref(), self.now);
        let id = format!("{session}:{id}");
        let mut metadata = Map::new();
        metadata.insert("imported_from".to_owned(), Value::from(*source));
        if let Some(title) = self.title.as_deref().filter(|title| !title.is_empty()) {
            metadata.insert("title".to_owned(), Value::from(title));
        }
        let line = Line {
            role: role.to_owned(),
            content: text.to_owned(),
            session_id: Some(session),
            metadata,
            ..Line::default()
        };
        self.told.push((line, created_at, id));
    }
}

#[derive(Deserialize)]
struct Mem0 {
    id: String,
    memory: String,
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    created_at: Option<Time>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// A memory of mem0. Those of several users are not mixed: `from_user` is whose to take, or the first one's.
pub fn mem0(
    value: Value,
    now: DateTime<Utc>,
    from_user: &mut Option<String>,
    is_given: bool,
) -> Result<Vec<Told>, String> {
    let memory: Mem0 = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if let Some(user) = memory.user_id {
        let wanted = from_user.get_or_insert_with(|| user.clone());
        if *wanted != user && is_given {
            return Ok(Vec::new());
        }
        if *wanted != user {
            return Err(format!(
                "it is a memory of \"{user}\", others in the file are of \"{wanted}\": say with --from-user \
                 whose to take"
            ));
        }
    }
    let mut metadata = memory.metadata.unwrap_or_default();
    metadata.insert("mem0_id".to_owned(), Value::from(memory.id.as_str()));
    let created_at = Clock::default().next(None, memory.created_at.as_ref(), now);
    let line = Line {
        role: "memory".to_owned(),
        content: memory.memory,
        session_id: memory.run_id,
        agent_id: memory.agent_id,
        metadata,
        ..Line::default()
    };
    Ok(vec![(line, created_at, format!("mem0:{}", memory.id))])
}
