//! The whole of one conversation's next answer. Unlike a question of ours (`chat.rs`) it is passed
//! on and taken as it comes: there is no format, and the model is not asked again.

use memory_agent_core::answers::AnswerFormat;
use serde_json::Value;

use super::call::EndpointClient;
use super::chat::{ask, failure, refusal, unavailable, without_key};
use super::endpoint::Endpoints;
use super::http::HttpClient;
use super::providers::{ChatCall, Finish, Messages};
use crate::protocol::{
    CallRecord, ChatAnswer, ChatFailure, ChatFailureKind, ChatOutcome, Conversation,
};

/// Carries out a request. Every HTTP call that was made is in the outcome, also if there is no
/// answer. Dropping the future ends the call that is being made.
pub async fn converse(
    http: &HttpClient,
    endpoints: &Endpoints,
    conversation: &Conversation,
) -> ChatOutcome {
    let mut calls = Vec::new();
    let result = match EndpointClient::new(http, endpoints, &conversation.endpoint) {
        Ok(client) => answer(&client, conversation, &mut calls).await,
        Err(message) => Err(unavailable(message, None)),
    };
    ChatOutcome { result, calls }
}

async fn answer(
    client: &EndpointClient<'_>,
    conversation: &Conversation,
    calls: &mut Vec<CallRecord>,
) -> Result<ChatAnswer, ChatFailure> {
    let messages: Vec<Value> = serde_json::from_str(&conversation.messages)
        .map_err(|_| failure(ChatFailureKind::Refused, "the messages are no JSON array".into()))?;
    let call = ChatCall {
        messages: Messages::AsGiven { openai: &messages, texts: &conversation.texts },
        answer: &AnswerFormat::Text,
        max_answer_tokens: conversation.max_answer_tokens,
        temperature: conversation.temperature,
    };
    let completion = ask(client, call, calls).await?;
    let rejected = match refusal(&completion) {
        Some(reason) => Err(("refusal", ChatFailureKind::Refused, reason)),
        None if completion.finish == Finish::ToolCalls => Err((
            "bad answer",
            ChatFailureKind::BadAnswer,
            "the answer calls a tool, and tools cannot be offered here".to_owned(),
        )),
        None => AnswerFormat::Text
            .check(&completion.text)
            .map_err(|error| ("bad answer", ChatFailureKind::BadAnswer, error.to_string())),
    };
    match rejected {
        Ok(text) => {
            let model = completion.model.as_deref().unwrap_or(&conversation.endpoint.model);
            Ok(ChatAnswer {
                text: without_key(text, conversation.endpoint.api_key.expose()),
                model: client.clean(model),
                is_cut: completion.finish == Finish::Length,
            })
        }
        Err((status, kind, reason)) => {
            let message = client.clean(&reason);
            if let Some(record) = calls.last_mut() {
                record.status = status.to_owned();
                record.error = Some(message.clone());
            }
            Err(failure(kind, message))
        }
    }
}
