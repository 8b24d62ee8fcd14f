//! One HTTP call at an endpoint, from the permission to the verdict: what its result says about
//! the endpoint, and what about the request. Where it could be either's fault, a harmless request decides.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memory_agent_core::jobs::blame::Blame;
use memory_agent_core::llm::redact::mask;
use memory_agent_core::llm::retry::retry_after;

use super::base_url::BaseUrl;
use super::endpoint::{Attempt, EndpointState, Endpoints};
use super::harmless::{Harmless, Usage};
use super::http::{HttpClient, HttpError, HttpRequest, HttpResponse};
use super::providers::{ApiError, Wire};
use crate::protocol::{CallRecord, Endpoint, MAX_FRAME_BYTES};

/// Longest message about a failure, in characters.
const MESSAGE_CHARS: usize = 500;

/// Longest wait for the answer to a harmless request: less than the grace that
/// [`Endpoint::longest_wait`] allows beside the calls.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An endpoint that can be called.
#[derive(Debug)]
pub struct EndpointClient<'a> {
    http: &'a HttpClient,
    pub settings: &'a Endpoint,
    pub base: BaseUrl,
    pub state: Arc<EndpointState>,
    harmless: Harmless,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// The endpoint is of no use at present, for any request.
    Unavailable { message: String, retry_after_ms: Option<u64> },
    /// The call failed, but the endpoint answers others.
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

/// What came of an HTTP call, before it is known whose fault a failure is.
enum Heard<T> {
    Answer(T),
    /// The endpoint works, and does not accept this request; or its answer is too long.
    Own(CallFailure),
    /// The endpoint asked for a pause, perhaps for so long.
    Pause(Option<Duration>, String),
    /// Only the endpoint can be to blame.
    Outage(Trouble),
    /// The endpoint or the request.
    Doubtful(Trouble),
}

struct Trouble {
    /// What it is if the request is to blame.
    own: CallFailure,
    /// Whether an endpoint that is to blame needs other settings, not time.
    is_lasting: bool,
}

impl<'a> EndpointClient<'a> {
    /// * `harmless`: what the endpoint is asked to test it.
    ///
    /// # Errors
    /// A message, if the settings cannot be an endpoint.
    pub fn new(
        http: &'a HttpClient,
        endpoints: &Endpoints,
        settings: &'a Endpoint,
        harmless: Harmless,
    ) -> Result<Self, String> {
        let base = BaseUrl::parse(&settings.base_url)?;
        let state = endpoints.get(settings, &base);
        Ok(Self { http, settings, base, state, harmless })
    }

    /// Makes a call, if one may be made now.
    ///
    /// * `read`: makes a value of a successful answer's body, or says why it is invalid.
    /// * `may_be_saved`: whether a request that was refused so is sent again in another form.
    pub async fn call<T>(
        &self,
        wire: Wire,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
        may_be_saved: impl FnOnce(&CallFailure) -> bool,
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
        let (heard, mut record) = self.send(wire, self.timeout(), read).await;
        let result = match heard {
            Heard::Answer(value) => {
                attempt.success();
                Ok(value)
            }
            // A wrong model is a 400 at some endpoints.
            Heard::Own(own) if own.may_concern_all() && !may_be_saved(&own) => {
                let trouble = Trouble { own, is_lasting: true };
                Err(self.settle(attempt, trouble, &mut record).await)
            }
            Heard::Own(failure) => {
                attempt.success();
                Err(failure)
            }
            Heard::Pause(pause, message) => Err(paused(attempt, pause, message, &record.status)),
            Heard::Outage(trouble) => Err(trouble.of_endpoint(attempt, &record.status)),
            Heard::Doubtful(trouble) => Err(self.settle(attempt, trouble, &mut record).await),
        };
        record.error = result.as_ref().err().map(|failure| failure.message().to_owned());
        Called { result, record: Some(record) }
    }

    /// Finds out whose fault a failure is. While that is unknown, the call's permission is kept: if it was to
    /// decide about the breaker, no other one does meanwhile.
    async fn settle(
        &self,
        attempt: Attempt,
        trouble: Trouble,
        record: &mut CallRecord,
    ) -> CallFailure {
        let is_timeout = matches!(trouble.own, CallFailure::Failed { is_timeout: true, .. });
        // An answer that came while this request waited for its own tells enough.
        let since = if is_timeout { attempt.began } else { self.state.evidence() };
        let _turn = self.state.turn_to_test().await;
        let blame = match self.state.blame(since) {
            Some(blame) => blame,
            // Who waits for embeddings waits no longer than this took, and tries another text then.
            None if is_timeout && self.harmless != Harmless::Chat => {
                return match attempt.failure(&record.status) {
                    Some(retry_in) => unavailable(trouble.own.message(), Some(retry_in)),
                    None => trouble.own,
                };
            }
            None => match self.test(record).await {
                // What a harmless request is told in the same words is not about this one.
                Heard::Own(refusal) if refusal.message() == trouble.own.message() => {
                    self.state.test_failed();
                    Blame::Endpoint
                }
                Heard::Answer(_) | Heard::Own(_) => {
                    attempt.success();
                    return trouble.own;
                }
                Heard::Pause(pause, message) => {
                    return paused(attempt, pause, message, &record.status);
                }
                Heard::Outage(_) | Heard::Doubtful(_) => {
                    self.state.test_failed();
                    Blame::Endpoint
                }
            },
        };
        match blame {
            Blame::Request => trouble.own,
            Blame::Endpoint => trouble.of_endpoint(attempt, &record.status),
        }
    }

    /// Sends the harmless request. What it costs is on the record of the call that was in doubt, unless that
    /// call's own cost is estimated.
    async fn test(&self, record: &mut CallRecord) -> Heard<Usage> {
        let dialect = self.state.dialect();
        let wire = match self.harmless.wire(self.settings, &self.base, dialect) {
            Ok(wire) => wire,
            Err(message) => return Heard::Outage(Trouble::passing(message)),
        };
        self.state.count_test(self.settings.calls_per_minute);
        let read = |body: &[u8]| self.harmless.read(self.settings.provider, body);
        let (heard, _) = self.send(wire, self.timeout().min(TEST_TIMEOUT), read).await;
        if let Heard::Answer(usage) = &heard
            && !record.is_charged()
        {
            (record.prompt_tokens, record.completion_tokens) = *usage;
        }
        heard
    }

    /// Makes an HTTP call, whatever is known of the endpoint.
    async fn send<T>(
        &self,
        wire: Wire,
        timeout: Duration,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> (Heard<T>, CallRecord) {
        let started = Instant::now();
        let request = HttpRequest {
            url: wire.url,
            headers: wire.headers,
            body: wire.body.to_string().into_bytes(),
            timeout,
            max_response_bytes: (self.settings.max_response_bytes as usize).min(MAX_FRAME_BYTES),
        };
        let answered = self.http.post(request).await;
        let latency_ms = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
        let (status, heard) = match answered {
            Ok(response) if (200..300).contains(&response.status) => {
                match (ApiError::in_success(&response.body), read(&response.body)) {
                    (None, Ok(value)) => ("ok".to_owned(), Heard::Answer(value)),
                    (None, Err(reason)) => {
                        let trouble = Trouble::passing(self.say(&reason));
                        ("malformed".to_owned(), Heard::Doubtful(trouble))
                    }
                    (Some(error), _) => match error.status() {
                        Some(status) => {
                            let response = HttpResponse { status, ..response };
                            (
                                format!("http 200, error {status}"),
                                self.refused_with(&response, error),
                            )
                        }
                        None => {
                            let trouble = Trouble::passing(self.say(&error.message));
                            ("malformed".to_owned(), Heard::Doubtful(trouble))
                        }
                    },
                }
            }
            Ok(response) => (format!("http {}", response.status), self.refused(&response)),
            Err(error) => {
                let message = self.say(&error.to_string());
                let (status, heard) = match error {
                    HttpError::TooLarge(_) => {
                        ("too large", Heard::Own(CallFailure::TooLarge { message }))
                    }
                    HttpError::Timeout(_) => {
                        let own = CallFailure::Failed { message, is_timeout: true };
                        let trouble = Trouble { own, is_lasting: false };
                        (CallRecord::TIMEOUT, Heard::Doubtful(trouble))
                    }
                    HttpError::Interrupted(_) => {
                        (CallRecord::CONNECTION, Heard::Doubtful(Trouble::passing(message)))
                    }
                    // Nothing was sent.
                    HttpError::Connect(_) => {
                        (CallRecord::CONNECTION, Heard::Outage(Trouble::passing(message)))
                    }
                };
                (status.to_owned(), heard)
            }
        };
        let record = CallRecord {
            status,
            latency_ms,
            prompt_tokens: None,
            completion_tokens: None,
            error: None,
        };
        (heard, record)
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.timeout_ms.into())
    }

    /// What a status other than success means.
    fn refused<T>(&self, response: &HttpResponse) -> Heard<T> {
        self.refused_with(response, ApiError::parse(&response.body))
    }

    fn refused_with<T>(&self, response: &HttpResponse, error: ApiError) -> Heard<T> {
        let status = response.status;
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
            429 => Heard::Pause(pause, message),
            // 529 is Anthropic's "overloaded".
            503 | 529 if pause.is_some() => Heard::Pause(pause, message),
            // A wrong key, or no money: no request can succeed until that changes.
            401 | 402 | 407 => {
                let own = CallFailure::Rejected { status, error, message };
                Heard::Outage(Trouble { own, is_lasting: true })
            }
            // A wrong key, URL or model, or a method that only a web page would refuse; or a text that a filter
            // before the endpoint refuses.
            300..400 | 403 | 404 | 405 => {
                let own = CallFailure::Rejected { status, error, message };
                Heard::Doubtful(Trouble { own, is_lasting: true })
            }
            400..500 if status != 408 => {
                Heard::Own(CallFailure::Rejected { status, error, message })
            }
            _ => Heard::Doubtful(Trouble::passing(message)),
        }
    }

    /// A message that names the endpoint by its model: its address is not for every user.
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

impl Trouble {
    /// It may be over in a moment.
    fn passing(message: String) -> Self {
        Self { own: CallFailure::Failed { message, is_timeout: false }, is_lasting: false }
    }

    /// The endpoint is to blame.
    fn of_endpoint(&self, attempt: Attempt, label: &str) -> CallFailure {
        let retry_after_ms =
            if self.is_lasting { Some(attempt.trip(label)) } else { attempt.failure(label) };
        unavailable(self.own.message(), retry_after_ms)
    }
}

fn unavailable(message: &str, retry_after_ms: Option<u64>) -> CallFailure {
    CallFailure::Unavailable { message: message.to_owned(), retry_after_ms }
}

fn paused(attempt: Attempt, pause: Option<Duration>, message: String, label: &str) -> CallFailure {
    let retry_after_ms = Some(attempt.throttled(pause, label));
    CallFailure::Unavailable { message, retry_after_ms }
}

impl CallFailure {
    /// The settings cannot make a call.
    #[must_use]
    pub fn misconfigured(message: String) -> Self {
        Self::Unavailable { message, retry_after_ms: None }
    }

    /// Whether the endpoint may refuse every request so.
    fn may_concern_all(&self) -> bool {
        matches!(self, Self::Rejected { status: 400 | 422, error, .. } if !error.concerns_content())
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
