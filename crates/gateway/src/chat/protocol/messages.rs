//! `/v1/messages` of Anthropic. Memories stand in the message that the first event carries, and the answer's id
//! in the event that names the reason to stop: the official clients hand both on, and no event is of a type that
//! they do not know.

use super::{Protocol, Stage};
use crate::chat::answer::{Answer, Usage};
use crate::chat::chat_form::{self, Form};
use crate::chat::splice;
use crate::chat::sse::{self, Event};
use crate::refusal::Refusal;
use serde_json::Value;
use uuid::Uuid;

pub struct Messages;

impl Protocol for Messages {
    fn form(&self) -> &'static Form {
        &chat_form::MESSAGES
    }

    fn path(&self, query: Option<&str>) -> &'static str {
        match query {
            Some("beta=true") => "/messages?beta=true",
            _ => "/messages",
        }
    }

    fn is_anthropics(&self) -> bool {
        true
    }

    fn take(&self, answer: &mut Answer, data: &str) -> Stage {
        let Some(event) = answer.read(data) else { return Stage::Open };
        for object in [&event, &event["message"], &event["delta"]] {
            answer.take_id(&object["container"]["id"]);
        }
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => take_usage(answer, &event["message"]["usage"]),
            "content_block_start" => take_block(answer, &event["content_block"]),
            "content_block_delta" => {
                // Other deltas have their text under other names.
                answer.say(event["delta"]["text"].as_str().unwrap_or_default());
            }
            "message_delta" => {
                take_usage(answer, &event["usage"]);
                answer.is_whole |= event["delta"]["stop_reason"].is_string();
                return if answer.is_whole { Stage::Closing } else { Stage::Open };
            }
            "message_stop" => {
                answer.is_whole = true;
                return Stage::Over;
            }
            "message" => {
                take_usage(answer, &event["usage"]);
                answer.is_whole = event["stop_reason"].is_string();
                for block in event["content"].as_array().into_iter().flatten() {
                    take_block(answer, block);
                }
            }
            _ => {}
        }
        Stage::Open
    }

    fn with_hits(&self, event: Event, hits: &str) -> Result<Event, Event> {
        event.with_member(Some("message"), "memory_hits", hits)
    }

    fn with_stored(&self, waited: Vec<Event>, _answer: &Answer, id: Uuid) -> Vec<Event> {
        let mut waited = waited.into_iter();
        let id = splice::quoted(&id.to_string());
        let first = waited.next().map(|first| first.with_member(None, "memory_stored", &id));
        first.map(|told| told.unwrap_or_else(|event| event)).into_iter().chain(waited).collect()
    }

    fn error(&self, refusal: &Refusal) -> Event {
        sse::event(Some("error"), &refusal.to_json())
    }
}

/// Takes a part of the answer, or its beginning.
fn take_block(answer: &mut Answer, block: &Value) {
    match block["text"].as_str() {
        Some(text) => answer.say(text),
        None => answer.pause(),
    }
}

/// Adds up what was read: the three counts exclude each other. What an event does not count stays.
fn take_usage(answer: &mut Answer, usage: &Value) {
    let count = |name: &str| usage[name].as_u64();
    let read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let known = answer.usage.unwrap_or_default();
    if usage.is_object() {
        answer.usage = Some(Usage {
            prompt: count(read[0])
                .map_or(known.prompt, |_| read.into_iter().filter_map(count).sum()),
            completion: count("output_tokens").unwrap_or(known.completion),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_comes_in_deltas_or_as_a_whole() {
        let whole = json!({"type": "message", "stop_reason": "end_turn", "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 4},
            "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "I "}, {"type": "text", "text": "search."},
                        {"type": "server_tool_use"}, {"type": "text", "text": "Yes."}]});
        let mut answer = Answer::default();
        assert_eq!(Messages.take(&mut answer, &whole.to_string()), Stage::Open);
        assert_eq!((answer.text.as_str(), answer.is_whole), ("I search.\n\nYes.", true));
        assert_eq!(answer.usage, Some(Usage { prompt: 9, completion: 4 }));

        let mut answer = Answer::default();
        for event in [
            json!({"type": "message_start", "message": {"content": [], "stop_reason": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I search."}}),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
            json!({"type": "content_block_start", "index": 3, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "Yes."}}),
        ] {
            assert_eq!(Messages.take(&mut answer, &event.to_string()), Stage::Open);
        }
        assert_eq!((answer.text.as_str(), answer.is_whole), ("I search.\n\nYes.", false));
        let stop = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}});
        assert_eq!(Messages.take(&mut answer, &stop.to_string()), Stage::Closing);
        assert!(answer.is_whole);
        assert_eq!(answer.usage, Some(Usage { prompt: 9, completion: 4 }));
        assert_eq!(Messages.take(&mut answer, r#"{"type":"message_stop"}"#), Stage::Over);
    }
}
