//! Answers requests: decodes and plans them, where that is much work on a thread of its own,
//! queues what has to be run and waits for it. Knows nothing of sockets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::engine::config::ModelConfig;
use crate::engine::model::Model;
use crate::engine::{Engine, EngineOptions, ThreadLayout};
use crate::error::Failure;
use crate::error::InferenceError;
use crate::llm::{MAX_REMOTE_REQUESTS, Remote};
use crate::log;
use crate::process;
use crate::protocol::{
    ErrorCode, Frame, LoadedModel, ModelDescription, ModelKind, ModelRef, Purpose, RemoteEmbedder,
    Request, Response, ServerStatus,
};
use crate::work::cache::Caches;
use crate::work::plan::{Plan, prepare, rerank};
use crate::work::queue::{Queue, Refusal};
use crate::work::reranks::Reranks;
use crate::work::single_flight::Flights;
use crate::{
    engine::{cl100k, encoding},
    llm,
    work::worker,
};

/// A request up to this size is planned where the sockets are served, if its model is loaded:
/// tokenising 16 KiB takes a few milliseconds at most, as long as a run of a model.
const INLINE_BYTES: usize = 16 * 1024;

/// Requests above this size are planned one at a time, so that they never take all the
/// threads of smaller ones.
const HEAVY_BYTES: usize = 512 * 1024;

/// Settings of a [`Service`].
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    pub onnxruntime_path: PathBuf,
    /// Threads that run models.
    pub threads: usize,
    /// Most sequences waiting for a thread.
    pub queue_items: usize,
    /// Questions whose embeddings are remembered.
    pub cache_entries: usize,
}

/// Everything the server is apart from its sockets.
#[derive(Debug)]
pub struct Service {
    options: ServiceOptions,
    /// Created on first use, as the library may be installed after the server started.
    engine: Mutex<Option<Arc<Engine>>>,
    queue: Arc<Queue<Model>>,
    remote: Remote,
    caches: Caches,
    flights: Flights,
    heavy: Semaphore,
    started: Instant,
    reranks: Reranks,
    requests: AtomicU64,
    rejected: AtomicU64,
    reranks_refused: AtomicU64,
    sequences: Arc<AtomicU64>,
}

impl Service {
    /// Starts the threads that run models.
    ///
    /// # Errors
    /// The operating system's, if a thread cannot be started.
    pub fn start(options: ServiceOptions) -> std::io::Result<Arc<Self>> {
        let service = Self {
            engine: Mutex::new(None),
            queue: Arc::new(Queue::new(options.queue_items)),
            remote: Remote::new(),
            caches: Caches::new(options.cache_entries),
            flights: Flights::default(),
            heavy: Semaphore::new(1),
            started: Instant::now(),
            reranks: Reranks::new(options.threads),
            requests: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            reranks_refused: AtomicU64::new(0),
            sequences: Arc::default(),
            options,
        };
        let layout = ThreadLayout::new(service.options.threads);
        worker::start(layout.sessions, &service.queue, &service.sequences)?;
        Ok(Arc::new(service))
    }

    /// Loads what the first request would wait for. Failures are logged and met again by the
    /// request that needs the model.
    pub fn preload(&self, directories: &[PathBuf]) {
        cl100k::warm_up();
        process::release_free_memory();
        for directory in directories {
            match self.preload_model(directory) {
                Ok(milliseconds) => log::line(format_args!(
                    "loaded \"{}\" in {milliseconds} ms",
                    directory.display()
                )),
                Err(error) => log::line(format_args!("preload: {error}")),
            }
        }
    }

    fn preload_model(&self, directory: &Path) -> Result<u32, InferenceError> {
        let reference = ModelConfig::reference(directory);
        Ok(self.engine()?.preload(&reference)?.description().load_milliseconds)
    }

    /// Counts and answers a request that there was no room to read.
    pub fn reject(&self, message: String) -> Response {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy(message).into()
    }

    /// Answers one request.
    ///
    /// * `held_bytes`: memory taken by requests at present, for [`Request::Status`].
    pub async fn answer(self: &Arc<Self>, frame: Frame, held_bytes: usize) -> Response {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let key = frame.is_pure().then(|| Flights::key(&frame.body));
        let answer = async {
            match self.try_answer(frame, held_bytes).await {
                Ok(response) => response,
                Err(failure) => failure.into(),
            }
        };
        match key {
            Some(key) => self.flights.join(key, answer).await,
            None => answer.await,
        }
    }

    async fn try_answer(
        self: &Arc<Self>,
        frame: Frame,
        held_bytes: usize,
    ) -> Result<Response, Failure> {
        let plan = if frame.body.len() <= INLINE_BYTES {
            let request: Request = frame.decode()?;
            if self.needs_load(&request) {
                self.plan_aside(move || Ok(request), held_bytes).await?
            } else {
                self.plan(request, held_bytes)?
            }
        } else {
            let _turn = if frame.body.len() > HEAVY_BYTES {
                // The semaphore is never closed, so an error cannot come.
                self.heavy.acquire().await.ok()
            } else {
                None
            };
            let bytes = frame.body.len();
            let plan = self.plan_aside(move || Ok(frame.decode()?), held_bytes).await?;
            if bytes > HEAVY_BYTES {
                // Megabytes of texts were just freed.
                process::release_free_memory();
            }
            plan
        };
        self.carry_out(plan).await
    }

    async fn carry_out(&self, plan: Plan) -> Result<Response, Failure> {
        match plan {
            Plan::Answered(response) => Ok(response),
            Plan::Run { model, sequences, finish, place: _place } => {
                let count = sequences.len();
                let ticket = self
                    .queue
                    .submit(model, sequences)
                    .map_err(|refusal| self.refused(refusal, count))?;
                let rows = ticket.rows().await?;
                Ok(finish.answer(&self.caches, rows))
            }
            Plan::Embed { remote, purpose, texts, finish } => {
                let windows = self.embed_remotely(remote, purpose, texts).await?;
                let finish = finish.with_windows(windows.iter().map(Vec::len));
                Ok(finish.answer(&self.caches, windows.concat()))
            }
            Plan::DescribeRemote { name, remote } => self.describe_remote(name, remote).await,
            Plan::Chat(request) => {
                let _place = self.remote_place()?;
                Ok(Response::Chat(self.remote.chat(request).await?))
            }
            Plan::Converse(conversation) => {
                let _place = self.remote_place()?;
                Ok(Response::Chat(self.remote.converse(conversation).await?))
            }
        }
    }

    async fn embed_remotely(
        &self,
        remote: Box<RemoteEmbedder>,
        purpose: Purpose,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<Vec<f32>>>, Failure> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let _place = self.remote_place()?;
        self.remote.embed(remote, purpose, texts).await
    }

    /// Embeds one word to learn the model's dimension.
    async fn describe_remote(
        &self,
        name: String,
        remote: Box<RemoteEmbedder>,
    ) -> Result<Response, Failure> {
        let started = Instant::now();
        let texts = vec!["memory".to_owned()];
        let windows = self.embed_remotely(remote, Purpose::Query, texts).await?.concat();
        let dimension = windows.first().map_or(0, Vec::len);
        Ok(Response::Description(ModelDescription {
            name,
            kind: ModelKind::Embedder,
            dimension: u32::try_from(dimension).ok(),
            max_tokens: 0,
            load_milliseconds: u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX),
        }))
    }

    fn remote_place(&self) -> Result<llm::Place, Failure> {
        self.remote.place().ok_or_else(|| {
            self.busy(format!("{MAX_REMOTE_REQUESTS} requests to HTTP services are unanswered"))
        })
    }

    /// Decodes and plans on another thread. It cannot be stopped: a client that leaves
    /// meanwhile costs the rest of this one step.
    async fn plan_aside(
        self: &Arc<Self>,
        request: impl FnOnce() -> Result<Request, Failure> + Send + 'static,
        held_bytes: usize,
    ) -> Result<Plan, Failure> {
        let service = Arc::clone(self);
        spawn_blocking(move || service.plan(request()?, held_bytes))
            .await
            .map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?
    }

    /// Plans a request; a panic on the way becomes an error of that request.
    fn plan(&self, request: Request, held_bytes: usize) -> Result<Plan, Failure> {
        catch_unwind(AssertUnwindSafe(|| match request {
            Request::Prepare { model, purpose, texts, token_texts } => {
                prepare(self.engine(), &self.caches, model.as_ref(), purpose, &texts, &token_texts)
            }
            Request::Rerank { model, query, documents, waits } => {
                let Some(place) = self.reranks.join(waits) else {
                    self.reranks_refused.fetch_add(1, Ordering::Relaxed);
                    return Ok(Plan::Answered(Response::Logits(None)));
                };
                rerank(self.engine(), &self.caches, &model, &query, &documents, place)
            }
            Request::Describe { model: ModelRef { name, remote: Some(remote), .. } } => {
                Ok(Plan::DescribeRemote { name, remote })
            }
            Request::Describe { model } => {
                let description = self.engine()?.describe(&model)?;
                Ok(Plan::Answered(Response::Description(description)))
            }
            Request::Status => Ok(Plan::Answered(Response::Status(self.status(held_bytes)))),
            Request::FlushCaches => {
                self.caches.clear();
                Ok(Plan::Answered(Response::Flushed))
            }
            Request::Chat(request) => Ok(Plan::Chat(request)),
            Request::Converse(conversation) => Ok(Plan::Converse(conversation)),
            Request::Count { encoding, texts } => {
                let token_counts =
                    texts.iter().map(|text| encoding::count(encoding, text)).collect();
                Ok(Plan::Answered(Response::Prepared { embeddings: Vec::new(), token_counts }))
            }
        }))
        .unwrap_or_else(|_| {
            Err(Failure::new(ErrorCode::Internal, "preparing the request panicked"))
        })
    }

    /// Whether a request may have to wait for a model to be loaded.
    fn needs_load(&self, request: &Request) -> bool {
        let model = match request {
            Request::Prepare { model: Some(model), .. } | Request::Rerank { model, .. } => model,
            // Files that were replaced are loaded again.
            Request::Describe { model } => return model.remote.is_none(),
            _ => return false,
        };
        if model.remote.is_some() {
            return false;
        }
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        !engine.is_some_and(|engine| matches!(engine.loaded_model(model), Ok(Some(_))))
    }

    /// The engine, created if that did not succeed before.
    fn engine(&self) -> Result<Arc<Engine>, InferenceError> {
        let mut slot = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*slot {
            return Ok(Arc::clone(engine));
        }
        let engine = Engine::for_server(EngineOptions {
            onnxruntime_path: self.options.onnxruntime_path.clone(),
            threads: self.options.threads,
        })?;
        Ok(Arc::clone(slot.insert(Arc::new(engine))))
    }

    fn refused(&self, refusal: Refusal, count: usize) -> Failure {
        let limit = self.options.queue_items;
        match refusal {
            Refusal::Full => self.busy(format!(
                "the model server's queue is full: {count} sequences do not fit beside the {} \
                 waiting (limit {limit})",
                self.queue.waiting_items()
            )),
            Refusal::TooLarge => Failure::new(
                ErrorCode::InvalidRequest,
                format!("{count} sequences in one request exceed the queue's limit of {limit}"),
            ),
        }
    }

    fn busy(&self, message: String) -> Failure {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        Failure::new(ErrorCode::Busy, message)
    }

    fn status(&self, held_bytes: usize) -> ServerStatus {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let models = engine.map(|engine| engine.loaded_models()).unwrap_or_default();
        let (query_cache_hits, query_cache_misses) = self.caches.queries.counts();
        let (pair_cache_hits, pair_cache_misses) = self.caches.pairs.counts();
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            threads: u32::try_from(self.options.threads).unwrap_or(u32::MAX),
            models: models
                .into_iter()
                .map(|(directory, model)| loaded(directory, &model))
                .collect(),
            queue_items: self.queue.waiting_items() as u64,
            queue_bytes: held_bytes as u64,
            requests: self.requests.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            sequences: self.sequences.load(Ordering::Relaxed),
            query_cache_hits,
            query_cache_misses,
            pair_cache_hits,
            pair_cache_misses,
            reranks_refused: self.reranks_refused.load(Ordering::Relaxed),
            resident_bytes: process::resident_bytes(),
            endpoints: self.remote.status(),
        }
    }
}

fn loaded(directory: String, model: &Model) -> LoadedModel {
    let description = model.description();
    LoadedModel {
        name: description.name,
        directory,
        kind: description.kind,
        loaded_seconds_ago: model.loaded_at().elapsed().as_secs(),
        load_milliseconds: description.load_milliseconds,
    }
}
