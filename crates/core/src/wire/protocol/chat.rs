//! The messages about services that are reached over HTTP: an LLM that answers chats, and
//! embedding models that run elsewhere. Every request carries the settings of its endpoint,
//! because only PostgreSQL's processes read settings.

use std::fmt;
use std::time::Duration;

use crate::facts::answers::{AnswerFormat, ChatMessage};
use crate::llm::breaker::BreakerState;
use crate::text::tokens::estimate_tokens;
use serde::{Deserialize, Serialize};

/// A secret that authenticates at an endpoint. It travels to the model server and from there to
/// its endpoint only; formatting it never shows it.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApiKey(String);

impl ApiKey {
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The secret itself, to be sent or masked and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether no key is sent: Ollama and llama.cpp need none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// The dialect of HTTP that an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Provider {
    /// OpenAI and everything compatible: Ollama, llama.cpp, vLLM, LiteLLM, ...
    OpenAi,
    /// OpenAI's models at Azure: the model is the name of a deployment.
    Azure,
    /// Anthropic's messages; it has no embeddings.
    Anthropic,
}

/// Where an HTTP service is, and how it may be used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    pub provider: Provider,
    /// `http` or `https`, without credentials, query or fragment. The provider's own path is
    /// appended, as in `https://api.openai.com/v1` + `/chat/completions`.
    pub base_url: String,
    pub model: String,
    /// Sent to the host of `base_url` only. Empty: none is sent.
    pub api_key: ApiKey,
    /// Azure's `api-version` or Anthropic's `anthropic-version`; empty for the usual one.
    pub api_version: String,
    /// Milliseconds of one HTTP call, from looking up the name to the answer's last byte.
    pub timeout_ms: u32,
    /// Most HTTP calls in one minute, 0 for no limit.
    pub calls_per_minute: u32,
    /// Longest body of an answer in bytes.
    pub max_response_bytes: u32,
}

/// HTTP calls that one request can lead to: two steps down to a plain answer, one repair.
const CALLS_PER_REQUEST: u32 = 4;
/// What the model server may take beside its HTTP calls.
const GRACE: Duration = Duration::from_secs(15);

impl Endpoint {
    /// How long the answer to a [`ChatRequest`] or a [`Conversation`] may take.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.into()).saturating_mul(CALLS_PER_REQUEST) + GRACE
    }
}

/// One question to an LLM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    pub endpoint: Endpoint,
    #[serde(deserialize_with = "super::bounded")]
    pub messages: Vec<ChatMessage>,
    /// What the answer must look like. It is enforced as far as the endpoint can, and checked
    /// in any case.
    pub answer: AnswerFormat,
    /// Most tokens of the answer; 0 is not sent.
    pub max_answer_tokens: u32,
    /// Sampling temperature; not sent to an endpoint that refuses it.
    pub temperature: f32,
}

/// A conversation that an application has with an LLM. It is passed on as it is, or in the
/// words of the endpoint's protocol, and so is the answer: nothing is asked again, and an answer that
/// reached its limit of tokens is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    pub endpoint: Endpoint,
    /// The messages in OpenAI's format, a JSON array: with names, tool calls, images.
    pub messages: String,
    /// Most tokens of the answer; 0 is not sent.
    pub max_answer_tokens: u32,
    /// Sampling temperature; `None` leaves it to the endpoint.
    pub temperature: Option<f32>,
    /// Further fields of the request in OpenAI's format, a JSON object: tools, the format of the answer and
    /// whatever else the endpoint knows. Where it speaks another protocol, [`anthropic`](crate::llm::anthropic)
    /// has a word for each.
    pub fields: String,
}

/// What became of a [`ChatRequest`] or a [`Conversation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatOutcome {
    pub result: Result<ChatAnswer, ChatFailure>,
    /// Every HTTP call that was made, in order; empty if none was.
    pub calls: Vec<CallRecord>,
}

impl ChatOutcome {
    /// Enters estimates where the endpoint has answered, or may have, and charges for it, but did not say how much:
    /// limits of tokens hold for it too.
    ///
    /// * `prompt_tokens`: of one call.
    #[must_use]
    pub fn with_estimates(mut self, prompt_tokens: u32) -> Self {
        for call in &mut self.calls {
            if call.is_charged() {
                call.prompt_tokens.get_or_insert(prompt_tokens);
            }
        }
        if let (Ok(answer), Some(call)) = (&self.result, self.calls.last_mut()) {
            call.completion_tokens.get_or_insert_with(|| estimate_tokens(&answer.text));
        }
        self
    }
}

/// An acceptable answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatAnswer {
    /// What [`AnswerFormat::check`] made of the answer; empty where it only calls tools.
    pub text: String,
    /// The model that answered, as the endpoint names it.
    pub model: String,
    /// All that the endpoint answered to a [`Conversation`], a JSON object in OpenAI's format: with calls of
    /// tools and every choice. Empty for a [`ChatRequest`].
    pub document: String,
}

/// Why there is no acceptable answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFailure {
    pub kind: ChatFailureKind,
    /// For people; secrets are masked, at most 500 characters.
    pub message: String,
    /// Milliseconds after which the next try makes sense, if known.
    pub retry_after_ms: Option<u64>,
}

/// What a failure says about trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChatFailureKind {
    /// The endpoint is down, misconfigured or over a limit: no fault of this request, which
    /// should be sent again later.
    Unavailable,
    /// This call failed (time-out, reset, 5xx) while the endpoint answers others, so the request
    /// itself may be the reason.
    Failed,
    /// The endpoint does not accept this very request.
    Refused,
    /// The endpoint answered, but no answer fitted, also after asking for a correction.
    BadAnswer,
}

/// One HTTP call, for accounting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// `ok`, `bad answer`, `refusal`, `http 429` and the like, `timeout`, `connection`,
    /// `too large` or `malformed`; [`ABANDONED`](Self::ABANDONED) if that is not known.
    pub status: String,
    /// Milliseconds until the answer's last byte, or until the failure.
    pub latency_ms: u32,
    /// Tokens as the endpoint counted them; an [estimate](ChatOutcome::with_estimates) if it did not.
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    /// What went wrong; secrets are masked.
    pub error: Option<String>,
}

impl CallRecord {
    /// The status of a call whose connection failed.
    pub const CONNECTION: &str = "connection";
    /// The status of a call that had no answer in time.
    pub const TIMEOUT: &str = "timeout";
    /// The status of a call that was made for a caller that did not wait for its answer.
    pub const ABANDONED: &str = "abandoned";

    /// Whether the endpoint has answered, or may have, and charges for it.
    #[must_use]
    pub fn is_charged(&self) -> bool {
        !(self.status == Self::CONNECTION || self.status.starts_with("http "))
    }

    /// A call of which only the request is known. Providers charge for it all the same.
    ///
    /// * `prompt_tokens`: an estimate.
    #[must_use]
    pub fn abandoned(prompt_tokens: u32) -> Self {
        Self {
            status: Self::ABANDONED.to_owned(),
            latency_ms: 0,
            prompt_tokens: Some(prompt_tokens),
            completion_tokens: None,
            error: None,
        }
    }
}

/// An embedding model behind an HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteEmbedder {
    pub endpoint: Endpoint,
    /// Expected length of the embeddings. It is asked for where the endpoint lets one choose,
    /// and checked in any case. `None` takes what comes, for a first look.
    pub dimension: Option<u32>,
    /// Most texts of one HTTP call.
    pub batch: u32,
}

/// What the server knows of an endpoint that was used since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStatus {
    pub base_url: String,
    pub model: String,
    pub breaker: BreakerState,
    /// Calls that failed since the last one that did not.
    pub failures: u32,
    /// Milliseconds until the next call may be made: the breaker's, or what the endpoint asked
    /// for with `Retry-After`. 0: now.
    pub retry_in_ms: u64,
    /// How an answer's shape is enforced: `json_schema`, `json_object` or `plain`.
    pub answer_mode: String,
    /// The last failure, without any text of the endpoint: that may quote what a caller sent.
    /// `None` after a success.
    pub last_error: Option<String>,
    /// HTTP calls being made.
    pub in_flight: u32,
    /// HTTP calls made.
    pub calls: u64,
}
