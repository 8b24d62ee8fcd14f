//! Where the LLM and the embedding endpoint are, as the settings say. Keys come from files and go
//! nowhere but into the request. There is no setting for a key itself: PostgreSQL writes the new value
//! of a changed setting into its log.

use crate::settings::guc::{self, Inference, LlmProvider};
use memory_agent_model_server::protocol::{ApiKey, Endpoint, Provider, RemoteEmbedder};

/// Longest answer that is read.
const MAX_RESPONSE_BYTES: u32 = 4 * 1024 * 1024;
/// Texts in one call of an embedding endpoint.
const EMBEDDING_BATCH: u32 = 64;

/// Why nobody asks an LLM in the background; `None` when jobs for it make sense.
pub fn missing_llm() -> Option<&'static str> {
    if guc::llm_base_url().is_empty() {
        return Some("memory_agent.llm_base_url is empty");
    }
    (guc::inference() == Inference::Backend).then_some(
        "an LLM is called by the model server only, and memory_agent.inference is 'backend'",
    )
}

/// The LLM's endpoint; `None` while `memory_agent.llm_base_url` is empty.
///
/// # Errors
/// Why the key's file cannot be read.
pub fn llm() -> Result<Option<Endpoint>, String> {
    let base_url = guc::llm_base_url();
    if base_url.is_empty() {
        return Ok(None);
    }
    Ok(Some(Endpoint {
        provider: match guc::llm_provider() {
            LlmProvider::OpenAi => Provider::OpenAi,
            LlmProvider::Azure => Provider::Azure,
            LlmProvider::Anthropic => Provider::Anthropic,
        },
        base_url,
        model: guc::llm_model(),
        api_key: key("llm_api_key_file", &guc::llm_api_key_file())?,
        api_version: guc::llm_api_version(),
        timeout_ms: guc::llm_timeout().max(1) as u32,
        calls_per_minute: guc::llm_calls_per_minute().max(0) as u32,
        max_response_bytes: MAX_RESPONSE_BYTES,
    }))
}

/// The embedding endpoint, for the model that `memory_agent.embedding_model` names there.
///
/// # Errors
/// Why the key's file cannot be read.
pub fn embedder(model: &str) -> Result<RemoteEmbedder, String> {
    let key = key("embedding_api_key_file", &guc::embedding_api_key_file())?;
    Ok(RemoteEmbedder {
        endpoint: Endpoint {
            provider: Provider::OpenAi,
            base_url: guc::embedding_base_url(),
            model: model.to_owned(),
            api_key: key,
            api_version: String::new(),
            timeout_ms: guc::inference_timeout().max(1) as u32,
            calls_per_minute: 0,
            max_response_bytes: 64 * 1024 * 1024,
        },
        dimension: u32::try_from(guc::embedding_dimension())
            .ok()
            .filter(|&dimension| dimension > 0),
        batch: EMBEDDING_BATCH,
    })
}

/// The file's first line; no key when no file is named.
fn key(setting: &str, file: &str) -> Result<ApiKey, String> {
    if file.is_empty() {
        return Ok(ApiKey::default());
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("memory_agent.{setting} cannot be read: {}", error.kind()))?;
    match text.lines().next().map(str::trim) {
        Some(key) if !key.is_empty() => Ok(ApiKey::new(key)),
        _ => Err(format!("the file of memory_agent.{setting} is empty")),
    }
}
