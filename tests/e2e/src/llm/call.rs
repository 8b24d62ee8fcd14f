//! A recorded request to the stub, and what a model needs to know of it.

use super::Fault;
use super::http::Request;
use memory_agent_core::jobs::blame::HARMLESS;
use serde_json::{Value, json};
use std::time::{Instant, SystemTime};

/// One request that reached the stub, whatever became of it.
#[derive(Clone, Debug)]
pub struct Call {
    /// 0 for the first request to this stub; a [test](Self::is_test) has the number of the next one.
    pub number: usize,
    /// With the base URL's own path: `/v1/chat/completions`.
    pub path: String,
    /// As sent, in order.
    pub headers: Vec<(String, String)>,
    /// Null if it was not JSON.
    pub body: Value,
    /// When all of it had been read.
    pub at: Instant,
    pub wall_clock: SystemTime,
    /// What the stub did to its answer.
    pub fault: Option<Fault>,
}

impl Call {
    pub(super) fn new(number: usize, request: Request) -> Self {
        Self {
            number,
            path: request.path,
            headers: request.headers,
            body: serde_json::from_slice(&request.body).unwrap_or_default(),
            at: Instant::now(),
            wall_clock: SystemTime::now(),
            fault: None,
        }
    }

    /// A header's value; names are compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[cfg(test)]
    pub(super) fn with_body(body: Value) -> Self {
        let request = Request {
            path: "/v1/chat/completions".to_owned(),
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        Self::new(0, request)
    }

    /// Whether a chat is to be answered, in OpenAI's format or Anthropic's: a model of the latter gives whole
    /// [`Reply::body`](super::Reply::body)s.
    pub fn is_chat(&self) -> bool {
        self.path.ends_with("/chat/completions") || self.path.ends_with("/messages")
    }

    pub fn is_embeddings(&self) -> bool {
        self.path.ends_with("/embeddings")
    }

    /// Whether this is the harmless request by which the model server finds out whether another one or the
    /// endpoint is to blame for a failure.
    pub fn is_test(&self) -> bool {
        let of_nobody = json!([{"role": "user", "content": HARMLESS}]);
        self.body["messages"] == of_nobody || self.body["input"] == json!([HARMLESS])
    }

    /// The model that was asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The tokens that the answer may have; 0 without a limit.
    pub fn max_tokens(&self) -> u32 {
        let asked = [&self.body["max_tokens"], &self.body["max_completion_tokens"]];
        asked.into_iter().find_map(Value::as_u64).map_or(0, |most| most.try_into().unwrap())
    }

    /// `json_schema`, `json_object`, or `None` for a plain request.
    pub fn response_format(&self) -> Option<&str> {
        self.body["response_format"]["type"].as_str()
    }

    /// The texts of all messages of a role, in order.
    pub fn messages(&self, role: &str) -> Vec<&str> {
        let messages = self.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        messages
            .iter()
            .filter(|message| message["role"] == role)
            .filter_map(|message| message["content"].as_str())
            .collect()
    }

    /// The JSON document that is the first message of the user; null if that is something else.
    pub fn data(&self) -> Value {
        let users = self.messages("user");
        users.first().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The instructions.
    pub fn system(&self) -> String {
        self.messages("system").join("\n")
    }

    /// Whether this asks for the correction of an answer that did not fit. That answer is not always
    /// shown: an empty one is not.
    pub fn is_repair(&self) -> bool {
        self.messages("user").len() > 1
    }
}
