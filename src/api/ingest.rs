//! `memory_ingest`, `memory_ingest_batch`, `memory_close_episode`: turns of a conversation become
//! rows in the caller's transaction. Embedding and token counting come first, before any lock.

use crate::api::batch;
use crate::api::prelude::*;
use crate::memory::follow_ups::queue_reflection;
use crate::memory::ingest::ingest;
use crate::memory::turn::Turn;
use crate::pg::sql_types::without_nulls;
use crate::store::episodes;
use crate::store::sessions::{self, SessionKey};
use memory_agent_core::episodes::CloseReason;
use memory_agent_core::text;

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
    ingest(&caller, vec![turn])?
        .first()
        .copied()
        .ok_or_else(|| Error::internal("a turn was stored without an id"))
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
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let session_id = session_id.unwrap_or_default();
    text::validate_session_id(&session_id).map_err(Error::refused)?;
    let reason = reason.unwrap_or_else(|| CloseReason::Manual.as_str().to_owned());
    if reason.trim().is_empty() {
        return Err(Error::invalid("reason is blank", "Leave it out for 'manual'."));
    }
    let key = SessionKey::of(&caller, session_id);
    roles::write_as_owner(|spi| {
        let Some(Some(episode)) = sessions::lock_existing(spi, &key)? else { return Ok(None) };
        let closed = episodes::close(spi, &key, episode, &reason)?;
        if closed.as_ref().is_some_and(|closed| closed.wants_reflection) {
            queue_reflection(spi, &key)?;
        }
        debug1!("memory_agent: close episode user={} closed={}", key.user_id, closed.is_some());
        Ok(closed.map(|_| episode))
    })
}
