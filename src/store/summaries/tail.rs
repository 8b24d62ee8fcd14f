//! The end of a session that its active L3 does not reach. A long session is read from there on and not
//! from its beginning, as long as the tokens found there are all that the session counts as not
//! summarised: a turn that was recorded late, or came back, is in that count and before the end.

use super::{COVERED, SUMMARIZED};
use crate::store::prelude::*;

/// Most turns of an end; a longer one is not told from the rest. It also makes PostgreSQL walk along the
/// index, which it would not for the third of all turns that it expects behind an unknown time.
const MOST: u32 = 500;

/// `u` is the session's active L3, and says how far it reaches.
const REACHING: &str = "u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.level = 'L3' \
     AND u.is_active AND u.last_entry_id IS NOT NULL";

/// Continues a statement that has [`COVERED`]: `u` is the session's active L3, `e` are the turns that come
/// after all that it covers. For those that were said in the same moment as the last of it, and only for
/// them, what is covered has to be read.
pub fn turns() -> String {
    format!(
        "memory_agent.session_summaries u \
          CROSS JOIN LATERAL ( \
            SELECT e.* FROM memory_agent.entries e \
             WHERE {SUMMARIZED} AND e.created_at >= u.last_entry_at \
               AND (e.created_at > u.last_entry_at \
                    OR e.id <> u.last_entry_id AND e.id NOT IN (SELECT c.id FROM covered c)) \
             ORDER BY e.created_at LIMIT {MOST}) e \
          WHERE {REACHING}"
    )
}

/// There is an end, and it has as many tokens as an expression says.
fn has_tokens(expression: &str) -> String {
    format!(
        "EXISTS (SELECT FROM memory_agent.session_summaries u WHERE {REACHING}) \
         AND {expression} = (SELECT coalesce(sum(e.token_count), 0) FROM {})",
        turns()
    )
}

/// Whether what comes after the active L3 is all that it lacks.
pub fn is_all(spi: &Spi, key: &SessionKey) -> PgResult<bool> {
    spi.exists(
        &format!(
            "{COVERED} SELECT true FROM memory_agent.sessions s \
              WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
                AND {}",
            has_tokens("s.unsummarized_tokens")
        ),
        &mut key.params(),
    )
}

/// Notes that a session lacks `expected` tokens of a summary, if those that come after the active L3 are as
/// many; false when they are not.
pub fn settle(spi: &Spi, key: &SessionKey, expected: i64) -> PgResult<bool> {
    spi.changes(
        &format!(
            "{COVERED} UPDATE memory_agent.sessions t SET unsummarized_tokens = $4 \
              WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3 \
                AND {}",
            has_tokens("$4")
        ),
        &mut key.params().with(expected),
    )
}
