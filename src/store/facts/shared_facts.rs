//! Facts of a session that was also said in other ones. What is taken from the session leaves them to those: each
//! goes to the session that said it first.

use crate::store::prelude::*;
use std::collections::BTreeSet;

/// The facts of a session, also those that were replaced since, each with the other session of the agent that said
/// it first and still does; for the parameters of the session's key.
const LEFT: &str = "SELECT f.user_id, f.id, f.state = 'active' AS in_window, said.session_id \
       FROM memory_agent.entries f \
      CROSS JOIN LATERAL \
            (SELECT s.session_id FROM memory_agent.entries s \
              WHERE s.user_id = $1 AND s.id = ANY (f.source_ids) AND s.agent_id = $2 AND s.session_id <> $3 \
                AND s.kind = 'turn' AND s.state_reason IS DISTINCT FROM 'deleted' \
              ORDER BY s.created_at, s.id LIMIT 1) said \
      WHERE f.user_id = $1 AND f.agent_id = $2 AND f.session_id = $3 AND f.kind = 'fact' \
        AND f.source_ids IS NOT NULL AND f.state_reason IS DISTINCT FROM 'deleted'";

/// The session and those that its facts would go to.
pub fn with_heirs(spi: &Spi, key: &SessionKey) -> PgResult<BTreeSet<SessionKey>> {
    let heirs: Vec<String> =
        spi.rows(&format!("SELECT DISTINCT l.session_id FROM ({LEFT}) l"), &mut key.params())?;
    let heirs = heirs.into_iter().map(|heir| SessionKey::new(&key.user_id, &key.agent_id, heir));
    Ok(heirs.chain([key.clone()]).collect())
}

/// Leaves the facts of a session to the others that said them, without the sources that they had in it and without
/// their keys, which are the session's. The caller holds the locks of [`with_heirs`].
pub fn leave(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    spi.run(
        &format!(
            "WITH left_ones AS MATERIALIZED ({LEFT} ORDER BY f.created_at, f.id FOR UPDATE OF f), \
             moved AS ( \
                UPDATE memory_agent.entries e \
                   SET session_id = l.session_id, fact_key = NULL, updated_at = now(), \
                       source_ids = ARRAY(SELECT s.id FROM memory_agent.entries s \
                                           WHERE s.user_id = $1 AND s.id = ANY (e.source_ids) AND s.id <> e.id \
                                             AND s.session_id IS DISTINCT FROM $3) \
                  FROM left_ones l WHERE e.user_id = l.user_id AND e.id = l.id \
                RETURNING l.session_id, l.in_window) \
             UPDATE memory_agent.sessions s SET active_entries = s.active_entries + grown.entries \
               FROM (SELECT m.session_id, count(*) FILTER (WHERE m.in_window) AS entries \
                       FROM moved m GROUP BY 1) grown \
              WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = grown.session_id"
        ),
        &mut key.params(),
    )
}
