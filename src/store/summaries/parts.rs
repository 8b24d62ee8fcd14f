//! Parts of a session that grows turn by turn. Its summary is brought up to date with a few turns at a time,
//! which are no chunk by themselves: when enough of them have come together, they become an L1, and L1s that
//! have no L2 become one.

use super::sources::{SOURCE, Source};
use super::{COVERED, Coverage, SUMMARIZED};
use crate::store::prelude::*;

const OF_SESSION: &str = "u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.is_active";

/// An L1 that belongs to no L2.
pub struct Chunk {
    pub id: Uuid,
    pub content: String,
    pub tokens: u32,
    pub source_ids: Vec<Uuid>,
    pub coverage: Coverage,
}

record!(Chunk: id content tokens source_ids coverage);

/// Tokens that the L1s of a session were made of.
pub fn chunked_tokens(spi: &Spi, key: &SessionKey) -> PgResult<u64> {
    spi.one(
        &format!(
            "SELECT coalesce(sum(u.input_tokens), 0) FROM memory_agent.session_summaries u \
              WHERE {OF_SESSION} AND u.level = 'L1'"
        ),
        &mut key.params(),
    )
}

/// The oldest turns that the session's summary covers and no L1 was made of, up to `tokens`.
pub fn unchunked(spi: &Spi, key: &SessionKey, tokens: u64) -> PgResult<Vec<Source>> {
    let mut found: Vec<Source> = Vec::new();
    let mut sum = 0;
    spi.scan(
        &format!(
            "{COVERED}, chunked AS ( \
                SELECT s.id FROM memory_agent.session_summaries u \
                 CROSS JOIN LATERAL unnest(u.source_ids) s(id) \
                 WHERE {OF_SESSION} AND u.level = 'L1' AND s.id IS NOT NULL) \
             SELECT {SOURCE} FROM memory_agent.entries e \
              WHERE {SUMMARIZED} AND (e.id IN (SELECT c.id FROM covered c)) IS TRUE \
                AND e.id NOT IN (SELECT k.id FROM chunked k) \
              ORDER BY e.created_at, e.id"
        ),
        &mut key.params(),
        200,
        |row| {
            let turn: Source = row.record()?;
            sum += u64::from(turn.tokens);
            found.push(turn);
            Ok(if sum < tokens { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        },
    )?;
    Ok(found)
}

/// The oldest L1s of a session that belong to no L2.
pub fn ungrouped(spi: &Spi, key: &SessionKey, most: usize) -> PgResult<Vec<Chunk>> {
    spi.rows(
        &format!(
            "SELECT u.id, u.content, u.output_tokens, coalesce(u.source_ids, '{{}}'), u.first_entry_id, u.first_entry_at, \
                    u.last_entry_id, u.last_entry_at, u.message_count, u.input_tokens \
               FROM memory_agent.session_summaries u \
              WHERE {OF_SESSION} AND u.level = 'L1' \
                AND u.first_entry_at IS NOT NULL AND u.last_entry_at IS NOT NULL \
                AND NOT EXISTS (SELECT FROM memory_agent.session_summaries g \
                                 WHERE g.user_id = $1 AND g.agent_id = $2 AND g.session_id = $3 \
                                   AND g.is_active AND g.level = 'L2' \
                                   AND u.source_ids[1] = ANY (g.source_ids)) \
              ORDER BY u.ordinal LIMIT $4"
        ),
        &mut key.params().with(i64::try_from(most).unwrap_or(i64::MAX)),
    )
}

/// Whether these L1s are all still there. The caller holds the session's lock.
pub fn are_there(spi: &Spi, user_id: &str, chunks: &[Uuid]) -> PgResult<bool> {
    let found: Vec<Uuid> = spi.rows(
        "SELECT u.id FROM memory_agent.session_summaries u \
          WHERE u.user_id = $1 AND u.id = ANY ($2) AND u.is_active",
        &mut params![user_id, chunks.to_vec()],
    )?;
    Ok(found.len() == chunks.len())
}
