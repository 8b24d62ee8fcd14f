//! A conversation as Claude exports it. A text that was pasted is an attachment, and a turn of its own.

use super::{
    EMPTY, FILES, Items, OTHER_PARTS, PICTURES, THOUGHTS, TOOL_CALLS, TOOL_RESULTS, Talk, list,
    text,
};
use crate::terminal::record::Time;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

/// What was said in a conversation.
///
/// # Errors
/// Why it is invalid.
pub fn read(chat: &Value, now: DateTime<Utc>) -> Result<Items, String> {
    let id = text(chat, "uuid").ok_or("missing field `uuid`")?;
    let messages = chat.get("chat_messages").and_then(Value::as_array);
    let messages = messages.ok_or("missing field `chat_messages`")?;
    let began = Time::of(chat, "created_at");
    let mut talk = Talk::new("claude", id, text(chat, "name"), began, now);
    for message in messages {
        talk.next_message();
        add(&mut talk, message);
    }
    Ok(talk.items())
}

fn add(talk: &mut Talk, message: &Value) {
    let role = match text(message, "sender") {
        Some("human") => "user",
        Some("assistant") => "assistant",
        Some(other) => {
            return talk.wrong(format!("the sender is \"{other}\", not human or assistant"));
        }
        None => return talk.wrong("it has no sender"),
    };
    let Some(id) = text(message, "uuid") else { return talk.wrong("it has no uuid") };
    let time = Time::of(message, "created_at");
    let mut is_empty = true;
    for (number, file) in list(message, "attachments").iter().enumerate() {
        is_empty = false;
        match text(file, "extracted_content") {
            Some(pasted) => {
                let name =
                    text(file, "file_name").map(|name| ("file_name".to_owned(), name.into()));
                let id = format!("{id}:attachment:{number}");
                talk.add_with(role, pasted, &id, time.clone(), Map::from_iter(name));
            }
            None => talk.left_out(FILES),
        }
    }
    for _ in list(message, "files") {
        is_empty = false;
        talk.left_out(FILES);
    }
    let mut texts = Vec::new();
    for part in list(message, "content") {
        let kind = match text(part, "type").unwrap_or_default() {
            "text" => {
                texts.extend(text(part, "text"));
                continue;
            }
            "thinking" | "redacted_thinking" => THOUGHTS,
            "tool_use" => TOOL_CALLS,
            "tool_result" => TOOL_RESULTS,
            "image" => PICTURES,
            _ => OTHER_PARTS,
        };
        is_empty = false;
        talk.left_out(kind);
    }
    let said = match texts.is_empty() {
        true => text(message, "text").unwrap_or_default().to_owned(),
        false => texts.join("\n"),
    };
    if !said.is_empty() {
        talk.add(role, &said, id, time);
    } else if is_empty {
        talk.left_out(EMPTY);
    }
}
