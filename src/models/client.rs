//! The model server seen from a PostgreSQL process: one connection a process, kept open, waiting
//! only in `WaitLatchOrSocket`, so that cancel, statement_timeout and shutdown work at once.
//! Leaving a wait by an ERROR drops the connection, and with it the request at the server.
#![allow(unsafe_code)]

use super::supervisor::{self, Start};
use super::{Failure, Models, Prepared, socket, supervisor_state};
use crate::guc;
use memory_agent_model_server::frame::FrameReader;
use memory_agent_model_server::protocol::{
    self, ChatOutcome, ChatRequest, Conversation, Endpoint, ModelDescription, ModelRef, Purpose,
    Request, Response, ServerStatus,
};
use pgrx::pg_sys;
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a call waits for a server that is being restarted.
const RECONNECT_PATIENCE: Duration = Duration::from_millis(400);
/// How long the call that starts the server waits for it.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long a call looks for a free slot when many sessions start the supervisor at once.
const RUSH_PATIENCE: Duration = Duration::from_secs(1);
/// After a failure, calls within this time fail at once instead of waiting again.
const FAILURE_MEMORY: Duration = Duration::from_secs(1);
/// A request that takes longer is accompanied by a status request, which a healthy server answers
/// at once however long its queue is.
const PROBE_AFTER: Duration = Duration::from_millis(500);
/// A server that leaves a status request unanswered for so long is hung or stopped.
const PROBE_PATIENCE: Duration = Duration::from_millis(1000);

thread_local! {
    static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
    static LAST_FAILURE: RefCell<Option<Remembered>> = const { RefCell::new(None) };
}

/// The last failure of this process.
#[derive(Clone)]
struct Remembered {
    at: Instant,
    failure: Failure,
}

fn remembered() -> Option<Failure> {
    LAST_FAILURE
        .with_borrow(|last| last.clone().filter(|last| last.at.elapsed() < FAILURE_MEMORY))
        .map(|last| last.failure)
}

/// Inference by the cluster's model server.
pub struct ServerModels;

impl Models for ServerModels {
    fn prepare(
        &self,
        model: Option<&ModelRef>,
        purpose: Purpose,
        texts: Vec<String>,
        token_texts: Vec<String>,
    ) -> Result<Prepared, Failure> {
        let expected = (texts.len(), token_texts.len());
        let request = Request::Prepare { model: model.cloned(), purpose, texts, token_texts };
        call(&request, &Manner::of_inference(), |response| match response {
            Response::Prepared { embeddings, token_counts }
                if (embeddings.len(), token_counts.len()) == expected
                    && embeddings.iter().all(|windows| !windows.is_empty())
                    && embeddings.iter().flatten().flatten().all(|value| value.is_finite()) =>
            {
                Ok(Prepared { embeddings, token_counts })
            }
            other => Err(other),
        })
    }

    fn rerank(
        &self,
        model: &ModelRef,
        query: &str,
        documents: Vec<String>,
    ) -> Result<Vec<f32>, Failure> {
        let expected = documents.len();
        let request = Request::Rerank { model: model.clone(), query: query.to_owned(), documents };
        call(&request, &Manner::of_inference(), |response| match response {
            Response::Logits(logits)
                if logits.len() == expected && logits.iter().all(|logit| logit.is_finite()) =>
            {
                Ok(logits)
            }
            other => Err(other),
        })
    }

    fn describe(&self, model: &ModelRef) -> Result<ModelDescription, Failure> {
        let request = Request::Describe { model: model.clone() };
        call(&request, &Manner::of_inference(), |response| match response {
            Response::Description(description) => Ok(description),
            other => Err(other),
        })
    }
}

/// The server's own account of itself, for `memory_status()`. Asks for a start, but does not wait
/// for it.
pub fn status() -> Result<ServerStatus, Failure> {
    let manner = Manner { patience: Patience::None, ..Manner::of_inference() };
    call(&Request::Status, &manner, |response| match response {
        Response::Status(status) => Ok(status),
        other => Err(other),
    })
}

/// Asks an LLM and waits for what comes of it, however long the settings let that take.
pub fn chat(request: ChatRequest) -> Result<ChatOutcome, Failure> {
    let manner = Manner::of_chat(&request.endpoint);
    call(&Request::Chat(Box::new(request)), &manner, outcome)
}

/// Passes a conversation on and waits for its next answer.
pub fn converse(conversation: Conversation) -> Result<ChatOutcome, Failure> {
    let manner = Manner::of_chat(&conversation.endpoint);
    call(&Request::Converse(Box::new(conversation)), &manner, outcome)
}

fn outcome(response: Response) -> Result<ChatOutcome, Response> {
    match response {
        Response::Chat(outcome) => Ok(outcome),
        other => Err(other),
    }
}

/// How a request is carried out.
struct Manner {
    patience: Patience,
    /// The longest wait for an answer, and what bounds it.
    timeout: Duration,
    timeout_setting: &'static str,
    /// Whether it may be sent again after a connection was lost that had taken it.
    is_repeatable: bool,
}

impl Manner {
    fn of_inference() -> Self {
        Self {
            patience: Patience::ForStart,
            timeout: Duration::from_millis(guc::inference_timeout().max(0) as u64),
            timeout_setting: "memory_agent.inference_timeout",
            is_repeatable: true,
        }
    }

    /// An LLM's answer costs money: nobody asks for the same one twice.
    fn of_chat(endpoint: &Endpoint) -> Self {
        Self {
            patience: Patience::ForStart,
            timeout: endpoint.longest_wait(),
            timeout_setting: "memory_agent.llm_timeout",
            is_repeatable: false,
        }
    }
}

/// Whether a call waits for a server that is being started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    ForStart,
}

/// Sends a request and waits for its answer, which `accept` takes or gives back. A connection that
/// turns out to be dead, kept or new, is replaced once, unless it is lost while the server carries out
/// what may not be repeated. An answer of the wrong kind is nonsense: its connection is of no more use
/// either.
fn call<T>(
    request: &Request,
    manner: &Manner,
    accept: impl Fn(Response) -> Result<T, Response>,
) -> Result<T, Failure> {
    let kept = CONNECTION.take();
    let was_kept = kept.is_some();
    // A statement that has waited in vain once does not wait again for its next step.
    if let (false, Some(failure)) = (was_kept, remembered()) {
        return Err(failure);
    }
    let patience = manner.patience;
    let fresh = || {
        Connection::open(patience).and_then(|connection| connection.call(request, manner, &accept))
    };
    let first = match kept {
        Some(connection) => connection.call(request, manner, &accept),
        None => fresh(),
    };
    // A new connection may be dead too: a killed server's socket outlives it by a moment.
    let outcome = match first {
        Err(lost) if lost.may_retry => fresh(),
        outcome => outcome,
    };
    match outcome {
        Ok((connection, answer)) => {
            CONNECTION.set(Some(connection));
            LAST_FAILURE.set(None);
            answer
        }
        Err(lost) => {
            if lost.failure.is_outage && patience == Patience::ForStart {
                LAST_FAILURE
                    .set(Some(Remembered { at: Instant::now(), failure: lost.failure.clone() }));
            }
            if lost.failure.is_outage {
                supervisor_state::ask_to_check();
            }
            Err(lost.failure)
        }
    }
}

/// A connection that is of no more use.
struct Lost {
    failure: Failure,
    may_retry: bool,
}

impl Lost {
    fn dead(message: impl Into<String>) -> Self {
        Self { failure: Failure::unavailable(message), may_retry: true }
    }

    fn hung(message: impl Into<String>) -> Self {
        Self { failure: Failure::unavailable(message), may_retry: false }
    }
}

struct Connection {
    stream: UnixStream,
    reader: FrameReader,
    next_id: u64,
}

impl Connection {
    /// Connects, waiting a little for a server that is starting.
    fn open(patience: Patience) -> Result<Self, Lost> {
        let mut deadline = match patience {
            Patience::None => Instant::now(),
            Patience::ForStart => Instant::now() + RECONNECT_PATIENCE,
        };
        let rush_is_over = match patience {
            Patience::None => Instant::now(),
            Patience::ForStart => Instant::now() + RUSH_PATIENCE,
        };
        let mut start_requested = false;
        loop {
            match socket::connect() {
                Ok(stream) => {
                    return Ok(Self { stream, reader: FrameReader::new(), next_id: 1 });
                }
                Err(reason) => {
                    if !start_requested {
                        start_requested = true;
                        match supervisor::ensure_started() {
                            Ok(Start::Starting) if patience == Patience::ForStart => {
                                deadline = Instant::now() + START_PATIENCE;
                            }
                            // The slots may be held by others who start the same supervisor.
                            Ok(Start::NoSlot(_)) if Instant::now() < rush_is_over => {
                                start_requested = false;
                                deadline = rush_is_over;
                            }
                            Ok(Start::NoSlot(failure)) | Err(failure) => {
                                return Err(Lost { failure, may_retry: false });
                            }
                            Ok(_) => {}
                        }
                    }
                    if Instant::now() >= deadline {
                        return Err(Lost::hung(format!(
                            "the model server is not reachable: {reason}"
                        )));
                    }
                }
            }
            wait(None, Duration::from_millis(20));
        }
    }

    /// One request and its answer; the connection survives only a complete exchange. The inner error
    /// is the server's own refusal.
    fn call<T>(
        mut self,
        request: &Request,
        manner: &Manner,
        accept: impl Fn(Response) -> Result<T, Response>,
    ) -> Result<(Self, Result<T, Failure>), Lost> {
        let id = self.next_id;
        let probe_id = id + 1;
        self.next_id += 2;
        let bytes = protocol::encode(id, request)
            .map_err(|error| Lost { failure: rejected(error.to_string()), may_retry: false })?;
        let started = Instant::now();
        let timeout = manner.timeout;
        let mut probed_at: Option<Instant> = None;
        let mut next_probe = started + PROBE_AFTER;
        self.send(&bytes, started + timeout)?;
        loop {
            while let Some(frame) =
                self.reader.pop().map_err(|error| Lost::dead(error.to_string()))?
            {
                if frame.id == id {
                    let response = frame
                        .decode::<Response>()
                        .map_err(|error| Lost::dead(error.to_string()))?;
                    return match accept(response) {
                        Ok(answer) => Ok((self, Ok(answer))),
                        Err(Response::Error { code, message }) => {
                            Ok((self, Err(Failure::of(code, message))))
                        }
                        Err(_) => Err(Lost::hung("the model server's answer makes no sense")),
                    };
                }
                // An answer to a probe: it is alive.
                probed_at = None;
                next_probe = Instant::now() + PROBE_AFTER;
            }
            let now = Instant::now();
            if now >= started + timeout {
                // It answered the probes: it is well, only this request takes long.
                return Err(Lost {
                    failure: Failure {
                        is_outage: false,
                        ..Failure::unavailable(format!(
                            "the model server did not answer within {}",
                            manner.timeout_setting
                        ))
                    },
                    may_retry: false,
                });
            }
            match probed_at {
                Some(at) if now >= at + PROBE_PATIENCE => {
                    return Err(Lost::hung("the model server does not respond"));
                }
                None if now >= next_probe => {
                    let probe = protocol::encode(probe_id, &Request::Status)
                        .map_err(|error| Lost::dead(error.to_string()))?;
                    self.send(&probe, started + timeout)?;
                    probed_at = Some(now);
                }
                _ => {}
            }
            if wait(Some((&self.stream, pg_sys::WL_SOCKET_READABLE)), Duration::from_millis(250)) {
                self.receive().map_err(|lost| Lost {
                    may_retry: lost.may_retry && manner.is_repeatable,
                    ..lost
                })?;
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), Lost> {
        let mut last_progress = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    last_progress = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline || last_progress.elapsed() >= PROBE_PATIENCE {
                        return Err(Lost::hung("the model server does not read requests"));
                    }
                    wait(
                        Some((&self.stream, pg_sys::WL_SOCKET_WRITEABLE)),
                        Duration::from_millis(250),
                    );
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::dead(format!("the model server is gone: {error}"))),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Lost> {
        let mut buffer = [0u8; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Lost::dead("the model server closed the connection")),
                Ok(count) => self.reader.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::dead(format!("the model server is gone: {error}"))),
            }
        }
    }
}

fn rejected(message: String) -> Failure {
    Failure::of(protocol::ErrorCode::InvalidRequest, message)
}

/// Waits for the socket, the latch or the time to pass, serving interrupts; true when the socket
/// is ready. The server's death ends the process.
fn wait(socket: Option<(&UnixStream, u32)>, timeout: Duration) -> bool {
    let (descriptor, socket_event) = match socket {
        Some((stream, event)) => (stream.as_raw_fd(), event),
        None => (-1, 0),
    };
    let wake =
        pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH | socket_event;
    // SAFETY: MyLatch is this process's latch; the descriptor is open while `socket` is borrowed.
    let events = unsafe {
        pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            wake as i32,
            descriptor,
            timeout.as_millis() as i64,
            pg_sys::PG_WAIT_EXTENSION,
        )
    };
    if events as u32 & pg_sys::WL_LATCH_SET != 0 {
        // SAFETY: as above.
        unsafe { pg_sys::ResetLatch(pg_sys::MyLatch) };
    }
    pgrx::check_for_interrupts!();
    events as u32 & socket_event != 0
}
