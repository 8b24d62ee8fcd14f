//! What the tests of HTTP services share: requests, and readers of their outcomes.

use memory_agent_model_server::protocol::{
    AnswerFormat, ApiKey, BreakerState, ChatFailure, ChatFailureKind, ChatMessage, ChatOutcome,
    ChatRequest, ChatRole, Endpoint, EndpointStatus, Provider, Request, Response,
};

use crate::common::Server;
use crate::http_stub::Stub;

/// A key that must not appear anywhere.
pub const KEY: &str = "sk-test-geheim-0123456789";

pub const FACTS: &str = r#"{"facts":[{"turn":1,"text":"Anna lives in Lisbon.","confidence":0.9}]}"#;

pub fn endpoint(stub: &Stub) -> Endpoint {
    endpoint_at(&format!("{}/v1", stub.url()))
}

pub fn endpoint_at(base_url: &str) -> Endpoint {
    Endpoint {
        provider: Provider::OpenAi,
        base_url: base_url.to_owned(),
        model: "stub".to_owned(),
        api_key: ApiKey::new(KEY),
        api_version: String::new(),
        timeout_ms: 20_000,
        calls_per_minute: 0,
        max_response_bytes: 1024 * 1024,
    }
}

/// A request for the facts of one turn.
pub fn facts_of(endpoint: Endpoint) -> ChatRequest {
    ChatRequest {
        endpoint,
        messages: vec![
            ChatMessage { role: ChatRole::System, content: "Extract facts as JSON.".to_owned() },
            ChatMessage { role: ChatRole::User, content: "I moved to Lisbon.".to_owned() },
        ],
        answer: AnswerFormat::Facts { turns: 1, max_per_turn: 3 },
        max_answer_tokens: 500,
        temperature: 0.1,
    }
}

impl Server {
    pub fn chat(&self, request: ChatRequest) -> ChatOutcome {
        match self.connect().call(&Request::Chat(Box::new(request))).unwrap() {
            Response::Chat(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Asks a stub for the facts of one turn.
    pub fn facts(&self, stub: &Stub) -> ChatOutcome {
        self.chat(facts_of(endpoint(stub)))
    }

    /// The only endpoint that was used.
    pub fn endpoint(&self) -> EndpointStatus {
        let mut endpoints = self.status().endpoints;
        assert_eq!(endpoints.len(), 1, "{endpoints:?}");
        endpoints.remove(0)
    }

    pub fn breaker(&self) -> BreakerState {
        self.endpoint().breaker
    }
}

/// The calls' statuses.
pub fn statuses(outcome: &ChatOutcome) -> Vec<&str> {
    outcome.calls.iter().map(|call| call.status.as_str()).collect()
}

pub fn text(outcome: &ChatOutcome) -> &str {
    &outcome.result.as_ref().unwrap().text
}

/// The failure, which must be of that kind.
pub fn failure(outcome: &ChatOutcome, kind: ChatFailureKind) -> ChatFailure {
    let failure = outcome.result.clone().unwrap_err();
    assert_eq!(failure.kind, kind, "{failure:?}");
    assert!(!failure.message.is_empty() && failure.message.chars().count() <= 500);
    failure
}
