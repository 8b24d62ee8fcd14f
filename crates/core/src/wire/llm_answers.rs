//! The bodies of HTTP answers: what an endpoint of an LLM or an embedding model says, one file a
//! provider. Nothing of an answer is checked here but its shape; see [`answers`](crate::facts::answers).

use serde_json::Value;

use crate::wire::protocol::Provider;

mod anthropic;
mod completion;
mod openai;

pub use completion::{Completion, Finish};

/// What an endpoint says about a request that it did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiError {
    pub message: String,
    pub code: Option<String>,
    /// Name of the parameter that was wrong.
    pub param: Option<String>,
}

impl ApiError {
    /// Reads the usual forms: `{"error": {"message", "code", "param"}}` (OpenAI, Azure,
    /// Anthropic), `{"error": "..."}` (Ollama), `{"message"}` (vLLM), `{"detail"}` (FastAPI).
    /// Of anything else it takes the beginning as the message.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        const PLAIN_CHARS: usize = 200;
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            let text = String::from_utf8_lossy(body);
            return Self { message: text.chars().take(PLAIN_CHARS).collect(), ..Self::default() };
        };
        let inner = value.get("error").filter(|error| !error.is_null()).unwrap_or(&value);
        let text = |name: &str| match inner.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        };
        let message = inner
            .as_str()
            .map(str::to_owned)
            .or_else(|| text("message"))
            .or_else(|| text("detail"))
            .unwrap_or_default();
        Self { message, code: text("code").or_else(|| text("type")), param: text("param") }
    }

    /// The error in the body of an answer that claims to be a success, as gateways send it: for the whole, or for
    /// its first choice.
    #[must_use]
    pub fn in_success(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let is_error = |at: &Value| at.get("error").is_some_and(|error| !error.is_null());
        let choice = value.get("choices").and_then(|choices| choices.get(0));
        let failed = [Some(&value), choice].into_iter().flatten().find(|at| is_error(at))?;
        Some(Self::parse(failed.to_string().as_bytes()))
    }

    /// The HTTP status that the code is, which gateways write into the body of an answer with status 200.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let code = self.code.as_deref()?.parse().ok()?;
        (300..600).contains(&code).then_some(code)
    }

    /// Whether the error is about that parameter.
    #[must_use]
    pub fn concerns(&self, param: &str) -> bool {
        self.param.as_deref() == Some(param) || self.message.contains(param)
    }

    /// Whether the error is about what was asked, not about how.
    #[must_use]
    pub fn concerns_content(&self) -> bool {
        matches!(
            self.code.as_deref(),
            Some("context_length_exceeded" | "content_filter" | "content_policy_violation")
        )
    }
}

/// Reads the body of a successful chat call.
///
/// # Errors
/// A message, if the body is no chat completion.
pub fn completion(provider: Provider, body: &[u8]) -> Result<Completion, String> {
    match provider {
        Provider::OpenAi | Provider::Azure => openai::completion(body),
        Provider::Anthropic => anthropic::completion(body),
    }
}

/// Reads the body of a successful request for embeddings, in the order of the texts.
///
/// # Errors
/// A message, if the body does not hold one embedding per text.
pub fn vectors(body: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, String> {
    openai::vectors(body, texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_every_usual_form_are_read() {
        let message = |body: &str| ApiError::parse(body.as_bytes()).message;
        assert_eq!(message(r#"{"error":{"message":"no","type":"t"}}"#), "no");
        assert_eq!(message(r#"{"type":"error","error":{"type":"t","message":"no"}}"#), "no");
        assert_eq!(message(r#"{"error":"no"}"#), "no");
        assert_eq!(message(r#"{"object":"error","message":"no","code":400}"#), "no");
        assert_eq!(message(r#"{"detail":[{"msg":"no"}]}"#), r#"[{"msg":"no"}]"#);
        assert_eq!(message("<html>no</html>"), "<html>no</html>");
        assert_eq!(message(""), "");
        let full = ApiError::parse(
            br#"{"error":{"message":"m","code":"context_length_exceeded","param":"messages"}}"#,
        );
        assert_eq!(full.param.as_deref(), Some("messages"));
        assert!(full.concerns_content());
    }

    #[test]
    fn errors_inside_of_successes_are_found() {
        let found = |body: &str| ApiError::in_success(body.as_bytes()).map(|error| error.message);
        assert_eq!(found(r#"{"error":{"message":"no"}}"#).as_deref(), Some("no"));
        assert_eq!(found(r#"{"error":null,"message":"yes"}"#), None);
        assert_eq!(found(r#"{"choices":[]}"#), None);
        assert_eq!(found("no JSON"), None);
        let choice =
            r#"{"choices":[{"error":{"code":502,"message":"gone"},"message":{"content":""}}]}"#;
        assert_eq!(found(choice).as_deref(), Some("gone"));
        let status =
            |body: &str| ApiError::in_success(body.as_bytes()).and_then(|error| error.status());
        assert_eq!(status(choice), Some(502));
        assert_eq!(status(r#"{"error":{"message":"slow down","code":"429"}}"#), Some(429));
        assert_eq!(status(r#"{"error":{"message":"no","code":"invalid_api_key"}}"#), None);
        assert_eq!(status(r#"{"error":{"message":"no","code":7}}"#), None);
    }
}
