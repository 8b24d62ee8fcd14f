//! Services reached over HTTP: LLMs and remote embedding models.
//!
//! They have a thread and a runtime of their own. Name lookups that hang, TLS handshakes and
//! the parsing of large answers then delay neither the sockets of PostgreSQL's processes nor
//! the threads that prepare recalls.

mod base_url;
mod call;
mod chat;
mod converse;
mod embeddings;
mod endpoint;
mod harmless;
mod http;
mod providers;
mod structured;
mod text_windows;

use std::future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use self::endpoint::Endpoints;
use self::http::HttpClient;
use crate::error::Failure;
use crate::protocol::{
    ChatOutcome, ChatRequest, Conversation, EndpointStatus, ErrorCode, Purpose, RemoteEmbedder,
};

/// Most requests at HTTP services at a time, over all connections of the server.
pub const MAX_REMOTE_REQUESTS: usize = 256;

/// Threads that look up names; a lookup cannot be cancelled and may take half a minute.
const LOOKUP_THREADS: usize = 8;

/// The server's side to HTTP services.
#[derive(Debug)]
pub struct Remote {
    endpoints: Arc<Endpoints>,
    places: Arc<Semaphore>,
    /// Started with the first request: most servers never need it.
    worker: Mutex<Option<Worker>>,
}

#[derive(Debug, Clone)]
struct Worker {
    runtime: Handle,
    http: Arc<HttpClient>,
}

/// A place among the requests that are carried out.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Remote {
    #[must_use]
    pub fn new() -> Self {
        Self {
            endpoints: Arc::new(Endpoints::new()),
            places: Arc::new(Semaphore::new(MAX_REMOTE_REQUESTS)),
            worker: Mutex::default(),
        }
    }

    /// A place for one request, or `None` if all are taken.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(Place)
    }

    /// Asks an LLM. Dropping the future ends its HTTP calls.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] only; what goes wrong at the endpoint is in the outcome.
    pub async fn chat(&self, request: Box<ChatRequest>) -> Result<ChatOutcome, Failure> {
        let worker = self.worker()?;
        let (http, endpoints) = (worker.http, Arc::clone(&self.endpoints));
        run(&worker.runtime, async move { chat::chat(&http, &endpoints, &request).await }).await
    }

    /// Passes a conversation on. Dropping the future ends its HTTP calls.
    ///
    /// # Errors
    /// As [`Self::chat`].
    pub async fn converse(&self, conversation: Box<Conversation>) -> Result<ChatOutcome, Failure> {
        let worker = self.worker()?;
        let (http, endpoints) = (worker.http, Arc::clone(&self.endpoints));
        let conversed = async move { converse::converse(&http, &endpoints, &conversation).await };
        run(&worker.runtime, conversed).await
    }

    /// Embeds texts with a remote model: per text its windows. Dropping the future ends its HTTP
    /// calls.
    ///
    /// # Errors
    /// As [`embeddings::embed`].
    pub async fn embed(
        &self,
        remote: Box<RemoteEmbedder>,
        purpose: Purpose,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<Vec<f32>>>, Failure> {
        let worker = self.worker()?;
        let (http, endpoints) = (worker.http, Arc::clone(&self.endpoints));
        let embedded =
            async move { embeddings::embed(&http, &endpoints, &remote, purpose, &texts).await };
        run(&worker.runtime, embedded).await?
    }

    /// What is known of every endpoint that was used.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        self.endpoints.status()
    }

    /// The thread, started if that was not done or failed before.
    fn worker(&self) -> Result<Worker, Failure> {
        let mut slot = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = &*slot {
            return Ok(worker.clone());
        }
        let worker = Worker::start().map_err(|message| {
            Failure::new(ErrorCode::Internal, format!("cannot use HTTP: {message}"))
        })?;
        Ok(slot.insert(worker).clone())
    }
}

impl Worker {
    fn start() -> Result<Self, String> {
        let http = Arc::new(HttpClient::new()?);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(LOOKUP_THREADS)
            .thread_name("name lookup")
            .build()
            .map_err(|error| error.to_string())?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || runtime.block_on(future::pending::<()>()))
            .map_err(|error| error.to_string())?;
        Ok(Self { runtime: handle, http })
    }
}

/// Ends a task when it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a future on another runtime and waits for it here.
async fn run<T: Send + 'static>(
    runtime: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let task = runtime.spawn(future);
    let _abort = AbortOnDrop(task.abort_handle());
    task.await.map_err(|_| Failure::new(ErrorCode::Internal, "an HTTP request panicked"))
}
