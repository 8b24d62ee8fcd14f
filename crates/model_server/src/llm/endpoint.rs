//! What is known of each endpoint: whether calls to it may be made now, and what it understands.
//! All requests to an endpoint share it, so one of them finds out for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_agent_core::jobs::blame::{Blame, Evidence};
use memory_agent_core::llm::breaker::Breaker;
use memory_agent_core::llm::rate::RateLimit;
use memory_agent_core::llm::retry::back_off;
use sha2::{Digest, Sha256};
use tokio::sync;

use super::base_url::BaseUrl;
use super::structured::{AnswerMode, Dialect};
use crate::log;
use crate::protocol::{BreakerState, Endpoint, EndpointStatus, Provider};

/// Most endpoints remembered. A cluster uses two or three; the limit is for settings that
/// change for ever.
const MAX_ENDPOINTS: usize = 64;

/// After that time a dialect is forgotten: the server behind the endpoint may have learned what
/// it refused before, or the refusal had another reason.
const DIALECT_LIFETIME: Duration = Duration::from_secs(3600);

/// Every endpoint that was used.
#[derive(Debug)]
pub struct Endpoints {
    started: Instant,
    by_id: Mutex<HashMap<EndpointId, Arc<EndpointState>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EndpointId {
    provider: Provider,
    base_url: String,
    model: String,
}

/// One endpoint.
#[derive(Debug)]
pub struct EndpointState {
    id: EndpointId,
    /// Hash of the key and the API version. When one changes, what was learned with the old
    /// ones says nothing: a wrong key that was corrected must not wait for the breaker.
    credentials: [u8; 32],
    started: Instant,
    /// Shared by all models of an address: who may name a model could get around it otherwise.
    limiter: Arc<Mutex<RateLimit>>,
    health: Mutex<Health>,
    /// Held while the endpoint is tested: requests that fail at once share one test.
    testing: sync::Mutex<()>,
}

#[derive(Debug)]
struct Health {
    breaker: Breaker,
    evidence: Evidence,
    /// The endpoint asked for no calls until then, in milliseconds since the server's start.
    paused_until_ms: u64,
    /// Calls in a row that were answered with "too many requests".
    throttled: u32,
    dialect: Dialect,
    /// When `dialect` was learned.
    dialect_ms: u64,
    last_error: Option<String>,
    in_flight: u32,
    calls: u64,
    last_use_ms: u64,
}

/// Why a call may not be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub message: String,
    pub retry_after_ms: u64,
}

/// Permission for one call. Its owner says how the call went; dropped without a word, as when
/// the client left, it counts as never made.
#[derive(Debug)]
pub struct Attempt {
    endpoint: Arc<EndpointState>,
    /// This call decides whether the breaker closes again.
    is_probe: bool,
    /// What was known of the endpoint when the call began.
    pub began: Evidence,
}

impl Endpoints {
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now(), by_id: Mutex::default() }
    }

    /// The state of an endpoint, new if it or its credentials were not seen before.
    #[must_use]
    pub fn get(&self, endpoint: &Endpoint, base: &BaseUrl) -> Arc<EndpointState> {
        let id = EndpointId {
            provider: endpoint.provider,
            base_url: base.as_str().to_owned(),
            model: endpoint.model.clone(),
        };
        let mut hash = Sha256::new();
        hash.update((endpoint.api_key.expose().len() as u64).to_le_bytes());
        hash.update(endpoint.api_key.expose());
        hash.update(&endpoint.api_version);
        let credentials: [u8; 32] = hash.finalize().into();

        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = by_id.get(&id).filter(|state| state.credentials == credentials) {
            return Arc::clone(state);
        }
        if by_id.len() >= MAX_ENDPOINTS {
            let oldest = by_id.values().min_by_key(|state| state.lock().last_use_ms);
            if let Some(oldest) = oldest.map(|state| state.id.clone()) {
                by_id.remove(&oldest);
            }
        }
        let of_address =
            |known: &&EndpointId| (known.provider, &known.base_url) == (id.provider, &id.base_url);
        let limiter = by_id
            .iter()
            .find(|(known, _)| of_address(known))
            .map_or_else(Arc::default, |(_, state)| Arc::clone(&state.limiter));
        let state = Arc::new(EndpointState::new(id.clone(), credentials, self.started, limiter));
        by_id.insert(id, Arc::clone(&state));
        state
    }

    /// What is known, in the order of the addresses.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status: Vec<EndpointStatus> = by_id.values().map(|state| state.status()).collect();
        status.sort_by(|a, b| (&a.base_url, &a.model).cmp(&(&b.base_url, &b.model)));
        status
    }
}

impl EndpointState {
    fn new(
        id: EndpointId,
        credentials: [u8; 32],
        started: Instant,
        limiter: Arc<Mutex<RateLimit>>,
    ) -> Self {
        let health = Health {
            breaker: Breaker::default(),
            evidence: Evidence::default(),
            paused_until_ms: 0,
            throttled: 0,
            dialect: Dialect::default(),
            dialect_ms: 0,
            last_error: None,
            in_flight: 0,
            calls: 0,
            last_use_ms: 0,
        };
        let (health, testing) = (Mutex::new(health), sync::Mutex::default());
        Self { id, credentials, started, limiter, health, testing }
    }

    /// Asks whether a call may be made now.
    ///
    /// * `calls_per_minute`: limit of the settings, 0 for none.
    ///
    /// # Errors
    /// [`Blocked`] with the time of the next chance.
    pub fn begin(self: &Arc<Self>, calls_per_minute: u32) -> Result<Attempt, Blocked> {
        let now = self.now();
        let mut health = self.lock();
        health.last_use_ms = now;
        if health.paused_until_ms > now {
            return Err(Blocked {
                message: format!("the endpoint of \"{}\" asked for a pause", self.id.model),
                retry_after_ms: health.paused_until_ms - now,
            });
        }
        if let Err(retry_after_ms) = health.breaker.allow(now) {
            let last = health.last_error.as_deref().unwrap_or("unknown");
            let message = format!(
                "the endpoint of \"{}\" is not called for now, last failure: {last}",
                self.id.model
            );
            return Err(Blocked { message, retry_after_ms });
        }
        let is_probe = health.breaker.state(now) == BreakerState::HalfOpen;
        let taken = {
            let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
            limiter.take(now, calls_per_minute)
        };
        if let Err(retry_after_ms) = taken {
            if is_probe {
                health.breaker.abandon();
            }
            let message = format!("the limit of {calls_per_minute} calls per minute is reached");
            return Err(Blocked { message, retry_after_ms });
        }
        health.in_flight += 1;
        health.calls += 1;
        Ok(Attempt { endpoint: Arc::clone(self), is_probe, began: health.evidence })
    }

    /// What is known of the endpoint so far.
    pub fn evidence(&self) -> Evidence {
        self.lock().evidence
    }

    /// Whose fault a failure is, as far as what became known since then tells.
    pub fn blame(&self, since: Evidence) -> Option<Blame> {
        let now = self.now();
        let health = self.lock();
        let is_open = || health.breaker.state(now) == BreakerState::Open;
        health.evidence.since(since).or_else(|| is_open().then_some(Blame::Endpoint))
    }

    /// A turn to test the endpoint with a harmless request. Such a call is made although the breaker is open
    /// or the limit of calls is reached, or nothing would be known; those after it wait the longer.
    pub async fn turn_to_test(&self) -> sync::MutexGuard<'_, ()> {
        self.testing.lock().await
    }

    /// Counts the call of a test.
    pub fn count_test(&self, calls_per_minute: u32) {
        let now = self.now();
        self.lock().calls += 1;
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.exceed(now, calls_per_minute);
    }

    /// A harmless request failed too.
    pub fn test_failed(&self) {
        self.lock().evidence.failed_tests += 1;
    }

    /// What the endpoint understands, as far as is known.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        let now = self.now();
        let mut health = self.lock();
        if now.saturating_sub(health.dialect_ms) > millis(DIALECT_LIFETIME) {
            health.dialect = Dialect::default();
        }
        health.dialect
    }

    /// Remembers a dialect that worked after another was refused.
    pub fn learn(&self, dialect: Dialect) {
        let now = self.now();
        let mut health = self.lock();
        health.dialect = dialect;
        health.dialect_ms = now;
    }

    fn status(&self) -> EndpointStatus {
        let now = self.now();
        let health = self.lock();
        let pause = health.paused_until_ms.saturating_sub(now);
        EndpointStatus {
            base_url: self.id.base_url.clone(),
            model: self.id.model.clone(),
            breaker: health.breaker.state(now),
            failures: health.breaker.failures(),
            retry_in_ms: pause.max(health.breaker.retry_in_ms(now)),
            answer_mode: match self.id.provider {
                Provider::OpenAi | Provider::Azure => health.dialect.mode,
                Provider::Anthropic => AnswerMode::Plain,
            }
            .name()
            .to_owned(),
            last_error: health.last_error.clone(),
            in_flight: health.in_flight,
            calls: health.calls,
        }
    }

    /// The endpoint in log lines.
    fn describe(&self) -> String {
        format!("endpoint {} (model \"{}\")", self.id.base_url, self.id.model)
    }

    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// The endpoint works: it answered, whatever the answer.
    pub fn success(mut self) {
        let now = self.endpoint.now();
        let mut health = self.endpoint.lock();
        let was_closed = health.breaker.state(now) == BreakerState::Closed;
        health.breaker.success();
        health.evidence.answered += 1;
        health.throttled = 0;
        health.last_error = None;
        drop(health);
        if !was_closed {
            log::line(format_args!("{} works again", self.endpoint.describe()));
        }
        self.is_probe = false;
    }

    /// The call failed. `Some` with the time of the next chance if no further calls are made
    /// for now.
    ///
    /// * `label`: the failure without any text from outside, which may quote what a caller sent:
    ///   it is shown to all users of the endpoint.
    pub fn failure(self, label: &str) -> Option<u64> {
        self.failed(label, Breaker::failure)
    }

    /// The endpoint cannot work as it is configured: no further calls are made for now. Returns
    /// the time until the next one.
    pub fn trip(self, label: &str) -> u64 {
        self.failed(label, Breaker::trip).unwrap_or(0)
    }

    fn failed(mut self, label: &str, count: impl FnOnce(&mut Breaker, u64)) -> Option<u64> {
        let now = self.endpoint.now();
        let mut health = self.endpoint.lock();
        let was_open = health.breaker.state(now) == BreakerState::Open;
        count(&mut health.breaker, now);
        health.last_error = Some(label.to_owned());
        let open = health.breaker.state(now) == BreakerState::Open;
        let retry_in = health.breaker.retry_in_ms(now);
        drop(health);
        if open && !was_open {
            log::line(format_args!(
                "{} is not called for {} ms: {label}",
                self.endpoint.describe(),
                retry_in
            ));
        }
        self.is_probe = false;
        open.then_some(retry_in)
    }

    /// The endpoint asked for a pause. That is no failure: it works. Returns the milliseconds
    /// of the pause.
    ///
    /// * `pause`: as the endpoint asked; without a wish the pauses grow.
    pub fn throttled(self, pause: Option<Duration>, label: &str) -> u64 {
        let now = self.endpoint.now();
        let mut health = self.endpoint.lock();
        // Calls that were under way when the pause began say nothing new.
        if health.paused_until_ms <= now {
            health.throttled = health.throttled.saturating_add(1);
        }
        let pause = millis(pause.unwrap_or_else(|| back_off(health.throttled, 1.0)));
        health.paused_until_ms = health.paused_until_ms.max(now + pause);
        health.last_error = Some(label.to_owned());
        // What drops here gives a probe's permission back: the next call after the pause
        // decides.
        pause
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut health = self.endpoint.lock();
        health.in_flight = health.in_flight.saturating_sub(1);
        if self.is_probe {
            health.breaker.abandon();
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
