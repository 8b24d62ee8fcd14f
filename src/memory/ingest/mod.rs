//! Turns of a conversation become rows in the caller's transaction. Embedding and token counting come
//! first, before any lock.

pub mod attached_statement;
pub mod intake;
pub mod taken_back;

use crate::memory::ingest::taken_back::{Back, Sent};
use crate::memory::prelude::*;
use crate::memory::quotas;
use crate::memory::scope::scope_settings;
use crate::memory::texts::prepare::{Prepare, prepare};
use crate::memory::texts::secrets;
use crate::memory::texts::session_writer::SessionWriter;
use crate::memory::texts::turn::{Checked, Turn, check, check_metadata};
use crate::pg::locks::Lock;
use crate::settings::Effective;
use crate::settings::overrides::Settings;
use crate::store::rows::entries;
use crate::store::rows::forms;
use crate::store::rows::repeated_turns::{self, REQUEST_KEY};
use memory_agent_core::text::entry;
use memory_agent_core::text::secrets::stored_forms;
use serde_json::Map;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

/// Whose latest turn is not stored twice in succession, and whose turn has to say the same to be the one of
/// a request. An answer may well be the same as the last one, and another when the request is repeated.
const REPEATS: &str = "user";

/// Stores a turn and returns its id.
pub fn ingest_one(caller: &Caller, turn: Turn) -> PgResult<Uuid> {
    only(ingest(caller, vec![turn])?)
}

fn only(mut ids: Vec<Uuid>) -> PgResult<Uuid> {
    ids.pop().ok_or_else(|| Error::internal("a turn was stored without an id"))
}

/// A turn that is stored once.
pub struct Once {
    pub id: Uuid,
    pub is_new: bool,
    /// The turns that it took the place of.
    pub replaced: Vec<Uuid>,
    /// The answers that it had before.
    pub answers: Vec<Uuid>,
}

/// Stores a turn, unless it is there already.
///
/// * `sent`: the conversation up to it as its client sent it, if that is known: then what the client took back ends.
/// * `replaces`: turns of the session that end with it.
pub fn ingest_once(
    caller: &Caller,
    mut turn: Turn,
    request_key: Option<&str>,
    sent: Option<&Sent>,
    replaces: Vec<Uuid>,
) -> PgResult<Once> {
    let request_key = request_key.map(kept_key);
    let request_key = request_key.as_deref();
    let key = SessionKey::of(caller, turn.session_id.as_str());
    let before = scope_settings::of_session(&key, |settings| {
        let said = secrets::cleaned(&turn.content, &settings.content)?;
        let before = stored_before(&key, &turn.role, &said, request_key)?;
        if before.is_none() {
            check_metadata(&turn.metadata, &settings.content)?;
        }
        Ok(before)
    })?;
    let back = sent.map_or_else(|| Ok(Back::default()), |sent| taken_back::find(&key, sent))?;
    if let Some(id) = before {
        return Ok(Once { id, is_new: false, replaced: Vec::new(), answers: back.answers });
    }
    if let Some(request_key) = request_key {
        let key = Map::from_iter([(REQUEST_KEY.to_owned(), json!(request_key))]);
        turn.metadata = turn.metadata.with_keys(key);
    }
    let id = only(add(caller, vec![turn])?)?;
    let replaces = if replaces.is_empty() { back.message } else { replaces };
    let replaced = taken_back::end(&key, &replaces, id)?;
    // Not before: what takes the place of another is not one more.
    check_quota(caller)?;
    Ok(Once { id, is_new: true, replaced, answers: Vec::new() })
}

/// The key of a request as it is stored. One that looks like a secret would be taken out there, and no other key is
/// to be the same.
fn kept_key(key: &str) -> Cow<'_, str> {
    match stored_forms(key).len() {
        1 => Cow::Borrowed(key),
        _ => forms::content_hash(key).iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The turn of a session that a request stored before it was repeated, or that is the user's latest and says the
/// same, as it is stored: without secrets. No other transaction stores a turn of the session in this way until the
/// transaction ends; what was stored before is seen, whatever the snapshot of the statement.
pub fn stored_before(
    key: &SessionKey,
    role: &str,
    content: &str,
    request_key: Option<&str>,
) -> PgResult<Option<Uuid>> {
    roles::as_owner(|| {
        Lock::turns_once(&key.user_id, &key.agent_id, &key.session_id).hold();
        let spi = Spi::read_latest()?;
        let said = (role == REPEATS).then_some(content);
        if let Some(request_key) = request_key
            && let Some(id) = repeated_turns::with_key(&spi, key, role, request_key, said)?
        {
            return Ok(Some(id));
        }
        said.map_or(Ok(None), |said| repeated_turns::latest_of_user(&spi, key, said))
    })
}

/// Stores turns and returns their ids in the order given, each session's with its own settings.
pub fn ingest(caller: &Caller, turns: Vec<Turn>) -> PgResult<Vec<Uuid>> {
    let ids = add(caller, turns)?;
    if !ids.is_empty() {
        check_quota(caller)?;
    }
    Ok(ids)
}

fn check_quota(caller: &Caller) -> PgResult<()> {
    roles::write_as_owner(|spi| quotas::check(spi, &caller.user_id))
}

/// Stores turns, before the quota is looked at.
fn add(caller: &Caller, turns: Vec<Turn>) -> PgResult<Vec<Uuid>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    let started = Instant::now();
    let batches = batches(caller, turns)?;
    let prepare_ms = started.elapsed().as_secs_f64() * 1000.0;
    roles::as_owner(|| store(caller, &batches))?;
    let mut ids: Vec<(usize, Uuid)> = batches
        .iter()
        .flat_map(|batch| batch.positions.iter().copied().zip(batch.ids.iter().copied()))
        .collect();
    ids.sort_by_key(|(position, _)| *position);
    debug1!(
        "memory_agent: ingest user={} rows={} embedded={} prepare={prepare_ms:.1}ms store={:.1}ms",
        caller.user_id,
        ids.len(),
        batches.iter().map(|batch| batch.prepared.embeddings.len()).sum::<usize>(),
        started.elapsed().as_secs_f64() * 1000.0 - prepare_ms
    );
    Ok(ids.into_iter().map(|(_, id)| id).collect())
}

/// Turns of sessions that have the same settings, ready to be stored.
struct Batch {
    settings: Effective,
    /// Where they stood among the turns given.
    positions: Vec<usize>,
    ids: Vec<Uuid>,
    turns: Vec<Checked>,
    prepared: Prepare,
}

/// Checks turns and asks the models about them, with the settings of their sessions.
fn batches(caller: &Caller, turns: Vec<Turn>) -> PgResult<Vec<Batch>> {
    let now = now();
    let mut of_session: BTreeMap<String, Settings> = BTreeMap::new();
    let mut groups: BTreeMap<Settings, (Vec<usize>, Vec<Turn>)> = BTreeMap::new();
    for (position, turn) in turns.into_iter().enumerate() {
        let session_id = &turn.session_id;
        entry::validate_session_id(session_id).map_err(Error::refused)?;
        if !of_session.contains_key(session_id) {
            let stored = scope_settings::stored(&caller.user_id, caller.agent(), Some(session_id))?;
            of_session.insert(session_id.clone(), stored);
        }
        let settings = of_session.get(session_id).cloned().unwrap_or_default();
        let (positions, group) = groups.entry(settings).or_default();
        positions.push(position);
        group.push(turn);
    }
    let mut batches = Vec::with_capacity(groups.len());
    for (settings, (positions, turns)) in groups {
        let (turns, prepared, settings) = settings.during(|settings| {
            let turns = turns.into_iter().map(|turn| check(turn, now, &settings.content));
            let turns = turns.collect::<PgResult<Vec<_>>>()?;
            let prepared = prepare(
                turns.iter().map(|turn| turn.indexed_text.clone()).collect(),
                turns.iter().map(|turn| turn.turn.content.clone()).collect(),
                &settings.content,
            )?;
            Ok((turns, prepared, settings.clone()))
        })?;
        let ids = turns.iter().map(|_| entries::new_id()).collect();
        batches.push(Batch { settings, positions, ids, turns, prepared });
    }
    Ok(batches)
}

fn now() -> TimestampWithTimeZone {
    pgrx::datum::datetime_support::now()
}

fn store(caller: &Caller, batches: &[Batch]) -> PgResult<()> {
    let spi = Spi::read_write()?;
    // Sessions are locked in the order of their keys, so that two batches cannot deadlock.
    let mut by_session: BTreeMap<SessionKey, (&Batch, Vec<usize>)> = BTreeMap::new();
    for batch in batches {
        for (index, turn) in batch.turns.iter().enumerate() {
            let key = SessionKey::of(caller, turn.turn.session_id.clone());
            by_session.entry(key).or_insert_with(|| (batch, Vec::new())).1.push(index);
        }
    }
    for (key, (batch, indexes)) in &by_session {
        let first_at = batch.turns[indexes[0]].created_at;
        SessionWriter::open(&spi, key, first_at, &batch.prepared, &batch.settings)?.add(
            &batch.turns,
            indexes,
            &batch.ids,
        )?;
        pgrx::check_for_interrupts!();
    }
    Ok(())
}
