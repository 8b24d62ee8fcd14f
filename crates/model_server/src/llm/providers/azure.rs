//! Azure OpenAI: OpenAI's bodies under other paths, with the deployment in the URL and the key
//! in a header of its own.
//! Reference: <https://learn.microsoft.com/azure/ai-services/openai/reference>.

use reqwest::Url;
use reqwest::header::HeaderValue;

use super::{ChatCall, Wire, openai, secret_header};
use crate::llm::base_url::BaseUrl;
use crate::llm::structured::Dialect;
use crate::protocol::Endpoint;

/// The first stable version with JSON schemas.
const DEFAULT_API_VERSION: &str = "2024-10-21";

pub fn chat_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    call: ChatCall<'_>,
) -> Result<Wire, String> {
    let (body, sent) = openai::chat_body(None, dialect, call);
    let url = url(endpoint, base, &["chat", "completions"]);
    Ok(Wire { url, headers: headers(endpoint)?, body, sent })
}

pub fn embeddings_request(
    endpoint: &Endpoint,
    base: &BaseUrl,
    dialect: Dialect,
    texts: &[String],
    dimension: Option<u32>,
) -> Result<Wire, String> {
    let (body, sent) = openai::embeddings_body(None, dialect, texts, dimension);
    Ok(Wire { url: url(endpoint, base, &["embeddings"]), headers: headers(endpoint)?, body, sent })
}

fn url(endpoint: &Endpoint, base: &BaseUrl, operation: &[&str]) -> Url {
    let segments = [&["openai", "deployments", endpoint.model.as_str()], operation].concat();
    let mut url = base.join(&segments);
    let version = match endpoint.api_version.as_str() {
        "" => DEFAULT_API_VERSION,
        version => version,
    };
    url.query_pairs_mut().append_pair("api-version", version);
    url
}

fn headers(endpoint: &Endpoint) -> Result<Vec<(&'static str, HeaderValue)>, String> {
    if endpoint.api_key.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![("api-key", secret_header(endpoint.api_key.expose())?)])
}
