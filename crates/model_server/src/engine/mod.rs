//! The models of one process: loads each on first use and runs texts through it in the calling
//! thread. The server shares one engine among its threads; a PostgreSQL backend that may not
//! talk to a server holds one of its own.

pub(crate) mod batch;
pub mod cl100k;
pub mod config;
pub(crate) mod defects;
pub mod encoding;
pub(crate) mod fields;
pub(crate) mod folder;
pub(crate) mod graph;
pub mod head;
pub(crate) mod hub_files;
pub mod model;
pub mod onnx;
pub(crate) mod pooling;
pub mod session;
pub(crate) mod session_pool;
pub mod tokenizer;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::batch::plan;
use crate::engine::model::Model;
use crate::engine::onnx::Runtime;
use crate::engine::tokenizer::TokenSequence;
use crate::error::InferenceError;
use crate::protocol::{ModelDescription, ModelKind, ModelRef, Purpose};

/// Most models held at once; loading one more forgets the one used least recently. A cluster
/// needs two per pair of active models, and one changes them seldom.
pub const MAX_LOADED_MODELS: usize = 8;

/// Called between batches; [`ControlFlow::Break`] ends the call with
/// [`InferenceError::Cancelled`].
pub type Check<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

/// How an [`Engine`] is set up.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Absolute path of libonnxruntime.
    pub onnxruntime_path: PathBuf,
    /// Threads that share the work of one run; at least 1.
    pub threads: usize,
}

/// How a server's threads are divided: each of `sessions` runs batches of its own, and each of
/// its runs is shared by `threads_per_session` threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLayout {
    pub sessions: usize,
    pub threads_per_session: usize,
}

impl ThreadLayout {
    /// Most threads for one run. Measured on two: one session with two threads reranks 30 pairs
    /// in batches of 8 as fast as two sessions with one thread (157 and 152 ms), and a second
    /// session of a small model costs 45 MB. A batch of at most 512 tokens has too little work
    /// for many threads, though.
    const MAX_THREADS_PER_SESSION: usize = 4;

    /// Divides `threads` threads, at least 1.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let sessions = threads.div_ceil(Self::MAX_THREADS_PER_SESSION);
        Self { sessions, threads_per_session: threads / sessions }
    }
}

/// A model's place in the engine. Its own lock lets several threads that need the same model
/// wait for one load of it while others go on.
#[derive(Debug, Default)]
struct Slot {
    model: Mutex<Option<Arc<Model>>>,
}

#[derive(Debug, Default)]
struct Entry {
    slot: Arc<Slot>,
    /// The clock at the last use; 0 until a request asks for it.
    last_use: u64,
}

#[derive(Debug, Default)]
struct Slots {
    by_directory: HashMap<String, Entry>,
    /// Counts uses, so that the smallest `last_use` is the model used least recently.
    clock: u64,
}

/// Loads and runs models.
#[derive(Debug)]
pub struct Engine {
    runtime: Runtime,
    sessions: usize,
    intra_threads: usize,
    slots: Mutex<Slots>,
}

impl Engine {
    /// Loads ONNX Runtime for use by one thread at a time. Models come later, when needed.
    ///
    /// # Errors
    /// [`InferenceError::RuntimeMissing`].
    pub fn new(options: EngineOptions) -> Result<Self, InferenceError> {
        Ok(Self {
            runtime: Runtime::load(&options.onnxruntime_path)?,
            sessions: 1,
            intra_threads: options.threads.max(1),
            slots: Mutex::default(),
        })
    }

    /// Loads ONNX Runtime for a server that runs models on [`ThreadLayout::sessions`] threads
    /// at a time.
    ///
    /// # Errors
    /// [`InferenceError::RuntimeMissing`].
    pub fn for_server(options: EngineOptions) -> Result<Self, InferenceError> {
        let layout = ThreadLayout::new(options.threads);
        let engine = Self::new(EngineOptions { threads: layout.threads_per_session, ..options })?;
        Ok(Self { sessions: layout.sessions, ..engine })
    }

    /// Embeds texts: per text its windows, at least one, as [`ModelTokenizer::windows`] cuts
    /// them, each a vector of the model's dimension.
    ///
    /// # Errors
    /// Any [`InferenceError`]; [`InferenceError::WrongKind`] if the model is a reranker.
    ///
    /// [`ModelTokenizer::windows`]: crate::engine::tokenizer::ModelTokenizer::windows
    pub fn embed(
        &self,
        model: &ModelRef,
        purpose: Purpose,
        texts: &[&str],
        check: Check<'_>,
    ) -> Result<Vec<Vec<Vec<f32>>>, InferenceError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let model = self.model(model)?;
        model.expect_kind(ModelKind::Embedder)?;
        let mut sequences = Vec::new();
        let mut window_counts = Vec::with_capacity(texts.len());
        for text in texts {
            proceed(check)?;
            let windows = model.windows(text, purpose)?;
            window_counts.push(windows.len());
            sequences.extend(windows);
        }
        let mut rows = run_all(&model, &sequences, check)?.into_iter();
        Ok(window_counts.iter().map(|count| rows.by_ref().take(*count).collect()).collect())
    }

    /// Scores documents against a query: one logit per document.
    ///
    /// # Errors
    /// Any [`InferenceError`]; [`InferenceError::WrongKind`] if the model is an embedder.
    pub fn rerank(
        &self,
        model: &ModelRef,
        query: &str,
        documents: &[&str],
        check: Check<'_>,
    ) -> Result<Vec<f32>, InferenceError> {
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let model = self.model(model)?;
        model.expect_kind(ModelKind::Reranker)?;
        proceed(check)?;
        let pairs =
            model.pairs(query, documents.iter().copied())?.collect::<Result<Vec<_>, _>>()?;
        Ok(run_all(&model, &pairs, check)?.concat())
    }

    /// Number of cl100k tokens of each text.
    #[must_use]
    pub fn count_tokens(&self, texts: &[&str]) -> Vec<u32> {
        texts.iter().map(|text| cl100k::count(text)).collect()
    }

    /// Says what the model is that the directory holds now: it is loaded if necessary, and again if its files
    /// were replaced. Where that fails, what was loaded before stays in use.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] or [`InferenceError::ModelInvalid`].
    pub fn describe(&self, model: &ModelRef) -> Result<ModelDescription, InferenceError> {
        let slots = || self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = slots().by_directory.get(&model.directory).and_then(Entry::loaded);
        if loaded.is_some_and(|loaded| !loaded.is_current(model)) {
            // Requests meanwhile get answers of the one that is there.
            let load = Model::load(&self.runtime, model, self.sessions, self.intra_threads);
            let fresh = Arc::new(load?);
            let slot = slots().slot(&model.directory);
            *slot.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        }
        Ok(self.model(model)?.description())
    }

    /// The loaded model, loading it first if necessary. A failed load is tried again by the
    /// next call.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] or [`InferenceError::ModelInvalid`].
    pub fn model(&self, reference: &ModelRef) -> Result<Arc<Model>, InferenceError> {
        if reference.remote.is_some() {
            return Err(InferenceError::ModelInvalid {
                model: reference.name.clone(),
                reason: "it is remote: the model server can embed with it, and nothing else"
                    .to_owned(),
            });
        }
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slots.slot(&reference.directory);
            slots.touch(&reference.directory);
            slot
        };
        self.in_slot(&slot, reference)
    }

    /// Loads a model that no request has asked for yet. It is the first to make room: as soon as a request loads
    /// another one of its kind.
    ///
    /// # Errors
    /// As [`Self::model`].
    pub fn preload(&self, reference: &ModelRef) -> Result<Arc<Model>, InferenceError> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.slot(&reference.directory);
        drop(slots);
        self.in_slot(&slot, reference)
    }

    fn in_slot(&self, slot: &Slot, reference: &ModelRef) -> Result<Arc<Model>, InferenceError> {
        let mut guard = slot.model.lock().unwrap_or_else(PoisonError::into_inner);
        let model = match &*guard {
            Some(model) => Arc::clone(model),
            None => {
                let loaded =
                    Model::load(&self.runtime, reference, self.sessions, self.intra_threads);
                let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
                match loaded {
                    Ok(model) => {
                        slots.make_room(model.config().kind);
                        Arc::clone(guard.insert(Arc::new(model)))
                    }
                    Err(error) => {
                        slots.by_directory.remove(&reference.directory);
                        return Err(error);
                    }
                }
            }
        };
        named(model, reference)
    }

    /// The model if it is loaded; never waits for a load.
    ///
    /// # Errors
    /// [`InferenceError::ModelInvalid`] if the directory holds a model of another name.
    pub fn loaded_model(&self, reference: &ModelRef) -> Result<Option<Arc<Model>>, InferenceError> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.touch(&reference.directory);
        let loaded = slots.by_directory.get(&reference.directory).and_then(Entry::loaded);
        loaded.map(|model| named(model, reference)).transpose()
    }

    /// Every model held in memory with its directory, in the order of their names.
    #[must_use]
    pub fn loaded_models(&self) -> Vec<(String, Arc<Model>)> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut models: Vec<_> = slots
            .by_directory
            .iter()
            .filter_map(|(directory, entry)| Some((directory.clone(), entry.loaded()?)))
            .collect();
        models.sort_by(|(_, a), (_, b)| a.name().cmp(b.name()));
        models
    }
}

impl Slots {
    fn slot(&mut self, directory: &str) -> Arc<Slot> {
        Arc::clone(&self.by_directory.entry(directory.to_owned()).or_default().slot)
    }

    /// Marks a model as used now.
    fn touch(&mut self, directory: &str) {
        self.clock += 1;
        if let Some(entry) = self.by_directory.get_mut(directory) {
            entry.last_use = self.clock;
        }
    }

    /// Forgets models until one more may be loaded: those of its kind that no request asked for, for the
    /// settings name a default that no database may use, then those used least recently.
    fn make_room(&mut self, kind: ModelKind) {
        self.by_directory.retain(|_, entry| {
            entry.last_use > 0 || entry.loaded().is_none_or(|model| model.config().kind != kind)
        });
        let mut loaded: Vec<(u64, String)> = self
            .by_directory
            .iter()
            .filter(|(_, entry)| entry.loaded().is_some())
            .map(|(directory, entry)| (entry.last_use, directory.clone()))
            .collect();
        loaded.sort();
        let surplus = (loaded.len() + 1).saturating_sub(MAX_LOADED_MODELS);
        for (_, directory) in loaded.into_iter().take(surplus) {
            self.by_directory.remove(&directory);
        }
    }
}

impl Entry {
    /// The model, unless it is being loaded at the moment.
    fn loaded(&self) -> Option<Arc<Model>> {
        self.slot.model.try_lock().ok()?.clone()
    }
}

/// Checks that a directory holds the model it was asked for.
fn named(model: Arc<Model>, reference: &ModelRef) -> Result<Arc<Model>, InferenceError> {
    if model.config().is_named(&reference.name) {
        return Ok(model);
    }
    Err(InferenceError::ModelInvalid {
        model: reference.name.clone(),
        reason: format!("\"{}\" holds the model \"{}\"", reference.directory, model.name()),
    })
}

fn proceed(check: Check<'_>) -> Result<(), InferenceError> {
    match check() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(InferenceError::Cancelled),
    }
}

/// Runs sequences in batches; the rows come in the order of the sequences.
fn run_all(
    model: &Model,
    sequences: &[TokenSequence],
    check: Check<'_>,
) -> Result<Vec<Vec<f32>>, InferenceError> {
    let mut rows = vec![Vec::new(); sequences.len()];
    for positions in plan(sequences, model.max_batch()) {
        proceed(check)?;
        let batch: Vec<&TokenSequence> =
            positions.iter().map(|position| &sequences[*position]).collect();
        for (position, row) in positions.into_iter().zip(model.run(&batch)?) {
            rows[position] = row;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_divided_among_few_sessions() {
        let layout = |threads| {
            let layout = ThreadLayout::new(threads);
            (layout.sessions, layout.threads_per_session)
        };
        assert_eq!([0, 1, 2, 4].map(layout), [(1, 1), (1, 1), (1, 2), (1, 4)]);
        assert_eq!([5, 8, 32].map(layout), [(2, 2), (2, 4), (8, 4)]);
    }
}
