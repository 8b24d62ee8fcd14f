//! The building blocks: `memory_embed`, `memory_rerank`, `memory_count_tokens`, and the registration
//! of further models. Unlike recall and ingest, these exist only to use a model: without one they
//! raise an ERROR.

use crate::api::prelude::*;
use crate::memory::scope::active_model;
use crate::memory::scope::model_registry::{check_model_name, register};
use crate::models::{self, counting};
use crate::settings::Models;
use crate::store::models::Kind;
use crate::store::rows::entries::embedding_dimension;
use crate::store::search::vector_index;
use memory_agent_core::limits::MAX_TEXTS;
use memory_agent_model_server::protocol::{Encoding, ModelRef, Purpose};
use serde_json::json;

#[pg_extern(sql = false)]
fn memory_embed(_limits: WithinLimits, text: String, purpose: String) -> PgResult<Vector> {
    embed(vec![text], &purpose)?.pop().ok_or_else(|| Error::internal("the model gave no embedding"))
}

#[pg_extern(sql = false)]
fn memory_embed_many(
    _limits: WithinLimits,
    texts: Vec<Option<String>>,
    purpose: String,
) -> PgResult<Vec<Vector>> {
    embed(crate::pg::sql_types::without_nulls(texts)?, &purpose)
}

fn embed(texts: Vec<String>, purpose: &str) -> PgResult<Vec<Vector>> {
    identity::require(Level::Reader)?;
    let purpose = match purpose {
        "query" => Purpose::Query,
        "document" => Purpose::Document,
        other => {
            return Err(Error::invalid(
                format!("unknown purpose \"{other}\""),
                "Purposes are query and document: some models embed questions in another way.",
            ));
        }
    };
    check_texts(&texts)?;
    let model = active(Kind::Embedder)?;
    let prepared = models::current().prepare(Some(&model), purpose, texts, Vec::new())?;
    Ok(prepared.first_windows().collect())
}

#[pg_extern(sql = false)]
fn memory_rerank(
    _limits: WithinLimits,
    query: String,
    documents: Vec<Option<String>>,
) -> PgResult<Vec<f32>> {
    identity::require(Level::Reader)?;
    let documents = crate::pg::sql_types::without_nulls(documents)?;
    check_texts(&documents)?;
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let model = active(Kind::Reranker)?;
    Ok(models::current().rerank(&model, &query, documents, true)?.unwrap_or_default())
}

#[pg_extern(sql = false)]
fn memory_count_tokens(_limits: WithinLimits, text: String) -> PgResult<i32> {
    identity::require(Level::Reader)?;
    // An estimate must not become an IMMUTABLE function's answer, so a failure is an ERROR here.
    let count = counting::count_one(&text)?;
    Ok(i32::try_from(count).unwrap_or(i32::MAX))
}

/// `memory_count_tokens` of an encoding.
#[pg_extern(sql = false)]
fn memory_count_tokens_as(_limits: WithinLimits, text: String, encoding: String) -> PgResult<i32> {
    identity::require(Level::Reader)?;
    let Some(encoding) = Encoding::named(&encoding) else {
        let names = Encoding::ALL.map(|(name, _)| name).join(" and ");
        return Err(Error::invalid(
            format!("unknown encoding \"{encoding}\""),
            format!("Encodings are {names}."),
        ));
    };
    let count = counting::count_one_as(encoding, &text)?;
    Ok(i32::try_from(count).unwrap_or(i32::MAX))
}

#[pg_extern(sql = false)]
fn memory_register_model(
    _limits: WithinLimits,
    name: Option<String>,
    kind: Option<String>,
    location: Option<String>,
    activate: Option<bool>,
) -> PgResult<JsonbText> {
    identity::require(Level::Admin)?;
    let name = name.unwrap_or_default();
    let Some(kind) = Kind::of(kind.as_deref().unwrap_or_default()) else {
        return Err(Error::invalid("unknown kind of model", "Kinds are embedder and reranker."));
    };
    let is_remote = location.as_deref() == Some(models::REMOTE_LOCATION);
    check_model_name(&name, is_remote)?;
    if is_remote {
        check_endpoint(kind)?;
    } else if let Some(location) = &location {
        check_location(location)?;
    }
    let activate = activate.unwrap_or(false);
    let description = register(&name, kind, location.as_deref(), activate)?;
    Ok(JsonbText(
        json!({
            "name": name,
            "kind": kind.as_str(),
            "dimension": description.dimension,
            "max_tokens": description.max_tokens,
            "active": activate,
            "load_milliseconds": description.load_milliseconds,
        })
        .to_string(),
    ))
}

/// Refuses what the embedding endpoint cannot be.
fn check_endpoint(kind: Kind) -> PgResult<()> {
    if kind != Kind::Embedder {
        return Err(Error::invalid(
            "only embedders can be behind the embedding endpoint",
            "Register a reranker from a folder.",
        ));
    }
    if Models::current().embedding_base_url.is_empty() {
        return Err(Error::not_ready(
            "memory_agent.embedding_base_url is empty",
            "Set it in postgresql.conf, for example to http://localhost:11434/v1, and reload.",
        ));
    }
    Ok(())
}

/// Reading files of the server is for superusers, as it is in COPY.
#[allow(unsafe_code)]
fn check_location(location: &str) -> PgResult<()> {
    // SAFETY: reads backend state.
    if !unsafe { pg_sys::superuser() } {
        return Err(Error::not_permitted(
            "only superusers may name a directory of the server",
            "Put the model into memory_agent.model_dir and leave location out.",
        ));
    }
    if !std::path::Path::new(location).is_absolute() {
        return Err(Error::invalid(
            "location must be an absolute path",
            "Name the model's folder.",
        ));
    }
    Ok(())
}

fn check_texts(texts: &[String]) -> PgResult<()> {
    let limit = Content::current().max_content_bytes;
    if texts.len() > MAX_TEXTS {
        return Err(Error::invalid(
            format!("{} texts in one call, the limit is {MAX_TEXTS}", texts.len()),
            "Split the array.",
        ));
    }
    match texts.iter().find(|text| text.len() > limit) {
        Some(text) => Err(Error::invalid(
            format!("a text has {} bytes, the limit is {limit}", text.len()),
            "Split the text, or raise memory_agent.max_content_bytes in postgresql.conf.",
        )),
        None => Ok(()),
    }
}

fn active(kind: Kind) -> PgResult<ModelRef> {
    roles::read_as_owner(|spi| active_model::active(spi, kind))?.ok_or_else(|| {
        Error::undefined(
            format!("no {} is active", kind.as_str()),
            "Register one with memory_register_model(name, kind, activate => true).",
        )
    })
}

#[pg_extern(sql = false)]
fn memory_create_vector_index(_limits: WithinLimits, method: Option<String>) -> PgResult<String> {
    identity::require(Level::Admin)?;
    let method = method.unwrap_or_default();
    if !["hnsw", "ivfflat"].contains(&method.as_str()) {
        return Err(Error::invalid("unknown index method", "Methods are hnsw and ivfflat."));
    }
    let model = active(Kind::Embedder)?;
    roles::write_as_owner(|spi| {
        if let Some(index) = vector_index::find(spi, &model.name)? {
            return Err(Error::duplicate(
                format!("the index memory_agent.{} exists already", index.name),
                "Drop it first to build another one.",
            ));
        }
        let dimension = match embedding_dimension(spi, &model.name)? {
            Some(dimension) => dimension,
            None => models::current().describe(&model)?.dimension.unwrap_or(0) as i32,
        };
        debug1!("memory_agent: create index model={}", model.name);
        vector_index::create(spi, &model.name, dimension, &method)
    })
}
