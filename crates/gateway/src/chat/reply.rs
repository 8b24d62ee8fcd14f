//! An answer of an upstream, and what of it goes on: data. A type that a browser would run or render goes on as
//! bytes, headers go on by a list, and the gateway's own key stays here.

use crate::gateway::{Gateway, Permit};
use crate::people::secret::{Mask, Secret};
use crate::refusal::Refusal;
use crate::upstream::reason;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Types that go on as they are, beside `audio/`, `video/` and whatever is JSON.
const TYPES: [&str; 11] = [
    "application/json",
    "application/jsonl",
    "application/octet-stream",
    "application/x-ndjson",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "text/csv",
    "text/event-stream",
    "text/plain",
];
/// What every other type goes on as.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Headers that clients read: the name of a file, when to try again, and what to name to who runs the service.
/// None says where else to go, what to keep, or who else may read.
const HEADERS: [&str; 11] = [
    "apim-request-id",
    "cf-ray",
    "content-disposition",
    "content-encoding",
    "content-language",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-ms-request-id",
    "x-request-id",
    "x-should-retry",
];
/// How other headers begin that clients read.
const PREFIXES: [&str; 6] =
    ["anthropic-", "openai-", "ratelimit", "x-codex-", "x-litellm-", "x-ratelimit-"];
/// An error is read to its end, to be looked through, up to here.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// An answer whose headers are there.
pub struct Reply {
    response: reqwest::Response,
    /// Longest silence.
    patience: Duration,
    /// The gateway's key, if it was asked with.
    secret: Option<Arc<Secret>>,
    mask: Mask,
}

impl Reply {
    pub fn new(
        response: reqwest::Response,
        patience: Duration,
        secret: Option<Arc<Secret>>,
    ) -> Self {
        Self { response, patience, secret, mask: Mask::default() }
    }

    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its type in lower case; JSON, if it does not say.
    pub fn kind(&self) -> String {
        let kind = self.response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
        kind.to_ascii_lowercase()
    }

    /// The next bytes; `None` at its end.
    ///
    /// # Errors
    /// That it broke off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let chunk = match tokio::time::timeout(self.patience, self.response.chunk()).await {
                Ok(chunk) => chunk.map_err(|error| reason(&error))?,
                Err(_) => return Err("the upstream fell silent".to_owned()),
            };
            let Some(secret) = &self.secret else { return Ok(chunk) };
            let Some(bytes) = chunk else {
                let rest = self.mask.rest();
                return Ok((!rest.is_empty()).then_some(rest));
            };
            // All of it may be the beginning of the key.
            let masked = self.mask.take(bytes, secret);
            if !masked.is_empty() {
                return Ok(Some(masked));
            }
        }
    }

    /// An answer to the client with the status and the headers of this one, and no body.
    pub fn head(&self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        *response.headers_mut() = passing(self.response.headers(), self.secret.as_deref());
        response
    }

    /// The whole answer as it comes; the first bytes of it were read. An error is looked through for the
    /// gateway's key in all its spellings, for it may say what was asked.
    pub async fn relayed(
        mut self,
        mut read: Vec<u8>,
        gateway: &Gateway,
        permit: Permit,
    ) -> Response {
        let mut response = self.head();
        if let Some(secret) = self.secret.clone().filter(|_| !self.status().is_success()) {
            while read.len() <= MAX_ERROR_BYTES && gateway.answers.holds(read.len(), &permit) {
                match self.next().await {
                    Ok(Some(bytes)) => read.extend_from_slice(&bytes),
                    Ok(None) => {
                        *response.body_mut() = Body::from(secret.masked_bytes(read));
                        return response;
                    }
                    Err(reason) => return Refusal::no_upstream(reason).into_response(),
                }
            }
        }
        let rest = stream::unfold(Some((self, permit)), |state| async move {
            let (mut reply, permit) = state?;
            match reply.next().await {
                Ok(Some(bytes)) => Some((Ok::<Bytes, io::Error>(bytes), Some((reply, permit)))),
                Ok(None) => None,
                Err(reason) => Some((Err(io::Error::other(reason)), None)),
            }
        });
        let read = stream::iter((!read.is_empty()).then(|| Ok(Bytes::from(read))));
        *response.body_mut() = Body::from_stream(read.chain(rest));
        response
    }
}

/// The headers of an answer that go on to the client.
fn passing(headers: &HeaderMap, secret: Option<&Secret>) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let word = name.as_str();
        if HEADERS.contains(&word) || PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
            let masked = secret.map_or_else(|| Some(value.clone()), |secret| secret.masked(value));
            kept.extend(masked.map(|value| (name.clone(), value)));
        }
    }
    let kind = headers.get(CONTENT_TYPE).filter(|kind| is_data(kind));
    kept.insert(CONTENT_TYPE, kind.cloned().unwrap_or(BYTES));
    kept
}

/// Whether a type is one that goes on as it is.
fn is_data(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let (essence, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
    let essence = essence.trim();
    // Several types in one header: browsers take the last one that they know.
    let is_one = !essence.contains(',') && !parameters.contains(',');
    let is_known = TYPES.contains(&essence)
        || essence.starts_with("audio/")
        || essence.starts_with("video/")
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    is_one && is_known
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn an_answer_comes_with_what_is_listed() {
        let came: HeaderMap = [
            ("content-type", "text/event-stream"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("x-memory-stored", "forged"),
            ("set-cookie", "a=b"),
            ("location", "/"),
            ("x-request-id", "sk-of-the-gateway"),
            ("openai-version", "1"),
        ]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
        let kept = passing(&came, Secret::new("sk-of-the-gateway").as_ref());
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "openai-version", "x-request-id"]);
        assert_eq!(
            (&kept["content-type"], &kept["x-request-id"]),
            (&"text/event-stream".parse().unwrap(), &"***".parse().unwrap())
        );
        assert_eq!(passing(&HeaderMap::new(), None)[CONTENT_TYPE], BYTES);
    }
}
