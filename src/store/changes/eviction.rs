//! Eviction: the oldest entries of a full window leave it. They stay in recall.

use crate::pg::prelude::*;
use crate::store::rows::sessions::{self, SessionKey};

/// Archives the oldest turns and facts of a session until at most `limit` are in its window, at most `most` of
/// them, and returns how many left. The caller holds the session's lock. The session's counters are counted
/// anew: they are what the decision rests on.
pub fn evict(spi: &Spi, key: &SessionKey, limit: i64, most: i64) -> PgResult<u64> {
    let evicted = spi.execute(
        "UPDATE memory_agent.entries e \
            SET state = 'archived', state_reason = 'evicted', state_at = now(), updated_at = now() \
          WHERE e.user_id = $1 AND e.id IN ( \
                SELECT w.id FROM memory_agent.entries w \
                 WHERE w.user_id = $1 AND w.agent_id = $2 AND w.session_id = $3 AND w.state = 'active' \
                   AND w.kind IN ('turn', 'fact') AND w.source_relation IS NULL \
                 ORDER BY w.created_at, w.id \
                 LIMIT (SELECT greatest(0, least($5, count(*) - $4)) FROM memory_agent.entries n \
                         WHERE n.user_id = $1 AND n.agent_id = $2 AND n.session_id = $3 AND n.state = 'active' \
                           AND n.kind IN ('turn', 'fact') AND n.source_relation IS NULL))",
        &mut key.params().with(limit).with(most),
    )?;
    sessions::recount(spi, key)?;
    Ok(evicted)
}
