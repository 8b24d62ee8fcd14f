//! The whole of one conversation's next answer. Unlike a question of ours (`chat.rs`) it is passed
//! on and taken as it comes: there is no format, and the model is not asked again.

use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::llm::chat_body::offers_tools;
use serde_json::{Map, Value};

use super::call::EndpointClient;
use super::chat::{ask, failure, refusal, unavailable, without_key};
use super::endpoint::Endpoints;
use super::harmless::Harmless;
use super::http::HttpClient;
use super::providers::{self, ChatCall, Finish, Messages};
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
    let result = match EndpointClient::new(http, endpoints, &conversation.endpoint, Harmless::Chat)
    {
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
    let no_request = |_| failure(ChatFailureKind::Refused, "the request is not JSON".into());
    let messages: Vec<Value> = serde_json::from_str(&conversation.messages).map_err(no_request)?;
    let fields: Map<String, Value> =
        serde_json::from_str(&conversation.fields).map_err(no_request)?;
    let offers_tools = offers_tools(&fields);
    let body = providers::body(conversation.endpoint.provider, messages, fields)
        .map_err(|reason| failure(ChatFailureKind::Refused, reason.to_string()))?;
    let call = ChatCall {
        messages: Messages::Body(&body),
        answer: &AnswerFormat::Text,
        max_answer_tokens: conversation.max_answer_tokens,
        temperature: conversation.temperature,
    };
    let completion = ask(client, call, calls).await?;
    let rejected = match refusal(&completion) {
        Some(reason) => Err(("refusal", ChatFailureKind::Refused, reason)),
        // Beside its calls a model may say nothing, or only think.
        None if completion.calls_tools && offers_tools => {
            Ok(AnswerFormat::Text.check(&completion.text).unwrap_or_default())
        }
        None if completion.finish == Finish::ToolCalls => Err((
            "bad answer",
            ChatFailureKind::BadAnswer,
            "the answer calls a tool, and none was offered".to_owned(),
        )),
        None => AnswerFormat::Text
            .check(&completion.text)
            .map_err(|error| ("bad answer", ChatFailureKind::BadAnswer, error.to_string())),
    };
    match rejected {
        Ok(text) => {
            let key = conversation.endpoint.api_key.expose();
            let text = without_key(text, key);
            let model =
                client.clean(completion.model.as_deref().unwrap_or(&conversation.endpoint.model));
            let document = shown(completion.document, &text, &model, key).to_string();
            Ok(ChatAnswer { text, model, document })
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

/// The endpoint's answer as an application may see it: without the key, which endpoints like to repeat, and
/// without NUL, which PostgreSQL's texts cannot hold. Its text is the one that was accepted, null if nothing is
/// left of it beside calls of tools.
fn shown(mut document: Value, text: &str, model: &str, key: &str) -> Value {
    clean_texts(&mut document, key);
    document["model"] = model.into();
    if let Some(content) = document.pointer_mut("/choices/0/message/content") {
        *content = if text.is_empty() { Value::Null } else { text.into() };
    }
    document
}

fn clean_texts(value: &mut Value, key: &str) {
    let clean = |text: String| without_key(text.replace('\0', "\u{fffd}"), key);
    match value {
        Value::String(text) => *text = clean(std::mem::take(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| clean_texts(value, key)),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(name, mut value)| {
                    clean_texts(&mut value, key);
                    (clean(name), value)
                })
                .collect();
        }
        _ => {}
    }
}
