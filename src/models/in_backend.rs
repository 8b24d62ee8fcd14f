//! Inference inside the backend, for places that may not start processes
//! (`memory_agent.inference = 'backend'`): the model server's library, loaded on first use, one
//! thread. Costs some 190 MB a connection, which is why it is not the default.

use super::interface::{Failure, Models, Prepared};
use super::paths;
use memory_agent_model_server::engine::encoding;
use memory_agent_model_server::engine::{Engine, EngineOptions};
use memory_agent_model_server::error::InferenceError;
use memory_agent_model_server::protocol::{Encoding, ModelDescription, ModelRef, Purpose};
use pgrx::pg_sys;
use std::cell::OnceCell;
use std::ops::ControlFlow;

thread_local! {
    static ENGINE: OnceCell<Engine> = const { OnceCell::new() };
}

/// Inference by this process itself.
pub struct BackendModels;

impl Models for BackendModels {
    fn prepare(
        &self,
        model: Option<&ModelRef>,
        purpose: Purpose,
        texts: Vec<String>,
        token_texts: Vec<String>,
    ) -> Result<Prepared, Failure> {
        with_engine(|engine| {
            let embeddings = match model {
                Some(model) => engine.embed(model, purpose, &borrowed(&texts), &mut check)?,
                None => Vec::new(),
            };
            Ok(Prepared { embeddings, token_counts: engine.count_tokens(&borrowed(&token_texts)) })
        })
    }

    fn count(&self, encoding: Encoding, texts: Vec<String>) -> Result<Vec<u32>, Failure> {
        Ok(texts.iter().map(|text| encoding::count(encoding, text)).collect())
    }

    fn rerank(
        &self,
        model: &ModelRef,
        query: &str,
        documents: Vec<String>,
        // Each backend is alone.
        _waits: bool,
    ) -> Result<Option<Vec<f32>>, Failure> {
        with_engine(|engine| {
            engine.rerank(model, query, &borrowed(&documents), &mut check).map(Some)
        })
    }

    fn describe(&self, model: &ModelRef) -> Result<ModelDescription, Failure> {
        with_engine(|engine| engine.describe(model))
    }
}

fn with_engine<T>(work: impl FnOnce(&Engine) -> Result<T, InferenceError>) -> Result<T, Failure> {
    let outcome = ENGINE.with(|cell| {
        let engine = match cell.get() {
            Some(engine) => engine,
            None => {
                let built = Engine::new(EngineOptions {
                    onnxruntime_path: paths::onnxruntime(),
                    threads: 1,
                })?;
                cell.get_or_init(|| built)
            }
        };
        work(engine)
    });
    // A cancelled call comes back here first, so that the interrupt unwinds through no foreign code.
    pgrx::check_for_interrupts!();
    outcome.map_err(|error| Failure::of(error.code(), error.to_string()))
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Called between batches: stop as soon as PostgreSQL wants to interrupt.
#[allow(unsafe_code)]
fn check() -> ControlFlow<()> {
    // SAFETY: a flag that signal handlers set.
    if unsafe { std::ptr::read_volatile(&raw const pg_sys::InterruptPending) } != 0 {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}
