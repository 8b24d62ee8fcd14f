//! The window of a session: the turns that are not archived, and the summary that stands for what is.

use crate::store::prelude::*;
use crate::store::summaries::COVERED;

/// A turn of a window, without its text.
pub struct CountedTurn {
    pub id: Uuid,
    /// cl100k_base tokens of its content; an estimate until the embed job has counted it.
    pub tokens: u32,
    /// Whether the active summary covers it, itself or through the summaries before it.
    pub covered: bool,
}

record!(CountedTurn: id tokens covered);

/// The turns of a window, oldest first, without rows of attached tables: their table says how long they
/// stay.
pub fn turns(spi: &Spi, key: &SessionKey) -> PgResult<Vec<CountedTurn>> {
    spi.rows(
        &format!(
            "{COVERED} SELECT e.id, e.token_count, (e.id IN (SELECT c.id FROM covered c)) IS TRUE \
               FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                AND e.state = 'active' AND (e.expires_at IS NULL OR e.expires_at > now()) \
                AND e.source_relation IS NULL \
              ORDER BY e.created_at, e.id"
        ),
        &mut key.params(),
    )
}

/// Id and text of the turns of a window whose tokens are estimates.
pub fn estimated(spi: &Spi, key: &SessionKey) -> PgResult<Vec<(Uuid, String)>> {
    spi.rows(
        "SELECT e.id, e.content FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
            AND e.state = 'active' AND NOT e.token_count_exact AND e.source_relation IS NULL",
        &mut key.params(),
    )
}

words! {
    /// Why turns leave a window.
    pub enum Leaving {
        /// A summary stands for them.
        Compressed = "compressed",
        /// There was no room.
        Evicted = "evicted",
    }
}

/// Takes turns out of the window; they stay in recall. The caller holds the session's lock and has
/// its counters [counted anew](crate::store::rows::sessions::recount) afterwards.
pub fn archive(spi: &Spi, user_id: &str, turns: &[Uuid], why: Leaving) -> PgResult<u64> {
    if turns.is_empty() {
        return Ok(0);
    }
    spi.execute(
        "UPDATE memory_agent.entries e \
            SET state = 'archived', state_reason = $3, state_at = now(), updated_at = now() \
          WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.state = 'active'",
        &mut params![user_id, turns, why.as_str()],
    )
}

/// A message of a loaded window: role, content, time, id, tokens.
pub type Message = (String, String, TimestampWithTimeZone, Uuid, i32);

/// A message, and what is known of it.
pub struct Loaded {
    pub message: Message,
    pub is_summary: bool,
    /// False while its tokens are an estimate.
    pub is_counted: bool,
}

record!(Loaded: message is_summary is_counted);

/// The active summary as a system message, and the turns of the window, oldest first.
pub fn load(spi: &Spi, key: &SessionKey) -> PgResult<Vec<Loaded>> {
    spi.rows(
        "SELECT w.role, w.content, w.created_at, w.id, w.token_count, w.part = 0, w.is_counted \
           FROM (SELECT 0 AS part, 'system' AS role, s.content, s.created_at, s.id, \
                        coalesce(s.output_tokens, 0) AS token_count, false AS is_counted \
                   FROM memory_agent.session_summaries s \
                  WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
                    AND s.level = 'L3' AND s.is_active \
                 UNION ALL \
                 SELECT 1, e.role, e.content, e.created_at, e.id, e.token_count, e.token_count_exact \
                   FROM memory_agent.entries e \
                  WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                    AND e.state = 'active' AND (e.expires_at IS NULL OR e.expires_at > now())) w \
          ORDER BY w.part, w.created_at, w.id",
        &mut key.params(),
    )
}
