//! Eviction: the oldest entries of a full window leave it. They stay in recall.

use crate::error::PgResult;
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::Session as Spi;

/// Archives the oldest turns and facts of a session until at most `limit` are in its window, and
/// returns how many left. The caller holds the session's lock. The session's counters are counted
/// anew: they are what the decision rests on.
pub fn evict(spi: &Spi, key: &SessionKey, limit: i64) -> PgResult<u64> {
    let evicted = spi.execute(
        "UPDATE memory_agent.entries e \
            SET state = 'archived', state_reason = 'evicted', state_at = now(), updated_at = now() \
          WHERE e.user_id = $1 AND e.id IN ( \
                SELECT w.id FROM memory_agent.entries w \
                 WHERE w.user_id = $1 AND w.agent_id = $2 AND w.session_id = $3 AND w.state = 'active' \
                   AND w.kind IN ('turn', 'fact') AND w.source_relation IS NULL \
                 ORDER BY w.created_at DESC, w.id DESC OFFSET $4)",
        &mut key.params().with(limit),
    )?;
    sessions::recount(spi, key)?;
    Ok(evicted)
}
