//! What time does to entries: they expire, and inactive ones are deleted for good when the settings
//! say so.

use crate::pg::prelude::*;
use crate::store::history;
use std::time::Duration;

/// Makes expired entries inactive, at most `most`, and returns how many. Recall does not return them
/// from the moment they expire on; this is for the counters and for history. Sessions are locked
/// before their entries, as everywhere; one that is busy waits for the next sweep.
pub fn expire(spi: &Spi, most: i64) -> PgResult<u64> {
    let expired: Vec<(String, Uuid, bool)> = spi.rows(
        "WITH due AS ( \
            SELECT x.user_id, x.agent_id, x.session_id, x.id, \
                   x.state = 'active' AND x.kind IN ('turn', 'fact') AS in_window \
              FROM memory_agent.entries x \
             WHERE x.expires_at <= now() AND x.state <> 'inactive' ORDER BY x.expires_at LIMIT $1), \
         held AS ( \
            SELECT s.user_id, s.agent_id, s.session_id FROM memory_agent.sessions s \
             WHERE (s.user_id, s.agent_id, s.session_id) IN (SELECT d.user_id, d.agent_id, d.session_id FROM due d) \
               FOR UPDATE SKIP LOCKED), \
         expired AS ( \
            UPDATE memory_agent.entries e \
               SET state = 'inactive', state_reason = 'expired', state_at = now(), updated_at = now(), \
                   valid_to = coalesce(e.valid_to, e.expires_at) \
              FROM due \
             WHERE e.user_id = due.user_id AND e.id = due.id AND e.state <> 'inactive' \
               AND (due.session_id IS NULL \
                    OR EXISTS (SELECT FROM held h WHERE h.user_id = due.user_id \
                                  AND h.agent_id = due.agent_id AND h.session_id = due.session_id)) \
            RETURNING e.user_id, e.agent_id, e.session_id, e.id, e.kind, e.token_count, due.in_window), \
         shrunk AS ( \
            UPDATE memory_agent.sessions s \
               SET active_entries = s.active_entries - gone.entries, \
                   active_tokens = s.active_tokens - gone.tokens \
              FROM (SELECT x.user_id, x.agent_id, x.session_id, count(*) AS entries, \
                           coalesce(sum(x.token_count) FILTER (WHERE x.kind = 'turn'), 0) AS tokens \
                      FROM expired x WHERE x.in_window GROUP BY 1, 2, 3) gone \
             WHERE s.user_id = gone.user_id AND s.agent_id = gone.agent_id AND s.session_id = gone.session_id) \
         SELECT x.user_id, x.id, x.kind = 'fact' FROM expired x",
        &mut params![most],
    )?;
    for (user_id, id, _) in expired.iter().filter(|(_, _, is_fact)| *is_fact) {
        history::append(spi, user_id, *id, "expire", None, None)?;
    }
    Ok(expired.len() as u64)
}

/// Deletes entries that have been inactive for `age`, at most `most`, and returns how many; documents of
/// which no chunk is left go with them. Of a fact that was replaced the row stays, without anything of its
/// content: it is what tells that the turns it came from are stale.
pub fn purge(spi: &Spi, age: Duration, most: i64) -> PgResult<u64> {
    let purged: Vec<(String, Option<String>)> = spi.rows(
        "WITH due AS ( \
            SELECT x.user_id, x.id, x.kind = 'fact' AND x.replaced_by IS NOT NULL AS is_link, \
                   CASE WHEN x.kind = 'document' THEN x.metadata ->> 'parent_id' END AS parent \
              FROM memory_agent.entries x \
             WHERE x.state = 'inactive' AND x.content <> '' \
               AND x.state_at < now() - make_interval(secs => $1) \
               AND (x.state_reason IS NOT NULL OR x.extracted_at IS NOT NULL OR x.expires_at <= now()) \
             ORDER BY x.state_at LIMIT $2 FOR UPDATE SKIP LOCKED), \
         windows AS ( \
            DELETE FROM memory_agent.entry_windows w USING due \
             WHERE w.user_id = due.user_id AND w.entry_id = due.id), \
         emptied AS ( \
            UPDATE memory_agent.entries e \
               SET content = '', content_hash = NULL, metadata = '{}', markers = '{}', embedding = NULL, \
                   embedding_model = NULL, lexemes = '', doc_len = 0, token_count = 0, \
                   token_count_exact = true, fact_key = NULL, updated_at = now() \
              FROM due WHERE due.is_link AND e.user_id = due.user_id AND e.id = due.id), \
         deleted AS ( \
            DELETE FROM memory_agent.entries e USING due \
             WHERE NOT due.is_link AND e.user_id = due.user_id AND e.id = due.id) \
         SELECT d.user_id, d.parent FROM due d",
        &mut params![age.as_secs_f64(), most],
    )?;
    let (users, parents): (Vec<String>, Vec<String>) =
        purged.iter().filter_map(|(user, parent)| Some((user.clone(), parent.clone()?))).unzip();
    if !parents.is_empty() {
        spi.execute(
            "DELETE FROM memory_agent.archives a USING unnest($1, $2) gone(user_id, parent) \
              WHERE a.user_id = gone.user_id AND a.id::text = gone.parent \
                AND NOT EXISTS (SELECT FROM memory_agent.entries e \
                                 WHERE e.user_id = a.user_id AND e.kind = 'document' \
                                   AND e.metadata ->> 'parent_id' = gone.parent)",
            &mut params![users, parents],
        )?;
    }
    Ok(purged.len() as u64)
}
