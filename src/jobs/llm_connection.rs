//! The worker's connection to the model server for LLM calls: many requests at once, told apart by
//! their ids, none of them waited for here. Dropping the connection cancels what is in flight.

use crate::models::supervisor::{self, Start};
use crate::models::{socket, supervisor_state};
use memory_agent_model_server::frame::FrameReader;
use memory_agent_model_server::protocol::{self, ChatOutcome, ChatRequest, Request, Response};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
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
    connection: Option<(UnixStream, FrameReader)>,
    outgoing: Vec<u8>,
    last_id: CallId,
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
        if self.connection.is_none() {
            let stream = socket::connect().map_err(|reason| {
                supervisor_state::ask_to_check();
                match supervisor::ensure_started() {
                    Ok(Start::NoSlot(failure)) => failure.message,
                    Ok(_) => format!("the model server is not reachable: {reason}"),
                    Err(failure) => failure.message,
                }
            })?;
            self.connection = Some((stream, FrameReader::new()));
        }
        let patience = request.endpoint.longest_wait();
        self.last_id += 1;
        let bytes = protocol::encode(self.last_id, &Request::Chat(Box::new(request)))
            .map_err(|error| error.to_string())?;
        self.outgoing.extend_from_slice(&bytes);
        self.waiting.insert(self.last_id, Instant::now() + patience);
        self.move_bytes();
        Ok(self.last_id)
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
        self.connection
            .as_ref()
            .filter(|_| !self.waiting.is_empty())
            .map(|(stream, _)| stream.as_raw_fd())
    }

    /// Whether bytes wait for room in the socket.
    pub fn is_sending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether an outcome is already there, so that nothing needs to be waited for.
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    fn move_bytes(&mut self) {
        if let Err(reason) = self.write().and_then(|()| self.read()) {
            self.lose(&reason);
        }
    }

    fn write(&mut self) -> Result<(), LostCall> {
        let Some((stream, _)) = &mut self.connection else { return Ok(()) };
        while !self.outgoing.is_empty() {
            match stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the model server is gone: {error}")),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), LostCall> {
        let Some((stream, reader)) = &mut self.connection else { return Ok(()) };
        let mut buffer = [0u8; 64 * 1024];
        let is_open = loop {
            match stream.read(&mut buffer) {
                Ok(0) => break false,
                Ok(count) => reader.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        while let Some(frame) = reader.pop().map_err(|error| error.to_string())? {
            if self.waiting.remove(&frame.id).is_none() {
                continue;
            }
            let outcome = match frame.decode::<Response>().map_err(|error| error.to_string())? {
                Response::Chat(outcome) => Ok(outcome),
                Response::Error { message, .. } => Err(message),
                _ => Err("the model server's answer makes no sense".to_owned()),
            };
            self.finished.push((frame.id, outcome));
        }
        if is_open { Ok(()) } else { Err("the model server closed the connection".to_owned()) }
    }

    /// Gives up the connection and everything in flight on it.
    fn lose(&mut self, reason: &str) {
        if self.connection.take().is_some() {
            supervisor_state::ask_to_check();
        }
        self.outgoing.clear();
        let lost = self.waiting.drain().map(|(id, _)| (id, Err(reason.to_owned())));
        self.finished.extend(lost);
    }
}
