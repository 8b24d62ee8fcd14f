//! The worker's connection to the model server for LLM calls: many requests at once, told apart by
//! their ids, none of them waited for here. Dropping the connection cancels what is in flight.

use crate::models::supervisor::{self, Start};
use crate::models::{socket, supervisor_state};
use memory_agent_model_server::engine::session::{Session, SessionError};
use memory_agent_model_server::protocol::{ChatOutcome, ChatRequest, Request, Response};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The id of a request in flight.
pub type CallId = u64;

/// Why a request has no outcome: the model server, not the LLM, failed.
pub type LostCall = String;

/// LLM requests in flight.
#[derive(Default)]
pub struct LlmCalls {
    stream: Option<UnixStream>,
    session: Session,
    /// When to stop waiting for each request.
    waiting: HashMap<CallId, Instant>,
    finished: Vec<(CallId, Result<ChatOutcome, LostCall>)>,
}

impl LlmCalls {
    /// Sends a request.
    ///
    /// # Errors
    /// Why the model server cannot be reached.
    pub fn send(&mut self, request: ChatRequest) -> Result<CallId, LostCall> {
        let patience = request.endpoint.longest_wait();
        if self.stream.is_none() {
            self.stream = Some(connect()?);
        }
        let request = Request::Chat(Box::new(request));
        let id = self.session.ask(&request).map_err(|error| error.to_string())?;
        self.waiting.insert(id, Instant::now() + patience);
        self.move_bytes();
        Ok(id)
    }

    /// The requests that have come to an end since the last call.
    pub fn poll(&mut self) -> Vec<(CallId, Result<ChatOutcome, LostCall>)> {
        self.move_bytes();
        let now = Instant::now();
        if self.waiting.values().any(|deadline| *deadline < now) {
            self.lose("the model server does not answer");
        }
        std::mem::take(&mut self.finished)
    }

    /// What to wait on for an answer.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.stream.as_ref().filter(|_| !self.waiting.is_empty()).map(AsRawFd::as_raw_fd)
    }

    /// Whether bytes wait for room in the socket.
    pub fn is_sending(&self) -> bool {
        self.session.is_sending()
    }

    /// Whether an outcome is already there, so that nothing needs to be waited for.
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    fn move_bytes(&mut self) {
        if let Err(error) = self.exchange() {
            self.lose(&error.to_string());
        }
    }

    fn exchange(&mut self) -> Result<(), SessionError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        self.session.send(stream)?;
        let received = loop {
            match self.session.receive(stream) {
                Ok(true) => {}
                other => break other,
            }
        };
        while let Some((id, response)) = self.session.answer()? {
            if self.waiting.remove(&id).is_some() {
                let outcome = match response {
                    Response::Chat(outcome) => Ok(outcome),
                    Response::Error { message, .. } => Err(message),
                    _ => Err("the model server's answer makes no sense".to_owned()),
                };
                self.finished.push((id, outcome));
            }
        }
        received.map(drop)
    }

    /// Gives up the connection and everything in flight on it.
    fn lose(&mut self, reason: &str) {
        if self.stream.take().is_some() {
            supervisor_state::ask_to_check();
        }
        self.session.reset();
        let lost = self.waiting.drain().map(|(id, _)| (id, Err(reason.to_owned())));
        self.finished.extend(lost);
    }
}

fn connect() -> Result<UnixStream, LostCall> {
    socket::connect_now().map_err(|reason| {
        supervisor_state::ask_to_check();
        match supervisor::ensure_started() {
            Ok(Start::NoSlot(failure)) | Err(failure) => failure.message,
            Ok(_) => format!("the model server is not reachable: {reason}"),
        }
    })
}
