//! Inference as PostgreSQL's processes see it: one trait, two implementations. `client` talks to
//! the model server over its socket (the default), `in_backend` runs the same library inside the
//! backend. `supervisor` is the background worker that keeps the server running.
//!
//! Nothing here raises an ERROR when inference is unavailable: callers get a [`Failure`] and
//! decide. An ingest then stores without an embedding, a recall ranks by words.

pub mod client;
mod connection;
pub mod counting;
pub mod in_backend;
mod interface;
pub mod paths;
pub mod socket;
pub mod supervisor;
pub mod supervisor_state;

pub use interface::{Failure, Models, Prepared};

use crate::pg::error::{Error, PgResult};
use crate::settings::{self, Inference, providers};
use memory_agent_model_server::protocol::ModelRef;

/// The implementation that `memory_agent.inference` chooses.
pub fn current() -> &'static dyn Models {
    if are_served() { &client::ServerModels } else { &in_backend::BackendModels }
}

/// Whether the model server runs the models, and not each process by itself.
pub fn are_served() -> bool {
    settings::Models::current().inference == Inference::Server
}

/// The embedder that the settings name, perhaps none, and its location.
pub fn configured_embedder() -> (String, Option<&'static str>) {
    let location = providers::is_embedder_remote().then_some(REMOTE_LOCATION);
    (settings::Models::current().embedding_model, location)
}

/// The same of the reranker.
pub fn configured_reranker() -> (String, Option<&'static str>) {
    (settings::Models::current().rerank_model, None)
}

/// The location of models behind the embedding endpoint.
pub const REMOTE_LOCATION: &str = "http";

/// Where a model of this name is: a registered location, or its folder in the model directory. The
/// location "http" is the embedding endpoint.
///
/// # Errors
/// When the endpoint's key cannot be read (F0000).
pub fn model_ref(name: &str, location: Option<&str>) -> PgResult<ModelRef> {
    if location == Some(REMOTE_LOCATION) {
        let remote = providers::embedder(name).map_err(|reason| {
            Error::configuration(
                reason,
                "Make the file readable for the server, with the key as its first line.",
            )
        })?;
        return Ok(ModelRef {
            name: name.to_owned(),
            directory: String::new(),
            remote: Some(Box::new(remote)),
        });
    }
    let directory = match location {
        Some(directory) => directory.to_owned(),
        None => paths::model_directory().join(name).to_string_lossy().into_owned(),
    };
    Ok(ModelRef { name: name.to_owned(), directory, remote: None })
}

/// Cosine similarities that mean something for one embedding model, calibrated on labelled pairs
/// (models/README.md): what .95 means differs from model to model.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub struct Thresholds {
    /// From here on two statements say the same.
    pub duplicate: f64,
    /// Below this, two statements have nothing to do with each other.
    pub unrelated_p95: f64,
}

/// The thresholds in an embedder's config.json; `None` when it has none, as behind an endpoint.
pub fn thresholds(model: &ModelRef) -> Option<Thresholds> {
    calibrated(model)
}

/// The logit in a reranker's config.json from which a text has to do with a question; `None` when it
/// has none.
pub fn related_logit(model: &ModelRef) -> Option<f64> {
    #[derive(serde::Deserialize)]
    struct Related {
        related_logit: f64,
    }
    calibrated(model).map(|Related { related_logit }| related_logit)
}

/// The calibrated values in a model's config.json.
fn calibrated<T: serde::de::DeserializeOwned>(model: &ModelRef) -> Option<T> {
    #[derive(serde::Deserialize)]
    struct Config<T> {
        similarity: Option<T>,
    }
    let text =
        std::fs::read_to_string(std::path::Path::new(&model.directory).join("config.json")).ok()?;
    serde_json::from_str::<Config<T>>(&text).ok()?.similarity
}
