//! A chat, in any protocol: recall, store what the user said, ask the upstream, hand its answer on, store it.
//! A chat runs in a task of its own, so that what was said is stored though the client has left.

pub mod answer;
pub mod answer_turn;
pub mod chat_form;
pub mod chat_request;
pub mod coding;
pub mod costs;
pub mod extras;
pub mod forward;
pub mod protocol;
pub mod queries;
pub mod reply;
pub mod seen;
pub mod splice;
pub mod sse;
pub mod stored_ids;
pub mod stream;
pub mod tool_loops;
pub mod turn;
pub mod user_turn;
pub mod users_words;

use crate::chat::answer::{Answer, MAX_ANSWER_BYTES};
use crate::chat::chat_request::ChatRequest;
use crate::chat::costs::bytes_said;
use crate::chat::extras::session_of_client;
use crate::chat::protocol::Protocol;
use crate::chat::queries::Recalled;
use crate::chat::reply::Reply;
use crate::chat::stream::Ended;
use crate::chat::tool_loops::Question;
use crate::chat::turn::Turn;
use crate::chat::user_turn::Said;
use crate::chat::users_words::storable;
use crate::db::memory::MemoryError;
use crate::gateway::{Gateway, Permit};
use crate::log;
use crate::people::authentication::Person;
use crate::people::spending::Guess;
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use memory_agent_core::llm::chat_body::SEEN;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::oneshot;
use uuid::Uuid;

/// The id of the user's turn, once it is committed.
const STORED: &str = "x-memory-stored";
/// What memory could not do for this request: `recall`, `store`.
const FAILED: &str = "x-memory-failed";

/// What went upstream, for a program that has the gateway in it and asks for that with its request. No request
/// that came over a network has it.
#[derive(Clone, Debug, Default)]
pub struct Sent(pub Arc<OnceLock<String>>);

/// Answers a chat.
pub async fn answer(
    protocol: &'static dyn Protocol,
    gateway: Arc<Gateway>,
    peer: SocketAddr,
    request: Request,
) -> Response {
    match begin(protocol, gateway, peer, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn begin(
    protocol: &'static dyn Protocol,
    gateway: Arc<Gateway>,
    peer: SocketAddr,
    request: Request,
) -> Result<Response, Refusal> {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    let has_key = protocol.upstream(&gateway).has_key();
    let (person, permit) = gateway.admit(&head, peer.ip(), has_key).await?;
    protocol::check_key(protocol, &gateway, &head.headers)?;
    let body = gateway.body(&head, body, &permit).await?;
    let sent = head.extensions.get::<Sent>().cloned();
    let (path, headers) = (protocol.path(head.uri.query()), head.headers);
    let mut request =
        ChatRequest::read(protocol.form(), body, &headers).map_err(Refusal::invalid)?;
    let person = person.acting_for(&headers, request.user.as_deref())?;
    let named = if gateway.client_sessions { session_of_client(&headers) } else { None };
    request.settle_session(&person.user_id, named);
    if has_key {
        gateway.stored_ids.check(&person.caller, &request.body)?;
    }
    if has_key && request.late && gateway.spending.is_limited() {
        let problem =
            "background is not for tokens with a spending limit: what it takes is not counted";
        return Err(Refusal::invalid(problem));
    }
    let guess = match has_key {
        true => gateway.spending.begin(&person, request.bytes(), request.max_tokens).await?,
        false => None,
    };
    let hides_usage = guess.is_some() && request.tell_usage();
    let (reply, response) = oneshot::channel();
    let chat = Chat {
        protocol,
        path,
        gateway,
        person,
        permit,
        headers,
        request,
        guess,
        hides_usage,
        sent,
        failed: Vec::new(),
        started,
    };
    tokio::spawn(chat.run(reply));
    let gone = |_| Err(Refusal::no_upstream("the chat ended without an answer"));
    response.await.unwrap_or_else(gone)
}

/// A chat that is going on.
pub struct Chat {
    pub protocol: &'static dyn Protocol,
    /// Where it goes upstream.
    path: &'static str,
    pub gateway: Arc<Gateway>,
    pub person: Person,
    pub permit: Permit,
    headers: HeaderMap,
    pub request: ChatRequest,
    /// What was counted of the limit of spending.
    guess: Option<Guess>,
    /// Whether the client did not ask for the event that says what the answer took.
    pub hides_usage: bool,
    sent: Option<Sent>,
    /// Steps that memory could not do.
    failed: Vec<&'static str>,
    started: Instant,
}

impl Chat {
    async fn run(mut self, mut reply: oneshot::Sender<Result<Response, Refusal>>) {
        let (recalled, mut said) = self.recall_and_hear(&mut reply).await;
        if self.gateway.requires_memory && !self.failed.is_empty() {
            self.settle(0);
            let problem = format!("memory failed: {}", self.failed.join(", "));
            // The client may be gone.
            let _ = reply.send(Err(Refusal::no_memory(problem)));
            return;
        }
        let body = match recalled.as_ref().and_then(|recalled| recalled.block.as_deref()) {
            Some(block) => self.request.with_memories(block),
            None => self.request.plain(),
        };
        if let Some(sent) = &self.sent {
            // Each request has its own, so it is empty.
            let _ = sent.0.set(body.clone());
        }
        let asked = Instant::now();
        let upstream = self.protocol.upstream(&self.gateway);
        let sent = tokio::select! {
            // The upstream has said nothing, so there is nothing to keep of it.
            () = reply.closed() => None,
            sent = upstream.send(
                Method::POST, self.path, &self.headers, &self.person.caller, body.into_bytes(),
            ) => Some(sent),
        };
        self.gateway.metrics.upstream.add(asked.elapsed());
        let ended = match sent {
            None => Ended::ByClient,
            Some(Err(reason)) => {
                self.settle(0);
                let mut response = Refusal::no_upstream(reason).into_response();
                self.tell(&mut response, said.id());
                let _ = reply.send(Ok(response));
                Ended::ByUpstream
            }
            Some(Ok(answer)) => {
                let ended = self.answer(answer, recalled, &mut said, reply).await;
                if let Some(by) = ended.by() {
                    self.gateway.metrics.broken.add(by, 1);
                }
                ended
            }
        };
        if let Err(error) = said.settle(&self.gateway).await {
            self.note("store", &error);
        }
        self.gateway.metrics.chats.add(self.started.elapsed());
        log::write(
            "chat",
            json!({
                "milliseconds": self.started.elapsed().as_millis() as u64,
                "ended": ended.as_str(),
                "memory_failed": self.failed,
            }),
        );
    }

    /// What is remembered for the user's message, and the message on its way into memory, both as long as a
    /// chat may wait; nothing when there is no message. They do not wait for each other: the message is stored
    /// as soon as the recall has its snapshot, in which it is not.
    async fn recall_and_hear(
        &mut self,
        reply: &mut oneshot::Sender<Result<Response, Refusal>>,
    ) -> (Option<Recalled>, Said) {
        let Some(asked) = &self.request.asked else { return (None, Said::default()) };
        let metadata = match &asked.name {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
        // The request after a tool's is another one, but the user's turn is still the same.
        let key = self.request.key.clone().filter(|_| !self.request.continues);
        let history = self.request.history.clone();
        let turn = Turn { history, ..self.turn("user", asked.message.clone(), key, metadata) };
        let (user_id, extras) = (&self.person.user_id, &self.request.extras);
        let (looking, looks) = oneshot::channel();
        let chat = json!({"messages": asked.messages, SEEN: self.request.seen});
        let question = Question { user_id, chat: &chat, extras, goes_on: asked.is_followed };
        let (memory, loops) = (&self.gateway.memory, &self.gateway.tool_loops);
        let recall = async {
            tokio::select! {
                recalled = loops.recall(memory, &question, looking) => Some(recalled),
                // The client left: what would be recalled has no reader.
                () = reply.closed() => None,
            }
        };
        let hear = async {
            // A recall that ends before it looks at anything is over.
            let _ = looks.await;
            match self.request.extras.is_forgotten {
                true => (Said::default(), Ok(())),
                false => Said::store(turn, &self.gateway, &self.permit).await,
            }
        };
        let (recalled, (said, heard)) = tokio::join!(recall, hear);
        let recalled = recalled
            .and_then(|recalled| recalled.map_err(|error| self.note("recall", &error)).ok());
        if let Err(error) = heard {
            self.note("store", &error);
        }
        (recalled, said)
    }

    /// Hands the upstream's answer on, and stores what it says.
    async fn answer(
        &mut self,
        answer: Reply,
        recalled: Option<Recalled>,
        said: &mut Said,
        reply: oneshot::Sender<Result<Response, Refusal>>,
    ) -> Ended {
        let kind = answer.kind();
        let streams = kind.starts_with("text/event-stream");
        let hits = match (recalled, self.failed.contains(&"recall")) {
            (Some(recalled), _) => Some(recalled.hits),
            (None, true) => None,
            (None, false) => Some(json!([])),
        };
        if !answer.status().is_success() {
            self.settle(0);
            if answer.status().is_client_error()
                && let Err(error) = said.take_back(&self.gateway, &self.permit).await
            {
                self.note("store", &error);
            }
            self.relay(Vec::new(), answer, said, reply).await;
            return Ended::Whole;
        }
        if !streams && !kind.contains("json") {
            self.relay(Vec::new(), answer, said, reply).await;
            return Ended::Whole;
        }
        let mut response = answer.head();
        self.tell(&mut response, said.id());
        if streams {
            let (body, sender) = stream::body();
            *response.body_mut() = body;
            if reply.send(Ok(response)).is_err() {
                return Ended::ByClient;
            }
            stream::pass_on(self, answer, hits, said, sender).await
        } else {
            self.whole(answer, hits, said, response, reply).await
        }
    }

    /// Hands an answer on that says nothing that could be stored; the first bytes of it were read.
    async fn relay(
        &mut self,
        read: Vec<u8>,
        answer: Reply,
        said: &Said,
        reply: oneshot::Sender<Result<Response, Refusal>>,
    ) {
        let permit = Arc::clone(&self.permit);
        let mut response = answer.relayed(read, &self.gateway, permit).await;
        if let Some(guess) = self.guess.take() {
            response = response.map(|body| guess.count(&self.gateway, &self.permit, body));
        }
        self.tell(&mut response, said.id());
        // The client may be gone.
        let _ = reply.send(Ok(response));
    }

    /// An answer that comes at once.
    async fn whole(
        &mut self,
        mut answer: Reply,
        hits: Option<Value>,
        said: &mut Said,
        mut response: Response,
        reply: oneshot::Sender<Result<Response, Refusal>>,
    ) -> Ended {
        let mut bytes = Vec::new();
        loop {
            match answer.next().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(reason) => {
                    let mut response = Refusal::no_upstream(reason).into_response();
                    self.tell(&mut response, said.id());
                    let _ = reply.send(Ok(response));
                    return Ended::ByUpstream;
                }
            }
            let has_room = self.gateway.answers.holds(bytes.len(), &self.permit);
            if !has_room {
                self.note("store", &MemoryError::NoRoom);
            }
            if !has_room && self.gateway.requires_memory {
                let _ = reply.send(Err(Refusal::unstored()));
                return Ended::Whole;
            }
            if !has_room || bytes.len() > MAX_ANSWER_BYTES {
                self.relay(bytes, answer, said, reply).await;
                return Ended::Whole;
            }
        }
        let mut document = match String::from_utf8(bytes) {
            Ok(text) if splice::Object::read(&text, &text).is_some() => text,
            other => {
                let bytes = other.map_or_else(|error| error.into_bytes(), String::into_bytes);
                self.relay(bytes, answer, said, reply).await;
                return Ended::Whole;
            }
        };
        let mut spoken = Answer::default();
        self.protocol.take(&mut spoken, &document);
        let ended = if reply.is_closed() { Ended::ByClient } else { Ended::Whole };
        let heard = said.id();
        self.count(&spoken, || bytes_said(&document), true);
        let stored = self.keep(&spoken, ended, said).await;
        if self.gateway.requires_memory && self.failed.contains(&"store") {
            let _ = reply.send(Err(Refusal::unstored()));
            return ended;
        }
        for (name, value) in [
            ("memory_hits", hits.map(|hits| hits.to_string())),
            ("memory_stored", stored.map(|stored| splice::quoted(&stored.id.to_string()))),
        ] {
            let edit = value.and_then(|value| splice::added_member(&document, name, &value));
            document = splice::edited(&document, edit.into_iter().collect());
        }
        self.tell(&mut response, heard);
        response.headers_mut().insert(CONTENT_LENGTH, document.len().into());
        *response.body_mut() = Body::from(document);
        let _ = reply.send(Ok(response));
        ended
    }

    /// A turn of this conversation.
    pub fn turn(
        &self,
        role: &'static str,
        content: String,
        key: Option<String>,
        metadata: Value,
    ) -> Turn {
        Turn {
            user_id: self.person.user_id.clone(),
            session_id: self.request.extras.session_id.clone(),
            role,
            content: storable(content),
            key,
            metadata,
            history: None,
            replaces: Vec::new(),
        }
    }

    /// Whether what the answer takes is counted.
    pub fn is_counted(&self) -> bool {
        self.guess.is_some()
    }

    /// Counts what an answer took that said so many bytes; `is_over` if nothing of it is missing.
    pub fn count(&mut self, spoken: &Answer, bytes: impl FnOnce() -> usize, is_over: bool) {
        if let Some(guess) = &self.guess {
            self.settle(guess.took(spoken.usage, bytes(), is_over));
        }
    }

    /// Counts what the upstream took, in the place of the guess.
    fn settle(&mut self, tokens: i64) {
        if let Some(guess) = self.guess.take() {
            guess.settle(&self.gateway, &self.permit, tokens);
        }
    }

    /// Notes that memory failed.
    pub fn note(&mut self, step: &'static str, error: &MemoryError) {
        self.gateway.missed(step, error);
        if !self.failed.contains(&step) {
            self.failed.push(step);
        }
    }

    /// Tells the client what is known before the answer begins.
    fn tell(&self, response: &mut Response, stored: Option<Uuid>) {
        let headers = response.headers_mut();
        if let Some(id) = stored.and_then(|id| id.to_string().parse().ok()) {
            headers.insert(STORED, id);
        }
        if let Ok(failed) = self.failed.join(",").parse::<HeaderValue>()
            && !failed.is_empty()
        {
            headers.insert(FAILED, failed);
        }
    }

    /// Whether the client has to be told that this fails for want of memory.
    pub fn fails_without_memory(&self) -> bool {
        self.gateway.requires_memory && self.failed.contains(&"store")
    }
}
