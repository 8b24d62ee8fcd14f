//! `memory_use_embedding_model`: another embedding model for memory that is in use. Here the model is
//! loaded, checked and registered; a `reembed` job of the worker does the rest.

use super::inference;
use crate::api::prelude::*;
use crate::memory::active_model;
use crate::models::{self, REMOTE_LOCATION};
use crate::settings::{LlmLimits, Models, providers};
use crate::store::models::{self as model_store, Kind};
use crate::store::{entries, model_change};

#[pg_extern(sql = false)]
fn memory_use_embedding_model(_limits: WithinLimits, name: Option<String>) -> PgResult<Uuid> {
    identity::require(Level::Admin)?;
    let name = name.unwrap_or_default();
    let (known, active) = roles::read_as_owner(|spi| {
        Ok((model_store::registered(spi, &name)?, active_model::active(spi, Kind::Embedder)?))
    })?;
    let location = match &known {
        Some(registered) => registered.location.clone(),
        None => location_in_settings(&name)?,
    };
    let is_active = active.as_ref().is_some_and(|model| model.name == name);
    let dimension = match &known {
        // The model in use needs no check: its endpoint may be away, and the change to another one is
        // to be given up.
        Some(registered) if is_active => registered.dimension,
        _ => Some(checked_dimension(&name, location.as_deref())?),
    };
    roles::write_as_owner(|spi| {
        // From now on it does not depend on the settings which model is the active one.
        if let Some(active) = active.filter(|active| active.name != name)
            && model_store::registered(spi, &active.name)?.is_none()
            && let Some(dimension) = entries::embedding_dimension(spi, &active.name)?
        {
            let location = active.remote.is_some().then_some(REMOTE_LOCATION);
            let (name, kind) = (&active.name, Kind::Embedder);
            model_store::register(spi, name, kind, Some(dimension), location, true)?;
        }
        inference::refuse_other_dimension(spi, &name, dimension)?;
        if known.is_none() {
            let location = location.as_deref();
            model_store::register(spi, &name, Kind::Embedder, dimension, location, is_active)?;
        }
        debug1!("memory_agent: use model name={name}");
        model_change::queue(spi, &name, LlmLimits::current().max_attempts)
    })
}

/// Where a model that was never registered is: its folder in the model directory, or the endpoint when
/// the settings name it there.
fn location_in_settings(name: &str) -> PgResult<Option<String>> {
    let is_remote = providers::is_embedder_remote() && name == Models::current().embedding_model;
    inference::check_model_name(name, is_remote)?;
    Ok(is_remote.then(|| REMOTE_LOCATION.to_owned()))
}

/// Loads a model, and returns the dimension of its vectors.
fn checked_dimension(name: &str, location: Option<&str>) -> PgResult<i32> {
    let model = models::model_ref(name, location)?;
    let description = models::current().describe(&model)?;
    match description.dimension {
        Some(dimension) if description.kind == Kind::Embedder => Ok(dimension as i32),
        _ => Err(Error::wrong_object(
            format!("the kind of \"{name}\" is {}, not embedder", description.kind),
            "Name an embedder: SELECT name FROM memory_agent.models WHERE kind = 'embedder'.",
        )),
    }
}
