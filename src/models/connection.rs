//! One connection of a PostgreSQL process to the model server. It waits only in
//! `WaitLatchOrSocket`, so that cancel, statement_timeout and shutdown work at once. Leaving a wait by
//! an ERROR drops the connection, and with it the request at the server.

use super::interface::Failure;
use super::socket;
use super::supervisor::{self, Start};
use super::supervisor_state::{self, State};
use crate::pg::latch;
use crate::settings::Models;
use memory_agent_model_server::engine::session::{Session, SessionError, Silence};
use memory_agent_model_server::protocol::{Endpoint, ErrorCode, Request, Response};
use pgrx::pg_sys;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a call waits for a server that is being restarted.
const RECONNECT_PATIENCE: Duration = Duration::from_millis(400);
/// How long the call that starts the server waits for it.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long a call looks for a free slot when many sessions start the supervisor at once.
const RUSH_PATIENCE: Duration = Duration::from_secs(1);
/// A request that takes longer is accompanied by a status request, which a healthy server answers
/// at once however long its queue is.
const PROBE_AFTER: Duration = Duration::from_millis(500);
/// A server that leaves a status request unanswered for so long is hung or stopped.
const PROBE_PATIENCE: Duration = Duration::from_millis(1000);
/// The same for an LLM's answer, which nothing can stand in for.
const CHAT_PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// One look at a socket.
const LOOK: Duration = Duration::from_millis(250);

/// How a request is carried out.
pub struct CallOptions<'a> {
    pub patience: Patience,
    /// The longest wait for an answer, and what bounds it.
    timeout: Duration,
    timeout_setting: &'static str,
    /// An LLM is asked. Its answer costs money: no call asks for the same one twice. And nothing can stand in for
    /// it: a call waits longer, and is tried although another one failed a moment ago.
    is_chat: bool,
    /// Called before the request goes to the server.
    sending: Option<&'a dyn Fn()>,
}

impl<'a> CallOptions<'a> {
    pub fn of_inference() -> Self {
        Self {
            patience: Patience::ForStart,
            timeout: Models::current().inference_timeout,
            timeout_setting: "memory_agent.inference_timeout",
            is_chat: false,
            sending: None,
        }
    }

    /// Asking for a start, but not waiting for it.
    pub fn of_status() -> Self {
        Self { patience: Patience::None, ..Self::of_inference() }
    }

    /// * `sending`: hears before the answer is asked for.
    pub fn of_chat(endpoint: &Endpoint, sending: &'a dyn Fn()) -> Self {
        Self {
            patience: Patience::ForStart,
            timeout: endpoint.longest_wait(),
            timeout_setting: "memory_agent.llm_timeout",
            is_chat: true,
            sending: Some(sending),
        }
    }

    /// Whether a call is tried although the last one, a moment ago, found no server.
    pub fn is_tried_anew(&self) -> bool {
        self.is_chat
    }
}

/// Whether a call waits for a server that is being started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    None,
    ForStart,
}

/// A connection that is of no more use.
pub struct Lost {
    pub failure: Failure,
    pub may_retry: bool,
}

impl From<SessionError> for Lost {
    fn from(error: SessionError) -> Self {
        Self { failure: Failure::unavailable(error.to_string()), may_retry: true }
    }
}

impl Lost {
    fn hung(message: impl Into<String>) -> Self {
        Self { failure: Failure::unavailable(message), may_retry: false }
    }
}

/// An open connection to the model server.
pub struct Connection {
    stream: UnixStream,
    session: Session,
}

impl Connection {
    /// Connects, waiting a little for a server that is starting.
    pub fn open(options: &CallOptions<'_>) -> Result<Self, Lost> {
        let (patience, opened_at) = (options.patience, Instant::now());
        let after = |time| match patience {
            Patience::None => opened_at,
            Patience::ForStart => opened_at + time,
        };
        let (mut deadline, rush_is_over) = (after(RECONNECT_PATIENCE), after(RUSH_PATIENCE));
        let mut start_requested = false;
        loop {
            match socket::connect_now() {
                Ok(stream) => return Ok(Self { stream, session: Session::default() }),
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
                    // Its supervisor may have heard only now that it ended.
                    if options.is_chat && supervisor_state::read() == Some(State::Starting) {
                        deadline = after(START_PATIENCE);
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
    pub fn call<T>(
        mut self,
        request: &Request,
        options: &CallOptions<'_>,
        accept: impl Fn(Response) -> Result<T, Response>,
    ) -> Result<(Self, Result<T, Failure>), Lost> {
        let id = self.session.ask(request).map_err(|error| Lost {
            failure: Failure::of(ErrorCode::InvalidRequest, error.to_string()),
            may_retry: false,
        })?;
        let started = Instant::now();
        if let Some(sending) = options.sending {
            sending();
        }
        self.send(started + options.timeout)?;
        self.receive_answer(id, started, options, accept).map_err(|lost| Lost {
            failure: Failure { was_sent: true, ..lost.failure },
            may_retry: lost.may_retry && !options.is_chat,
        })
    }

    /// Waits for the answer to a request that was sent, and sees to it that the server is alive.
    fn receive_answer<T>(
        mut self,
        id: u64,
        started: Instant,
        options: &CallOptions<'_>,
        accept: impl Fn(Response) -> Result<T, Response>,
    ) -> Result<(Self, Result<T, Failure>), Lost> {
        let timeout = options.timeout;
        let patience = if options.is_chat { CHAT_PROBE_PATIENCE } else { PROBE_PATIENCE };
        // Since a probe was sent.
        let mut silence: Option<Silence> = None;
        let mut next_probe = Instant::now() + PROBE_AFTER;
        loop {
            while let Some((answered, response)) = self.session.answer()? {
                if answered == id {
                    return match accept(response) {
                        Ok(answer) => Ok((self, Ok(answer))),
                        Err(Response::Error { code, message }) => {
                            Ok((self, Err(Failure::of(code, message))))
                        }
                        Err(_) => Err(Lost::hung("the model server's answer makes no sense")),
                    };
                }
                // An answer to a probe: it is alive.
                silence = None;
                next_probe = Instant::now() + PROBE_AFTER;
            }
            let now = Instant::now();
            if now >= started + timeout {
                // It answered the probes: it is well, only this request takes long.
                return Err(Lost {
                    failure: Failure {
                        is_outage: false,
                        may_be_own: true,
                        ..Failure::unavailable(format!(
                            "the model server did not answer within {}",
                            options.timeout_setting
                        ))
                    },
                    may_retry: false,
                });
            }
            match silence {
                Some(silence) if silence.lasts(patience) => {
                    return Err(Lost::hung("the model server does not respond"));
                }
                None if now >= next_probe => {
                    self.session.ask(&Request::Status).map_err(SessionError::from)?;
                    self.send(started + timeout)?;
                    silence = Some(Silence::default());
                }
                _ => {}
            }
            let looked_at = Instant::now();
            if wait(Some((&self.stream, pg_sys::WL_SOCKET_READABLE)), LOOK) {
                self.session.receive(&mut self.stream)?;
            } else if let Some(silence) = &mut silence {
                silence.add(looked_at.elapsed(), LOOK);
            }
        }
    }

    fn send(&mut self, deadline: Instant) -> Result<(), Lost> {
        let mut silence = Silence::default();
        loop {
            if self.session.send(&mut self.stream)? {
                silence = Silence::default();
            }
            if !self.session.is_sending() {
                return Ok(());
            }
            if Instant::now() >= deadline || silence.lasts(PROBE_PATIENCE) {
                return Err(Lost::hung("the model server does not read requests"));
            }
            let looked_at = Instant::now();
            if !wait(Some((&self.stream, pg_sys::WL_SOCKET_WRITEABLE)), LOOK) {
                silence.add(looked_at.elapsed(), LOOK);
            }
        }
    }
}

/// Waits for the socket, the latch or the time to pass, serving interrupts; true when the socket
/// is ready. The server's death ends the process.
fn wait(socket: Option<(&UnixStream, u32)>, timeout: Duration) -> bool {
    let socket = socket.map(|(stream, event)| (stream.as_raw_fd(), event));
    let events = latch::wait(Some(timeout), socket);
    pgrx::check_for_interrupts!();
    socket.is_some_and(|(_, event)| events & event != 0)
}
