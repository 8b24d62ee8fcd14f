//! The prompts of summaries, put together from the texts in `prompts/`: the task, the kind of the
//! text, the rules that hold for all, the form of the answer.
//!
//! As in [`prompts`](crate::llm::questions) what is summarised goes into strings of one JSON document.
//! The first line of each system prompt names its task.

use serde::Serialize;

use crate::condense::summarize::{Ask, ContentType, Material, SummaryPrompt};
use crate::llm::chat::{ChatMessage, ChatRole};
use crate::llm::questions::chat;

const FRAME: &str = include_str!("../prompts/summary_frame.txt");
const BRIEF: &str = include_str!("../prompts/summary_brief.txt");
const STANDARD: &str = include_str!("../prompts/summary_standard.txt");
const CHUNK: &str = include_str!("../prompts/summary_chunk.txt");
const META: &str = include_str!("../prompts/summary_meta.txt");
const ROLLING: &str = include_str!("../prompts/summary_rolling.txt");
const CONVERSATION: &str = include_str!("../prompts/summary_conversation.txt");
const JOURNAL: &str = include_str!("../prompts/summary_journal.txt");
const DOCUMENT: &str = include_str!("../prompts/summary_document.txt");
const PLAIN: &str = include_str!("../prompts/summary_plain.txt");
const SECTIONS: &str = include_str!("../prompts/summary_sections.txt");
const SHORTER: &str = include_str!("../prompts/summary_shorter.txt");

/// The document of a request.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_summary: Option<&'a str>,
    #[serde(flatten)]
    material: Material<'a>,
}

pub(crate) fn summary(ask: &Ask) -> Vec<ChatMessage> {
    let task = match ask.prompt {
        SummaryPrompt::Brief => BRIEF,
        SummaryPrompt::Standard => STANDARD,
        SummaryPrompt::Chunk => CHUNK,
        SummaryPrompt::Meta => META,
        SummaryPrompt::Rolling => ROLLING,
    };
    let kind = match ask.content_type {
        ContentType::Conversation => CONVERSATION,
        ContentType::Journal => JOURNAL,
        ContentType::Document => DOCUMENT,
    };
    let answer = if ask.with_sections { SECTIONS } else { PLAIN };
    let system = FRAME
        .replace("{task}", task.trim_end())
        .replace("{kind}", kind.trim_end())
        .replace("{answer}", answer.trim_end());
    let document = Document { previous_summary: ask.previous, material: ask.material };
    chat(with_length(&system, ask.target_tokens), &document)
}

pub(crate) fn shorter(
    mut messages: Vec<ChatMessage>,
    answer: &str,
    tokens: u32,
    target_tokens: u32,
) -> Vec<ChatMessage> {
    let request = with_length(SHORTER.trim_end(), target_tokens);
    let request = request.replace("{tokens}", &tokens.to_string());
    messages.push(ChatMessage::new(ChatRole::Assistant, answer));
    messages.push(ChatMessage::new(ChatRole::User, request));
    messages
}

/// Names the limit in tokens, and in words, which models are better at.
fn with_length(text: &str, target_tokens: u32) -> String {
    // An English word has 4 tokens in 3.
    let words = (u64::from(target_tokens) * 3 / 4).max(1);
    text.replace("{max_tokens}", &target_tokens.to_string()).replace("{words}", &words.to_string())
}

#[cfg(test)]
#[path = "summary_prompts_tests.rs"]
mod tests;
