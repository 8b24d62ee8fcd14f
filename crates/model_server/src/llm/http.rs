//! One HTTP call: a bounded request and answer within a bounded time. Knows nothing of LLMs.
//!
//! No proxy is used. The root certificates are those of the system, or those of `SSL_CERT_FILE` and
//! `SSL_CERT_DIR`, which the supervisor passes on from PostgreSQL's environment and nothing else of it.
//! Redirects are not followed, so credentials reach no other host.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// Longest wait for a connection, TLS included. Who does not answer in that time is down; what
/// is left of a call's time is for the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle connections are closed before most servers and gateways would do it: a request sent
/// into a connection that is being closed fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes read of an answer that is an error; messages are at its beginning.
const ERROR_BODY_BYTES: usize = 64 * 1024;

/// A request with a JSON body.
#[derive(Debug)]
pub struct HttpRequest {
    pub url: Url,
    /// Names in lower case.
    pub headers: Vec<(&'static str, HeaderValue)>,
    pub body: Vec<u8>,
    /// From looking up the name to the last byte of the answer.
    pub timeout: Duration,
    pub max_response_bytes: usize,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    /// `Retry-After` as it came, or `retry-after-ms` in seconds.
    pub retry_after: Option<String>,
    /// Milliseconds from `retry-after-ms`, which OpenAI and Azure send beside `Retry-After`.
    pub retry_after_ms: Option<u64>,
    pub location: Option<String>,
    /// Cut, unless the status is a success.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// Nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke, or what came was no HTTP.
    #[error("connection lost: {0}")]
    Interrupted(String),
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// Makes calls and keeps connections open between them.
#[derive(Debug)]
pub struct HttpClient {
    client: Client,
    /// Root certificates found on the system.
    roots: usize,
}

impl HttpClient {
    /// # Errors
    /// A message, if TLS cannot be set up at all. Missing root certificates are no error:
    /// endpoints without TLS work without.
    pub fn new() -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        let (roots, _) =
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(store)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("memory_agent/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| reason(&error))?;
        Ok(Self { client, roots })
    }

    /// Sends a POST and reads the whole answer. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`HttpError`]; its text does not contain the URL or a header.
    pub async fn post(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (timeout, limit) = (request.timeout, request.max_response_bytes);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in request.headers {
            headers.insert(HeaderName::from_static(name), value);
        }
        let sent =
            self.client.post(request.url).headers(headers).body(request.body).timeout(timeout);
        let response = sent.send().await.map_err(|error| self.failed(&error, timeout))?;
        let text = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (retry_after, location) = (text(RETRY_AFTER), text(LOCATION));
        let retry_after_ms = text(HeaderName::from_static("retry-after-ms"));
        let status = response.status();
        let body = if status.is_success() {
            self.read(response, limit, timeout).await?
        } else {
            self.read_beginning(response).await
        };
        Ok(HttpResponse {
            status: status.as_u16(),
            retry_after,
            retry_after_ms: retry_after_ms.and_then(|text| text.trim().parse().ok()),
            location,
            body,
        })
    }

    /// Reads a body and gives up as soon as it is longer than `limit`, or says it will be.
    async fn read(
        &self,
        mut response: Response,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, HttpError> {
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(HttpError::TooLarge(limit));
        }
        let mut body = Vec::new();
        loop {
            match response.chunk().await.map_err(|error| self.failed(&error, timeout))? {
                None => return Ok(body),
                Some(chunk) if body.len() + chunk.len() > limit => {
                    return Err(HttpError::TooLarge(limit));
                }
                Some(chunk) => body.extend_from_slice(&chunk),
            }
        }
    }

    /// Reads the beginning of an error's body. The status matters more than the text, so a
    /// failure on the way does not count.
    async fn read_beginning(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_BODY_BYTES {
                body.truncate(ERROR_BODY_BYTES);
                break;
            }
        }
        body
    }

    fn failed(&self, error: &reqwest::Error, timeout: Duration) -> HttpError {
        if error.is_connect() {
            let mut message = reason(error);
            if message.contains("UnknownIssuer") {
                message.push_str(match self.roots {
                    0 => " (no root certificates were found on this system)",
                    _ => " (its issuer is not among the root certificates of this system)",
                });
            }
            HttpError::Connect(message)
        } else if error.is_timeout() {
            HttpError::Timeout(timeout)
        } else {
            HttpError::Interrupted(reason(error))
        }
    }
}

/// The innermost cause: the outer ones only repeat that a request to that URL failed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
