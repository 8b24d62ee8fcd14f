//! Counts for `memory_status()` and `memory_stats()`: never content.

use crate::pg::prelude::*;
use crate::store::{schema, scope};

/// Jobs by state, and the age of the oldest that waits.
pub struct Queue {
    pub pending: i64,
    pub running: i64,
    pub dead: i64,
    pub oldest_seconds: Option<f64>,
}

record!(Queue: pending running dead oldest_seconds);

pub fn queue(spi: &Spi) -> PgResult<Queue> {
    spi.one(
            "SELECT count(*) FILTER (WHERE j.status = 'pending'), \
                    count(*) FILTER (WHERE j.status = 'running'), \
                    count(*) FILTER (WHERE j.status = 'dead'), \
                    greatest(extract(epoch FROM now() - min(j.created_at) FILTER (WHERE j.status = 'pending')), 0)::float8 \
               FROM memory_agent.jobs j WHERE j.status <> 'done'",
            &mut params![],
    )
}

/// The user's turns that no facts were extracted from.
pub struct Unextracted {
    /// A job has them, or the next sweep queues one.
    pub waiting: i64,
    /// Stored while extraction was off or no LLM was configured.
    pub skipped: i64,
    /// Episodes of turns that are extracted from when the episode is over.
    pub episodes: i64,
}

record!(Unextracted: waiting skipped episodes);

pub fn unextracted(spi: &Spi) -> PgResult<Unextracted> {
    let waiting = "SELECT count(*) FROM memory_agent.entries e \
        WHERE e.kind = 'turn' AND e.role = 'user' AND e.extracted_at IS NULL \
          AND (e.state <> 'inactive' OR e.state_reason IS NULL) \
          AND (e.expires_at IS NULL OR e.expires_at > now())";
    let skipped = "SELECT count(*) FROM memory_agent.entries e \
        WHERE e.kind = 'turn' AND e.role = 'user' AND e.extracted_at = '-infinity' AND e.state <> 'inactive'";
    // Two conditions, each with its index.
    let episodes = "SELECT (SELECT count(*) FROM memory_agent.episodes p \
                             WHERE p.status = 'open' AND p.wants_reflection) \
                         + (SELECT count(*) FROM memory_agent.episodes p \
                             WHERE p.status = 'closed' AND p.wants_reflection)";
    spi.one(&format!("SELECT ({waiting}), ({skipped}), ({episodes})"), &mut params![])
}

/// Facts that were kept although an LLM had them replaced or ended, or that were stored beside one that it
/// had them replace; and how many of these hold.
pub fn refused_replacements(spi: &Spi) -> PgResult<(i64, i64)> {
    spi.one(
        "SELECT count(*), count(*) FILTER (WHERE e.state <> 'inactive') FROM memory_agent.entries e \
          WHERE e.kind = 'fact' AND e.metadata ?| ARRAY['kept_beside', 'kept_against']",
        &mut params![],
    )
}

/// Entries that recall finds only by their words.
pub fn without_embedding(spi: &Spi) -> PgResult<i64> {
    count(
        spi,
        "SELECT count(*) FROM memory_agent.entries e WHERE e.embedding IS NULL AND e.state <> 'inactive'",
    )
}

/// Entries as the planner counts them; negative while the table was never analysed.
pub fn estimated_entries(spi: &Spi) -> PgResult<i64> {
    count(
        spi,
        "SELECT c.reltuples::int8 FROM pg_class c WHERE c.oid = 'memory_agent.entries'::regclass",
    )
}

fn count(spi: &Spi, sql: &str) -> PgResult<i64> {
    spi.one(sql, &mut params![])
}

/// The counts of one session, or of all sessions of a user, as one document.
pub fn stats(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
    session_id: Option<&str>,
) -> PgResult<JsonbText> {
    // With the name of global memory, what belongs to no session too.
    let in_session = |row: &str| match session_id {
        Some(name) if Some(name) == schema::global_name() => scope::is_global(row),
        _ => format!("{row}.session_id = $3"),
    };
    let statement =
        format!(include_str!("sql/statistics.sql"), me = in_session("me"), e = in_session("e"),);
    spi.one(&statement, &mut params![user_id, agent_id, session_id])
}
