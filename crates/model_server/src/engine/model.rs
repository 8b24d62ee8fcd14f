//! One model: its configuration, tokenizer and graph, checked against each other when it is loaded.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::batch::MAX_BATCH_SEQUENCES;
use crate::engine::config::ModelConfig;
use crate::engine::defects::Defects;
use crate::engine::folder;
use crate::engine::graph::Graph;
use crate::engine::onnx::{Runtime, SessionOptions};
use crate::engine::session_pool::SessionPool;
use crate::engine::tokenizer::{ModelTokenizer, TokenSequence, read_tokenizer};
use crate::error::InferenceError;
use crate::process;
use crate::protocol::{ModelDescription, ModelKind, ModelRef, Purpose};

/// How much a number may change when its sequence runs in a batch, before the model counts as
/// one that must not be batched. Floating point models stay below 0.00001.
const BATCH_TOLERANCE: f32 = 0.001;

/// Texts of different length and character for the checks at load.
const PROBE_TEXTS: [&str; 3] = [
    "She moved to Lisbon in 2019 because the rent in Berlin had doubled.",
    "What is the deadline for project #42?",
    "ok",
];

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    /// The name it was first asked for by; the files may know another or none.
    name: String,
    /// The state of its folder before it was read.
    files: String,
    config: ModelConfig,
    tokenizer: ModelTokenizer,
    graph: Graph,
    /// Length of a row.
    width: usize,
    max_batch: usize,
    loaded_at: Instant,
    load_time: Duration,
}

impl Model {
    /// Loads a model and runs it on probe texts.
    ///
    /// * `count`: how many threads may run the model at once; each costs memory of about
    ///   the model file's size.
    /// * `intra_threads`: threads that share one run.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] or [`InferenceError::ModelInvalid`]; the message names
    /// everything that the folder lacks or has wrong.
    pub fn load(
        runtime: &Runtime,
        reference: &ModelRef,
        count: usize,
        intra_threads: usize,
    ) -> Result<Self, InferenceError> {
        let started = Instant::now();
        let directory = Path::new(&reference.directory);
        let files = folder::state(directory);
        let mut defects = Defects::default();
        let config = ModelConfig::read(reference, &mut defects);
        let tokenizer = read_tokenizer(directory, &mut defects);
        let path = graph_path(directory);
        let sessions = match folder::open(&path, folder::MAX_GRAPH_BYTES) {
            Ok(_) => SessionPool::new(runtime, SessionOptions { path, intra_threads }, count)
                .map_err(|reasons| reasons.into_iter().for_each(|reason| defects.push(reason)))
                .ok(),
            // ORT's own message for a missing file does not have the operating system's reason.
            Err(error) => {
                defects.missing("model.onnx", error, "put the graph there, or at onnx/model.onnx");
                None
            }
        };
        let Some(config) = config else { return Err(defects.into_error(reference)) };
        let tokenizer =
            tokenizer.and_then(|tokenizer| defects.keep(ModelTokenizer::new(tokenizer, &config)));
        let graph = sessions.and_then(|sessions| defects.keep(Graph::new(sessions, &config)));
        let width = graph.as_ref().map_or(0, |graph| graph.probe(&config, &mut defects));
        let (Some(tokenizer), Some(graph), true) = (tokenizer, graph, defects.is_empty()) else {
            return Err(defects.into_error(reference));
        };
        let name = reference.name.clone();
        let mut model = Self {
            name,
            files,
            config,
            tokenizer,
            graph,
            width,
            max_batch: 1,
            loaded_at: started,
            load_time: Duration::ZERO,
        };
        match model.is_batch_invariant() {
            Ok(is_invariant) => {
                model.max_batch = if is_invariant { MAX_BATCH_SEQUENCES } else { 1 }
            }
            Err(error) => {
                let what = format!("the graph does not run on the tokenizer's tokens ({error})");
                defects.add(what, "take model.onnx and tokenizer.json from the same model");
                return Err(defects.into_error(reference));
            }
        }
        process::release_free_memory();
        model.loaded_at = Instant::now();
        model.load_time = started.elapsed();
        Ok(model)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells the model from every other, also from what its folder held before or holds now.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.files
    }

    /// Whether its folder still holds the files that were loaded.
    #[must_use]
    pub fn is_current(&self, reference: &ModelRef) -> bool {
        self.files == folder::state(Path::new(&reference.directory))
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
            name: self.name.clone(),
            kind: self.config.kind,
            dimension: match self.config.kind {
                ModelKind::Embedder => u32::try_from(self.width).ok(),
                ModelKind::Reranker => None,
            },
            max_tokens: u32::try_from(self.config.max_tokens).unwrap_or(u32::MAX),
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

    /// Fails unless the model is of that kind.
    ///
    /// # Errors
    /// [`InferenceError::WrongKind`].
    pub fn expect_kind(&self, wanted: ModelKind) -> Result<(), InferenceError> {
        if self.config.kind == wanted {
            Ok(())
        } else {
            Err(InferenceError::WrongKind {
                model: self.name.clone(),
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
    /// [`InferenceError::RunFailed`] or [`InferenceError::NotFinite`].
    pub fn run(&self, batch: &[&TokenSequence]) -> Result<Vec<Vec<f32>>, InferenceError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |reason| InferenceError::RunFailed { model: self.name.clone(), reason };
        let rows = self.graph.run(batch, self.tokenizer.pad_id()).map_err(failed)?;
        if let Some(row) = rows.iter().find(|row| row.len() != self.width) {
            return Err(failed(format!("a row has {} numbers, not {}", row.len(), self.width)));
        }
        if rows.iter().flatten().all(|value| value.is_finite()) {
            Ok(rows)
        } else {
            Err(InferenceError::NotFinite { model: self.name.clone() })
        }
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
}

/// Where the graph of a model is: in its folder, or where exports for a model hub put it.
fn graph_path(directory: &Path) -> PathBuf {
    let path = directory.join("model.onnx");
    if path.exists() {
        path
    } else {
        Some(directory.join("onnx/model.onnx")).filter(|other| other.exists()).unwrap_or(path)
    }
}

/// The files of a model that are not there.
#[must_use]
pub fn missing_files(directory: &Path) -> Vec<&'static str> {
    let mut missing = vec!["config.json", "tokenizer.json"];
    missing.retain(|file| !directory.join(file).exists());
    if !graph_path(directory).exists() {
        missing.push("model.onnx");
    }
    missing
}
