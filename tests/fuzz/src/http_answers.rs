//! Bodies of HTTP answers of LLMs and embedding models, and the header `Retry-After`. There is no
//! parser of server-sent events: no request asks for a stream.

use std::time::Duration;

use memory_agent_core::llm::retry::retry_after;
use memory_agent_core::wire::llm_answers::{ApiError, Completion, completion, vectors};
use memory_agent_core::wire::protocol::Provider;

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    let body = text.as_bytes();
    crate::linear(body.len(), || {
        for provider in [Provider::OpenAi, Provider::Azure, Provider::Anthropic] {
            match completion(provider, body) {
                Ok(completion) => {
                    assert!(completion.text.len() <= body.len());
                    assert!(completion.document.is_object());
                    if provider == Provider::Anthropic {
                        retold(&completion);
                    }
                }
                Err(error) => crate::short(error),
            }
        }
        for texts in 0..3 {
            match vectors(body, texts) {
                Ok(rows) => {
                    assert_eq!(rows.len(), texts);
                    assert!(rows.iter().map(Vec::len).sum::<usize>() <= body.len());
                }
                Err(error) => crate::short(error),
            }
        }
        let error = ApiError::parse(body);
        // What is not UTF-8 is replaced by three bytes; an escape grows when JSON is written again.
        assert!(error.message.len() <= 6 * body.len());
        assert!(ApiError::in_success(body).is_none_or(|found| found == error));
        let wait = retry_after(&text, 1_700_000_000);
        assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(3600)));
    });
}

/// The document in OpenAI's format says what was read.
fn retold(completion: &Completion) {
    let message = &completion.document["choices"][0]["message"];
    assert_eq!(message["content"].as_str().unwrap_or_default(), completion.text);
    assert_eq!(message["tool_calls"].is_array(), completion.calls_tools);
    assert_eq!(completion.document["model"].as_str(), completion.model.as_deref());
}
