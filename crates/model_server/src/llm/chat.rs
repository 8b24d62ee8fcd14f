//! The whole of one question: calls in the endpoint's dialect, the check of the answer, and one
//! round in which the model may correct it.

use memory_agent_core::facts::answers::{AnswerError, AnswerFormat, ChatMessage, ChatRole};
use memory_agent_core::llm::questions;
use thiserror::Error;

use super::call::{CallFailure, EndpointClient};
use super::endpoint::Endpoints;
use super::harmless::Harmless;
use super::http::HttpClient;
use super::providers::{self, ChatCall, Completion, Finish, Messages};
use crate::protocol::{
    CallRecord, ChatAnswer, ChatFailure, ChatFailureKind, ChatOutcome, ChatRequest,
};

/// Most characters of a bad answer that are shown to the model again.
const SHOWN_ANSWER_CHARS: usize = 8_000;

/// Most characters of the model's words for a refusal.
const SHOWN_REFUSAL_CHARS: usize = 200;

/// A key shorter than this is not looked for in answers: it could be a word.
const LEAST_KEY_BYTES: usize = 8;

/// How much longer the second answer may be if the first one was cut: models that think before they answer may have
/// said nothing yet.
const LONGER: u32 = 4;

/// The least temperature of a correction: what a model says at 0, it says again.
const REPAIR_TEMPERATURE: f32 = 0.5;

/// Carries out a request. Every HTTP call that was made is in the outcome, also if there is no
/// answer. Dropping the future ends the call that is being made.
pub async fn chat(http: &HttpClient, endpoints: &Endpoints, request: &ChatRequest) -> ChatOutcome {
    let mut calls = Vec::new();
    let result = match EndpointClient::new(http, endpoints, &request.endpoint, Harmless::Chat) {
        Ok(client) => discuss(&client, request, &mut calls).await,
        Err(message) => Err(unavailable(message, None)),
    };
    ChatOutcome { result, calls }
}

async fn discuss(
    client: &EndpointClient<'_>,
    request: &ChatRequest,
    calls: &mut Vec<CallRecord>,
) -> Result<ChatAnswer, ChatFailure> {
    let mut messages = request.messages.clone();
    let mut may_repair = true;
    let mut most = request.max_answer_tokens;
    loop {
        let call = ChatCall {
            messages: Messages::Texts(&messages),
            answer: &request.answer,
            max_answer_tokens: most,
            temperature: Some(if may_repair {
                request.temperature
            } else {
                request.temperature.max(REPAIR_TEMPERATURE)
            }),
        };
        let completion = match ask(client, call, calls).await {
            // An answer that is too long to be read: nothing of it can be shown, but it can be corrected.
            Err(too_long) if may_repair && too_long.kind == ChatFailureKind::BadAnswer => {
                may_repair = false;
                let reason = "it is too long to be read; write less".to_owned();
                messages.push(Rejection::Incomplete(reason).asks_again());
                continue;
            }
            asked => asked?,
        };
        let rejection = match accept(&completion, &request.answer, most) {
            Ok(text) => {
                let model = completion.model.as_deref().unwrap_or(&request.endpoint.model);
                return Ok(ChatAnswer {
                    text: without_key(text, request.endpoint.api_key.expose()),
                    model: client.clean(model),
                    document: String::new(),
                });
            }
            Err(rejection) => rejection,
        };
        let message = client.clean(&rejection.to_string());
        if let Some(record) = calls.last_mut() {
            record.status = rejection.status().to_owned();
            record.error = Some(message.clone());
        }
        if matches!(rejection, Rejection::Refusal(_)) {
            return Err(failure(ChatFailureKind::Refused, message));
        }
        if !may_repair {
            return Err(failure(ChatFailureKind::BadAnswer, message));
        }
        may_repair = false;
        if completion.finish == Finish::Length {
            most = most.saturating_mul(LONGER);
        }
        if matches!(rejection, Rejection::Unsaid(_)) {
            continue;
        }
        messages.extend(shown_again(&completion.text));
        messages.push(rejection.asks_again());
    }
}

/// Asks once, in weaker dialects if the endpoint refuses the stronger ones.
pub async fn ask(
    client: &EndpointClient<'_>,
    call: ChatCall<'_>,
    calls: &mut Vec<CallRecord>,
) -> Result<Completion, ChatFailure> {
    let known = client.state.dialect();
    let mut dialect = known;
    loop {
        let wire = providers::chat_request(client.settings, &client.base, dialect, call)
            .map_err(|message| unavailable(message, None))?;
        let sent = wire.sent;
        let provider = client.settings.provider;
        let read = |body: &[u8]| providers::completion(provider, body);
        let next = |failure: &CallFailure| match failure {
            CallFailure::Rejected { status: 400 | 422, error, .. } => {
                dialect.after_refused_chat(sent, error)
            }
            _ => None,
        };
        let called = client.call(wire, read, |failure| next(failure).is_some()).await;
        calls.extend(called.record);
        let failure = match called.result {
            Ok(completion) => {
                if let Some(record) = calls.last_mut() {
                    record.prompt_tokens = completion.prompt_tokens;
                    record.completion_tokens = completion.completion_tokens;
                }
                if dialect != known {
                    client.state.learn(dialect);
                }
                return Ok(completion);
            }
            Err(failure) => failure,
        };
        match next(&failure) {
            Some(next) => dialect = next,
            None => return Err(failure.into()),
        }
    }
}

/// Why an answer is not accepted.
#[derive(Debug, Error)]
enum Rejection {
    /// Asking again would bring the same.
    #[error("{0}")]
    Refusal(String),
    /// It is no JSON of the required shape.
    #[error("{0}")]
    WrongShape(AnswerError),
    /// There is nothing, or a part only.
    #[error("{0}")]
    Incomplete(String),
    /// The model's thoughts took all the tokens.
    #[error("{0}")]
    Unsaid(String),
}

impl Rejection {
    fn status(&self) -> &'static str {
        match self {
            Self::Refusal(_) => "refusal",
            Self::WrongShape(_) | Self::Incomplete(_) | Self::Unsaid(_) => "bad answer",
        }
    }

    /// The message that asks for a correction.
    fn asks_again(&self) -> ChatMessage {
        match self {
            Self::WrongShape(error) => {
                ChatMessage::new(ChatRole::User, questions::repair(&error.to_string()))
            }
            Self::Refusal(reason) | Self::Incomplete(reason) | Self::Unsaid(reason) => {
                ChatMessage::new(
                    ChatRole::User,
                    format!(
                        "Your last answer cannot be used: {reason}.\n\n\
                     Answer the first message again, with all that it asks for."
                    ),
                )
            }
        }
    }
}

/// An answer without text.
fn empty(finish: Finish) -> Rejection {
    let reason = match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::ToolCalls => "tool_calls",
    };
    Rejection::Incomplete(format!("the model's answer is empty (finish_reason {reason})"))
}

/// The answer's text as the format wants it; it was to have at most `most` tokens.
fn accept(completion: &Completion, format: &AnswerFormat, most: u32) -> Result<String, Rejection> {
    let cut = || format!("it was cut at {most} tokens; write less");
    let incomplete = |reason: &str| Err(Rejection::Incomplete(reason.to_owned()));
    if let Some(refusal) = refusal(completion) {
        return Err(Rejection::Refusal(refusal));
    }
    match completion.finish {
        Finish::ToolCalls => return incomplete("it calls a tool, and none was offered"),
        Finish::Length if completion.text.trim().is_empty() => {
            return Err(Rejection::Unsaid(format!(
                "it was cut at {most} tokens before it said anything; a model that thinks first needs a larger \
                 memory_agent.llm_answer_tokens"
            )));
        }
        _ if completion.text.trim().is_empty() => return Err(empty(completion.finish)),
        // "[]" is an answer as JSON, and none as text.
        _ if *format == AnswerFormat::Text && !completion.text.contains(char::is_alphanumeric) => {
            return Err(empty(completion.finish));
        }
        // Text that was cut looks like any other, while JSON that was cut does not parse.
        Finish::Length if *format == AnswerFormat::Text => {
            return Err(Rejection::Incomplete(cut()));
        }
        Finish::Stop | Finish::Length | Finish::ContentFilter => {}
    }
    format.check(&completion.text).map_err(|error| match (completion.finish, format) {
        (Finish::Length, _) => Rejection::Incomplete(cut()),
        (_, AnswerFormat::Text) => Rejection::Incomplete(error.to_string()),
        _ => Rejection::WrongShape(error),
    })
}

/// Why asking again would bring the same, if so.
pub fn refusal(completion: &Completion) -> Option<String> {
    match (&completion.refusal, completion.finish) {
        (Some(refusal), _) => {
            let beginning: String = refusal.chars().take(SHOWN_REFUSAL_CHARS).collect();
            Some(format!("the model refused to answer: {beginning}"))
        }
        (None, Finish::ContentFilter) => {
            Some("the provider's filter stopped the answer".to_owned())
        }
        (None, _) => None,
    }
}

/// A bad answer as a part of the chat. Providers refuse empty messages.
fn shown_again(answer: &str) -> Option<ChatMessage> {
    let shown: String = answer.chars().take(SHOWN_ANSWER_CHARS).collect();
    (!shown.trim().is_empty()).then(|| ChatMessage::new(ChatRole::Assistant, shown))
}

/// An endpoint may repeat the key in its answer, which is stored.
pub fn without_key(text: String, key: &str) -> String {
    if key.len() >= LEAST_KEY_BYTES && text.contains(key) { text.replace(key, "***") } else { text }
}

pub fn failure(kind: ChatFailureKind, message: String) -> ChatFailure {
    ChatFailure { kind, message, retry_after_ms: None }
}

pub fn unavailable(message: String, retry_after_ms: Option<u64>) -> ChatFailure {
    ChatFailure { kind: ChatFailureKind::Unavailable, message, retry_after_ms }
}

impl From<CallFailure> for ChatFailure {
    fn from(error: CallFailure) -> Self {
        match error {
            CallFailure::Unavailable { message, retry_after_ms } => {
                unavailable(message, retry_after_ms)
            }
            CallFailure::Failed { message, .. } => failure(ChatFailureKind::Failed, message),
            CallFailure::Rejected { message, .. } => failure(ChatFailureKind::Refused, message),
            CallFailure::TooLarge { message } => failure(ChatFailureKind::BadAnswer, message),
        }
    }
}
