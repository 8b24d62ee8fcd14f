//! What every request needs: who may come in, what stands behind, and how much is let through at once.

use crate::admins::Admins;
use crate::authentication::{Authenticator, Person};
use crate::log;
use crate::mem0::PageEnds;
use crate::memory::{Memory, MemoryError};
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::refusal::Refusal;
use crate::spending::Spending;
use crate::stored_ids::StoredIds;
use crate::upstream::Upstream;
use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use futures_util::StreamExt;
use serde_json::json;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A request that is being answered. What it is kept by, keeps the program from ending.
pub type Permit = Arc<Held>;

/// What a request holds until it is answered, and what it says is stored.
pub struct Held {
    _in_flight: OwnedSemaphorePermit,
    body: Part,
    answer: Part,
}

/// What a request has of some room.
type Part = Mutex<Option<OwnedSemaphorePermit>>;

/// How much room a body takes at a time that did not say how long it is.
const ROOM_AT_ONCE: usize = 64 * 1_024;
/// How much an answer takes at a time: most are short.
const ROOM_OF_AN_ANSWER: usize = 8 * 1_024;
/// What bodies are counted in.
const BLOCK_BYTES: usize = 1_024;

/// Room for what all requests hold at once: their bodies, or their answers.
pub struct Room(Arc<Semaphore>);

impl Room {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / BLOCK_BYTES).min(Semaphore::MAX_PERMITS))))
    }

    /// Takes room for so many bytes; whether there was any.
    fn take(&self, bytes: usize, part: &Part) -> bool {
        let Ok(blocks) = u32::try_from(bytes.div_ceil(BLOCK_BYTES)) else { return false };
        let Ok(taken) = Arc::clone(&self.0).try_acquire_many_owned(blocks) else { return false };
        let mut held = part.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_mut() {
            Some(held) => held.merge(taken),
            None => *held = Some(taken),
        }
        true
    }

    /// Takes room for an answer that has grown to so many bytes; whether there is enough.
    pub fn holds(&self, bytes: usize, permit: &Permit) -> bool {
        let held = permit.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let room = held.as_ref().map_or(0, |held| held.num_permits() * BLOCK_BYTES);
        drop(held);
        let missing = bytes.saturating_sub(room);
        missing == 0
            || self.take(missing.max(ROOM_OF_AN_ANSWER), &permit.answer)
            || self.take(missing, &permit.answer)
    }
}

/// The program.
pub struct Gateway {
    pub authenticator: Authenticator,
    pub memory: Memory,
    /// Where there are administrators.
    pub admins: Option<Admins>,
    pub upstream: Upstream,
    /// Where `/v1/messages` goes.
    pub messages_upstream: Upstream,
    pub metrics: Arc<Metrics>,
    /// How long a chat waits for memory, each time it asks.
    pub patience: Duration,
    /// Whether a chat fails when memory does.
    pub requires_memory: bool,
    /// Of a request, in bytes.
    pub max_body: usize,
    /// For the bodies of requests.
    pub bodies: Room,
    /// For answers, while they are read and stored.
    pub answers: Room,
    /// Requests at once.
    pub max_in_flight: u32,
    pub in_flight: Arc<Semaphore>,
    pub rates: Rates<[u8; 32]>,
    /// What may be used of the gateway's key.
    pub spending: Spending,
    /// How long a client may take to send a request, and to take what it was sent.
    pub client_patience: Duration,
    /// Where pages of mem0's lists end.
    pub page_ends: PageEnds,
    /// What is stored upstream for the gateway's key, and who was given it.
    pub stored_ids: StoredIds,
}

impl Gateway {
    /// One for a single person, whose own program it serves.
    pub fn for_one(
        user_id: String,
        memory: Memory,
        upstream: (Upstream, Upstream),
        metrics: Arc<Metrics>,
        patience: Duration,
    ) -> Self {
        /// One chat, and what is stored of the ones before.
        const IN_FLIGHT: u32 = 64;
        Self {
            authenticator: Authenticator::for_one(user_id),
            spending: Spending::new(memory.clone(), 0),
            memory,
            admins: None,
            upstream: upstream.0,
            messages_upstream: upstream.1,
            metrics,
            patience,
            requires_memory: false,
            max_body: 32 << 20,
            bodies: Room::new(64 << 20),
            answers: Room::new(64 << 20),
            max_in_flight: IN_FLIGHT,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT as usize)),
            rates: Rates::new(0),
            client_patience: Duration::from_secs(60),
            page_ends: PageEnds::default(),
            stored_ids: StoredIds::default(),
        }
    }

    /// Lets a request in, or not. `has_key` says whether the gateway has a key for what the request is about:
    /// then `Authorization` is for the gateway.
    ///
    /// # Errors
    /// What the caller is told.
    pub async fn admit(
        &self,
        head: &Parts,
        peer: IpAddr,
        has_key: bool,
    ) -> Result<(Person, Permit), Refusal> {
        let permit =
            Arc::clone(&self.in_flight).try_acquire_owned().map_err(|_| Refusal::busy())?;
        let person =
            self.authenticator.admit(&head.uri, &head.headers, peer, has_key, &self.memory).await?;
        self.rates
            .take(person.caller, Instant::now())
            .map_err(|wait| Refusal::too_many(wait.as_secs() as u32 + 1))?;
        Ok((
            person,
            Arc::new(Held { _in_flight: permit, body: Part::default(), answer: Part::default() }),
        ))
    }

    /// The same, for what is answered here and goes to no upstream.
    ///
    /// # Errors
    /// What the caller is told.
    pub async fn admit_here(
        &self,
        head: &Parts,
        peer: IpAddr,
    ) -> Result<(Person, Permit), Refusal> {
        self.admit(head, peer, true).await
    }

    /// The whole body of a request, which holds its room until the request is answered.
    ///
    /// # Errors
    /// That it is too large, does not come, or broke off; that other requests leave no room for it.
    pub async fn body(
        &self,
        head: &Parts,
        body: Body,
        permit: &Permit,
    ) -> Result<Vec<u8>, Refusal> {
        let announced = head.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > self.max_body) {
            return Err(Refusal::too_large(self.max_body));
        }
        let take = |bytes| {
            self.bodies.take(bytes, &permit.body).then_some(()).ok_or_else(Refusal::no_room)
        };
        let read = async {
            // What is announced is taken at once: half of it is of no use.
            let mut room = announced.unwrap_or(0);
            take(room)?;
            let mut bytes = Vec::with_capacity(room.min(1 << 20));
            let mut stream = body.into_data_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(|_| Refusal::invalid("the body broke off"))?;
                if bytes.len() + chunk.len() > self.max_body {
                    return Err(Refusal::too_large(self.max_body));
                }
                let missing = (bytes.len() + chunk.len()).saturating_sub(room);
                if missing > 0 {
                    let more = missing.max(ROOM_AT_ONCE);
                    take(more)?;
                    room += more;
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        tokio::time::timeout(self.client_patience, read).await.unwrap_or(Err(Refusal::too_slow()))
    }

    /// The administrators and their connection, if this is one of them.
    pub fn admins_with(&self, person: &Person) -> Option<&Admins> {
        self.admins.as_ref().filter(|admins| admins.include(person))
    }

    /// Counts and logs what memory could not do.
    pub fn missed(&self, step: &'static str, error: &MemoryError) {
        self.metrics.memory_failures.add(step, 1);
        log::write("memory_failed", json!({"step": step, "reason": error.for_operator()}));
    }

    /// Waits until everything that was begun is done, turns that are being stored included.
    pub async fn until_idle(&self) {
        // The semaphore is never closed.
        let _ = self.in_flight.acquire_many(self.max_in_flight).await;
    }

    /// Requests that are being answered.
    pub fn busy(&self) -> u32 {
        let free = u32::try_from(self.in_flight.available_permits()).unwrap_or(u32::MAX);
        self.max_in_flight.saturating_sub(free)
    }
}
