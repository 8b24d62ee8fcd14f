//! The rows of `memory_status()` about the library, who asks, the models and what they made: what runs, what does
//! not, and what to do about it. Never content.

pub mod attached_status;
pub mod quota_status;

use crate::identity::grants::{self, Level};
use crate::identity::{self, visible_identity};
use crate::memory::prelude::*;
use crate::memory::scope::active_model;
use crate::models::supervisor_state::{self, State};
use crate::models::{self, Failure, client, paths};
use crate::pg::preload::is_preloaded;
use crate::settings::{IdentityMode, Search};
use crate::store::models::Kind;
use crate::store::{
    agents, changes::reindex, models::model_change, rows::counts, schema, search::vector_index,
};
use memory_agent_model_server::engine::model::missing_files;
use memory_agent_model_server::protocol::{RemoteEmbedder, ServerStatus};
use std::cmp::Ordering;
use std::path::Path;

/// component, state, detail, hint.
pub type StatusRow = (String, String, String, Option<String>);

pub fn row<'a>(
    component: &str,
    state: &str,
    detail: impl Into<String>,
    hint: impl Into<Option<&'a str>>,
) -> StatusRow {
    (component.to_owned(), state.to_owned(), detail.into(), hint.into().map(str::to_owned))
}

/// The library, who asks, the model server and its runtime; with what the server says.
pub fn of_session() -> (Vec<StatusRow>, Option<ServerStatus>) {
    let (server, server_row) = if models::are_served() {
        model_server()
    } else {
        (None, row("model server", "off", "memory_agent.inference is 'backend'", None))
    };
    (vec![library(), identity_row(), server_row, runtime()], server)
}

/// Adds the schema, the models and their embeddings to what [`of_session`] told.
pub fn add_models(spi: &Spi, rows: &mut Vec<StatusRow>, ask_server: bool) -> PgResult<()> {
    rows.insert(1, schema_row(spi)?);
    let runtime_at = rows.len() - 1;
    for kind in [Kind::Embedder, Kind::Reranker] {
        let (row, failure) = model(kind, active_model::active(spi, kind)?, ask_server);
        rows.push(row);
        if let Some(failure) = failure.filter(|failure| failure.is_outage) {
            rows[runtime_at] = row_of_failure("onnxruntime", &failure);
        }
    }
    rows.extend(change_of_model(spi)?);
    rows.extend(older_rows(spi)?);
    rows.push(embeddings(spi)?);
    Ok(())
}

/// The index, the attached tables and the levels. Only administrators are told names of tables.
pub fn of_tables(spi: &Spi, level: Level, settings: &Search) -> PgResult<Vec<StatusRow>> {
    let mut rows = vec![index(spi, settings.exact_scan_rows as i64)?];
    if schema::has_0_2() {
        rows.extend(attached_status::rows(spi, level)?);
    }
    if schema::has_0_3() {
        rows.extend(levels(spi, level)?);
        rows.extend(session_recall(spi)?);
        rows.extend(quota_status::row_of_quotas(spi)?);
    }
    Ok(rows)
}

fn library() -> StatusRow {
    let version = format!("version {}", schema::LIBRARY_VERSION);
    if is_preloaded() {
        row("library", "preloaded", version, None)
    } else {
        row(
            "library",
            "on demand",
            format!("{version}; the first call of a session loads it"),
            "Add memory_agent to shared_preload_libraries and restart, so that the model server is always there.",
        )
    }
}

/// Whether ALTER EXTENSION UPDATE is due. Files that are older than the schema are a step back.
fn schema_row(spi: &Spi) -> PgResult<StatusRow> {
    let version = schema::version(spi)?.unwrap_or_default();
    let (state, hint) = match schema::compared_with_library(&version) {
        Some(Ordering::Equal) => ("current", None),
        Some(Ordering::Less) => (
            "older",
            Some("Run ALTER EXTENSION memory_agent UPDATE. Until then everything works as before."),
        ),
        Some(Ordering::Greater) | None => (
            "unknown",
            Some(
                "Restart the server. If that does not help, install the files of this version again.",
            ),
        ),
    };
    Ok(row("schema", state, format!("version {version}"), hint))
}

/// Roles that read more than their level gives them, levels that no role has, and roles with a new name. Only
/// administrators are told which.
fn levels(spi: &Spi, level: Level) -> PgResult<Vec<StatusRow>> {
    let mut rows = Vec::new();
    let roles = grants::readers_of_tables(spi)?;
    if roles > 0 {
        rows.push(row(
            "levels",
            "older",
            format!(
                "{roles} roles with a level read tables of memory_agent, as levels of 0.2.0 did"
            ),
            "Run SELECT memory_agent.renew_levels(), and grant again what you granted by hand.",
        ));
    }
    let told = |what: &str, pairs: &[(String, String)], link: &str| -> String {
        let list: Vec<String> =
            pairs.iter().map(|(name, other)| format!("\"{name}\" {link} \"{other}\"")).collect();
        match level {
            Level::Admin => format!("{what}: {}", list.join(", ")),
            _ => format!("{what}: {}", pairs.len()),
        }
    };
    let lost = grants::without_role(spi)?;
    if !lost.is_empty() {
        rows.push(row(
            "levels",
            "without a role",
            told("levels that no role has", &lost, "with"),
            "For a role that is to have it, run SELECT memory_grant('ROLE', 'LEVEL'). What is not needed any \
             more goes with DELETE FROM memory_agent.grants WHERE role_name = 'ROLE'.",
        ));
    }
    let renamed = grants::renamed(spi)?;
    if !renamed.is_empty() {
        rows.push(row(
            "levels",
            "renamed",
            told("roles that were renamed", &renamed, "to"),
            "They have their levels. Run SELECT memory_agent.renew_levels(), so that dumps name them rightly.",
        ));
    }
    Ok(rows)
}

/// Agents whose sessions know nothing of each other, as an update leaves them.
fn session_recall(spi: &Spi) -> PgResult<Option<StatusRow>> {
    let agents = agents::isolating_sessions(spi)?;
    let list = agents.iter().map(|agent| format!("\"{agent}\"")).collect::<Vec<_>>().join(", ");
    Ok((!agents.is_empty()).then(|| {
        row(
            "session_recall",
            "session",
            format!("prompts of these agents recall nothing of the user's other sessions: {list}"),
            "To let them, run for each: SELECT memory_configure('...', settings => '{\"session_recall\": \"user\"}', user_id => '*').",
        )
    }))
}

fn identity_row() -> StatusRow {
    let setting = identity::mode();
    let mode = match setting {
        IdentityMode::Setting => "setting",
        IdentityMode::Required => "required",
        IdentityMode::Role => "role",
        IdentityMode::Claims => "claims",
    };
    match visible_identity() {
        Ok(user) => {
            row("identity", mode, format!("this session reads and writes as \"{user}\""), None)
        }
        // Each request has its own.
        Err(_) if setting == IdentityMode::Claims => {
            row("identity", mode, "there are no claims of a user in this session", None)
        }
        Err(_) => row(
            "identity",
            mode,
            "memory_agent.user_id is not set in this session",
            "Run SET memory_agent.user_id = '...'.",
        ),
    }
}

fn model_server() -> (Option<ServerStatus>, StatusRow) {
    match client::status() {
        Ok(status) => {
            let detail = format!(
                "pid {}, up {} s, {} threads, {} MB, {} requests, {} waiting, {} refused, \
                 {} reranks refused",
                status.pid,
                status.uptime_seconds,
                status.threads,
                status.resident_bytes / 1_048_576,
                status.requests,
                status.queue_items,
                status.rejected,
                status.reranks_refused
            );
            (Some(status), row("model server", "running", detail, None))
        }
        Err(failure) => {
            let (state, hint) = match supervisor_state::read() {
                Some(State::Failing(_)) => (
                    "failing",
                    "Check memory_agent.model_server_path, memory_agent.onnxruntime_path and the server log; \
                     then SELECT pg_reload_conf().",
                ),
                Some(State::Starting) => ("starting", "Try again in a moment."),
                Some(State::Running(_)) => (
                    "not responding",
                    "It is checked and replaced now; SELECT pg_reload_conf() does so too. See the server log.",
                ),
                None => (
                    "not running",
                    "Add memory_agent to shared_preload_libraries, or check max_worker_processes.",
                ),
            };
            (None, row("model server", state, paths::without_secret_places(&failure.message), hint))
        }
    }
}

fn runtime() -> StatusRow {
    let path = paths::onnxruntime();
    if path.exists() {
        row("onnxruntime", "found", "", None)
    } else {
        row(
            "onnxruntime",
            "missing",
            "the ONNX Runtime library is not where the settings say",
            "Run make install again, or set memory_agent.onnxruntime_path.",
        )
    }
}

fn row_of_failure(component: &str, failure: &Failure) -> StatusRow {
    row(component, "failing", paths::without_secret_places(&failure.message), failure.hint)
}

/// A model's row, and why it cannot be used. The server is asked to load and run it: files that are
/// there say little. A backend is not, since loading would cost it the model's memory.
fn model(kind: Kind, active: Option<ModelRef>, ask_server: bool) -> (StatusRow, Option<Failure>) {
    let component = kind.as_str();
    let Some(model) = active else {
        let hint = "Register one with memory_register_model().";
        return (row(component, "none", "", hint), None);
    };
    if let Some(remote) = &model.remote {
        return remote_model(component, &model, remote, ask_server);
    }
    let missing = missing_files(Path::new(&model.directory)).join(", ");
    if !missing.is_empty() {
        let detail = format!("{}: not there: {missing}", model.name);
        let hint = "Run make install again, or set memory_agent.model_dir.";
        return (row(component, "missing", detail, hint), None);
    }
    if !ask_server {
        return (row(component, "present", model.name, None), None);
    }
    match models::current().describe(&model) {
        Ok(_) => (row(component, "loaded", model.name, None), None),
        Err(failure) => (row_of_failure(component, &failure), Some(failure)),
    }
}

/// A model behind the embedding endpoint: it is asked what it is, which also checks its dimension.
fn remote_model(
    component: &str,
    model: &ModelRef,
    remote: &RemoteEmbedder,
    ask_server: bool,
) -> (StatusRow, Option<Failure>) {
    if remote.endpoint.base_url.is_empty() {
        let hint = "Set memory_agent.embedding_base_url in postgresql.conf, and reload.";
        let detail = "memory_agent.embedding_base_url is empty";
        return (row(component, "misconfigured", detail, hint), None);
    }
    if !ask_server {
        return (row(component, "remote", model.name.clone(), None), None);
    }
    match models::current().describe(model) {
        Ok(description) => {
            let dimension = description.dimension.unwrap_or(0);
            let detail = format!("{}, {dimension} dimensions", model.name);
            (row(component, "remote", detail, None), None)
        }
        Err(failure) => (row_of_failure(component, &failure), None),
    }
}

/// The embedding model that is to be used, while that is not done.
fn change_of_model(spi: &Spi) -> PgResult<Option<StatusRow>> {
    let Some(change) = model_change::current(spi)? else { return Ok(None) };
    let detail = format!(
        "to {}: {} of {} steps",
        change.model.as_deref().unwrap_or("another model"),
        change.done,
        change.of
    );
    let hint = hint_if_dead(&change.status, change.job);
    Ok(Some(row("model change", &change.status, detail, hint.as_deref())))
}

/// Rows of an older version that are indexed anew, while that is not done.
fn older_rows(spi: &Spi) -> PgResult<Option<StatusRow>> {
    let Some(underway) = reindex::underway(spi)? else { return Ok(None) };
    let detail = format!("{} of {} rows are looked at", underway.done, underway.of);
    Ok(Some(row(
        "older rows",
        &underway.status,
        detail,
        hint_if_dead(&underway.status, underway.job).as_deref(),
    )))
}

/// What to do about a job of all users that failed.
fn hint_if_dead(status: &str, job: Uuid) -> Option<String> {
    (status == "dead").then(|| {
        format!(
            "SELECT last_error FROM memory_jobs WHERE id = '{job}' says why; memory_retry('{job}') tries again."
        )
    })
}

fn embeddings(spi: &Spi) -> PgResult<StatusRow> {
    let missing = counts::without_embedding(spi)?;
    Ok(if missing.is_none() {
        row("embeddings", "complete", "every entry has its embedding", None)
    } else {
        row(
            "embeddings",
            "incomplete",
            format!("{missing} entries are found by their words only"),
            "They were stored while no model was available, or with embed_on_ingest other than sync.",
        )
    })
}

fn index(spi: &Spi, limit: i64) -> PgResult<StatusRow> {
    let entries = counts::estimated_entries(spi)?;
    let found = match active_model::active(spi, Kind::Embedder)? {
        Some(model) => vector_index::find(spi, &model.name)?,
        None => None,
    };
    Ok(match found {
        Some(index) => row("vector index", "present", index.name, None),
        None if entries > limit => row(
            "vector index",
            "advised",
            format!("about {entries} entries; scopes of more than {limit} are compared row by row"),
            "If single users have so many, run SELECT memory_create_vector_index().",
        ),
        None => row("vector index", "not needed", "scopes are small enough for exact search", None),
    })
}
