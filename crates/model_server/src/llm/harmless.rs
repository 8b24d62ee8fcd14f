//! The harmless request that tests an endpoint: a few tokens to the same model, with the same key, about nothing.

use memory_agent_core::facts::answers::{AnswerFormat, ChatMessage, ChatRole};
use memory_agent_core::jobs::blame::HARMLESS;

use super::base_url::BaseUrl;
use super::providers::{self, ChatCall, Messages, Wire};
use super::structured::Dialect;
use crate::protocol::{Endpoint, Provider};

/// Most tokens of the answer, the least that providers take.
const MAX_ANSWER_TOKENS: u32 = 16;

/// What an endpoint is asked to test it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harmless {
    Chat,
    Embedding { dimension: Option<u32> },
}

/// Tokens of the prompt and of the answer, as far as the endpoint says.
pub type Usage = (Option<u32>, Option<u32>);

impl Harmless {
    /// # Errors
    /// As [`providers::chat_request`].
    pub fn wire(
        self,
        endpoint: &Endpoint,
        base: &BaseUrl,
        dialect: Dialect,
    ) -> Result<Wire, String> {
        match self {
            Self::Chat => {
                let messages = [ChatMessage::new(ChatRole::User, HARMLESS.to_owned())];
                let call = ChatCall {
                    messages: Messages::Texts(&messages),
                    answer: &AnswerFormat::Text,
                    max_answer_tokens: MAX_ANSWER_TOKENS,
                    temperature: None,
                };
                providers::chat_request(endpoint, base, dialect, call)
            }
            Self::Embedding { dimension } => {
                let texts = [HARMLESS.to_owned()];
                providers::embeddings_request(endpoint, base, dialect, &texts, dimension)
            }
        }
    }

    /// # Errors
    /// Why the body of a successful answer is invalid.
    pub fn read(self, provider: Provider, body: &[u8]) -> Result<Usage, String> {
        match self {
            Self::Chat => providers::completion(provider, body)
                .map(|answer| (answer.prompt_tokens, answer.completion_tokens)),
            Self::Embedding { .. } => providers::vectors(body, 1).map(|_| (None, None)),
        }
    }
}
