//! A session as Claude Code keeps it in `projects/*.jsonl`: a line for each message, and others of the program.

use super::{
    EMPTY, FILES, Item, OTHER_PARTS, PICTURES, THOUGHTS, TOOL_CALLS, TOOL_RESULTS, Told, list,
    origin, text,
};
use crate::terminal::record::{Clock, Line, Time};
use chrono::{DateTime, Utc};
use serde_json::Value;

const SOURCE: &str = "claude-code";
/// Lines that are no messages.
const NOTES: &str = "notes of the program";
/// What the program says in the user's name.
const META: &str = "messages of the program";
const SIDE_CHAINS: &str = "messages of side chains";
/// How it begins.
const META_OPENINGS: [&str; 8] = [
    "<command-",
    "<local-command-",
    "<bash-",
    "<system-reminder>",
    "<task-notification>",
    "<user-memory-input>",
    "[Request interrupted",
    "Caveat: The messages below were generated",
];

/// Whether a line is one of such a file.
pub fn is_line(value: &Value) -> bool {
    const KEYS: [&str; 6] =
        ["sessionId", "leafUuid", "parentUuid", "messageId", "isSidechain", "isSnapshotUpdate"];
    let is_said = text(value, "type").is_some() && value.get("role").is_none();
    is_said && KEYS.iter().any(|key| value.get(key).is_some())
}

/// What a line says.
pub fn read(value: &Value, clock: &mut Clock, now: DateTime<Utc>) -> Vec<Item> {
    let is = |key: &str| value.get(key) == Some(&Value::Bool(true));
    let role = match text(value, "type") {
        Some(role @ ("user" | "assistant")) => role,
        _ => return vec![Item::LeftOut(NOTES)],
    };
    if is("isSidechain") {
        return vec![Item::LeftOut(SIDE_CHAINS)];
    }
    if is("isMeta") || is("isCompactSummary") || is("isApiErrorMessage") {
        return vec![Item::LeftOut(META)];
    }
    let (Some(session), Some(id)) = (text(value, "sessionId"), text(value, "uuid")) else {
        return vec![Item::Wrong("it has no sessionId, or no uuid".to_owned())];
    };
    let content = value.get("message").and_then(|message| message.get("content"));
    let (mut texts, mut items) = (Vec::new(), Vec::new());
    match content {
        Some(Value::String(said)) => texts.push(said.as_str()),
        Some(Value::Array(parts)) => {
            for part in parts {
                match part_of(part) {
                    Ok(said) => texts.push(said),
                    Err(kind) => items.push(Item::LeftOut(kind)),
                }
            }
        }
        _ => {}
    }
    let before = texts.len();
    texts.retain(|said| role != "user" || !is_meta(said));
    items.extend((texts.len()..before).map(|_| Item::LeftOut(META)));
    let content = texts.join("\n");
    if content.trim().is_empty() {
        if items.is_empty() {
            items.push(Item::LeftOut(EMPTY));
        }
        return items;
    }
    let session = format!("{SOURCE}-{session}");
    let time = Time::of(value, "timestamp");
    items.push(match clock.next(Some(&session), time.as_ref(), now) {
        Ok(created_at) => {
            let id = format!("{session}:{id}");
            let mut metadata = origin(SOURCE);
            if let Some(folder) = text(value, "cwd") {
                metadata.insert("cwd".to_owned(), Value::from(folder));
            }
            let (role, session_id) = (role.to_owned(), Some(session));
            let line = Line { role, content, session_id, metadata, ..Line::default() };
            Item::Told(Box::new(Told { line, created_at, id }))
        }
        Err(problem) => Item::Wrong(problem),
    });
    items
}

fn is_meta(said: &str) -> bool {
    let said = said.trim_start();
    META_OPENINGS.iter().any(|opening| said.starts_with(opening))
}

fn part_of(part: &Value) -> Result<&str, &'static str> {
    match text(part, "type").unwrap_or_default() {
        "text" => text(part, "text").ok_or(EMPTY),
        "thinking" | "redacted_thinking" => Err(THOUGHTS),
        "tool_use" | "server_tool_use" => Err(TOOL_CALLS),
        "tool_result" | "web_search_tool_result" => Err(TOOL_RESULTS),
        "image" => Err(PICTURES),
        "document" if list(part, "content").is_empty() => Err(FILES),
        _ => Err(OTHER_PARTS),
    }
}
