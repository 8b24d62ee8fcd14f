//! Answers of Anthropic's messages.

use serde::Deserialize;

use super::completion::{Completion, Finish};
use super::openai::no_answer;

#[derive(Deserialize)]
struct MessageBody {
    content: Vec<Block>,
    model: Option<String>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

/// A part of the answer; only blocks of type `text` have one.
#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
}

pub fn completion(body: &[u8]) -> Result<Completion, String> {
    let body: MessageBody = serde_json::from_slice(body).map_err(|error| no_answer(&error))?;
    let text: String = body.content.into_iter().filter_map(|block| block.text).collect();
    let finish = match body.stop_reason.as_deref() {
        Some("max_tokens") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        Some("tool_use") if text.is_empty() => Finish::ToolCalls,
        _ => Finish::Stop,
    };
    let (prompt_tokens, completion_tokens) =
        body.usage.map_or((None, None), |usage| (usage.input_tokens, usage.output_tokens));
    Ok(Completion {
        text,
        calls_tools: body.stop_reason.as_deref() == Some("tool_use"),
        finish,
        refusal: None,
        model: body.model,
        prompt_tokens,
        completion_tokens,
        document: None,
    })
}
