//! `/v1/chat/completions`: recall, store what the user said, ask the upstream, hand its answer on, store it.
//! A chat runs in a task of its own, so that what was said is stored though the client has left.

use crate::answer::Answer;
use crate::chat_request::ChatRequest;
use crate::door::Person;
use crate::gateway::{Gateway, Permit, relayed};
use crate::log;
use crate::memory::{MemoryError, Recalled, Stored, Turn};
use crate::refusal::Refusal;
use crate::splice;
use crate::stream::{self, Ended};
use crate::upstream;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Where it goes upstream.
const PATH: &str = "/chat/completions";
/// The id of the user's turn, once it is committed.
const STORED: &str = "x-memory-stored";
/// What memory could not do for this request: `recall`, `store`.
const FAILED: &str = "x-memory-failed";
/// An answer that does not stream is passed on as it is beyond this, and not stored.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Answers a chat.
pub async fn complete(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    match begin(gateway, peer, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn begin(
    gateway: Arc<Gateway>,
    peer: SocketAddr,
    request: Request,
) -> Result<Response, Refusal> {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    let (person, permit) = gateway.admit(&head, peer.ip()).await?;
    let body = gateway.body(&head, body).await?;
    let headers = head.headers;
    let request = ChatRequest::read(&body, &headers).map_err(Refusal::invalid)?;
    drop(body);
    let (reply, response) = oneshot::channel();
    let chat = Chat { gateway, person, permit, headers, request, failed: Vec::new(), started };
    tokio::spawn(chat.run(reply));
    let gone = |_| Err(Refusal::no_upstream("the chat ended without an answer"));
    response.await.unwrap_or_else(gone)
}

/// A chat that is going on.
pub struct Chat {
    pub gateway: Arc<Gateway>,
    person: Person,
    permit: Permit,
    headers: HeaderMap,
    request: ChatRequest,
    /// Steps that memory could not do.
    failed: Vec<&'static str>,
    started: Instant,
}

impl Chat {
    async fn run(mut self, mut reply: oneshot::Sender<Result<Response, Refusal>>) {
        let recalled = self.recall().await;
        let mut said = self.hear().await;
        if self.gateway.requires_memory && !self.failed.is_empty() {
            let problem = format!("memory failed: {}", self.failed.join(", "));
            // Nobody listens any more, perhaps.
            let _ = reply.send(Err(Refusal::no_memory(problem)));
            return;
        }
        let body = match &recalled {
            Some(recalled) => self.request.with_memories(&recalled.text),
            None => self.request.plain(),
        };
        let asked = Instant::now();
        let sent = tokio::select! {
            // The upstream has said nothing, so there is nothing to keep of it.
            () = reply.closed() => None,
            sent = self.gateway.upstream.send(Method::POST, PATH, &self.headers, body.into_bytes()) => {
                Some(sent)
            }
        };
        self.gateway.metrics.upstream.add(asked.elapsed());
        let ended = match sent {
            None => Ended::ByClient,
            Some(Err(reason)) => {
                let mut response = Refusal::no_upstream(reason).into_response();
                self.tell(&mut response, said.stored);
                let _ = reply.send(Ok(response));
                Ended::ByUpstream
            }
            Some(Ok(answer)) => self.answer(answer, recalled, &mut said, reply).await,
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

    /// What is remembered for the user's message; `None` when there is no message, or no memory.
    async fn recall(&mut self) -> Option<Recalled> {
        let asked = self.request.asked.as_ref()?;
        let extras = &self.request.extras;
        let memory = &self.gateway.memory;
        match memory.augment(&self.person.user_id, &asked.messages, extras).await {
            Ok(recalled) => Some(recalled),
            Err(error) => {
                self.note("recall", &error);
                None
            }
        }
    }

    /// Stores what the user said, and waits for it as long as a chat may wait.
    async fn hear(&mut self) -> Said {
        let Some(asked) = &self.request.asked else { return Said::default() };
        let metadata = match &asked.name {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
        // The request after a tool's is another one, but the user's turn is still the same.
        let key = self.request.key.clone().filter(|_| !self.request.continues);
        let turn = self.turn("user", asked.message.clone(), key, metadata);
        let mut said =
            Said { storing: Some(self.storing(turn.clone())), turn: Some(turn), stored: None };
        match said.wait(self.gateway.patience).await {
            Some(Ok(stored)) => said.stored = Some(stored),
            Some(Err(error)) => self.note("store", &error),
            None => self.note("store", &MemoryError::Late),
        }
        said
    }

    /// Hands the upstream's answer on, and stores what it says.
    async fn answer(
        &mut self,
        answer: reqwest::Response,
        recalled: Option<Recalled>,
        said: &mut Said,
        reply: oneshot::Sender<Result<Response, Refusal>>,
    ) -> Ended {
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let streams = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let hits = match (recalled, self.failed.contains(&"recall")) {
            (Some(recalled), _) => Some(recalled.hits),
            (None, true) => None,
            (None, false) => Some(json!([])),
        };
        if !answer.status().is_success() {
            let gateway = Arc::clone(&self.gateway);
            let mut response = relayed(gateway, answer, Arc::clone(&self.permit));
            self.tell(&mut response, said.stored);
            let _ = reply.send(Ok(response));
            return Ended::Whole;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status();
        *response.headers_mut() = upstream::answered(answer.headers());
        self.tell(&mut response, said.stored);
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

    /// An answer that comes at once.
    async fn whole(
        &mut self,
        mut answer: reqwest::Response,
        hits: Option<Value>,
        said: &mut Said,
        mut response: Response,
        reply: oneshot::Sender<Result<Response, Refusal>>,
    ) -> Ended {
        let mut bytes = Vec::new();
        loop {
            match self.gateway.upstream.next(&mut answer).await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(reason) => {
                    let mut response = Refusal::no_upstream(reason).into_response();
                    self.tell(&mut response, said.stored);
                    let _ = reply.send(Ok(response));
                    return Ended::ByUpstream;
                }
            }
            if bytes.len() > MAX_ANSWER_BYTES {
                let problem = "the upstream's answer is too large";
                let _ = reply.send(Err(Refusal::no_upstream(problem)));
                return Ended::ByUpstream;
            }
        }
        let Ok(mut document) = String::from_utf8(bytes) else {
            let _ = reply.send(Err(Refusal::no_upstream("the upstream's answer is no text")));
            return Ended::ByUpstream;
        };
        let mut spoken = Answer::default();
        spoken.take(&document);
        let ended = if reply.is_closed() { Ended::ByClient } else { Ended::Whole };
        let heard = said.stored;
        let stored = self.keep(&spoken, ended, said).await;
        if self.gateway.requires_memory && self.failed.contains(&"store") {
            let _ = reply.send(Err(Refusal::no_memory("the answer could not be stored")));
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

    /// Stores what the assistant said, after what the user said. Waits as long as a chat may wait; `None`
    /// when there is nothing to store, or it is not stored by then.
    pub async fn keep(&mut self, spoken: &Answer, ended: Ended, said: &mut Said) -> Option<Stored> {
        if let Some(usage) = spoken.usage {
            self.gateway.metrics.tokens.add("prompt", usage.prompt_tokens);
            self.gateway.metrics.tokens.add("completion", usage.completion_tokens);
        }
        if let Some(by) = ended.by() {
            self.gateway.metrics.broken.add(by, 1);
        }
        if spoken.text.trim().is_empty() {
            return None;
        }
        let is_whole = ended == Ended::Whole && spoken.is_whole;
        let metadata = if is_whole { json!({}) } else { json!({"interrupted": true}) };
        let turn = self.turn("assistant", spoken.text.clone(), self.request.key.clone(), metadata);
        let (gateway, permit) = (Arc::clone(&self.gateway), Arc::clone(&self.permit));
        let mut heard = std::mem::take(said);
        let storing = tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = heard.settle(&gateway).await {
                gateway.missed("store", &error);
            }
            let stored = gateway.memory.store(&turn).await?;
            if stored.is_new || !is_whole {
                return Ok(stored);
            }
            // The request was repeated, and this is what the client has heard in the end.
            gateway.memory.replace(stored.id, &turn).await
        });
        let stored = match tokio::time::timeout(self.gateway.patience, storing).await {
            Ok(stored) => stored.unwrap_or(Err(MemoryError::Unexpected)),
            Err(_) => Err(MemoryError::Late),
        };
        if let Err(error) = &stored {
            self.note("store", error);
        }
        stored.ok()
    }

    fn turn(
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
            content,
            key,
            metadata,
        }
    }

    /// Stores a turn in a task: who waits for it may give up, and it is stored all the same.
    fn storing(&self, turn: Turn) -> JoinHandle<Result<Stored, MemoryError>> {
        let (gateway, permit) = (Arc::clone(&self.gateway), Arc::clone(&self.permit));
        tokio::spawn(async move {
            let stored = gateway.memory.store(&turn).await;
            drop(permit);
            stored
        })
    }

    /// Notes that memory failed.
    fn note(&mut self, step: &'static str, error: &MemoryError) {
        self.gateway.missed(step, error);
        if !self.failed.contains(&step) {
            self.failed.push(step);
        }
    }

    /// Tells the client what is known before the answer begins.
    fn tell(&self, response: &mut Response, stored: Option<Stored>) {
        let headers = response.headers_mut();
        if let Some(id) = stored.and_then(|stored| stored.id.to_string().parse().ok()) {
            headers.insert(STORED, id);
        }
        if let Ok(failed) = self.failed.join(",").parse::<HeaderValue>()
            && !failed.is_empty()
        {
            headers.insert(FAILED, failed);
        }
        if response.status() == StatusCode::OK {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }

    /// Whether the client has to be told that this fails for want of memory.
    pub fn fails_without_memory(&self) -> bool {
        self.gateway.requires_memory && self.failed.contains(&"store")
    }
}

/// A turn on its way into memory.
#[derive(Default)]
pub struct Said {
    turn: Option<Turn>,
    storing: Option<JoinHandle<Result<Stored, MemoryError>>>,
    stored: Option<Stored>,
}

impl Said {
    /// What came of it; `None` when it is not done in time, and goes on.
    async fn wait(&mut self, patience: std::time::Duration) -> Option<Result<Stored, MemoryError>> {
        let storing = self.storing.as_mut()?;
        let outcome = tokio::time::timeout(patience, storing).await.ok()?;
        self.storing = None;
        Some(outcome.unwrap_or(Err(MemoryError::Unexpected)))
    }

    /// Waits until it is stored, however long that takes, and tries once more if it was not: should the
    /// database have been gone for a moment, it may be there again.
    async fn settle(&mut self, gateway: &Gateway) -> Result<(), MemoryError> {
        if let Some(storing) = self.storing.take()
            && let Ok(Ok(stored)) = storing.await
        {
            self.stored = Some(stored);
        }
        if self.stored.is_none()
            && let Some(turn) = self.turn.take()
        {
            self.stored = Some(gateway.memory.store(&turn).await?);
        }
        Ok(())
    }
}
