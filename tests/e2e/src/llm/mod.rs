//! A stand-in for an LLM: a server in the test's own process that speaks OpenAI's protocol over real
//! HTTP, answers by a script, records what it was asked, and fails in every way an endpoint can.
//!
//! ```no_run
//! use memory_agent_e2e::llm::{Fault, FaultPlan, LlmStub};
//!
//! let stub = LlmStub::start(|_: &_| r#"{"facts": []}"#);
//! stub.faults(FaultPlan::always(Fault::Status(500)));
//! println!("memory_agent.llm_base_url = '{}'", stub.base_url());
//! assert!(stub.calls().is_empty());
//! ```

mod call;
mod conversation;
mod dice;
mod faults;
mod http;
mod purpose;
mod reply;
mod scripted;
mod talk;
#[cfg(test)]
mod tests;
mod topics;

pub use call::Call;
pub use conversation::{Change, Conversation, Outcome, Statement, Superseded, Turn};
pub use dice::Dice;
pub use faults::{Fault, FaultPlan, HUGE};
pub use purpose::{Document, Purpose, Summary, SummaryKind};
pub use reply::{Model, Reply, hashed_words, tokens};
pub use scripted::{CONFIDENCE, ScriptedModel};
pub use talk::{Act, Manner, Saying, Speaker, Talk, Version, Way};

use crate::wait_until;
use http::Request;
use purpose::number_after;
use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Nobody waits longer than this for a test to let answers go.
const LONGEST_HOLD: Duration = Duration::from_secs(600);

/// The server; it ends when it is dropped.
pub struct LlmStub {
    address: SocketAddr,
    state: Arc<State>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    model: RwLock<Arc<dyn Model>>,
    plan: RwLock<FaultPlan>,
    calls: Mutex<Vec<Call>>,
    /// The number of the next call.
    next_call: AtomicUsize,
    tests: AtomicUsize,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
    answered: AtomicUsize,
    held: AtomicBool,
    down: AtomicBool,
    next_connection: AtomicU64,
    connections: Mutex<HashMap<u64, TcpStream>>,
}

impl LlmStub {
    /// Starts a server on a free port of 127.0.0.1.
    pub fn start(model: impl Model) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of 127.0.0.1");
        let address = listener.local_addr().expect("the port");
        let state = Arc::new(State {
            model: RwLock::new(Arc::new(model)),
            plan: RwLock::new(FaultPlan::none()),
            calls: Mutex::default(),
            next_call: AtomicUsize::new(0),
            tests: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            max_in_flight: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            down: AtomicBool::new(false),
            next_connection: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let thread = listen(listener, Arc::clone(&state));
        Self { address, state, listener: Mutex::new(Some(thread)) }
    }

    /// For `memory_agent.llm_base_url` and `memory_agent.embedding_base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Replaces the model for the calls from now on.
    pub fn set_model(&self, model: impl Model) {
        *self.state.model.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(model);
    }

    /// Replaces the plan of faults for the calls from now on.
    pub fn faults(&self, plan: FaultPlan) {
        *self.state.plan.write().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// All requests so far, in the order in which they came, without [tests](Call::is_test).
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.state.calls).clone()
    }

    /// The last request of which something holds.
    pub fn last_call(&self, holds: impl Fn(&Call) -> bool) -> Option<Call> {
        lock(&self.state.calls).iter().rev().find(|call| holds(call)).cloned()
    }

    /// The requests since the last call of this, which are forgotten.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut lock(&self.state.calls))
    }

    /// How many answers were sent so far.
    pub fn answered(&self) -> usize {
        self.state.answered.load(Ordering::SeqCst)
    }

    /// How many requests came so far, without [tests](Call::is_test).
    pub fn call_count(&self) -> usize {
        self.state.next_call.load(Ordering::SeqCst)
    }

    /// How many [tests](Call::is_test) came so far.
    pub fn test_count(&self) -> usize {
        self.state.tests.load(Ordering::SeqCst)
    }

    /// Requests that were read and whose answers are not being sent yet.
    pub fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::SeqCst)
    }

    /// The most requests that were in flight at once.
    pub fn max_in_flight(&self) -> usize {
        self.state.max_in_flight.load(Ordering::SeqCst)
    }

    /// With `true`, requests are taken but not answered until `false`.
    pub fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::SeqCst);
    }

    /// With `true`, closes all connections and refuses new ones until `false`.
    ///
    /// # Panics
    /// If somebody else took the port meanwhile.
    pub fn set_down(&self, down: bool) {
        let mut listener = lock(&self.listener);
        if down {
            self.state.down.store(true, Ordering::SeqCst);
            if let Some(thread) = listener.take() {
                // Wakes the thread out of its wait for connections.
                let _ = TcpStream::connect(self.address);
                let _ = thread.join();
            }
            for connection in lock(&self.state.connections).values() {
                let _ = connection.shutdown(Shutdown::Both);
            }
        } else if listener.is_none() {
            self.state.down.store(false, Ordering::SeqCst);
            let mut bound = None;
            wait_until(Duration::from_secs(10), "the stub's port", || {
                bound = TcpListener::bind(self.address).ok();
                bound.is_some()
            });
            *listener = bound.map(|bound| listen(bound, Arc::clone(&self.state)));
        }
    }
}

impl Drop for LlmStub {
    fn drop(&mut self) {
        self.set_down(true);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(listener: TcpListener, state: Arc<State>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if state.down.load(Ordering::SeqCst) {
                break;
            }
            let state = Arc::clone(&state);
            std::thread::spawn(move || state.serve_connection(stream));
        }
    })
}

impl State {
    fn serve_connection(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        if let Ok(copy) = stream.try_clone() {
            lock(&self.connections).insert(id, copy);
        }
        // An outage that began since the connection was taken has not seen it.
        if !self.down.load(Ordering::SeqCst) {
            self.serve_requests(stream);
        }
        lock(&self.connections).remove(&id);
    }

    /// Until the client leaves or a fault ends the connection.
    fn serve_requests(&self, mut stream: TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let mut reader = BufReader::new(copy);
        while let Ok(Some(request)) = http::read_request(&mut reader) {
            if !self.serve(&mut stream, request) {
                return;
            }
        }
    }

    /// Answers one request; false when that was the end of the connection.
    fn serve(&self, stream: &mut TcpStream, request: Request) -> bool {
        let in_flight = InFlight::of(self);
        let call = self.record(request);
        let fault = call.fault;
        let delay = fault.map_or(Duration::ZERO, Fault::delay);
        if !http::wait_while(stream, delay, || true)
            || !http::wait_while(stream, LONGEST_HOLD, || self.held.load(Ordering::SeqCst))
        {
            return false;
        }
        let response = self.response(&call);
        let sent = match fault {
            Some(Fault::ResetBeforeHeaders) => {
                http::reset(stream);
                return false;
            }
            Some(Fault::ResetInBody) => {
                let _ = http::write_half(stream, &response);
                http::reset(stream);
                return false;
            }
            Some(Fault::HalfBody) => {
                let _ = http::write_half(stream, &response);
                return false;
            }
            Some(Fault::Drip(total)) => http::drip(stream, &response, total),
            _ => {
                // A client that has the answer may send the next request at once.
                drop(in_flight);
                let sent = http::write_response(stream, &response);
                self.answered.fetch_add(1, Ordering::SeqCst);
                sent
            }
        };
        sent.is_ok()
    }

    fn record(&self, request: Request) -> Call {
        let mut calls = lock(&self.calls);
        let mut call = Call::new(self.next_call.load(Ordering::SeqCst), request);
        let plan = self.plan.read().unwrap_or_else(PoisonError::into_inner).clone();
        call.fault = plan.fault(&call);
        if call.is_test() {
            self.tests.fetch_add(1, Ordering::SeqCst);
        } else {
            self.next_call.fetch_add(1, Ordering::SeqCst);
            calls.push(call.clone());
        }
        call
    }

    fn response(&self, call: &Call) -> http::Response {
        if let Some(refusal) = call.fault.and_then(|fault| fault.refusal(call)) {
            return refusal.into_response(call, "stop");
        }
        let model = Arc::clone(&self.model.read().unwrap_or_else(PoisonError::into_inner));
        let reply = if call.is_chat() {
            model.answer(call)
        } else if call.is_embeddings() {
            reply::embeddings(call, &*model)
        } else {
            Reply::error(404, "no such path")
        };
        let Some(fault) = call.fault else { return reply.into_response(call, "stop") };
        let reply = match reply {
            Reply::Content(content) => Reply::Content(fault.spoil(content)),
            other => other,
        };
        fault.spoil_response(reply.into_response(call, fault.finish_reason()))
    }
}

/// Counts a request while it is being answered.
struct InFlight<'a>(&'a State);

impl<'a> InFlight<'a> {
    fn of(state: &'a State) -> Self {
        let now = state.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        state.max_in_flight.fetch_max(now, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
