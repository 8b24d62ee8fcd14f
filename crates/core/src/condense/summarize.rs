//! Summaries: the question to the LLM, and the reading of its answer.
//!
//! How long a summary is asked to be is in [`levels`](crate::condense::levels); what goes into one request
//! is chosen with [`material`](crate::condense::material).

use crate::words;
use serde::Serialize;

pub use crate::condense::preamble::clean;
pub use crate::condense::sections::{Sections, sections};
use crate::condense::summary_prompts;
use crate::llm::chat::ChatMessage;

/// Which summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryPrompt {
    /// One sentence about a short text.
    Brief,
    /// A paragraph, which takes up the summary so far if there is one.
    Standard,
    /// A part of a long text (L1).
    Chunk,
    /// Summaries of parts, joined (L2 and L3).
    Meta,
    /// The summary so far, brought up to date.
    Rolling,
}

words! {
    /// What kind of text is summarised: `sessions.content_type`.
    #[derive(Default)]
    pub enum ContentType {
        #[default]
        Conversation = "conversation",
        Journal = "journal",
        Document = "document",
    }
}

impl ContentType {
    /// The kinds by name.
    pub const NAMES: [&'static str; 3] = ["conversation", "journal", "document"];
}

/// A turn, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Said<'a> {
    pub role: &'a str,
    /// The name of who said it, if the turn has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<&'a str>,
    /// The day the turn was said, as an ISO date.
    pub said_at: &'a str,
    pub text: &'a str,
}

/// A fact that stands for turns that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Known<'a> {
    /// The day since which it is known, as an ISO date.
    pub since: &'a str,
    pub text: &'a str,
}

/// What is summarised, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Material<'a> {
    Turns(&'a [Said<'a>]),
    Facts(&'a [Known<'a>]),
    Summaries(&'a [&'a str]),
    Text(&'a str),
}

/// A request for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    pub prompt: SummaryPrompt,
    pub content_type: ContentType,
    /// The summary of what came before the material. If the answer has sections, it is best given
    /// with its own, as [`Sections`] are written.
    pub previous: Option<&'a str>,
    pub material: Material<'a>,
    /// How long the summary may be, in tokens.
    pub target_tokens: u32,
    /// Whether the answer has the sections that [`sections`] reads; else it is for [`clean`].
    pub with_sections: bool,
}

/// The chat that asks for a summary. An answer has the format `Text`.
#[must_use]
pub fn messages(ask: &Ask) -> Vec<ChatMessage> {
    summary_prompts::summary(ask)
}

/// The chat that asks for a shorter summary: `messages` as they were sent, the answer to them,
/// which has `tokens` tokens, and the request for at most `target_tokens`.
///
/// For an answer with sections `tokens` are those of its summary.
#[must_use]
pub fn shorter(
    messages: Vec<ChatMessage>,
    answer: &str,
    tokens: u32,
    target_tokens: u32,
) -> Vec<ChatMessage> {
    summary_prompts::shorter(messages, answer, tokens, target_tokens)
}
