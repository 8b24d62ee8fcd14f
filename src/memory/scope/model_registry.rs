//! The models that a database knows: registering one, and changing to another embedding model while memory is in
//! use. Here a model is loaded, checked and registered; a `reembed` job of the worker does the rest of a change.

use crate::memory::scope::active_model;
use crate::models::{self, REMOTE_LOCATION};
use crate::pg::prelude::*;
use crate::store::models::{self as store, Kind};
use crate::store::{models::model_change, rows::entries};
use memory_agent_model_server::protocol::ModelDescription;

/// Registers a model of a kind; with `activate` it becomes the active one.
pub fn register(
    name: &str,
    kind: Kind,
    location: Option<&str>,
    activate: bool,
) -> PgResult<ModelDescription> {
    let model = models::model_ref(name, location)?;
    let description = models::current().describe(&model)?;
    if description.kind != kind {
        return Err(Error::wrong_object(
            format!("the kind of \"{name}\" is {}, not {kind}", description.kind),
            "Register it as what its config.json says.",
        ));
    }
    let dimension = description.dimension.map(|dimension| dimension as i32);
    roles::write_as_owner(|spi| {
        debug1!("memory_agent: register model name={name}");
        let (known_kind, is_active) = store::known(spi, name)?.unwrap_or((kind, false));
        if known_kind != kind {
            return Err(Error::duplicate(
                format!("\"{name}\" is registered as another kind of model"),
                "Register it under another name.",
            ));
        }
        if kind == Kind::Embedder {
            refuse_other_dimension(spi, name, dimension)?;
            // It cannot be switched under rows of another one: recall would compare nothing.
            if (activate || is_active)
                && let Some(other) = store::other_that_embeds(spi, name)?
            {
                return Err(Error::not_ready(
                    format!("rows of this database are embedded by \"{other}\""),
                    "Run SELECT memory_use_embedding_model(name): it embeds them again in the background.",
                ));
            }
        }
        store::register(spi, name, kind, dimension, location, activate)
    })?;
    Ok(description)
}

/// Rows that this model embedded must stay comparable with what it gives now.
fn refuse_other_dimension(spi: &Spi, name: &str, dimension: Option<i32>) -> PgResult<()> {
    match entries::embedding_dimension(spi, name)? {
        Some(stored) if Some(stored) != dimension => Err(Error::not_ready(
            format!("rows of this database are embedded by \"{name}\" with {stored} dimensions"),
            "Register the other model under another name.",
        )),
        _ => Ok(()),
    }
}

/// Names at an endpoint may be paths and carry tags, names of folders may not.
pub fn check_model_name(name: &str, is_remote: bool) -> PgResult<()> {
    let marks = if is_remote { "._-/:@" } else { "._-" };
    let is_plain = !name.is_empty()
        && name.len() <= 100
        && name.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
        && !name.starts_with('.');
    if is_plain {
        return Ok(());
    }
    Err(Error::invalid(
        "a model's name consists of letters, digits, '.', '_' and '-', at most 100",
        "Use the name of its folder in memory_agent.model_dir.",
    ))
}

/// Queues the change to another embedding model, or gives one up by naming the model in use; the job.
pub fn use_embedder(name: &str, max_attempts: i32) -> PgResult<Uuid> {
    let (known, active) = roles::read_as_owner(|spi| {
        Ok((store::registered(spi, name)?, active_model::active(spi, Kind::Embedder)?))
    })?;
    let location = match &known {
        Some(registered) => registered.location.clone(),
        None => location_in_settings(name)?,
    };
    let is_active = active.as_ref().is_some_and(|model| model.name == name);
    let dimension = match &known {
        // The model in use needs no check: its endpoint may be away, and the change to another one is
        // to be given up.
        Some(registered) if is_active => registered.dimension,
        _ => Some(checked_dimension(name, location.as_deref())?),
    };
    roles::write_as_owner(|spi| {
        // From now on it does not depend on the settings which model is the active one.
        if let Some(active) = active.filter(|active| active.name != name)
            && store::registered(spi, &active.name)?.is_none()
            && let Some(dimension) = entries::embedding_dimension(spi, &active.name)?
        {
            let location = active.remote.is_some().then_some(REMOTE_LOCATION);
            let (name, kind) = (&active.name, Kind::Embedder);
            store::register(spi, name, kind, Some(dimension), location, true)?;
        }
        refuse_other_dimension(spi, name, dimension)?;
        if known.is_none() {
            let location = location.as_deref();
            store::register(spi, name, Kind::Embedder, dimension, location, is_active)?;
        }
        debug1!("memory_agent: use model name={name}");
        model_change::queue(spi, name, max_attempts)
    })
}

/// Where a model that was never registered is: its folder in the model directory, or the endpoint when
/// the settings name it there.
fn location_in_settings(name: &str) -> PgResult<Option<String>> {
    let (configured, location) = models::configured_embedder();
    let location = location.filter(|_| name == configured);
    check_model_name(name, location.is_some())?;
    Ok(location.map(str::to_owned))
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
