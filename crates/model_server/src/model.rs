//! One model: its configuration, tokenizer and ONNX sessions, checked against each other when
//! it is loaded. A model turns token sequences into rows of numbers: an embedding each for an
//! embedder, one score each for a reranker.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::MAX_BATCH_SEQUENCES;
use crate::config::{ModelConfig, Pooling, unreadable};
use crate::error::InferenceError;
use crate::onnx::{OnnxSession, Output, Runtime, SessionOptions};
use crate::pooling::{normalize, pool};
use crate::process;
use crate::protocol::{ModelDescription, ModelKind, ModelRef, Purpose};
use crate::tokenizer::{ModelTokenizer, TokenSequence};
use memory_agent_core::rerank_budget::rounded_speed;

/// How much a number may change when its sequence runs in a batch, before the model counts as
/// one that must not be batched. Floating point models stay below 0.00001.
const BATCH_TOLERANCE: f32 = 0.001;

/// How often a model is run to measure its speed.
const SPEED_RUNS: usize = 5;

/// Texts of different length and character for the checks at load.
const PROBE_TEXTS: [&str; 3] = [
    "She moved to Lisbon in 2019 because the rent in Berlin had doubled.",
    "What is the deadline for project #42?",
    "ok",
];

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    tokenizer: ModelTokenizer,
    sessions: SessionPool,
    max_batch: usize,
    tokens_per_second: u32,
    loaded_at: Instant,
    load_time: Duration,
}

impl Model {
    /// Loads a model and runs it on probe texts.
    ///
    /// * `sessions`: how many threads may run the model at once; each costs memory of about
    ///   the model file's size.
    /// * `intra_threads`: threads that share one run.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] or [`InferenceError::ModelInvalid`]; the message names
    /// the file or the contradiction.
    pub fn load(
        runtime: &Runtime,
        reference: &ModelRef,
        sessions: usize,
        intra_threads: usize,
    ) -> Result<Self, InferenceError> {
        let started = Instant::now();
        let directory = Path::new(&reference.directory);
        let config = ModelConfig::load(reference)?;
        let tokenizer = ModelTokenizer::load(&config, directory)?;
        let path = directory.join("model.onnx");
        // ORT's own message for a missing file does not have the operating system's reason.
        std::fs::File::open(&path).map_err(|error| unreadable(&config.name, &path, &error))?;
        let options = SessionOptions { path, intra_threads };
        let pool = SessionPool::new(runtime, options, sessions)
            .map_err(|reason| invalid(&config, reason))?;
        let mut model = Self {
            config,
            tokenizer,
            sessions: pool,
            max_batch: 1,
            tokens_per_second: 0,
            loaded_at: started,
            load_time: Duration::ZERO,
        };
        model.max_batch = if model.is_batch_invariant()? { MAX_BATCH_SEQUENCES } else { 1 };
        if model.config.kind == ModelKind::Reranker {
            model.tokens_per_second = rounded_speed(model.measured_speed()? * sessions as f64);
        }
        process::release_free_memory();
        model.loaded_at = Instant::now();
        model.load_time = started.elapsed();
        Ok(model)
    }

    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    #[must_use]
    pub fn loaded_at(&self) -> Instant {
        self.loaded_at
    }

    #[must_use]
    pub fn description(&self) -> ModelDescription {
        ModelDescription {
            name: self.config.name.clone(),
            kind: self.config.kind,
            dimension: match self.config.kind {
                ModelKind::Embedder => self.config.dimension,
                ModelKind::Reranker => None,
            },
            max_tokens: u32::try_from(self.config.max_tokens).unwrap_or(u32::MAX),
            tokens_per_second: self.tokens_per_second,
            load_milliseconds: u32::try_from(self.load_time.as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// Most sequences that may share a run: 1 for a model whose results depend on what else is
    /// in the batch. Dynamic int8 quantisation does that, as it scales the activations of the
    /// whole batch by their common extremes: logits moved by up to 0.6, which would make a
    /// score depend on other clients' texts.
    #[must_use]
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// How fast it reads, all sessions together, as measured when it was loaded; 0 for an embedder.
    #[must_use]
    pub fn tokens_per_second(&self) -> u32 {
        self.tokens_per_second
    }

    /// Fails unless the model is of that kind.
    ///
    /// # Errors
    /// [`InferenceError::WrongKind`].
    pub fn expect_kind(&self, wanted: ModelKind) -> Result<(), InferenceError> {
        if self.config.kind == wanted {
            Ok(())
        } else {
            Err(InferenceError::WrongKind {
                model: self.config.name.clone(),
                actual: self.config.kind,
                wanted,
            })
        }
    }

    /// The sequences to run for a text; see [`ModelTokenizer::windows`].
    ///
    /// # Errors
    /// As [`ModelTokenizer::windows`].
    pub fn windows(
        &self,
        text: &str,
        purpose: Purpose,
    ) -> Result<Vec<TokenSequence>, InferenceError> {
        self.tokenizer.windows(text, purpose)
    }

    /// The sequences to run for a query and documents; see [`ModelTokenizer::pairs`].
    ///
    /// # Errors
    /// As [`ModelTokenizer::pairs`].
    pub fn pairs<'a>(
        &'a self,
        query: &str,
        documents: impl IntoIterator<Item = &'a str> + 'a,
    ) -> Result<impl Iterator<Item = Result<TokenSequence, InferenceError>> + 'a, InferenceError>
    {
        self.tokenizer.pairs(query, documents)
    }

    /// Runs one batch. Returns per sequence its row: the embedding of an embedder, pooled and
    /// normalised as configured, or the single logit of a reranker. Waits while all sessions
    /// are in use.
    ///
    /// # Errors
    /// [`InferenceError::RunFailed`], [`InferenceError::NotFinite`], or
    /// [`InferenceError::ModelInvalid`] if the output does not have the configured shape.
    pub fn run(&self, batch: &[&TokenSequence]) -> Result<Vec<Vec<f32>>, InferenceError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |reason| InferenceError::RunFailed { model: self.config.name.clone(), reason };
        let mut lease = self.sessions.take().map_err(failed)?;
        let rows = lease.run(batch, |output| self.rows(batch, &output)).map_err(failed)??;
        if rows.iter().flatten().all(|value| value.is_finite()) {
            Ok(rows)
        } else {
            Err(InferenceError::NotFinite { model: self.config.name.clone() })
        }
    }

    /// Takes the rows out of a graph's output.
    fn rows(
        &self,
        batch: &[&TokenSequence],
        output: &Output<'_>,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        let count = batch.len() as i64;
        let longest = batch.iter().map(|sequence| sequence.len()).max().unwrap_or(0) as i64;
        let dimension = match self.config.kind {
            ModelKind::Embedder => self.config.dimension.unwrap_or(0) as usize,
            ModelKind::Reranker => 1,
        };
        let row_numbers = match (self.config.kind, self.config.pooling, output.shape) {
            // A graph for pooling by the first token may return only that one.
            (ModelKind::Embedder, Some(pooling), [n, tokens, d])
                if *n == count
                    && *d == dimension as i64
                    && (*tokens == longest || pooling == Pooling::Cls && *tokens > 0) =>
            {
                *tokens as usize * dimension
            }
            (ModelKind::Embedder, None, [n, d]) if *n == count && *d == dimension as i64 => {
                dimension
            }
            (ModelKind::Reranker, _, [n] | [n, 1]) if *n == count => 1,
            _ => {
                return Err(invalid(
                    &self.config,
                    format!(
                        "the graph returned the shape {:?} for {count} sequences, which is not \
                         that of a {} with dimension {dimension} and pooling {:?}",
                        output.shape, self.config.kind, self.config.pooling
                    ),
                ));
            }
        };
        let rows = output.data.chunks_exact(row_numbers).zip(batch).map(|(numbers, sequence)| {
            let mut row = match (self.config.kind, self.config.pooling) {
                (ModelKind::Embedder, Some(pooling)) => {
                    pool(pooling, numbers, sequence.len(), dimension)
                }
                _ => numbers.to_vec(),
            };
            if self.config.kind == ModelKind::Embedder && self.config.normalize {
                normalize(&mut row);
            }
            row
        });
        Ok(rows.collect())
    }

    /// Runs probe texts alone and together, which also proves that the graph runs at all.
    fn is_batch_invariant(&self) -> Result<bool, InferenceError> {
        let probes = match self.config.kind {
            ModelKind::Embedder => PROBE_TEXTS
                .iter()
                .map(|text| self.windows(text, Purpose::Document))
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
            ModelKind::Reranker => {
                self.pairs(PROBE_TEXTS[1], PROBE_TEXTS)?.collect::<Result<Vec<_>, _>>()?
            }
        };
        let together = self.run(&probes.iter().collect::<Vec<_>>())?;
        for (probe, in_batch) in probes.iter().zip(together) {
            let alone = self.run(&[probe])?.concat();
            let differs = |(a, b): (&f32, &f32)| (a - b).abs() > BATCH_TOLERANCE * a.abs().max(1.0);
            if alone.iter().zip(&in_batch).any(differs) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tokens a second of one session. The fastest of some runs counts: the others had company.
    fn measured_speed(&self) -> Result<f64, InferenceError> {
        let document = [PROBE_TEXTS[0]; 2].join(" ");
        let pair = self.pairs(PROBE_TEXTS[1], [document.as_str()])?.next().transpose()?;
        let Some(pair) = pair else { return Ok(0.0) };
        let batch = vec![&pair; self.max_batch];
        let mut fastest = f64::INFINITY;
        for _ in 0..SPEED_RUNS {
            let started = Instant::now();
            self.run(&batch)?;
            fastest = fastest.min(started.elapsed().as_secs_f64());
        }
        Ok((pair.len() * batch.len()) as f64 / fastest)
    }
}

fn invalid(config: &ModelConfig, reason: String) -> InferenceError {
    InferenceError::ModelInvalid { model: config.name.clone(), reason }
}

/// The sessions of one graph. A session must not run twice at the same time: the authors of
/// `ort` found ONNX Runtime not to be thread-safe there. So every concurrent run needs its own.
#[derive(Debug)]
struct SessionPool {
    runtime: Runtime,
    options: SessionOptions,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Debug)]
struct PoolState {
    idle: Vec<OnnxSession>,
    /// Sessions that may still be created, in place of ones lost to a panic.
    missing: usize,
}

impl SessionPool {
    /// Loads `count` sessions, in parallel.
    fn new(runtime: &Runtime, options: SessionOptions, count: usize) -> Result<Self, String> {
        let idle = std::thread::scope(|scope| {
            let loaders: Vec<_> =
                (1..count).map(|_| scope.spawn(|| OnnxSession::load(runtime, &options))).collect();
            let mut idle = vec![OnnxSession::load(runtime, &options)?];
            for loader in loaders {
                idle.push(loader.join().map_err(|_| "loading panicked".to_owned())??);
            }
            Ok::<_, String>(idle)
        })?;
        Ok(Self {
            runtime: runtime.clone(),
            options,
            state: Mutex::new(PoolState { idle, missing: 0 }),
            returned: Condvar::new(),
        })
    }

    /// Takes a session, waiting for one if all are in use.
    fn take(&self) -> Result<Lease<'_>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(session) = state.idle.pop() {
                return Ok(Lease { pool: self, session: Some(session) });
            }
            if state.missing > 0 {
                let session = OnnxSession::load(&self.runtime, &self.options)?;
                state.missing -= 1;
                return Ok(Lease { pool: self, session: Some(session) });
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A session in use; dropping it returns it.
#[derive(Debug)]
struct Lease<'pool> {
    pool: &'pool SessionPool,
    session: Option<OnnxSession>,
}

impl Lease<'_> {
    fn run<T>(
        &mut self,
        batch: &[&TokenSequence],
        read: impl FnOnce(Output<'_>) -> T,
    ) -> Result<T, String> {
        match &mut self.session {
            Some(session) => session.run(batch, read),
            None => Err("the session is gone".to_owned()),
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.session.take() {
            // What a panic left behind is not trusted.
            Some(session) if !std::thread::panicking() => state.idle.push(session),
            _ => state.missing += 1,
        }
        self.pool.returned.notify_one();
    }
}
