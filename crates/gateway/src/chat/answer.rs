//! The answer of a chat as it comes by: what the assistant said so far, and whether it was said to the end.

use memory_agent_core::text::half_characters;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// An answer that does not stream is passed on as it is beyond this, and neither stored nor counted.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;
/// What is kept of an answer for memory: far more than it stores as one turn.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Ids that are taken from an answer, the first ones.
const MAX_IDS: usize = 1_000;

/// What was said so far.
#[derive(Debug, Default)]
pub struct Answer {
    /// The text so far.
    pub text: String,
    /// Whether the upstream said that this is all.
    pub is_whole: bool,
    /// Whether it has more text than is kept.
    pub is_cut: bool,
    /// Whether something of it could not be read.
    pub is_unread: bool,
    /// Tokens of the request and of the answer, if the upstream counts them.
    pub usage: Option<Usage>,
    /// What tells this answer from others, in the protocol's own fields.
    pub head: Value,
    /// What the upstream stored of it, and the next request may name.
    pub ids: Vec<String>,
    /// Whether something else than text came after the last text.
    is_paused: bool,
    /// Whether marks stand in the text for halves of characters, of which the other half may come next.
    has_halves: bool,
}

/// Tokens that a call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
}

impl Answer {
    /// The data of an event, or a whole answer; `None` if it cannot be read, which is noted.
    pub fn read(&mut self, data: &str) -> Option<Value> {
        if let Ok(value) = serde_json::from_str(data) {
            return Some(value);
        }
        let marked = half_characters::marked(data);
        let read = serde_json::from_str(&marked).ok();
        match read {
            Some(_) => self.has_halves = true,
            None => self.is_unread |= !matches!(data.trim(), "" | "[DONE]"),
        }
        read
    }

    /// What was said, halves of characters joined.
    pub fn text(&self) -> Cow<'_, str> {
        match self.has_halves {
            true => half_characters::joined(&self.text).into(),
            false => self.text.as_str().into(),
        }
    }

    /// Adds what a content says: a text, or the texts among its parts. Parts in which the model thinks do not count.
    pub fn say_content(&mut self, content: &Value) {
        match content {
            Value::Null => {}
            Value::String(text) => self.say(text),
            Value::Array(parts) => {
                for part in parts {
                    match (part["type"].as_str(), part["text"].as_str()) {
                        (None | Some("text"), Some(text)) => self.say(text),
                        (None | Some("text"), None) => self.is_unread = true,
                        _ => {}
                    }
                }
            }
            _ => self.is_unread = true,
        }
    }

    /// Adds to the text.
    pub fn say(&mut self, text: &str) {
        self.is_cut |= self.text.len() + text.len() > MAX_TEXT_BYTES;
        if text.is_empty() || self.is_cut {
            return;
        }
        if std::mem::take(&mut self.is_paused) && !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// Takes an id, where there is one.
    pub fn take_id(&mut self, id: &Value) {
        if self.ids.len() < MAX_IDS {
            self.ids.extend(id.as_str().map(str::to_owned));
        }
    }

    /// Something else than text comes, such as the call of a tool: what is said after it is a paragraph of its
    /// own.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }
}

impl Usage {
    /// Of an answer that did not stream, whatever else is in it.
    pub fn of_answer(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Told {
            usage: Value,
        }
        let told: Told = serde_json::from_slice(json).ok()?;
        Self::read(&told.usage, "prompt_tokens", "completion_tokens")
    }

    /// Both together, within what can be counted.
    pub fn total(self) -> i64 {
        let total = self.prompt.saturating_add(self.completion);
        i64::try_from(total).unwrap_or(i64::MAX).min(1_000_000_000)
    }

    /// Reads the object in which an upstream counts, by its names; `None` if it is no object.
    pub fn read(object: &Value, prompt: &str, completion: &str) -> Option<Self> {
        let count = |name| object.get(name).and_then(Value::as_u64).unwrap_or(0);
        object.is_object().then(|| Self { prompt: count(prompt), completion: count(completion) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn so_much_of_a_text_is_kept() {
        let mut answer = Answer::default();
        let piece = "x".repeat(1 << 20);
        for _ in 0..8 {
            answer.say(&piece);
        }
        assert!(!answer.is_cut);
        answer.say("y");
        answer.say("z");
        assert_eq!((answer.is_cut, answer.text.len()), (true, 8 << 20));
        let mut whole = Answer::default();
        whole.say(&piece.repeat(9));
        assert_eq!((whole.is_cut, whole.text.len()), (true, 0));
    }

    #[test]
    fn halves_of_a_character_are_joined_across_chunks() {
        let mut answer = Answer::default();
        for chunk in [r#"{"t":"fun \ud83d"}"#, r#"{"t":"\ude00 and \ude00"}"#] {
            let read = answer.read(chunk).unwrap();
            answer.say(read["t"].as_str().unwrap());
        }
        assert_eq!((&*answer.text(), answer.is_unread), ("fun 😀 and \u{fffd}", false));
        // A character that stands for a half elsewhere is one here.
        let mut plain = Answer::default();
        plain.say("\u{10f83d}");
        assert_eq!(plain.text(), "\u{10f83d}");
    }

    #[test]
    fn what_cannot_be_read_is_noted() {
        for (data, is_unread) in [("", false), ("[DONE]", false), ("{oops", true)] {
            let mut answer = Answer::default();
            assert_eq!((answer.read(data), answer.is_unread), (None, is_unread), "{data}");
        }
        for (content, text, is_unread) in [
            (json!(null), "", false),
            (json!("a"), "a", false),
            (
                json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                    {"type": "text", "text": "At ten."}]),
                "At ten.",
                false,
            ),
            (json!([{"type": "text"}]), "", true),
            (json!({"text": "a"}), "", true),
        ] {
            let mut answer = Answer::default();
            answer.say_content(&content);
            assert_eq!((&*answer.text(), answer.is_unread), (text, is_unread), "{content}");
        }
    }
}
