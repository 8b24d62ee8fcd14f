//! What ranking needs of a candidate beside its scores, read once for the whole pool, and the texts of those that are
//! reranked.

use crate::pg::prelude::*;
use memory_agent_core::rank::blend::Session;

/// What ranking needs of a candidate beside its scores.
pub struct Detail {
    pub id: Uuid,
    pub user_id: String,
    pub agent_id: String,
    pub kind: String,
    pub role: String,
    pub markers: Vec<String>,
    pub token_count: i32,
    pub session_id: Option<String>,
    pub episode_id: Option<Uuid>,
    pub created_at: TimestampWithTimeZone,
    /// Days between the event and the moment of the question; negative for the future.
    pub age_days: f64,
    pub embedding: Option<Vector>,
    /// Who said it.
    pub speaker: Option<String>,
    /// Why what was said does not bear it out.
    pub unverified: Option<String>,
}

record!(Detail:
    id user_id agent_id kind role markers token_count session_id episode_id created_at age_days embedding speaker
    unverified);

impl Detail {
    /// The session it belongs to.
    pub fn session(&self) -> Option<Session<'_>> {
        Some((&self.user_id, &self.agent_id, self.session_id.as_deref()?))
    }
}

/// Reads the details of candidates, in no particular order.
pub fn read(
    spi: &Spi,
    users: &[String],
    ids: &[Uuid],
    model: Option<&str>,
    as_of: Option<TimestampWithTimeZone>,
) -> PgResult<Vec<Detail>> {
    spi.rows(
        "SELECT e.id, e.user_id, e.agent_id, e.kind, e.role, \
                e.markers, e.token_count, e.session_id, e.episode_id, e.created_at, \
                (extract(epoch FROM (coalesce($4, now()) - e.created_at)) / 86400)::float8, \
                CASE WHEN e.embedding_model = $3 THEN e.embedding \
                     ELSE (SELECT w.embedding FROM memory_agent.entry_windows w \
                            WHERE w.user_id = e.user_id AND w.entry_id = e.id \
                              AND w.embedding_model = $3 AND w.ordinal = 1) END, \
                CASE WHEN jsonb_typeof(e.metadata->'name') = 'string' THEN nullif(e.metadata->>'name', '') END, \
                CASE WHEN e.state_reason = 'unverified' THEN e.metadata->>'unverified' END \
           FROM memory_agent.entries e WHERE e.user_id = ANY ($1) AND e.id = ANY ($2)",
        &mut params![users.to_vec(), ids, model, as_of],
    )
}

/// Characters of a text among which a passage is looked for, mostly 64 kB: of an entry of a megabyte the rest is not even
/// unpacked, and no call holds more than a hundred such beginnings.
const BEGINNING: i32 = 65_536;

/// The beginnings of candidates' texts, by id: nearly all texts whole.
pub fn beginnings(spi: &Spi, users: &[String], ids: &[Uuid]) -> PgResult<Vec<(Uuid, String)>> {
    spi.rows(
        "SELECT e.id, left(e.content, $3) FROM memory_agent.entries e \
          WHERE e.user_id = ANY ($1) AND e.id = ANY ($2)",
        &mut params![users.to_vec(), ids, BEGINNING],
    )
}
