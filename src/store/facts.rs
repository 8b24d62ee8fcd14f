//! Facts among `memory_agent.entries`: finding the one that says the same, and replacing one.

use crate::error::PgResult;
use crate::sql_types::Vector;
use crate::store::catalog;
use crate::store::spi::{Params, Session as Spi};
use pgrx::datum::Uuid;
use pgrx::prelude::*;

/// Where facts are compared: one session, or the user's global memory.
pub struct FactScope<'a> {
    pub user_id: &'a str,
    pub agent_id: &'a str,
    pub session_id: Option<&'a str>,
}

impl FactScope<'_> {
    fn params(&self) -> Params {
        Params::new()
            .with(self.user_id.to_owned())
            .with(self.agent_id.to_owned())
            .with(self.session_id.map(str::to_owned))
    }
}

/// `e` is an active fact of the scope whose parameters are $1 to $3.
const IN_SCOPE: &str = "e.user_id = $1 AND e.agent_id = $2 AND e.session_id IS NOT DISTINCT FROM $3 \
                        AND e.kind = 'fact' AND e.state = 'active'";

/// The fact that holds a key.
pub struct KeyHolder {
    pub id: Uuid,
    pub content_hash: Option<Vec<u8>>,
}

/// Serialises writers of one agent's global facts of a user until the end of the transaction. Facts
/// of a session are serialised by the lock on the session's row.
pub fn lock_global(spi: &Spi, scope: &FactScope<'_>) -> PgResult<()> {
    spi.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('memory_agent.facts:' || $1, hashtextextended($2, 0)))",
        &mut Params::new().with(scope.user_id.to_owned()).with(scope.agent_id.to_owned()),
    )?;
    Ok(())
}

/// The active fact that holds a key in this scope.
pub fn holder_of_key(spi: &Spi, scope: &FactScope<'_>, key: &str) -> PgResult<Option<KeyHolder>> {
    spi.first(
        &format!(
            "SELECT e.id, e.content_hash FROM memory_agent.entries e WHERE {IN_SCOPE} AND e.fact_key = $4"
        ),
        &mut scope.params().with(key.to_owned()),
        |row| Ok(KeyHolder { id: row.required(1)?, content_hash: row.optional(2) }),
    )
}

/// An active fact of the scope with the same text.
pub fn with_hash(spi: &Spi, scope: &FactScope<'_>, hash: &[u8]) -> PgResult<Option<Uuid>> {
    spi.first(
        &format!(
            "SELECT e.id FROM memory_agent.entries e WHERE {IN_SCOPE} AND e.content_hash = $4 LIMIT 1"
        ),
        &mut scope.params().with(hash.to_vec()),
        |row| row.required(1),
    )
}

/// Active facts of the scope at least so similar, most similar first.
pub fn nearest(
    spi: &Spi,
    scope: &FactScope<'_>,
    model: &str,
    embedding: &Vector,
    similarity: f64,
) -> PgResult<Vec<(Uuid, String)>> {
    let vector = catalog::vector_type()?;
    let distance = format!("(e.embedding {} $5)", vector.cosine_distance());
    spi.all(
        &format!(
            "SELECT near.id, near.content \
               FROM (SELECT e.id, e.content, {distance} AS distance FROM memory_agent.entries e \
                      WHERE {IN_SCOPE} AND e.embedding_model = $4 ORDER BY {distance} LIMIT 5) near \
              WHERE 1 - near.distance >= $6 ORDER BY near.distance"
        ),
        &mut scope
            .params()
            .with(model.to_owned())
            .raw(vector.oid, Some(embedding.to_datum()))
            .with(similarity),
        |row| Ok((row.required(1)?, row.required(2)?)),
    )
}

/// Ends a fact's validity: it stays for audit and for questions about the past.
pub fn supersede(
    spi: &Spi,
    user_id: &str,
    old: Uuid,
    new: Uuid,
    at: TimestampWithTimeZone,
) -> PgResult<()> {
    spi.execute(
        "WITH ended AS ( \
            UPDATE memory_agent.entries e \
               SET state = 'inactive', state_reason = 'superseded', state_at = now(), valid_to = $4, \
                   replaced_by = $3, updated_at = now() \
             WHERE e.user_id = $1 AND e.id = $2 AND e.state <> 'inactive' \
            RETURNING e.agent_id, e.session_id) \
         UPDATE memory_agent.sessions s SET active_entries = s.active_entries - 1 \
           FROM ended \
          WHERE s.user_id = $1 AND s.agent_id = ended.agent_id AND s.session_id = ended.session_id",
        &mut Params::new().with(user_id.to_owned()).with(old).with(new).with(at),
    )?;
    Ok(())
}
