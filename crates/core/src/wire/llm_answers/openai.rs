//! Answers of OpenAI's chat completions and embeddings, and of the many servers that offer the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::completion::{Completion, Finish};

#[derive(Deserialize)]
struct ChatBody {
    choices: Vec<Choice>,
    model: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<AnswerMessage>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct AnswerMessage {
    content: Option<Content>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Value>>,
    /// Of requests with `functions`, which came before tools.
    function_call: Option<Value>,
}

/// Some servers send parts instead of a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
}

pub fn completion(body: &[u8]) -> Result<Completion, String> {
    serde_json::from_slice(body).and_then(of_document).map_err(|error| no_answer(&error))
}

/// What a chat completion says.
pub fn of_document(document: Value) -> serde_json::Result<Completion> {
    // A list that holds the members in order would do for serde.
    if !document.is_object() {
        return Err(serde::de::Error::custom("not an object"));
    }
    let body = ChatBody::deserialize(&document)?;
    let usage = body.usage.unwrap_or(Usage { prompt_tokens: None, completion_tokens: None });
    let choice = body.choices.into_iter().next();
    let finish = match choice.as_ref().and_then(|choice| choice.finish_reason.as_deref()) {
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        _ => Finish::Stop,
    };
    let message = choice.and_then(|choice| choice.message);
    let message = message.unwrap_or_default();
    let text = match message.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
        None => String::new(),
    };
    let calls_tools = message.tool_calls.is_some_and(|calls| !calls.is_empty())
        || message.function_call.is_some();
    Ok(Completion {
        finish: if text.trim().is_empty() && calls_tools { Finish::ToolCalls } else { finish },
        text,
        calls_tools,
        refusal: message.refusal.filter(|refusal| !refusal.is_empty()),
        model: body.model,
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        document,
    })
}

/// The message for a body of another shape. serde's own can contain parts of it.
pub fn no_answer(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => {
            "the answer is JSON, but not of the shape that was expected".to_owned()
        }
        _ => format!(
            "the answer is not valid JSON (line {}, column {})",
            error.line(),
            error.column()
        ),
    }
}

#[derive(Deserialize)]
struct EmbeddingsBody {
    data: Vec<EmbeddingRow>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    index: Option<usize>,
    embedding: Numbers,
}

/// Some servers send base64 although the request does not ask for it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    List(Vec<f32>),
    Base64(String),
}

pub fn vectors(body: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, String> {
    let body: EmbeddingsBody = serde_json::from_slice(body).map_err(|error| no_answer(&error))?;
    if body.data.len() != texts {
        return Err(format!("{} embeddings came for {texts} texts", body.data.len()));
    }
    let mut rows = vec![None; texts];
    for (position, row) in body.data.into_iter().enumerate() {
        // Servers that leave the index out keep the order.
        let slot = rows.get_mut(row.index.unwrap_or(position));
        match slot {
            Some(slot @ None) => *slot = Some(numbers(row.embedding)?),
            _ => return Err("the indexes of the embeddings are wrong".to_owned()),
        }
    }
    Ok(rows.into_iter().flatten().collect())
}

fn numbers(numbers: Numbers) -> Result<Vec<f32>, String> {
    let text = match numbers {
        Numbers::List(list) => return Ok(list),
        Numbers::Base64(text) => text,
    };
    let wrong = || "an embedding is not base64 of 32-bit numbers".to_owned();
    let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() {
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
