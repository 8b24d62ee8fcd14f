//! Memories that come from a file. A file is checked like anything else that is stored, and stored with the
//! id, times and state that it has.

use crate::identity::grants::Level;
use crate::memory::changes::update::take_up;
use crate::memory::prelude::*;
use crate::memory::scope::checks::{check_content, check_fact_key, check_session};
use crate::memory::texts::prepare::{Prepare, prepare};
use crate::memory::texts::turn::{self, check_metadata, markers_of};
use crate::memory::{
    quotas,
    scope::scope_settings,
    texts::{follow_ups, secrets, session_writer},
};
use crate::models::counting;
use crate::settings::Effective;
use crate::store::facts;
use crate::store::rows::entries::{self, FactsFrom, NewEntry};
use crate::store::rows::scope::ARCHIVE_RELATION;
use crate::store::rows::sessions::Fill;
use crate::store::transfer::imports::{self, ImportedEntry, Values};
use crate::store::{rows::history, summaries};
use memory_agent_core::files::markdown::{Entry, Memory, Summary};
use memory_agent_core::text::raw_json::Json;
use memory_agent_core::text::{entry, tokens};
use pgrx::pg_sys::panic::CaughtError;
use std::panic::AssertUnwindSafe;

const STATES: [&str; 3] = ["active", "archived", "inactive"];
const REASONS: [&str; 7] =
    ["compressed", "evicted", "superseded", "deleted", "expired", "contradicted", "unverified"];
const METHODS: [&str; 5] = ["brief", "standard", "detailed", "hierarchical", "window"];

/// Stores a memory for a caller, whose agent is the memory's. It is checked by the settings of the server: what an
/// agent may store today does not keep out what it stored before.
pub fn import(caller: &Caller, memory: &Memory, body: &str, server: &Content) -> PgResult<Uuid> {
    match memory {
        Memory::Entry(entry) if entry.is_complete() => import_entry(caller, entry, body, server),
        Memory::Entry(entry) => {
            let (clean, body) = without_secrets(caller, entry, body)?;
            import_entry(caller, &clean, &body, server)
        }
        Memory::Summary(summary) => import_summary(caller, summary, body, server),
    }
}

/// What is not the export of a memory has come in from outside.
fn without_secrets(caller: &Caller, entry: &Entry, body: &str) -> PgResult<(Entry, String)> {
    check_session(entry.session())?;
    let given = JsonbText(entry.metadata.as_ref().map_or("{}", |values| &values.0).to_owned());
    let clean = scope_settings::scoped(caller, entry.session(), |settings| {
        // What is no object is refused below.
        if !given.0.starts_with('{') {
            return Ok(None);
        }
        secrets::clean(body, &given, &settings.content)
    })?;
    Ok(match clean {
        Some((body, JsonbText(values))) => {
            (Entry { metadata: Some(Json(values)), ..entry.clone() }, body)
        }
        None => (entry.clone(), body.to_owned()),
    })
}

/// A value that is not one of those there are.
fn check_one_of(key: &str, value: Option<&str>, known: &[&str]) -> PgResult<()> {
    match value {
        Some(value) if !known.contains(&value) => Err(Error::invalid(
            format!("{key} in the front matter must be one of {}", known.join(", ")),
            "Leave the line out, or correct it.",
        )),
        _ => Ok(()),
    }
}

/// Lets PostgreSQL read the values of a front matter. One that it cannot read is a wrong argument.
pub fn read_values<T>(read: impl FnOnce(&Spi) -> PgResult<T>) -> PgResult<T> {
    let wrong = |error: CaughtError| -> PgResult<T> {
        let (CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. }) = error;
        Err(Error::invalid(
            format!("the front matter cannot be read: {}", report.message()),
            "Ids are UUIDs, times are timestamps such as 2026-01-31T10:00:00Z.",
        ))
    };
    // No table is read and no text becomes SQL, so this runs as the caller.
    let spi = Spi::read_only()?;
    PgTryBuilder::new(AssertUnwindSafe(|| read(&spi)))
        .catch_when(PgSqlErrorCode::ERRCODE_INVALID_DATETIME_FORMAT, wrong)
        .catch_when(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, wrong)
        .catch_when(PgSqlErrorCode::ERRCODE_INVALID_TEXT_REPRESENTATION, wrong)
        .catch_when(PgSqlErrorCode::ERRCODE_UNTRANSLATABLE_CHARACTER, wrong)
        .catch_when(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, wrong)
        .execute()
}

fn json_of<T: serde::Serialize>(value: &T) -> PgResult<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::internal(format!("the front matter cannot be written as JSON: {error}"))
    })
}

/// The id of what is there already and says the same.
pub fn same(id: Uuid, stored: Option<String>, body: &str) -> PgResult<Option<Uuid>> {
    match stored {
        None => Ok(None),
        Some(stored) if stored == body => Ok(Some(id)),
        Some(_) => Err(Error::taken(
            format!("{id} is stored already, with another content"),
            "Take the line `id` out of the front matter and change the file's name to store it as \
             a new memory.",
        )),
    }
}

/// What of an entry is known before it is stored.
struct Checked<'a> {
    entry: &'a Entry,
    body: &'a str,
    json: String,
    values: Values,
    created_at: TimestampWithTimeZone,
    is_active: bool,
    is_turn: bool,
}

fn check_entry<'a>(entry: &'a Entry, body: &'a str, settings: &Content) -> PgResult<Checked<'a>> {
    check_session(entry.session())?;
    entry::validate_role(&entry.role).map_err(Error::refused)?;
    check_one_of("kind", Some(&entry.kind), &entry::KINDS)?;
    check_one_of("state", entry.state.as_deref(), &STATES)?;
    check_one_of("state_reason", entry.state_reason.as_deref(), &REASONS)?;
    let state = entry.state.as_deref().unwrap_or("active");
    // memory_agent.purge_after empties facts that were replaced.
    if !(body.is_empty() && entry.is_complete() && state == "inactive") {
        check_content(body, settings)?;
    }
    if state == "active" && (entry.state_reason.is_some() || entry.replaced_by.is_some()) {
        return Err(Error::invalid(
            "state_reason and replaced_by belong to memories that are not active",
            "Leave them out, or add `state: inactive`.",
        ));
    }
    if let Some(metadata) = &entry.metadata {
        check_metadata(&JsonbText(metadata.0.clone()), settings)?;
    }
    if let Some(key) = &entry.fact_key {
        check_fact_key(key)?;
        if entry.kind != "fact" {
            return Err(Error::invalid("only a fact has a fact_key", "Leave it out."));
        }
    }
    if entry.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
        return Err(Error::invalid("confidence must be between 0 and 1", "Leave it out."));
    }
    if entry.source_relation.is_some() != entry.source_key.is_some() {
        return Err(Error::invalid(
            "source_relation and source_key name a row together",
            "Give both, or neither.",
        ));
    }
    if entry.source_relation.as_deref() == Some(ARCHIVE_RELATION) {
        return Err(Error::invalid(
            "chunks of archived conversations are made by the archive only",
            "Leave the file out.",
        ));
    }
    let json = json_of(entry)?;
    let values = read_values(|spi| imports::read_entry(spi, &json))?;
    let now = pgrx::datum::datetime_support::now();
    let created_at = match values.created_at {
        // What was stored once is stored again.
        Some(at) if entry.is_complete() => at,
        at => at.map_or(Ok(now), |at| entries::said_at(at, now))?,
    };
    Ok(Checked {
        entry,
        body,
        json,
        created_at,
        values,
        is_active: state == "active",
        is_turn: entry.kind == "turn",
    })
}

/// How the text of an attached table's row is stored beside the row. The file's id is that of the row's entry.
const AS_A_TURN: &str = "To store it as a turn of its own, take the lines `id`, `source_relation` and \
    `source_key` out of the front matter and change the file's name";

/// Memories of an attached table's rows are found by the rows' keys, whichever user owns them, and are
/// locked by the writers of these rows: no user may put an entry of their own in the way.
fn check_may_name_row(caller: &Caller) -> PgResult<()> {
    if caller.level < Level::Admin {
        return Err(Error::not_permitted(
            "only administrators may import the memory of an attached table's row",
            format!("{AS_A_TURN}."),
        ));
    }
    Ok(())
}

fn import_entry(caller: &Caller, entry: &Entry, body: &str, server: &Content) -> PgResult<Uuid> {
    let checked = check_entry(entry, body, server)?;
    let id = checked.values.id;
    let stored = roles::read_as_owner(|spi| imports::content(spi, "entries", &caller.user_id, id))?;
    match stored {
        Some(stored) if stored == body => return Ok(id),
        Some(_) => return take_up(&caller.user_id, id, body),
        None => {}
    }
    if entry.source_relation.is_some() {
        check_may_name_row(caller)?;
    }
    scope_settings::scoped(caller, entry.session(), |settings| {
        let markers = markers_of(entry.markers.as_deref(), body, &settings.content)?;
        let metadata = entry.metadata.as_ref().map_or("{}", |metadata| &metadata.0);
        let indexed_text = turn::indexed_text(body, &JsonbText(metadata.to_owned()));
        let (indexed, texts) = match body {
            "" => (Vec::new(), Vec::new()),
            _ => (vec![indexed_text.clone()], vec![body.to_owned()]),
        };
        let prepared = prepare(indexed, texts, &settings.content)?;
        roles::write_as_owner(|spi| {
            store_entry(spi, caller, &checked, markers, &indexed_text, &prepared, settings)
        })
    })
}

fn store_entry(
    spi: &Spi,
    caller: &Caller,
    checked: &Checked<'_>,
    markers: Vec<String>,
    indexed_text: &str,
    prepared: &Prepare,
    settings: &Effective,
) -> PgResult<Uuid> {
    let Checked { entry, values, body, .. } = checked;
    let scope = FactScope::of(caller, entry.session());
    let session = scope.session();
    match &session {
        Some(key) => drop(sessions::lock(spi, key, checked.created_at)?),
        None => facts::lock_global(scope.user_id, scope.agent_id),
    }
    // Another transaction may have stored it meanwhile.
    let stored = imports::content(spi, "entries", &caller.user_id, values.id)?;
    if let Some(id) = same(values.id, stored, body)? {
        return Ok(id);
    }
    check_holders(spi, &scope, checked)?;
    if let (Some(key), Some(episode), true) = (&session, values.episode_id, checked.is_turn) {
        let waits = values.waits_for_reflection;
        if !imports::join_episode(spi, key, episode, checked.created_at, waits)? {
            return Err(Error::invalid(
                "the episode of this turn belongs to another session",
                "Take the line `episode_id` out of the front matter.",
            ));
        }
    }
    let default_expiry = match entry.is_complete() || !checked.is_active {
        true => None,
        false => turn::expiry(pgrx::datum::datetime_support::now(), None, &settings.content)?,
    };
    let words = prepared.words(spi, indexed_text)?;
    let (kind, role) = ("", entry.role.as_str());
    let new = NewEntry::new(values.id, &scope, kind, role, body, words, checked.created_at);
    let new = NewEntry { markers, ..prepared.complete(0, new) };
    let is_complete = entry.is_complete();
    let json = &checked.json;
    imports::insert_entry(spi, ImportedEntry { entry: new, json, default_expiry, is_complete })?;
    if entry.state.as_deref() != Some("inactive") {
        quotas::check_all(spi, &caller.user_id)?;
    }
    if let Some(key) = &session {
        let (turns, added) = added(checked, prepared);
        let at = checked.created_at;
        let active_entries = imports::count(spi, key, turns, &added, values.id, at)?;
        follow_ups::queue_eviction(spi, key, active_entries, settings)?;
    }
    queue_jobs(spi, &scope, checked, prepared, settings)?;
    if entry.kind == "fact" {
        history::append(spi, &caller.user_id, values.id, "import", None, None)?;
    }
    debug1!("memory_agent: import user={} id={}", caller.user_id, values.id);
    Ok(values.id)
}

/// Refuses what would take the place of something that is there: a file changes nothing.
fn check_holders(spi: &Spi, scope: &FactScope<'_>, checked: &Checked<'_>) -> PgResult<()> {
    if checked.entry.state.as_deref() == Some("inactive") {
        return Ok(());
    }
    if let Some(key) = &checked.entry.fact_key
        && let Some(holder) = facts::holder_of_key(spi, scope, key)?
    {
        return Err(Error::taken(
            format!("the fact {} holds the fact_key of this one", holder.id),
            "Take the line `fact_key` out of the front matter.",
        ));
    }
    if checked.entry.source_relation.is_some()
        && imports::holds_source(spi, scope.user_id, &checked.json)?
    {
        return Err(Error::taken(
            "the row of the attached table has a memory already",
            format!("Leave the file out. {AS_A_TURN}."),
        ));
    }
    Ok(())
}

/// What the entry adds to the turns of its session, and to what is counted of them. The source of facts was never
/// in the conversation.
fn added(checked: &Checked<'_>, prepared: &Prepare) -> (i64, Fill) {
    let Checked { entry, is_active, is_turn, .. } = *checked;
    let is_source = entry.state.as_deref() == Some("inactive") && entry.state_reason.is_none();
    let is_attached = entry.source_relation.is_some();
    let in_window = is_active && entry.kind != "document" && !is_attached;
    let holds = entry.state.as_deref() != Some("inactive");
    let tokens = i64::from(prepared.token_count(0));
    let change = Fill {
        tokens: if in_window && is_turn { tokens } else { 0 },
        unsummarized: if holds && is_turn && !is_attached { tokens } else { 0 },
        entries: i64::from(in_window),
    };
    (i64::from(is_turn && !is_source), change)
}

fn queue_jobs(
    spi: &Spi,
    scope: &FactScope<'_>,
    checked: &Checked<'_>,
    prepared: &Prepare,
    settings: &Effective,
) -> PgResult<()> {
    if checked.entry.state.as_deref() != Some("inactive") && prepared.needs_job() {
        follow_ups::queue_embedding(spi, scope, settings)?;
    }
    // An episode that waits for its reflection is found by the sweep, when its turns are all there.
    let waits = checked.entry.is_complete() && checked.values.waits_for_extraction;
    if waits && session_writer::facts_from(spi, scope.agent_id, settings)? == FactsFrom::Turn {
        follow_ups::queue_extraction(spi, scope, settings)?;
    }
    Ok(())
}

fn import_summary(
    caller: &Caller,
    summary: &Summary,
    body: &str,
    server: &Content,
) -> PgResult<Uuid> {
    let Some(session_id) = summary.session() else {
        return Err(Error::invalid(
            "a summary belongs to a session; global memory has no summaries",
            "Put the session's name in the line `conversation_id`.",
        ));
    };
    entry::validate_session_id(session_id).map_err(Error::refused)?;
    check_content(body, server)?;
    check_one_of("method", summary.method.as_deref(), &METHODS)?;
    if summary.ordinal.is_some_and(|ordinal| ordinal < 0) {
        return Err(Error::invalid("ordinal is negative", "Summaries count from 0."));
    }
    let json = json_of(summary)?;
    let (id, since, created_at) = read_values(|spi| imports::read_summary(spi, &json))?;
    let key = SessionKey::of(caller, session_id.to_owned());
    let known = roles::read_as_owner(|spi| {
        imports::content(spi, "session_summaries", &caller.user_id, id)
    })?;
    let is_own = summary.is_complete() && known.as_ref().is_none_or(|known| known == body);
    let body = &match is_own {
        true => body.to_owned(),
        false => scope_settings::of_session(&key, |settings| {
            Ok(secrets::cleaned(body, &settings.content)?.into_owned())
        })?,
    };
    // Before the session is locked: the model server counts.
    let estimate = || tokens::estimate_tokens(body);
    let tokens = match known {
        Some(known) if known != *body => counting::count_one(body).unwrap_or_else(|_| estimate()),
        _ => estimate(),
    };
    roles::write_as_owner(|spi| {
        sessions::lock(spi, &key, since)?;
        match imports::content(spi, "session_summaries", &caller.user_id, id)? {
            Some(stored) if stored == *body => return Ok(id),
            Some(_) => return edit_summary(spi, &key, id, summary, body, tokens),
            None => {}
        }
        let mut is_active = summary.is_active.unwrap_or(true);
        if is_active && summary.summary_kind == "L3" && summaries::current_id(spi, &key)?.is_some()
        {
            notice!(
                "the session has a summary already; this one is stored as one that was replaced"
            );
            is_active = false;
        }
        let created_at = created_at.unwrap_or_else(pgrx::datum::datetime_support::now);
        let is_complete = summary.is_complete();
        imports::insert_summary(spi, &key, &json, body, is_active, is_complete, created_at)?;
        summaries::recount(spi, &key)?;
        debug1!("memory_agent: import user={} id={id}", caller.user_id);
        Ok(id)
    })
}

/// Takes up another text of a summary: it is replaced by one that covers the same.
fn edit_summary(
    spi: &Spi,
    key: &SessionKey,
    id: Uuid,
    summary: &Summary,
    body: &str,
    tokens: u32,
) -> PgResult<Uuid> {
    let Some(current) = summaries::in_force(spi, key)? else { return Err(not_in_force(id)) };
    if current.previous == Some(id) && current.content == body {
        return Ok(current.id);
    }
    if current.id != id {
        return Err(not_in_force(id));
    }
    summaries::deactivate(spi, &key.user_id, id)?;
    let list = |list: &Option<Vec<String>>| match list {
        None if summary.is_complete() => Some(Vec::new()),
        list => list.clone(),
    };
    let edited = summaries::Edited {
        content: body,
        tokens,
        topics: list(&summary.topics),
        entities: list(&summary.entities),
        decisions: list(&summary.decisions),
        questions: list(&summary.questions),
    };
    summaries::insert_edited(spi, &key.user_id, id, edited)
}

fn not_in_force(id: Uuid) -> ErrorReport {
    Error::not_ready(
        format!("{id} is not the active L3 summary of its session"),
        "Export the session again, and edit its file entries/SESSION/summaries/L3/final.md.",
    )
}
