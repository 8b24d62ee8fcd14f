//! The messages of a chat in OpenAI's format, as applications have them: read and augmented. Nothing of
//! a message is lost on the way: names, tool calls, images and fields that are unknown here stay as
//! they are.

use serde_json::{Map, Value};

pub use crate::limits::MAX_MESSAGES;

/// The roles a message can have.
pub const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Why messages are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessagesError(String);

impl MessagesError {
    pub(crate) fn new(reason: String) -> Self {
        Self(reason)
    }
}

/// A chat that was checked, oldest message first.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessages {
    messages: Vec<Map<String, Value>>,
    /// The last message of the user.
    latest: Option<usize>,
}

impl ChatMessages {
    /// Reads a JSON array of messages: objects with a `role` of [`ROLES`] and a `content` that is a
    /// text or a list of parts (`{"type": "text", "text": ...}` and others). The content may be
    /// missing or null where a message has something else to say, such as `tool_calls`.
    ///
    /// # Errors
    ///
    /// Says which message is wrong, and how; at most 40 characters of it are repeated.
    pub fn parse(messages: Value) -> Result<Self, MessagesError> {
        let Value::Array(items) = messages else {
            return Err(MessagesError("messages must be a JSON array".to_owned()));
        };
        if items.is_empty() || items.len() > MAX_MESSAGES {
            return Err(MessagesError(format!(
                "there are {} messages, expected 1 to {MAX_MESSAGES}",
                items.len()
            )));
        }
        let mut messages = Vec::with_capacity(items.len());
        for (number, item) in (1..).zip(items) {
            let wrong = |what: String| MessagesError(format!("message {number}: {what}"));
            let Value::Object(message) = item else {
                return Err(wrong("it is not an object".to_owned()));
            };
            check(&message).map_err(wrong)?;
            messages.push(message);
        }
        let latest = messages.iter().rposition(|message| role(message) == "user");
        Ok(Self { messages, latest })
    }

    /// The text of the user's last message; `None` when there is no such message, or no text in it.
    #[must_use]
    pub fn latest_text(&self) -> Option<String> {
        let text = text(&self.messages[self.latest?]);
        (!text.trim().is_empty()).then_some(text)
    }

    /// The name of who wrote the user's last message, if it has one.
    #[must_use]
    pub fn latest_name(&self) -> Option<&str> {
        name(&self.messages[self.latest?])
    }

    /// What the user and the assistant said before the user's last message, oldest first: role and
    /// text of the newest `most` messages that have one.
    #[must_use]
    pub fn before_latest(&self, most: usize) -> Vec<(&str, String)> {
        let before = &self.messages[..self.latest.unwrap_or(0)];
        let mut said: Vec<(&str, String)> = spoken(before.iter().rev()).take(most).collect();
        said.reverse();
        said
    }

    /// What the user and the assistant said in all of them, oldest first.
    #[must_use]
    pub fn spoken(&self) -> Vec<(&str, String)> {
        spoken(self.messages.iter()).collect()
    }

    /// Role and texts of each message up to the user's last one, oldest first, and whether it is that.
    pub fn texts(&self) -> impl Iterator<Item = (&str, Vec<&str>, bool)> {
        let most = self.latest.map_or(self.messages.len(), |latest| latest + 1);
        self.messages
            .iter()
            .take(most)
            .enumerate()
            .map(|(at, message)| (role(message), texts(message), self.latest == Some(at)))
    }

    /// Changes the first text of the user's last message; other parts, and what else a part says, stay.
    pub fn edit_latest(&mut self, edit: impl FnOnce(&str) -> String) {
        let Some(message) = self.latest.map(|latest| &mut self.messages[latest]) else { return };
        let text = match message.get_mut("content") {
            Some(Value::Array(parts)) => {
                let said =
                    |part: &&mut Value| text_of(part).is_some_and(|text| !text.trim().is_empty());
                parts.iter_mut().find(said).and_then(|part| part.get_mut("text"))
            }
            content => content,
        };
        if let Some(Value::String(text)) = text {
            *text = edit(text);
        }
    }

    /// Puts a system message before the user's last message.
    pub fn insert_system(&mut self, text: String) {
        let Some(latest) = &mut self.latest else { return };
        let message = [("role", "system".into()), ("content", text.into())];
        let message = message.map(|(key, value): (&str, Value)| (key.to_owned(), value));
        self.messages.insert(*latest, Map::from_iter(message));
        *latest += 1;
    }

    /// What the model reads of each message, for counting its tokens: texts, names, thoughts and calls of tools.
    /// What other parts of a message cost, such as images, only the model knows.
    #[must_use]
    pub fn read_texts(&self) -> Vec<String> {
        self.messages.iter().map(read_text).collect()
    }

    /// Whether a tool said something after the user's last message: then the user said nothing new.
    #[must_use]
    pub fn ends_in_tool(&self) -> bool {
        let after = self.latest.map_or(0, |latest| latest + 1);
        self.messages[after..].iter().any(|message| ["tool", "function"].contains(&role(message)))
    }

    #[must_use]
    pub fn into_values(self) -> Vec<Value> {
        self.messages.into_iter().map(Value::Object).collect()
    }
}

/// Role and text of the messages of the user and the assistant that have one.
fn spoken<'a>(
    messages: impl Iterator<Item = &'a Map<String, Value>>,
) -> impl Iterator<Item = (&'a str, String)> {
    messages
        .filter(|message| ["user", "assistant"].contains(&role(message)))
        .map(|message| (role(message), text(message)))
        .filter(|(_, text)| !text.trim().is_empty())
}

fn check(message: &Map<String, Value>) -> Result<(), String> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some(role) if ROLES.contains(&role) => role,
        Some(role) => {
            let shown: String = role.chars().take(40).collect();
            return Err(format!("its role is {shown:?}, expected one of {}", ROLES.join(", ")));
        }
        None => return Err("it has no role".to_owned()),
    };
    if message.get("name").is_some_and(|name| !name.is_string() && !name.is_null()) {
        return Err("its name is not a text".to_owned());
    }
    match message.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => parts.iter().try_for_each(check_part),
        None | Some(Value::Null) if role == "assistant" => Ok(()),
        None | Some(Value::Null) => Err("it has no content".to_owned()),
        Some(_) => Err("its content is neither a text nor a list of parts".to_owned()),
    }
}

fn check_part(part: &Value) -> Result<(), String> {
    match part.get("type").and_then(Value::as_str) {
        None => Err("a part of its content has no type".to_owned()),
        Some("text") if text_of(part).is_none() => {
            Err("a part of its content has the type text, but no text".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// The role of a message that was checked.
fn role(message: &Map<String, Value>) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn name(message: &Map<String, Value>) -> Option<&str> {
    let name = message.get("name").and_then(Value::as_str)?;
    (!name.trim().is_empty()).then_some(name)
}

/// The text of a part, if it is one.
fn text_of(part: &Value) -> Option<&str> {
    if part.get("type").and_then(Value::as_str) == Some("text") {
        part.get("text").and_then(Value::as_str)
    } else {
        None
    }
}

/// The text of a message; several parts are several paragraphs.
fn text(message: &Map<String, Value>) -> String {
    texts(message).join("\n\n")
}

fn texts(message: &Map<String, Value>) -> Vec<&str> {
    match message.get("content") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(parts)) => parts.iter().filter_map(text_of).collect(),
        _ => Vec::new(),
    }
}

fn read_text(message: &Map<String, Value>) -> String {
    let mut texts = vec![text(message)];
    texts.extend(name(message).map(str::to_owned));
    // Signatures and encrypted thoughts are for the endpoint alone.
    let thoughts = message.get("thinking_blocks").and_then(Value::as_array).into_iter().flatten();
    texts.extend(thoughts.filter_map(|block| block.get("thinking")?.as_str()).map(str::to_owned));
    for told in ["tool_calls", "function_call"] {
        texts.extend(message.get(told).filter(|told| !told.is_null()).map(Value::to_string));
    }
    texts.retain(|text| !text.is_empty());
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn chat(messages: Value) -> ChatMessages {
        ChatMessages::parse(messages).unwrap()
    }

    #[test]
    fn the_latest_message_of_the_user_counts() {
        let messages = chat(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "old"},
            {"role": "user", "content": "new", "name": "Ann"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "42", "tool_call_id": "1"},
        ]));
        assert_eq!(messages.latest_text().as_deref(), Some("new"));
        assert_eq!(messages.latest_name(), Some("Ann"));
        assert!(messages.ends_in_tool());
        assert_eq!(messages.before_latest(5), [("user", "old".to_owned())]);
        for silent in [
            json!([{"role": "system", "content": "x"}]),
            json!([{"role": "user", "content": " \n"}]),
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
            json!([{"role": "user", "content": []}]),
        ] {
            assert_eq!(chat(silent.clone()).latest_text(), None, "{silent}");
        }
    }

    #[test]
    fn the_newest_of_what_was_said_before_is_told_from_old_to_new() {
        let said: Vec<Value> = (0..6)
            .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": n.to_string()}))
            .collect();
        let messages = chat(Value::from(said));
        assert_eq!(messages.latest_text().as_deref(), Some("4"));
        assert_eq!(
            messages.before_latest(2),
            [("user", "2".to_owned()), ("assistant", "3".to_owned())]
        );
    }

    #[test]
    fn a_new_text_leaves_everything_else_alone() {
        let image = json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}});
        let part = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
        let message = |first: &str| {
            json!([
                {"role": "user", "name": "Ann", "content": [
                    image, part(" "), part(first), image, part("and this?"), image
                ], "custom": 1},
                {"role": "assistant", "content": "Wait."},
            ])
        };
        let mut messages = chat(message("What is this"));
        messages.edit_latest(|text| format!("new: {text}"));
        assert_eq!(Value::from(messages.into_values()), message("new: What is this"));
        for other in [
            json!([{"role": "user", "content": [image]}]),
            json!([{"role": "system", "content": "x"}]),
        ] {
            let mut messages = chat(other.clone());
            messages.edit_latest(|_| "new".to_owned());
            assert_eq!(Value::from(messages.into_values()), other);
        }
    }

    #[test]
    fn of_thoughts_only_the_text_is_read() {
        let messages = chat(json!([
            {"role": "assistant", "content": "Yes.", "thinking_blocks": [
                {"type": "thinking", "thinking": "Hm.", "signature": "secret"},
                {"type": "redacted_thinking", "data": "secret"},
                {"type": "thinking", "thinking": "Well."},
                5,
            ]},
            {"role": "assistant", "content": "No.", "thinking_blocks": null},
            {"role": "assistant", "thinking_blocks": {"thinking": "Hm."}, "tool_calls": [{"id": "1"}]},
        ]));
        assert_eq!(messages.read_texts(), ["Yes.\nHm.\nWell.", "No.", r#"[{"id":"1"}]"#]);
    }

    #[test]
    fn what_is_no_chat_is_refused() {
        for (messages, reason) in [
            (json!({}), "must be a JSON array"),
            (json!(null), "must be a JSON array"),
            (json!([]), "there are 0 messages"),
            (json!(["hi"]), "message 1: it is not an object"),
            (json!([{"content": "hi"}]), "it has no role"),
            (json!([{"role": 1, "content": "hi"}]), "it has no role"),
            (json!([{"role": "User", "content": "hi"}]), "its role is \"User\""),
            (json!([{"role": "user"}]), "it has no content"),
            (json!([{"role": "tool", "content": null}]), "it has no content"),
            (json!([{"role": "user", "content": 5}]), "neither a text nor a list"),
            (json!([{"role": "user", "content": ["hi"]}]), "has no type"),
            (json!([{"role": "user", "content": [{"type": "text"}]}]), "but no text"),
            (json!([{"role": "user", "content": "hi", "name": 7}]), "its name is not a text"),
            (
                json!([{"role": "user", "content": "hi"}, {"role": "x".repeat(99), "content": "hi"}]),
                "message 2",
            ),
        ] {
            let error = ChatMessages::parse(messages.clone()).unwrap_err().to_string();
            assert!(error.contains(reason), "{messages}: {error}");
            assert!(!error.contains(&"x".repeat(41)), "{error}");
        }
        let many = Value::from(vec![json!({"role": "user", "content": "x"}); MAX_MESSAGES + 1]);
        assert!(ChatMessages::parse(many).is_err());
    }

    proptest! {
        #[test]
        fn the_text_that_is_put_in_is_in_the_latest_text(
            before in prop::collection::vec(("(user|assistant|system)", "\\PC{0,10}"), 0..4),
            parts in prop::option::of(prop::collection::vec("\\PC{0,10}", 0..4)),
            text in "\\PC{0,10}x",
        ) {
            let mut items: Vec<Value> = before
                .iter()
                .map(|(role, content)| json!({"role": role, "content": content}))
                .collect();
            items.push(match parts {
                None => json!({"role": "user", "content": "old"}),
                Some(parts) => {
                    let parts: Vec<Value> = parts
                        .iter()
                        .map(|text| match text.len() % 2 {
                            0 => json!({"type": "text", "text": text}),
                            _ => json!({"type": "image_url", "image_url": text}),
                        })
                        .collect();
                    json!({"role": "user", "content": parts})
                }
            });
            let mut messages = chat(Value::from(items.clone()));
            let before = messages.latest_text();
            messages.edit_latest(|first| format!("{text}{first}"));
            prop_assert_eq!(before.is_some(), messages.latest_text().is_some_and(|now| now.contains(&text)));
            let after = messages.into_values();
            prop_assert_eq!(after.len(), items.len());
            prop_assert_eq!(&after[..after.len() - 1], &items[..items.len() - 1]);
        }
    }
}
