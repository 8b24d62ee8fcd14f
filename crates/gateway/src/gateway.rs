//! What every request needs: who may come in, what stands behind, and how much is let through at once.

use crate::chat::coding;
use crate::chat::stored_ids::StoredIds;
use crate::chat::tool_loops::ToolLoops;
use crate::db::memory::{Memory, MemoryError};
use crate::log;
use crate::mem0::PageEnds;
use crate::metrics::Metrics;
use crate::people::admins::Admins;
use crate::people::authentication::{Authenticator, Person};
use crate::people::rates::Rates;
use crate::people::shares::Shares;
use crate::people::spending::Spending;
use crate::refusal::Refusal;
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
    _in_flight: [OwnedSemaphorePermit; 2],
    body: Part,
    answer: Part,
}

/// What a request has of some room: of the whole, and of its user's share.
struct Part {
    share: Arc<Semaphore>,
    held: Mutex<Option<[OwnedSemaphorePermit; 2]>>,
}

/// How much room a body takes at a time, as it comes.
pub const ROOM_AT_ONCE: usize = 64 * 1_024;
/// How much an answer takes at a time: most are short.
const ROOM_OF_AN_ANSWER: usize = 8 * 1_024;
/// What bodies are counted in.
const BLOCK_BYTES: usize = 1_024;
/// Where there are many users, each has one part of so many.
const SHARES: usize = 4;

/// Room for what all requests hold at once, and of each user: their bodies, or their answers.
pub struct Room {
    whole: Arc<Semaphore>,
    shares: Shares,
}

impl Room {
    /// So many bytes; a user may hold at most a share.
    pub fn new(bytes: usize, share: usize) -> Self {
        let blocks = (bytes / BLOCK_BYTES).min(Semaphore::MAX_PERMITS);
        Self { whole: Arc::new(Semaphore::new(blocks)), shares: Shares::new(share / BLOCK_BYTES) }
    }

    fn part(&self, user_id: &str) -> Part {
        Part { share: self.shares.of(user_id), held: Mutex::default() }
    }

    /// Takes room for so many bytes.
    fn take(&self, bytes: usize, part: &Part) -> Result<(), Refusal> {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).map_err(|_| Refusal::no_room())?;
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_many_owned(blocks);
        let taken = [
            take(&self.whole).map_err(|_| Refusal::no_room())?,
            take(&part.share).map_err(|_| Refusal::no_share())?,
        ];
        let mut held = part.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_mut() {
            Some(held) => held.iter_mut().zip(taken).for_each(|(held, taken)| held.merge(taken)),
            None => *held = Some(taken),
        }
        Ok(())
    }

    /// Takes room for an answer that has grown to so many bytes; whether there is enough.
    pub fn holds(&self, bytes: usize, permit: &Permit) -> bool {
        let held = permit.answer.held.lock().unwrap_or_else(PoisonError::into_inner);
        let room = held.as_ref().map_or(0, |[held, _]| held.num_permits() * BLOCK_BYTES);
        drop(held);
        let missing = bytes.saturating_sub(room);
        missing == 0
            || self.take(missing.max(ROOM_OF_AN_ANSWER), &permit.answer).is_ok()
            || self.take(missing, &permit.answer).is_ok()
    }
}

/// How much of something one user may hold.
pub fn share(whole: usize, is_for_one: bool) -> usize {
    if is_for_one { whole } else { (whole / SHARES).max(1) }
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
    /// Whether clients name a conversation in headers of their own.
    pub client_sessions: bool,
    /// Of other web pages that may ask.
    pub origins: Vec<String>,
    /// Of a request, in bytes.
    pub max_body: usize,
    /// For the bodies of requests.
    pub bodies: Room,
    /// For answers, while they are read and stored.
    pub answers: Room,
    /// Requests at once.
    pub max_in_flight: u32,
    pub in_flight: Arc<Semaphore>,
    /// Of them, what each user may have.
    pub shares_in_flight: Shares,
    pub rates: Rates<[u8; 32]>,
    /// What may be used of the gateway's key.
    pub spending: Spending,
    /// How long a client may take to send a request, and to take what it was sent.
    pub client_patience: Duration,
    /// Where pages of mem0's lists end.
    pub page_ends: PageEnds,
    /// What is stored upstream for the gateway's key, and who was given it.
    pub stored_ids: StoredIds,
    /// What requests of tool loops were told.
    pub tool_loops: ToolLoops,
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
        const ROOM: usize = 64 << 20;
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
            client_sessions: false,
            origins: Vec::new(),
            max_body: 32 << 20,
            bodies: Room::new(ROOM, ROOM),
            answers: Room::new(ROOM, ROOM),
            max_in_flight: IN_FLIGHT,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT as usize)),
            shares_in_flight: Shares::new(IN_FLIGHT as usize),
            rates: Rates::new(0),
            client_patience: Duration::from_secs(60),
            page_ends: PageEnds::default(),
            stored_ids: StoredIds::default(),
            tool_loops: ToolLoops::default(),
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
        let user_id = &person.user_id;
        let share = self.shares_in_flight.of(user_id).try_acquire_owned();
        let held = Held {
            _in_flight: [permit, share.map_err(|_| Refusal::no_share())?],
            body: self.bodies.part(user_id),
            answer: self.answers.part(user_id),
        };
        Ok((person, Arc::new(held)))
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

    /// The whole body of a request, decoded, which holds its room until the request is answered.
    ///
    /// # Errors
    /// That it is too large, does not come, broke off, or is compressed in a way that is unknown; that other requests
    /// leave no room for it.
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
        let read = async {
            // What is announced may never come.
            let mut room = 0;
            let mut bytes = Vec::new();
            let mut stream = body.into_data_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(|_| Refusal::invalid("the body broke off"))?;
                if bytes.len() + chunk.len() > self.max_body {
                    return Err(Refusal::too_large(self.max_body));
                }
                let missing = (bytes.len() + chunk.len()).saturating_sub(room);
                if missing > 0 {
                    let to_come =
                        announced.map_or(ROOM_AT_ONCE, |length| length.saturating_sub(room));
                    let more = missing.max(to_come.min(ROOM_AT_ONCE));
                    let more = more.next_multiple_of(BLOCK_BYTES);
                    self.make_room(more, permit)?;
                    room += more;
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        let read = tokio::time::timeout(self.client_patience, read).await;
        let body = read.unwrap_or(Err(Refusal::too_slow()))?;
        coding::decoded(self, &head.headers, body, permit).await
    }

    /// Counts memory with the body of a request, and as long.
    ///
    /// # Errors
    /// That other requests, of this user or of others, leave no room for it.
    pub fn make_room(&self, bytes: usize, permit: &Permit) -> Result<(), Refusal> {
        self.bodies.take(bytes, &permit.body)
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
