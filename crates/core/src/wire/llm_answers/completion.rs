//! What is read out of the body of an answer, whatever the provider.

use serde_json::Value;

/// An LLM's answer, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Empty if there is none.
    pub text: String,
    /// Whether it calls tools, beside its text or without any.
    pub calls_tools: bool,
    pub finish: Finish,
    /// The model's own words for not answering.
    pub refusal: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    /// The whole answer in OpenAI's format.
    pub document: Value,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was complete, or the endpoint does not say otherwise.
    Stop,
    /// It reached the limit of tokens.
    Length,
    /// A filter of the provider took it.
    ContentFilter,
    /// The model calls tools and says nothing else.
    ToolCalls,
}
