//! `memory_agent.episodes`: runs of related turns. When one ends is decided by the ranking crate's
//! `episodes` module; here it is only stored.

use crate::error::PgResult;
use crate::sql_types::Vector;
use crate::store::catalog;
use crate::store::sessions::SessionKey;
use crate::store::spi::{Params, Session as Spi};
use memory_agent_core::episodes::CloseReason;
use pgrx::datum::Uuid;
use pgrx::prelude::*;

/// An open episode while turns are added to it.
#[derive(Clone)]
pub struct Running {
    pub id: Uuid,
    pub turn_count: i32,
    pub started_at: TimestampWithTimeZone,
    pub ended_at: TimestampWithTimeZone,
}

/// Reads an episode that is still open.
pub fn open(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<Running>> {
    spi.first(
        "SELECT e.turn_count, e.started_at, e.ended_at FROM memory_agent.episodes e \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open'",
        &mut Params::new().with(user_id.to_owned()).with(id),
        |row| {
            Ok(Running {
                id,
                turn_count: row.required(1)?,
                started_at: row.required(2)?,
                ended_at: row.required(3)?,
            })
        },
    )
}

/// Starts an episode.
pub fn start(
    spi: &Spi,
    key: &SessionKey,
    id: Uuid,
    at: TimestampWithTimeZone,
) -> PgResult<Running> {
    spi.execute(
        "INSERT INTO memory_agent.episodes (id, user_id, agent_id, session_id, started_at, ended_at) \
         VALUES ($4, $1, $2, $3, $5, $5)",
        &mut Params::new()
            .with(key.user_id.clone())
            .with(key.agent_id.clone())
            .with(key.session_id.clone())
            .with(id)
            .with(at),
    )?;
    Ok(Running { id, turn_count: 0, started_at: at, ended_at: at })
}

/// Stores the running counts and, with a reason, closes the episode.
pub fn save(
    spi: &Spi,
    user_id: &str,
    episode: &Running,
    closed: Option<CloseReason>,
) -> PgResult<()> {
    spi.execute(
        "UPDATE memory_agent.episodes e \
            SET turn_count = $3, ended_at = greatest(e.ended_at, $4), \
                started_at = least(e.started_at, $6), \
                status = CASE WHEN $5::text IS NULL THEN e.status ELSE 'closed' END, \
                close_reason = $5 \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open'",
        &mut Params::new()
            .with(user_id.to_owned())
            .with(episode.id)
            .with(episode.turn_count)
            .with(episode.ended_at)
            .with(closed.map(|reason| reason.as_str().to_owned()))
            .with(episode.started_at),
    )?;
    Ok(())
}

/// Closes an open episode for a reason given by the caller; false when it was not open.
pub fn close(spi: &Spi, user_id: &str, id: Uuid, reason: &str) -> PgResult<bool> {
    let closed = spi.execute(
        "UPDATE memory_agent.episodes e SET status = 'closed', close_reason = $3 \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open'",
        &mut Params::new().with(user_id.to_owned()).with(id).with(reason.to_owned()),
    )?;
    Ok(closed > 0)
}

/// The mean of the embeddings of an episode's turns.
pub fn centroid(spi: &Spi, user_id: &str, id: Uuid, model: &str) -> PgResult<Option<Vector>> {
    let schema = catalog::vector_type()?.schema;
    Ok(spi
        .first(
            &format!(
                "SELECT {schema}.avg(e.embedding) FROM memory_agent.entries e \
                  WHERE e.user_id = $1 AND e.episode_id = $2 AND e.embedding_model = $3"
            ),
            &mut Params::new().with(user_id.to_owned()).with(id).with(model.to_owned()),
            |row| Ok(row.optional(1)),
        )?
        .flatten())
}
