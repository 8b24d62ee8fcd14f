//! Counts for `memory_status()` and `memory_stats()`: never content.

use crate::pg::error::PgResult;
use crate::pg::spi::{Session as Spi, params, record};
use crate::pg::sql_types::JsonbText;
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
    Ok(Unextracted {
        waiting: count(spi, waiting)?,
        skipped: count(spi, skipped)?,
        episodes: count(spi, episodes)?,
    })
}

/// Facts that were kept although an LLM had them replaced or ended, or that were stored beside one that it
/// had them replace; and how many of these hold.
pub fn refused_replacements(spi: &Spi) -> PgResult<(i64, i64)> {
    spi.one(
        "SELECT count(*), count(*) FILTER (WHERE e.state <> 'inactive') FROM memory_agent.entries e \
          WHERE e.kind = 'fact' AND e.metadata ?| '{kept_beside,kept_against}'::text[]",
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
    let statement = format!(
        "SELECT jsonb_build_object( \
            'sessions', (SELECT count(*) FROM memory_agent.sessions s \
                          WHERE s.user_id = $1 AND ($2::text IS NULL OR s.agent_id = $2) \
                            AND ($3::text IS NULL OR s.session_id = $3)), \
            'turns', count(*) FILTER (WHERE e.kind = 'turn' AND e.state <> 'inactive'), \
            'facts', count(*) FILTER (WHERE e.kind = 'fact' AND e.state <> 'inactive'), \
            'documents', count(*) FILTER (WHERE e.kind = 'document' AND e.state <> 'inactive'), \
            'archived', count(*) FILTER (WHERE e.state = 'archived'), \
            'inactive', count(*) FILTER (WHERE e.state = 'inactive'), \
            'unverified', count(*) FILTER (WHERE e.state_reason = 'unverified'), \
            'tokens', coalesce(sum(e.token_count) FILTER (WHERE e.state <> 'inactive'), 0), \
            'window_tokens', coalesce(sum(e.token_count) FILTER (WHERE e.kind = 'turn' AND e.state = 'active'), 0), \
            'without_embedding', count(*) FILTER (WHERE e.embedding IS NULL AND e.state <> 'inactive'), \
            'first_at', min(e.created_at), 'last_at', max(e.created_at), \
            'markers', (SELECT coalesce(jsonb_object_agg(m.marker, m.entries), '{{}}') \
                          FROM (SELECT x.marker, count(*) AS entries \
                                  FROM memory_agent.entries me, unnest(me.markers) x(marker) \
                                 WHERE me.user_id = $1 AND ($2::text IS NULL OR me.agent_id = $2) \
                                   AND ($3::text IS NULL OR {me}) AND me.state <> 'inactive' \
                                 GROUP BY x.marker) m), \
            'episodes', (SELECT jsonb_build_object('open', count(*) FILTER (WHERE p.status = 'open'), \
                                'closed', count(*) FILTER (WHERE p.status = 'closed'), \
                                'reflected', count(*) FILTER (WHERE p.status = 'reflected'), \
                                'carried', count(p.carried_into)) \
                           FROM memory_agent.episodes p \
                          WHERE p.user_id = $1 AND ($2::text IS NULL OR p.agent_id = $2) \
                            AND ($3::text IS NULL OR p.session_id = $3)), \
            'reflections', (SELECT count(*) FROM memory_agent.traces r \
                             WHERE r.user_id = $1 AND ($2::text IS NULL OR r.agent_id = $2) \
                               AND ($3::text IS NULL OR r.session_id = $3)), \
            'summaries', (SELECT jsonb_build_object('L1', count(*) FILTER (WHERE u.level = 'L1'), \
                                 'L2', count(*) FILTER (WHERE u.level = 'L2'), \
                                 'L3', count(*) FILTER (WHERE u.level = 'L3')) \
                            FROM memory_agent.session_summaries u \
                           WHERE u.user_id = $1 AND ($2::text IS NULL OR u.agent_id = $2) \
                             AND ($3::text IS NULL OR u.session_id = $3) AND u.is_active)) \
          FROM memory_agent.entries e \
         WHERE e.user_id = $1 AND ($2::text IS NULL OR e.agent_id = $2) \
           AND ($3::text IS NULL OR {e})",
        me = in_session("me"),
        e = in_session("e"),
    );
    spi.one(&statement, &mut params![user_id, agent_id, session_id])
}
