//! The answer of a chat as it comes by: what the assistant said so far, whether it was said to the end, and
//! what a client has to be told about memory in the answer's own form.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// What was said so far. Of several choices the first counts: the next request says which was taken.
#[derive(Debug, Default)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Whether the upstream said that this is all.
    pub is_whole: bool,
    /// Tokens of the request and of the answer, if the upstream counts them.
    pub usage: Option<Usage>,
    head: Head,
}

/// What tells the chunks of one answer from those of another.
#[derive(Debug, Default)]
struct Head {
    id: Value,
    created: Value,
    model: Value,
}

/// Tokens that a call took.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Usage {
    #[serde(default)]
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
}

impl Answer {
    /// Takes a chunk of a stream, or a whole answer. What is neither is passed over.
    pub fn take(&mut self, json: &str) {
        let Ok(chunk) = serde_json::from_str::<Value>(json) else { return };
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Usage::deserialize(usage).ok().or(self.usage);
        }
        for (place, name) in [
            (&mut self.head.id, "id"),
            (&mut self.head.created, "created"),
            (&mut self.head.model, "model"),
        ] {
            if let Some(value) = chunk.get(name).filter(|value| !value.is_null()) {
                *place = value.clone();
            }
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
                continue;
            }
            let said = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(text) = said.and_then(|said| said.get("content")).and_then(Value::as_str) {
                self.text.push_str(text);
            }
            self.is_whole |= choice.get("finish_reason").is_some_and(Value::is_string);
        }
    }

    /// The chunk that tells a client that the answer was stored, and as what. It says nothing else, so
    /// that a client that knows nothing of memory takes it for an empty one.
    pub fn stored_chunk(&self, id: Uuid) -> String {
        json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "choices": [{"index": 0, "delta": {}, "finish_reason": null}],
            "memory_stored": id.to_string(),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deltas_of_the_first_choice_are_the_answer() {
        let mut answer = Answer::default();
        for chunk in [
            json!({"id": "c1", "created": 7, "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
            json!({"choices": [{"index": 0, "delta": {"content": "As "}}, {"index": 1, "delta": {"content": "No"}}]}),
            json!({"choices": [{"index": 0, "delta": {"content": "you say."}, "finish_reason": null}]}),
        ] {
            answer.take(&chunk.to_string());
        }
        answer.take("no JSON");
        assert_eq!((answer.text.as_str(), answer.is_whole), ("As you say.", false));
        answer.take(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
        answer.take(r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#);
        assert!(answer.is_whole);
        assert_eq!(answer.usage, Some(Usage { prompt_tokens: 9, completion_tokens: 4 }));
        let chunk: Value = serde_json::from_str(&answer.stored_chunk(Uuid::nil())).unwrap();
        assert_eq!(chunk["id"], "c1");
        assert_eq!(chunk["choices"][0]["delta"], json!({}));
        assert_eq!(chunk["memory_stored"], Uuid::nil().to_string());
    }

    #[test]
    fn a_whole_answer_is_read_likewise() {
        let mut answer = Answer::default();
        answer.take(
            r#"{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}"#,
        );
        assert_eq!((answer.text.as_str(), answer.is_whole), ("Yes.", true));
        let mut calls = Answer::default();
        calls.take(
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{}]},"finish_reason":"tool_calls"}]}"#,
        );
        assert_eq!((calls.text.as_str(), calls.is_whole), ("", true));
    }
}
