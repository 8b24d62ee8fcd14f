//! One HTTP call at an endpoint, from the permission to the verdict: what its result says about
//! the endpoint, and what about the request.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memory_agent_core::redact::mask;
use memory_agent_core::retry::retry_after;

use super::base_url::BaseUrl;
use super::endpoint::{Attempt, EndpointState, Endpoints};
use super::http::{HttpClient, HttpError, HttpRequest, HttpResponse};
use super::providers::{ApiError, Wire};
use crate::protocol::{CallRecord, Endpoint, MAX_FRAME_BYTES};

/// Longest message about a failure, in characters.
const MESSAGE_CHARS: usize = 500;

/// An endpoint that can be called.
#[derive(Debug)]
pub struct EndpointClient<'a> {
    http: &'a HttpClient,
    pub settings: &'a Endpoint,
    pub base: BaseUrl,
    pub state: Arc<EndpointState>,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// The endpoint is of no use at present, for any request.
    Unavailable { message: String, retry_after_ms: Option<u64> },
    /// The call failed, but the endpoint may be well.
    Failed { message: String, is_timeout: bool },
    /// The endpoint does not accept this request.
    Rejected { status: u16, error: ApiError, message: String },
    /// The answer is longer than allowed.
    TooLarge { message: String },
}

/// The result of a call that was made or not.
#[derive(Debug)]
pub struct Called<T> {
    pub result: Result<T, CallFailure>,
    /// `None` if no HTTP call was made.
    pub record: Option<CallRecord>,
}

impl<'a> EndpointClient<'a> {
    /// # Errors
    /// A message, if the settings cannot be an endpoint.
    pub fn new(
        http: &'a HttpClient,
        endpoints: &Endpoints,
        settings: &'a Endpoint,
    ) -> Result<Self, String> {
        let base = BaseUrl::parse(&settings.base_url)?;
        let state = endpoints.get(settings, &base);
        Ok(Self { http, settings, base, state })
    }

    /// Makes a call, if one may be made now.
    ///
    /// * `read`: makes a value of a successful answer's body, or says why it is none.
    pub async fn call<T>(
        &self,
        wire: Wire,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Called<T> {
        let attempt = match self.state.begin(self.settings.calls_per_minute) {
            Ok(attempt) => attempt,
            Err(blocked) => {
                let failure = CallFailure::Unavailable {
                    message: self.clean(&blocked.message),
                    retry_after_ms: Some(blocked.retry_after_ms),
                };
                return Called { result: Err(failure), record: None };
            }
        };
        let started = Instant::now();
        let request = HttpRequest {
            url: wire.url,
            headers: wire.headers,
            body: wire.body.to_string().into_bytes(),
            timeout: Duration::from_millis(self.settings.timeout_ms.into()),
            max_response_bytes: (self.settings.max_response_bytes as usize).min(MAX_FRAME_BYTES),
        };
        let answered = self.http.post(request).await;
        let latency_ms = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
        let (status, result) = match answered {
            Ok(response) if (200..300).contains(&response.status) => match read(&response.body) {
                Ok(value) => {
                    attempt.success();
                    ("ok".to_owned(), Ok(value))
                }
                Err(reason) => {
                    let error = ApiError::in_success(&response.body);
                    let reason = error.map_or(reason, |error| error.message);
                    self.failed(attempt, "malformed", &reason)
                }
            },
            Ok(response) => {
                (format!("http {}", response.status), Err(self.refused(attempt, &response)))
            }
            Err(error @ HttpError::TooLarge(_)) => {
                attempt.success();
                let message = self.say(&error.to_string());
                ("too large".to_owned(), Err(CallFailure::TooLarge { message }))
            }
            Err(error @ HttpError::Timeout(_)) => {
                let message = self.say(&error.to_string());
                let failure = match attempt.timed_out(CallRecord::TIMEOUT) {
                    Some(retry_in) => {
                        CallFailure::Unavailable { message, retry_after_ms: Some(retry_in) }
                    }
                    None => CallFailure::Failed { message, is_timeout: true },
                };
                (CallRecord::TIMEOUT.to_owned(), Err(failure))
            }
            Err(error @ HttpError::Interrupted(_)) => {
                self.failed(attempt, CallRecord::CONNECTION, &error.to_string())
            }
            Err(error @ HttpError::Connect(_)) => {
                let message = self.say(&error.to_string());
                let retry_after_ms = attempt.failure(CallRecord::CONNECTION);
                let failure = CallFailure::Unavailable { message, retry_after_ms };
                (CallRecord::CONNECTION.to_owned(), Err(failure))
            }
        };
        let error = result.as_ref().err().map(|failure| failure.message().to_owned());
        let record =
            CallRecord { status, latency_ms, prompt_tokens: None, completion_tokens: None, error };
        Called { result, record: Some(record) }
    }

    /// A failure that can be the endpoint's or the request's.
    fn failed<T>(
        &self,
        attempt: Attempt,
        label: &str,
        reason: &str,
    ) -> (String, Result<T, CallFailure>) {
        let message = self.say(reason);
        let failure = self.count(attempt, label, message);
        (label.to_owned(), Err(failure))
    }

    fn count(&self, attempt: Attempt, label: &str, message: String) -> CallFailure {
        match attempt.failure(label) {
            Some(retry_in) => CallFailure::Unavailable { message, retry_after_ms: Some(retry_in) },
            None => CallFailure::Failed { message, is_timeout: false },
        }
    }

    /// What a status other than success means.
    fn refused(&self, attempt: Attempt, response: &HttpResponse) -> CallFailure {
        let status = response.status;
        let label = format!("http {status}");
        let error = ApiError::parse(&response.body);
        let detail = match (&response.location, error.message.trim()) {
            (Some(_), _) if (300..400).contains(&status) => {
                ": redirects are not followed".to_owned()
            }
            (_, "") => String::new(),
            (_, text) => format!(": {text}"),
        };
        let message = self.say(&format!("HTTP {status}{detail}"));
        let pause = requested_pause(response);
        match status {
            429 => {
                let retry_after_ms = Some(attempt.throttled(pause, &label));
                CallFailure::Unavailable { message, retry_after_ms }
            }
            // 529 is Anthropic's "overloaded".
            503 | 529 if pause.is_some() => {
                let retry_after_ms = Some(attempt.throttled(pause, &label));
                CallFailure::Unavailable { message, retry_after_ms }
            }
            // A wrong key, URL or model, no money, or a method that only a web page would
            // refuse: no request can succeed until the settings change.
            300..400 | 401 | 402 | 403 | 404 | 405 | 407 => {
                let retry_after_ms = Some(attempt.trip(&label));
                CallFailure::Unavailable { message, retry_after_ms }
            }
            400..500 if status != 408 => {
                attempt.success();
                CallFailure::Rejected { status, error, message }
            }
            _ => self.count(attempt, &label, message),
        }
    }

    /// A message that names the endpoint by its model: its address is not for everybody.
    fn say(&self, text: &str) -> String {
        self.clean(&format!("the endpoint of \"{}\": {text}", self.settings.model))
    }

    /// A text from outside as it may leave the server: on one client, not too long, and without
    /// the key, which endpoints like to repeat.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        // Masked before it is cut: half a key would not be found.
        let masked = mask(text, &[self.settings.api_key.expose()]);
        masked
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .take(MESSAGE_CHARS)
            .collect()
    }
}

impl CallFailure {
    /// The settings cannot make a call.
    #[must_use]
    pub fn misconfigured(message: String) -> Self {
        Self::Unavailable { message, retry_after_ms: None }
    }

    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Unavailable { message, .. }
            | Self::Failed { message, .. }
            | Self::Rejected { message, .. }
            | Self::TooLarge { message } => message,
        }
    }
}

fn requested_pause(response: &HttpResponse) -> Option<Duration> {
    /// As long as core lets `Retry-After` be.
    const LONGEST_MS: u64 = 3_600_000;
    if let Some(milliseconds) = response.retry_after_ms {
        return Some(Duration::from_millis(milliseconds.min(LONGEST_MS)));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    retry_after(response.retry_after.as_deref()?, i64::try_from(now).unwrap_or(i64::MAX))
}
