//! `/v1/responses` of OpenAI. What is about memory stands in the response object, also where events carry it:
//! that is what the official clients hand on whole.

use super::{Protocol, Stage};
use crate::chat::answer::{Answer, Usage};
use crate::chat::chat_form::{self, Form};
use crate::chat::splice;
use crate::chat::sse::{self, Event};
use crate::refusal::Refusal;
use serde_json::Value;
use uuid::Uuid;

/// The object that events carry.
const RESPONSE: &str = "response";

pub struct Responses;

impl Protocol for Responses {
    fn form(&self) -> &'static Form {
        &chat_form::RESPONSES
    }

    fn path(&self, _query: Option<&str>) -> &'static str {
        "/responses"
    }

    fn take(&self, answer: &mut Answer, data: &str) -> Stage {
        let Some(event) = answer.read(data) else { return Stage::Open };
        let kind = event["type"].as_str().unwrap_or_default();
        match kind {
            "response.created" => take_ids(answer, &event[RESPONSE]),
            "response.output_item.added" => answer.pause(),
            "response.output_text.delta" => answer.say(event["delta"].as_str().unwrap_or_default()),
            "response.completed" | "response.incomplete" | "response.failed" => {
                take_status(answer, &event[RESPONSE]);
                return Stage::Over;
            }
            "" => {
                take_status(answer, &event);
                let output = event["output"].as_array().into_iter().flatten();
                for item in output {
                    answer.pause();
                    let parts = item["content"].as_array().into_iter().flatten();
                    for part in parts.filter(|part| part["type"] == "output_text") {
                        answer.say(part["text"].as_str().unwrap_or_default());
                    }
                }
            }
            _ => {}
        }
        Stage::Open
    }

    fn with_hits(&self, event: Event, hits: &str) -> Result<Event, Event> {
        event.with_member(Some(RESPONSE), "memory_hits", hits)
    }

    fn with_stored(&self, mut waited: Vec<Event>, _answer: &Answer, id: Uuid) -> Vec<Event> {
        if let Some(last) = waited.pop() {
            let id = splice::quoted(&id.to_string());
            let told = last.with_member(Some(RESPONSE), "memory_stored", &id);
            waited.push(told.unwrap_or_else(|event| event));
        }
        waited
    }

    fn error(&self, refusal: &Refusal) -> Event {
        sse::event(Some("error"), &refusal.to_json())
    }
}

/// What a response object says of its end. One that was cut off at a limit is whole, as far as the model goes.
fn take_status(answer: &mut Answer, response: &Value) {
    let status = response["status"].as_str().unwrap_or_default();
    take_ids(answer, response);
    answer.is_whole = matches!(status, "completed" | "incomplete");
    answer.usage =
        Usage::read(&response["usage"], "input_tokens", "output_tokens").or(answer.usage);
}

/// The ids of a response object, of its items and of the containers that they ran in.
fn take_ids(answer: &mut Answer, response: &Value) {
    answer.take_id(&response["id"]);
    for item in response["output"].as_array().into_iter().flatten() {
        answer.take_id(&item["id"]);
        answer.take_id(&item["container_id"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_comes_in_deltas_or_as_a_whole() {
        let message = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
        let whole = json!({"object": "response", "status": "completed", "usage": {"input_tokens": 9, "output_tokens": 4},
            "output": [{"type": "reasoning", "summary": []}, message("Let me see."), {"type": "web_search_call"}, message("Yes.")]});
        let mut answer = Answer::default();
        assert_eq!(Responses.take(&mut answer, &whole.to_string()), Stage::Open);
        assert_eq!((answer.text.as_str(), answer.is_whole), ("Let me see.\n\nYes.", true));
        assert_eq!(answer.usage, Some(Usage { prompt: 9, completion: 4 }));

        let mut answer = Answer::default();
        for event in [
            json!({"type": "response.created", "response": {"status": "in_progress"}}),
            json!({"type": "response.output_item.added", "item": {}}),
            json!({"type": "response.output_text.delta", "delta": "Let me "}),
            json!({"type": "response.output_text.delta", "delta": "see."}),
            json!({"type": "response.output_text.done", "text": "Let me see."}),
            json!({"type": "response.output_item.added", "item": {}}),
            json!({"type": "response.output_text.delta", "delta": "Yes."}),
        ] {
            assert_eq!(Responses.take(&mut answer, &event.to_string()), Stage::Open);
        }
        assert_eq!((answer.text.as_str(), answer.is_whole), ("Let me see.\n\nYes.", false));
        for (status, is_whole) in [("completed", true), ("incomplete", true), ("failed", false)] {
            let event =
                json!({"type": format!("response.{status}"), "response": {"status": status}});
            assert_eq!(Responses.take(&mut answer, &event.to_string()), Stage::Over);
            assert_eq!(answer.is_whole, is_whole, "{status}");
        }
    }
}
