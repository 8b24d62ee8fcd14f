//! Where the LLM and the embedding endpoint are, as the settings say. Keys come from files and go
//! nowhere but into the request. There is no setting for a key itself: PostgreSQL writes the new value
//! of a changed setting into its log.

use crate::settings::{EmbeddingProvider, Inference, LlmProvider, guc};
use memory_agent_core::llm::endpoint::{host, is_name};
use memory_agent_model_server::protocol::{ApiKey, Endpoint, Provider, RemoteEmbedder};
use std::path::Path;

/// Why [`missing_llm`] has none, where an endpoint that is a row may take its place.
pub const NO_LLM: &str = "memory_agent.llm_base_url is empty";
/// The protocols of endpoints, the usual one first.
pub const PROVIDERS: [&str; 3] = ["openai", "azure", "anthropic"];
/// Longest answer that is read.
const MAX_RESPONSE_BYTES: u32 = 4 * 1024 * 1024;
/// Texts in one call of an embedding endpoint.
const EMBEDDING_BATCH: u32 = 64;

/// Why no LLM is asked in the background; `None` when jobs for it make sense.
pub fn missing_llm() -> Option<&'static str> {
    if guc::llm_base_url().is_empty() {
        return Some(NO_LLM);
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

/// An endpoint that is a row of `memory_agent.endpoints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEndpoint {
    pub name: String,
    /// One of [`PROVIDERS`].
    pub provider: String,
    pub base_url: String,
    pub model: String,
    /// Empty for the provider's usual one.
    pub api_version: String,
    /// A file of `memory_agent.llm_key_dir`, in the folder of the host of `base_url`; `None` sends no key.
    pub key_name: Option<String>,
    /// 0 for no limit.
    pub calls_per_minute: i32,
    /// 0 for no limit.
    pub daily_tokens: i64,
    /// Whether the owner wrote or enabled it in this very database.
    pub is_enabled: bool,
}

impl NamedEndpoint {
    /// # Errors
    /// Why it cannot be asked.
    pub fn endpoint(&self) -> Result<Endpoint, String> {
        let name = &self.name;
        if !self.is_enabled {
            return Err(format!(
                "the endpoint \"{name}\" is off: it came with a copy of another database, and the owner did \
                 not call memory_enable_endpoint"
            ));
        }
        Ok(Endpoint {
            provider: match self.provider.as_str() {
                "azure" => Provider::Azure,
                "anthropic" => Provider::Anthropic,
                _ => Provider::OpenAi,
            },
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            api_key: self.key().map_err(|reason| format!("the endpoint \"{name}\": {reason}"))?,
            api_version: self.api_version.clone(),
            timeout_ms: guc::llm_timeout().max(1) as u32,
            calls_per_minute: self.calls_per_minute.max(0) as u32,
            max_response_bytes: MAX_RESPONSE_BYTES,
        })
    }

    /// Whether requests in OpenAI's format can be passed on as they are.
    pub fn speaks_openai(&self) -> bool {
        self.provider != "anthropic"
    }

    /// Checked once more: rows can come from a dump.
    fn key(&self) -> Result<ApiKey, String> {
        let Some(key) = &self.key_name else { return Ok(ApiKey::default()) };
        let directory = guc::llm_key_dir();
        let host = host(&self.base_url).filter(|_| is_name(key));
        match host {
            _ if directory.is_empty() => Err("memory_agent.llm_key_dir is empty".to_owned()),
            None => Err("its address or the name of its key cannot be used".to_owned()),
            Some(host) => {
                let path = Path::new(&directory).join(host).join(key);
                let what = format!("the key \"{key}\" for {host} in memory_agent.llm_key_dir");
                first_line(&what, &path)
            }
        }
    }
}

/// Whether the LLM of the settings takes requests in OpenAI's format as they are.
pub fn speaks_openai() -> bool {
    guc::llm_provider() != LlmProvider::Anthropic
}

/// The model that writes summaries, where the settings name one.
pub fn summary_model() -> Option<String> {
    Some(guc::summary_model()).filter(|model| !model.is_empty())
}

/// Most tokens a day of the LLM of the settings; 0 for no limit.
pub fn daily_tokens() -> i64 {
    i64::from(guc::llm_daily_tokens())
}

/// Whether the settings name an endpoint that embeds.
pub fn is_embedder_remote() -> bool {
    guc::embedding_provider() != EmbeddingProvider::Local
}

/// The embedding endpoint, for the model that `memory_agent.embedding_model` names there.
///
/// # Errors
/// Why the key's file cannot be read.
pub fn embedder(model: &str) -> Result<RemoteEmbedder, String> {
    let key = key("embedding_api_key_file", &guc::embedding_api_key_file())?;
    Ok(RemoteEmbedder {
        endpoint: Endpoint {
            provider: match guc::embedding_provider() {
                EmbeddingProvider::Azure => Provider::Azure,
                EmbeddingProvider::Http | EmbeddingProvider::Local => Provider::OpenAi,
            },
            base_url: guc::embedding_base_url(),
            model: model.to_owned(),
            api_key: key,
            api_version: guc::embedding_api_version(),
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

/// The key in the file of a setting; no key when no file is named.
fn key(setting: &str, file: &str) -> Result<ApiKey, String> {
    if file.is_empty() {
        return Ok(ApiKey::default());
    }
    first_line(&format!("the file of memory_agent.{setting}"), Path::new(file))
}

/// A key, which is the first line of a file.
fn first_line(what: &str, path: &Path) -> Result<ApiKey, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{what} cannot be read: {}", error.kind()))?;
    match text.lines().next().map(str::trim) {
        Some(key) if !key.is_empty() => Ok(ApiKey::new(key)),
        _ => Err(format!("{what} is empty")),
    }
}
