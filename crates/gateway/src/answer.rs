//! The answer of a chat as it comes by: what the assistant said so far, and whether it was said to the end.

use serde::Deserialize;
use serde_json::Value;

/// An answer that does not stream is passed on as it is beyond this, and neither stored nor counted.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;
/// What is kept of an answer for memory: far more than it stores as one turn.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Ids that are taken from an answer, the first ones.
const MAX_IDS: usize = 1_000;

/// What was said so far.
#[derive(Debug, Default)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Whether the upstream said that this is all.
    pub is_whole: bool,
    /// Whether it has more text than is kept.
    pub is_cut: bool,
    /// Tokens of the request and of the answer, if the upstream counts them.
    pub usage: Option<Usage>,
    /// What tells this answer from others, in the protocol's own fields.
    pub head: Value,
    /// What the upstream stored of it, and the next request may name.
    pub ids: Vec<String>,
    /// Whether something else than text came after the last text.
    is_paused: bool,
}

/// Tokens that a call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
}

impl Answer {
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
}
