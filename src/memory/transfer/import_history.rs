//! What comes from a record of memory_export_json and is no memory itself: episodes, events of history, traces of
//! reflections.

use crate::memory::prelude::*;
use crate::memory::transfer::import_entries::read_values;
use crate::store::transfer::imports;
use memory_agent_core::files::record::{Episode, Event, Record, Trace};
use memory_agent_core::limits::EPISODE_REASON_BYTES;
use memory_agent_core::text::entry;

/// Longest name of an operation or a role, in bytes: PostgreSQL's own.
const NAME_BYTES: usize = 63;

/// Appends an event to history, as one that an import told of. One that is there stays as it is.
pub fn import_event(caller: &Caller, event: &Event) -> PgResult<Uuid> {
    let is_word = |op: &str| op.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if event.op.is_empty() || event.op.len() > NAME_BYTES || !is_word(&event.op) {
        return Err(refused("op must be a word such as add, update or delete"));
    }
    if event.actor.as_ref().is_some_and(|actor| actor.len() > NAME_BYTES) {
        return Err(refused("actor must be the name of a role"));
    }
    if event.body.as_ref().is_some_and(|body| !is_object(&body.0)) {
        return Err(refused("body must be a JSON object"));
    }
    let json = Record::Event(event.clone()).write(None);
    let id = id_of(read_values(|spi| imports::read_event(spi, &json))?)?;
    roles::write_as_owner(|spi| imports::insert_event(spi, &caller.user_id, &json))?;
    debug1!("memory_agent: import user={} id={id} event={}", caller.user_id, event.op);
    Ok(id)
}

/// Completes an episode that its turns have made. Without them there is none.
pub fn import_episode(caller: &Caller, episode: &Episode) -> PgResult<Uuid> {
    entry::validate_session_id(&episode.session_id).map_err(Error::refused)?;
    if !["open", "closed", "reflected"].contains(&episode.status.as_str()) {
        return Err(refused("status must be open, closed or reflected"));
    }
    if episode.close_reason.as_ref().is_some_and(|reason| reason.len() > EPISODE_REASON_BYTES) {
        return Err(refused("close_reason is too long"));
    }
    let json = Record::Episode(episode.clone()).write(None);
    let id = read_values(|spi| imports::read_episode(spi, &json))?;
    let id = id.ok_or_else(|| refused("id must be given"))?;
    let key = SessionKey::of(caller, episode.session_id.clone());
    roles::write_as_owner(|spi| imports::complete_episode(spi, &key, &json))?;
    debug1!("memory_agent: import user={} id={id} episode", caller.user_id);
    Ok(id)
}

/// Stores a trace. One that is there stays as it is.
pub fn import_trace(caller: &Caller, trace: &Trace) -> PgResult<Uuid> {
    entry::validate_session_id(&trace.session_id).map_err(Error::refused)?;
    if !trace.body.as_ref().is_some_and(|body| is_object(&body.0)) {
        return Err(refused("body must be a JSON object"));
    }
    let json = Record::Trace(trace.clone()).write(None);
    let id = id_of(read_values(|spi| imports::read_trace(spi, &json))?)?;
    let key = SessionKey::of(caller, trace.session_id.clone());
    roles::write_as_owner(|spi| imports::insert_trace(spi, &key, &json))?;
    debug1!("memory_agent: import user={} id={id} trace", caller.user_id);
    Ok(id)
}

fn id_of((id, at): (Option<Uuid>, Option<TimestampWithTimeZone>)) -> PgResult<Uuid> {
    id.filter(|_| at.is_some()).ok_or_else(|| refused("id and at must be given"))
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

fn refused(problem: &str) -> ErrorReport {
    Error::invalid(problem, "Import records as memory_export_json returned them.")
}
