//! The models without server, socket, queue and database: the model server's library in this
//! process, on as many threads. What a recall costs more is ours.

use crate::Result;
use crate::environment::Environment;
use memory_agent_model_server::engine::config::ModelConfig;
use memory_agent_model_server::engine::tokenizer::TokenSequence;
use memory_agent_model_server::protocol::{ModelRef, Purpose};
use memory_agent_model_server::{Engine, EngineOptions};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const EMBEDDER: &str = "memory-embed-small";

/// What embedding texts took.
#[derive(Default)]
pub struct Cost {
    pub texts: usize,
    pub windows: usize,
    pub tokens: usize,
    pub tokenising: Duration,
    /// Of the model, tokenising not counted.
    pub running: Duration,
}

impl Cost {
    pub fn milliseconds(&self) -> f64 {
        (self.tokenising + self.running).as_secs_f64() * 1000.0
    }

    pub fn add(&mut self, other: &Self) {
        self.texts += other.texts;
        self.windows += other.windows;
        self.tokens += other.tokens;
        self.tokenising += other.tokenising;
        self.running += other.running;
    }
}

/// Both shipped models, loaded.
pub struct RawModels {
    engine: Engine,
    embedder: ModelRef,
    reranker: ModelRef,
}

impl RawModels {
    pub fn load(environment: &Environment) -> Result<Self> {
        let engine = Engine::for_server(EngineOptions {
            onnxruntime_path: environment.onnxruntime.clone(),
            threads: environment.threads,
        })?;
        let reference =
            |name: &str| ModelConfig::reference(&environment.model_directory.join(name));
        let (embedder, reranker) = (reference(EMBEDDER), reference(&environment.reranker));
        let models = Self { engine, embedder, reranker };
        models.engine.model(&models.embedder)?;
        models.engine.model(&models.reranker)?;
        Ok(models)
    }

    /// Embeds a question; returns the vector and the time of tokenising and running.
    pub fn embed_query(&self, text: &str) -> Result<(Vec<f32>, Duration)> {
        let (mut windows, time) = self.embed(Purpose::Query, &[text])?;
        let vector = windows.pop().and_then(|mut windows| windows.pop());
        Ok((vector.ok_or("the model gave no vector")?, time))
    }

    /// Embeds texts to be stored; returns the time of tokenising and running.
    pub fn embed_documents(&self, texts: &[&str]) -> Result<(Vec<Vec<f32>>, Duration)> {
        let (windows, time) = self.embed(Purpose::Document, texts)?;
        Ok((windows.into_iter().filter_map(|windows| windows.into_iter().next()).collect(), time))
    }

    /// Embeds texts to be stored, for what it costs.
    pub fn cost_of_documents(&self, texts: &[&str]) -> Result<Cost> {
        let model = self.engine.model(&self.embedder)?;
        let started = Instant::now();
        let mut windows = Vec::new();
        for text in texts {
            windows.extend(model.windows(text, Purpose::Document)?);
        }
        let tokenising = started.elapsed();
        let (_, both) = self.embed(Purpose::Document, texts)?;
        Ok(Cost {
            texts: texts.len(),
            windows: windows.len(),
            tokens: windows.iter().map(TokenSequence::len).sum(),
            tokenising,
            running: both.saturating_sub(tokenising),
        })
    }

    /// The windows of each text.
    fn embed(&self, purpose: Purpose, texts: &[&str]) -> Result<(Vec<Vec<Vec<f32>>>, Duration)> {
        let started = Instant::now();
        let windows = self.engine.embed(&self.embedder, purpose, texts, &mut go_on)?;
        Ok((windows, started.elapsed()))
    }

    /// Scores documents; returns the time of running alone, tokenising not counted.
    pub fn rerank(&self, query: &str, documents: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        let model = self.engine.model(&self.reranker)?;
        model
            .pairs(query, documents.iter().copied())?
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let tokenising = started.elapsed();
        let started = Instant::now();
        self.engine.rerank(&self.reranker, query, documents, &mut go_on)?;
        Ok(started.elapsed().saturating_sub(tokenising))
    }
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}
