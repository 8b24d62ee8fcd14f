//! `memory_ingest`, `memory_ingest_batch`, `memory_close_episode`: turns of a conversation become
//! rows in the caller's transaction. Embedding and token counting come first, before any lock.

use crate::api::prelude::*;
use crate::api::{batch, window};
use crate::memory::ingest::{ingest, ingest_one};
use crate::memory::texts::follow_ups::queue_reflection;
use crate::memory::texts::turn::Turn;
use crate::pg::sql_types::without_nulls;
use crate::store::rows::episodes;
use memory_agent_core::facts::episodes::CloseReason;

#[pg_extern(sql = false)]
fn memory_ingest(
    _limits: WithinLimits,
    session_id: Option<String>,
    role: Option<String>,
    content: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
    markers: Option<Vec<Option<String>>>,
    created_at: Option<TimestampWithTimeZone>,
    ttl: Option<Interval>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let turn = Turn {
        session_id: session_id.unwrap_or_default(),
        role: role.unwrap_or_default(),
        content: content.unwrap_or_default(),
        metadata: metadata.unwrap_or_else(|| JsonbText("{}".into())),
        markers: markers.map(without_nulls).transpose()?,
        created_at,
        ttl,
    };
    ingest_one(&caller, turn)
}

#[pg_extern(sql = false)]
fn memory_ingest_batch(
    _limits: WithinLimits,
    turns: Option<JsonbText>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> Result<SetOfIterator<'static, Uuid>, ErrorReport> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let turns = batch::parse(turns.unwrap_or_else(|| JsonbText("null".into())), session_id)?;
    Ok(SetOfIterator::new(ingest(&caller, turns)?))
}

#[pg_extern(sql = false)]
fn memory_close_episode(
    _limits: WithinLimits,
    session_id: Option<String>,
    reason: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    let (_, key) =
        window::session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let reason = reason.unwrap_or_else(|| CloseReason::Manual.as_str().to_owned());
    if reason.trim().is_empty() {
        return Err(Error::invalid("reason is blank", "Leave it out for 'manual'."));
    }
    roles::write_as_owner(|spi| {
        let Some(Some(episode)) = sessions::lock_existing(spi, &key)? else { return Ok(None) };
        let closed = episodes::close(spi, &key, episode, &reason)?;
        if closed == Some(true) {
            scope_settings::of_session(&key, |settings| queue_reflection(spi, &key, settings))?;
        }
        debug1!("memory_agent: close episode user={} closed={}", key.user_id, closed.is_some());
        Ok(closed.map(|_| episode))
    })
}
