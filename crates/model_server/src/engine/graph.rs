//! The graph of a model and what is done with its output: from token sequences to rows of numbers,
//! an embedding each for an embedder, one logit each for a reranker.

use crate::engine::config::{ModelConfig, Pooling};
use crate::engine::defects::Defects;
use crate::engine::head::Layer;
use crate::engine::onnx::Output;
use crate::engine::pooling::{normalize, pool};
use crate::engine::session_pool::SessionPool;
use crate::engine::tokenizer::TokenSequence;
use crate::protocol::ModelKind;

/// Graphs that take fewer tokens than their config.json says mostly have 512 positions. One run of
/// at most this many tokens finds them out when they are loaded.
const PROBE_TOKENS: usize = 1024;

/// A loaded graph.
#[derive(Debug)]
pub(crate) struct Graph {
    sessions: SessionPool,
    kind: ModelKind,
    /// The position of the output that is read.
    output: usize,
    /// `None` if the output has one row per sequence.
    pooling: Option<Pooling>,
    layers: Vec<Layer>,
    normalize: bool,
}

impl Graph {
    /// Chooses the output to read: the result itself if the graph computes it, else the vectors of
    /// the tokens, else whatever comes first. A pooling in config.json is obeyed.
    ///
    /// # Errors
    /// The reason as text if there is no session.
    pub fn new(sessions: SessionPool, config: &ModelConfig) -> Result<Self, String> {
        let names = sessions.take()?.outputs();
        let position =
            |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let result = match config.kind {
            ModelKind::Embedder => position(&["sentence_embedding"]),
            ModelKind::Reranker => position(&["logits", "scores"]),
        };
        let tokens = position(&["last_hidden_state", "token_embeddings"]);
        let pooling = config.pooling.filter(|_| config.pooling_is_set || result.is_none());
        let (output, layers) = match pooling {
            Some(_) => (tokens, config.layers.clone()),
            None => (result, Vec::new()),
        };
        Ok(Self {
            sessions,
            kind: config.kind,
            output: output.unwrap_or(0),
            pooling,
            layers,
            normalize: config.kind == ModelKind::Embedder && config.normalize,
        })
    }

    /// Runs one batch. Returns a row per sequence. Waits while all sessions are in use.
    ///
    /// # Errors
    /// The reason as text if the run failed or the output has another shape than expected.
    pub fn run(&self, batch: &[&TokenSequence], pad: u32) -> Result<Vec<Vec<f32>>, String> {
        let mut lease = self.sessions.take()?;
        lease.run(batch, pad, self.output, |output| self.rows(batch, &output))?
    }

    /// Takes the rows out of the output.
    fn rows(&self, batch: &[&TokenSequence], output: &Output<'_>) -> Result<Vec<Vec<f32>>, String> {
        let longest = batch.iter().map(|sequence| sequence.len()).max().unwrap_or(0);
        let shape: Vec<usize> =
            output.shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
        let (tokens, width) = match (self.pooling, &shape[..]) {
            // A graph for pooling by the first token may return only that one.
            (Some(pooling), &[_, tokens, width])
                if tokens == longest || pooling == Pooling::Cls =>
            {
                (tokens, width)
            }
            (None, &[_, width]) => (1, width),
            (None, [_]) => (1, 1),
            _ => (0, 0),
        };
        if shape.first() != Some(&batch.len()) || tokens == 0 || width == 0 {
            return Err(format!(
                "it returned the shape {shape:?} for {} sequences of up to {longest} tokens",
                batch.len()
            ));
        }
        let rows = output.data.chunks_exact(tokens * width).zip(batch);
        rows.map(|(numbers, sequence)| {
            let mut row = match self.pooling {
                Some(pooling) => pool(pooling, numbers, sequence.len(), width),
                None => numbers.to_vec(),
            };
            for layer in &self.layers {
                row = layer.apply(&row)?;
            }
            if self.normalize {
                normalize(&mut row);
            }
            Ok(row)
        })
        .collect()
    }

    /// Finds out how long the rows are, and what is wrong with them. Needs no tokenizer: the first
    /// tokens of a vocabulary, whatever they are, make sequences too.
    pub fn probe(&self, config: &ModelConfig, defects: &mut Defects) -> usize {
        let sequence = |length: usize| TokenSequence {
            ids: (0..3).cycle().take(length).collect(),
            segments: vec![0; length],
        };
        let width = match self.run(&[&sequence(3), &sequence(2)], 0) {
            Ok(rows) => rows[0].len(),
            Err(reason) => {
                defects.add(format_args!("the graph does not run ({reason})"), self.remedy());
                return 0;
            }
        };
        match (self.kind, config.dimension) {
            (ModelKind::Embedder, Some(dimension)) if dimension as usize != width => defects.add(
                format_args!("dimension {dimension} is wrong, the graph gives {width} numbers"),
                "correct it in config.json, or leave it out",
            ),
            (ModelKind::Reranker, _) if width != 1 => defects
                .add(format_args!("the graph gives {width} numbers for a pair"), self.remedy()),
            _ => {}
        }
        let length = config.max_tokens.min(PROBE_TOKENS);
        if length > PROBE_TOKENS / 2
            && let Err(reason) = self.run(&[&sequence(length)], 0)
        {
            defects.add(
                format_args!("the graph does not take {length} tokens ({reason})"),
                "write a smaller max_tokens into config.json",
            );
        }
        width
    }

    /// What to do about an output of the wrong shape.
    fn remedy(&self) -> &'static str {
        match (self.kind, self.pooling) {
            (ModelKind::Reranker, _) => {
                "export the graph with its classification head and one class, so that it returns \
                 float32 logits [batch, 1] for batches and lengths of any size"
            }
            (ModelKind::Embedder, None) => {
                "write \"pooling\": \"cls\" or \"pooling\": \"mean\" into config.json, or export a \
                 graph that returns float32 [batch, dimension] for batches and lengths of any size"
            }
            (ModelKind::Embedder, Some(_)) => {
                "export a graph that returns float32 [batch, sequence, dimension] for batches and \
                 lengths of any size, or, if it pools itself, write \"pooling\": null into config.json"
            }
        }
    }
}
