//! The other protocols of chats as they look on the wire: requests of clients, and answers of upstreams.

use crate::upstream::{Answer, Upstream};
use memory_agent_e2e::{Json, json};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Responses,
    Messages,
}

pub const BOTH: [Wire; 2] = [Wire::Responses, Wire::Messages];

impl Wire {
    /// A word for names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// A request in which the user says something, in a session.
    pub fn says(self, session: &str, text: &str) -> Json {
        match self {
            Self::Responses => json!({"model": "m", "input": text, "memory_id": session}),
            Self::Messages => json!({"model": "m", "max_tokens": 64, "memory_id": session,
                                     "messages": [{"role": "user", "content": text}]}),
        }
    }

    /// The text of the user that came last in a request.
    pub fn said(self, request: &Json) -> String {
        let said = match self {
            Self::Responses if request["input"].is_string() => &request["input"],
            Self::Responses => &request["input"].as_array().unwrap().last().unwrap()["content"],
            Self::Messages => &request["messages"].as_array().unwrap().last().unwrap()["content"],
        };
        said.as_str().unwrap_or_default().to_owned()
    }

    /// An answer that says something.
    pub fn whole(self, text: &str) -> Json {
        match self {
            Self::Responses => response("completed", &[item(text)]),
            Self::Messages => {
                let mut message = message();
                message["content"] = json!([{"type": "text", "text": text}]);
                message["stop_reason"] = "end_turn".into();
                message["usage"]["output_tokens"] = 4.into();
                message
            }
        }
    }

    /// The text of an answer.
    pub fn text(self, answer: &Json) -> &str {
        let text = match self {
            Self::Responses => &answer["output"][0]["content"][0]["text"],
            Self::Messages => &answer["content"][0]["text"],
        };
        text.as_str().unwrap()
    }

    /// The events before the first word.
    pub fn begins(self, answer: &mut Answer) {
        answer.begin();
        let events = match self {
            Self::Responses => vec![
                json!({"type": "response.created", "response": response("in_progress", &[]), "sequence_number": 0}),
                json!({"type": "response.output_item.added", "output_index": 0, "sequence_number": 1,
                       "item": {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}}),
                json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                       "part": {"type": "output_text", "text": "", "annotations": []}, "sequence_number": 2}),
            ],
            Self::Messages => vec![
                json!({"type": "message_start", "message": message()}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "ping"}),
            ],
        };
        events.iter().for_each(|event| send(answer, event));
    }

    /// A word.
    pub fn word(self, answer: &mut Answer, text: &str) {
        let event = match self {
            Self::Responses => {
                json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                       "content_index": 0, "delta": text, "logprobs": [], "sequence_number": 3})
            }
            Self::Messages => {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
            }
        };
        send(answer, &event);
    }

    /// The events after the last word; `text` is everything that was said.
    pub fn ends(self, answer: &mut Answer, text: &str) {
        let events = match self {
            Self::Responses => vec![
                json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                       "text": text, "logprobs": [], "sequence_number": 4}),
                json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                       "part": {"type": "output_text", "text": text, "annotations": []}, "sequence_number": 5}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item(text), "sequence_number": 6}),
                json!({"type": "response.completed", "response": response("completed", &[item(text)]), "sequence_number": 7}),
            ],
            Self::Messages => vec![
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                       "usage": {"output_tokens": 4}}),
                json!({"type": "message_stop"}),
            ],
        };
        events.iter().for_each(|event| send(answer, event));
        answer.end();
    }

    /// What an event says of `memory_stored` or `memory_hits`.
    pub fn told<'a>(self, event: &'a Json, name: &str) -> &'a Json {
        match self {
            Self::Responses => &event["response"][name],
            Self::Messages if name == "memory_hits" => &event["message"][name],
            Self::Messages => &event[name],
        }
    }

    /// An upstream that says the same to everybody, as a stream to who wants one.
    pub fn saying(self, text: &'static str) -> Upstream {
        Upstream::start(move |request, answer| {
            if request.json()["stream"] == true {
                self.begins(answer);
                text.split_inclusive(' ').for_each(|word| self.word(answer, word));
                self.ends(answer, text);
            } else {
                answer.json(&self.whole(text).to_string());
            }
        })
    }
}

/// An event, with its type before it as both protocols have it.
pub fn send(answer: &mut Answer, event: &Json) {
    answer.piece(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
}

/// The data of the events of a stream.
pub fn events(stream: &str) -> Vec<Json> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
        .collect()
}

/// A response object of OpenAI's.
pub fn response(status: &str, output: &[Json]) -> Json {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output,
           "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "temperature": 1.0,
           "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 4,
                     "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 13}})
}

fn item(text: &str) -> Json {
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
           "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

/// A message of Anthropic's in which nothing is said yet.
pub fn message() -> Json {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
           "stop_reason": null, "stop_sequence": null,
           "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 1}})
}
