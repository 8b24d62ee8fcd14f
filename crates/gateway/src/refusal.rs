//! What the gateway says when it does not pass a request on, in the form in which OpenAI's clients expect
//! errors, and with its outer type Anthropic's. An upstream's own errors pass through as they are.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// For clients of mem0 whose paths or methods are those of other versions.
const OTHER_MEM0: &str = "this is a call of another version of mem0's client: the gateway answers version 2.2.1 of \
                          mem0ai, so install that one";

/// Whether a path is one that other versions of mem0's client ask.
fn is_of_other_mem0(path: &str) -> bool {
    let under = ["/v1/", "/v2/", "/v3/"].iter().find_map(|version| path.strip_prefix(version));
    let first = under.and_then(|rest| rest.split('/').next());
    matches!(first, Some("memories" | "ping" | "entities"))
}

/// A request that ends here.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    /// A word for programs.
    code: &'static str,
    /// A sentence for people.
    message: String,
    /// Seconds until it is worth another try.
    retry_after: Option<u32>,
    /// Whether OpenAI's clients, which send a request again by themselves, are told not to.
    is_final: bool,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, is_final: false }
    }

    /// 400: the request says something that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// 401: the caller is not known.
    pub fn unknown_caller(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_memory_token", message)
    }

    /// 403: it came from where nothing may come from.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 404: a path that is not forwarded, with the base URL that was meant, as far as the path tells.
    pub fn no_such_path(path: &str) -> Self {
        let mut rest = path;
        while let Some(shorter) = rest.strip_prefix("/v1").filter(|rest| rest.starts_with('/')) {
            rest = shorter;
        }
        let is_in = |roots: &[&str]| {
            let after = |root: &&str| rest.strip_prefix(*root);
            roots.iter().filter_map(after).any(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_one = rest.len() + "/v1".len() == path.len();
        let meant = if is_one {
            ""
        } else if is_in(&["/messages"]) {
            ". Here it is the gateway's address without /v1, such as http://127.0.0.1:8765"
        } else if is_in(&["/chat/completions", "/responses", "/embeddings", "/models"]) {
            ". Here it is the gateway's address with one /v1, such as http://127.0.0.1:8765/v1"
        } else {
            ""
        };
        let message = match is_of_other_mem0(path) {
            true => OTHER_MEM0.to_owned(),
            false => format!(
                "the gateway does not forward this path: the base URL for OpenAI's clients ends with /v1, that for \
                 Anthropic's does not{meant}"
            ),
        };
        Self::new(StatusCode::NOT_FOUND, "unknown_path", message)
    }

    /// 404: a memory that is not there, or is another user's.
    pub fn no_such_memory(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_memory", message)
    }

    /// 405: a path that is forwarded, but not with this method.
    pub fn no_such_method(path: &str) -> Self {
        let message = match is_of_other_mem0(path) {
            true => OTHER_MEM0,
            false => "the gateway does not forward this path with this method",
        };
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_method", message)
    }

    /// 408: the body does not come.
    pub fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the body did not come in time")
    }

    /// 413: the body is too large.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    }

    /// 415: the body is compressed in a way that is unknown here.
    pub fn unknown_coding(name: &str) -> Self {
        let shown: String = name.chars().take(40).collect();
        let message = format!(
            "the body has the content-encoding {shown:?}: the gateway reads gzip, zstd and identity"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_encoding", message)
    }

    /// 429: too many requests of one caller.
    pub fn too_many(seconds: u32) -> Self {
        let message = "too many requests: wait a little";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
        Self { retry_after: Some(seconds.max(1)), ..refusal }
    }

    /// 429: the caller has spent what a day allows. Trying again soon is no use.
    pub fn spent(seconds: u32) -> Self {
        let message = "this token has spent its tokens of the day (UTC)";
        let status = StatusCode::TOO_MANY_REQUESTS;
        let refusal = Self::new(status, "spending_limit_reached", message);
        Self { retry_after: Some(seconds.max(1)), is_final: true, ..refusal }
    }

    /// 429: the user has as much in memory as a quota allows. Trying again is no use before some is forgotten.
    pub fn over_quota() -> Self {
        let message = "the quota of this user's memory is used up";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "quota_reached", message);
        Self { is_final: true, ..refusal }
    }

    /// 502: the upstream cannot be reached, or broke off.
    pub fn no_upstream(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "upstream_unavailable", message)
    }

    /// 503: too many requests of all callers together.
    pub fn busy() -> Self {
        let message = "too many requests are being answered";
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Self { retry_after: Some(1), ..refusal }
    }

    /// 503: what other requests hold leaves no room for the body.
    pub fn no_room() -> Self {
        let message = "the requests that are being answered leave no room for the body";
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Self { retry_after: Some(1), ..refusal }
    }

    /// 429: what this user's requests hold is as much as one user may.
    pub fn no_share() -> Self {
        let message = "your requests that are being answered hold as much as those of one user may";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message);
        Self { retry_after: Some(1), ..refusal }
    }

    /// 503: there is no memory, and none of this goes without.
    pub fn no_memory(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "memory_unavailable", message);
        Self { retry_after: Some(5), ..refusal }
    }

    /// 503: memory is required, and the answer is not in it.
    pub fn unstored() -> Self {
        Self::no_memory("the answer could not be stored")
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error as JSON.
    pub fn to_json(&self) -> String {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let error =
            json!({"message": self.message, "type": kind, "param": null, "code": self.code});
        json!({"type": "error", "error": error}).to_string()
    }
}

/// The word for programs, beside a response: what refusals are counted by.
#[derive(Clone, Copy, Debug)]
pub struct Code(pub &'static str);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let headers = [(header::CONTENT_TYPE, json)];
        let code = Code(self.code);
        let mut response = (self.status, headers, self.to_json()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.is_final {
            let name = HeaderName::from_static("x-should-retry");
            response.headers_mut().insert(name, HeaderValue::from_static("false"));
        }
        response.extensions_mut().insert(code);
        response
    }
}
