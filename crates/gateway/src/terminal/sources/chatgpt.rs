//! A conversation as ChatGPT exports it: a tree of messages, of which the branch that it ended in is taken.

use super::{
    EMPTY, FILES, HIDDEN, Items, OTHER_PARTS, PICTURES, RECORDINGS, SYSTEM, THOUGHTS, TOOL_CALLS,
    TOOL_RESULTS, Talk, list, text,
};
use crate::terminal::record::Time;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Messages of branches that the conversation did not end in.
const BRANCHES: &str = "messages of other branches";

/// What was said in a conversation.
///
/// # Errors
/// Why it is invalid.
pub fn read(chat: &Value, now: DateTime<Utc>) -> Result<Items, String> {
    // Older exports have both keys.
    let id = text(chat, "id").or_else(|| text(chat, "conversation_id"));
    let id = id.ok_or("the conversation has no id")?;
    let mapping = chat.get("mapping").and_then(Value::as_object);
    let mapping = mapping.ok_or("the conversation has no mapping")?;
    let branch = branch(chat, mapping);
    let mut talk =
        Talk::new("chatgpt", id, text(chat, "title"), Time::of(chat, "create_time"), now);
    for node in branch.iter().rev() {
        if let Some(message) = mapping.get(*node).and_then(message) {
            talk.next_message();
            add(&mut talk, node, message);
        }
    }
    let taken: HashSet<&str> = branch.into_iter().collect();
    let others = mapping.iter().filter(|(node, _)| !taken.contains(node.as_str()));
    for _ in others.filter(|(_, node)| message(node).is_some_and(is_said)) {
        talk.left_out(BRANCHES);
    }
    Ok(talk.items())
}

fn message(node: &Value) -> Option<&Value> {
    node.get("message").filter(|message| !message.is_null())
}

/// The nodes of the branch that the conversation ended in, the last one first. Where the export does not say which
/// one that is, it is the one of the latest message; of messages without times, one without an answer.
fn branch<'a>(chat: &'a Value, mapping: &'a Map<String, Value>) -> Vec<&'a str> {
    let latest = || {
        let parents: HashSet<&str> =
            mapping.values().filter_map(|node| text(node, "parent")).collect();
        let nodes = mapping.iter().filter_map(|(id, node)| {
            let time = message(node)?.get("create_time").and_then(Value::as_f64);
            Some((time.unwrap_or(f64::MIN), !parents.contains(id.as_str()), id.as_str()))
        });
        let later = |one: &(f64, bool, &str), other: &(f64, bool, &str)| {
            one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
        };
        nodes.max_by(later).map(|(_, _, id)| id)
    };
    let last = text(chat, "current_node").filter(|last| mapping.contains_key(*last));
    let mut at = last.or_else(latest);
    // Each node is taken once, so a circle ends.
    let (mut branch, mut seen) = (Vec::new(), HashSet::new());
    while let Some(node) = at.filter(|node| seen.insert(*node)) {
        branch.push(node);
        at = mapping.get(node).and_then(|node| text(node, "parent"));
    }
    branch
}

fn role(message: &Value) -> Option<&str> {
    text(message.get("author")?, "role")
}

fn kind(message: &Value) -> Option<&str> {
    text(message.get("content")?, "content_type")
}

/// Whether a person or the model said it to the other.
fn is_said(message: &Value) -> bool {
    matches!(role(message), Some("user" | "assistant"))
        && matches!(kind(message), Some("text" | "multimodal_text"))
}

fn add(talk: &mut Talk, node: &str, message: &Value) {
    let hidden =
        message.get("metadata").and_then(|all| all.get("is_visually_hidden_from_conversation"));
    let recipient = text(message, "recipient").unwrap_or("all");
    let role = match role(message) {
        _ if hidden == Some(&Value::Bool(true)) => return talk.left_out(HIDDEN),
        Some("system") => return talk.left_out(SYSTEM),
        Some("tool") => return talk.left_out(TOOL_RESULTS),
        Some(role @ ("user" | "assistant")) => role,
        Some(other) => return talk.wrong(format!("its author is \"{other}\"")),
        None => return talk.wrong("it has no author"),
    };
    let content = match kind(message) {
        Some("text" | "multimodal_text") if recipient == "all" => &message["content"],
        Some("text" | "multimodal_text" | "code") => return talk.left_out(TOOL_CALLS),
        Some("thoughts" | "reasoning_recap") => return talk.left_out(THOUGHTS),
        Some("user_editable_context" | "model_editable_context") => return talk.left_out(HIDDEN),
        Some(_) => return talk.left_out(OTHER_PARTS),
        None => return talk.left_out(EMPTY),
    };
    let (mut texts, mut others) = (Vec::new(), 0);
    for part in list(content, "parts") {
        match part_of(part) {
            Ok(text) => texts.push(text),
            Err(kind) => {
                talk.left_out(kind);
                others += 1;
            }
        }
    }
    let said = texts.join("\n");
    if !said.trim().is_empty() {
        let id = text(message, "id").unwrap_or(node);
        talk.add(role, &said, id, Time::of(message, "create_time"));
    } else if others == 0 {
        talk.left_out(EMPTY);
    }
}

/// The text of a part, typed or spoken, or the kind of what it is.
fn part_of(part: &Value) -> Result<&str, &'static str> {
    if let Some(text) = part.as_str() {
        return Ok(text);
    }
    match text(part, "content_type").unwrap_or_default() {
        "audio_transcription" | "text" => text(part, "text").ok_or(RECORDINGS),
        kind if kind.contains("audio") || kind.contains("video") => Err(RECORDINGS),
        kind if kind.contains("image") => Err(PICTURES),
        kind if kind.contains("file") => Err(FILES),
        _ => Err(OTHER_PARTS),
    }
}
