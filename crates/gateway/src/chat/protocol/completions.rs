//! `/v1/chat/completions` of OpenAI.

use super::{Protocol, Stage};
use crate::chat::answer::{Answer, Usage};
use crate::chat::chat_form::{self, Form};
use crate::chat::sse::{self, Event};
use crate::refusal::Refusal;
use serde_json::{Value, json};
use uuid::Uuid;

pub struct Completions;

impl Protocol for Completions {
    fn form(&self) -> &'static Form {
        &chat_form::COMPLETIONS
    }

    fn path(&self, _query: Option<&str>) -> &'static str {
        "/chat/completions"
    }

    fn take(&self, answer: &mut Answer, data: &str) -> Stage {
        if data.trim() == "[DONE]" {
            answer.is_whole = true;
            return Stage::Over;
        }
        let Some(chunk) = answer.read(data) else { return Stage::Open };
        let usage = Usage::read(&chunk["usage"], "prompt_tokens", "completion_tokens");
        answer.usage = usage.or(answer.usage);
        for name in ["id", "created", "model"] {
            if let Some(value) = chunk.get(name).filter(|value| !value.is_null()) {
                answer.head[name] = value.clone();
            }
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            // Of several choices the first counts: the next request says which was taken.
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
                continue;
            }
            let said = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(content) = said.and_then(|said| said.get("content")) {
                answer.say_content(content);
            }
            answer.take_id(said.map_or(&Value::Null, |said| &said["audio"]["id"]));
            answer.is_whole |= choice.get("finish_reason").is_some_and(Value::is_string);
        }
        if usage.is_some() && choices.is_some_and(Vec::is_empty) {
            Stage::Counted
        } else {
            Stage::Open
        }
    }

    fn with_hits(&self, event: Event, hits: &str) -> Result<Event, Event> {
        event.with_member(None, "memory_hits", hits)
    }

    /// A chunk of its own says nothing else, so that a client that knows nothing of memory takes it for an
    /// empty one.
    fn with_stored(&self, mut waited: Vec<Event>, answer: &Answer, id: Uuid) -> Vec<Event> {
        let mut chunk = answer.head.clone();
        chunk["object"] = "chat.completion.chunk".into();
        chunk["choices"] = json!([{"index": 0, "delta": {}, "finish_reason": null}]);
        chunk["memory_stored"] = id.to_string().into();
        waited.insert(0, sse::event(None, &chunk.to_string()));
        waited
    }

    fn error(&self, refusal: &Refusal) -> Event {
        sse::event(None, &refusal.to_json())
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
            Completions.take(&mut answer, &chunk.to_string());
        }
        Completions.take(&mut answer, "no JSON");
        assert_eq!((answer.text.as_str(), answer.is_whole), ("As you say.", false));
        for (chunk, stage) in [
            (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, Stage::Open),
            (r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#, Stage::Counted),
        ] {
            assert_eq!(Completions.take(&mut answer, chunk), stage);
        }
        assert!(answer.is_whole);
        assert_eq!(answer.usage, Some(Usage { prompt: 9, completion: 4 }));
        let done = Event(b"data: [DONE]\n\n".to_vec());
        assert_eq!(Completions.take(&mut answer, &done.data().unwrap()), Stage::Over);
        let told = Completions.with_stored(vec![done.clone()], &answer, Uuid::nil());
        assert_eq!(told[1], done);
        let chunk: Value = serde_json::from_str(&told[0].data().unwrap()).unwrap();
        assert_eq!(chunk["id"], "c1");
        assert_eq!(chunk["choices"][0]["delta"], json!({}));
        assert_eq!(chunk["memory_stored"], Uuid::nil().to_string());
    }

    #[test]
    fn a_whole_answer_is_read_likewise() {
        let mut answer = Answer::default();
        Completions.take(
            &mut answer,
            r#"{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}"#,
        );
        assert_eq!((answer.text.as_str(), answer.is_whole), ("Yes.", true));
        let mut calls = Answer::default();
        Completions.take(
            &mut calls,
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{}]},"finish_reason":"tool_calls"}]}"#,
        );
        assert_eq!((calls.text.as_str(), calls.is_whole), ("", true));
    }
}
