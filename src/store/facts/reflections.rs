//! Episodes that are over and whose turns wait until facts are extracted from them. Until then the user's have
//! `extracted_at` 'infinity'.

use crate::store::prelude::*;

/// An episode that is over.
#[derive(Clone, Debug)]
pub struct WaitingEpisode {
    pub id: Uuid,
    pub turn_count: i32,
    /// When its newest turn was said or recorded, whichever is later.
    pub quiet_since: TimestampWithTimeZone,
}

record!(WaitingEpisode: id turn_count quiet_since);

/// `p` is an episode that is over and that facts are to be made of.
const WAITS: &str = "p.status = 'closed' AND p.wants_reflection";

/// When the newest turn of `p` was said or recorded. The time of the recording tells an import of old
/// turns that still goes on from a conversation that is over.
const QUIET_SINCE: &str = "greatest(p.ended_at, (SELECT max(e.recorded_at) FROM memory_agent.entries e \
    WHERE e.user_id = p.user_id AND e.episode_id = p.id))";

/// The oldest episodes of a session that wait, in order.
pub fn waiting(spi: &Spi, key: &SessionKey, most: i64) -> PgResult<Vec<WaitingEpisode>> {
    spi.rows(
        &format!(
            "SELECT p.id, p.turn_count, {QUIET_SINCE} FROM memory_agent.episodes p \
              WHERE p.user_id = $1 AND p.agent_id = $2 AND p.session_id = $3 AND {WAITS} \
              ORDER BY p.id LIMIT $4"
        ),
        &mut params![&key.user_id, &key.agent_id, &key.session_id, most],
    )
}

/// Sessions that a reflect job has something to do for and that have none: those whose waiting
/// episodes have `min_turns` together, and those without an open episode in which it has been quiet
/// for longer than `patience`.
pub fn due(spi: &Spi, min_turns: i32, patience: Duration, most: i64) -> PgResult<Vec<SessionKey>> {
    spi.rows(
        &format!(
            "SELECT p.user_id, p.agent_id, p.session_id FROM memory_agent.episodes p \
               JOIN memory_agent.sessions s \
                 ON s.user_id = p.user_id AND s.agent_id = p.agent_id AND s.session_id = p.session_id \
              WHERE {WAITS} \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o \
                                 WHERE o.user_id = p.user_id \
                                   AND coalesce(o.session_id, '') = p.session_id \
                                   AND o.kind = 'reflect' AND o.agent_id = p.agent_id \
                                   AND o.status IN ('pending', 'running')) \
              GROUP BY 1, 2, 3, s.open_episode_id \
             HAVING sum(p.turn_count) >= $1 \
                 OR (s.open_episode_id IS NULL \
                     AND max({QUIET_SINCE}) < now() - make_interval(secs => $2)) \
              LIMIT $3"
        ),
        &mut params![min_turns, patience.as_secs_f64(), most],
    )
}

/// Lets the turns of these episodes wait for extraction: the user's, and with
/// `decisions` those in which an assistant decided something. One that was forgotten waits when it comes
/// back.
pub fn let_turns_wait(spi: &Spi, user_id: &str, ids: &[Uuid], decisions: bool) -> PgResult<()> {
    end_waiting(spi, user_id, ids)?;
    spi.execute(
        "UPDATE memory_agent.entries e SET extracted_at = NULL \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.kind = 'turn' AND e.role = 'user' \
            AND e.extracted_at = 'infinity' AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )?;
    if !decisions {
        return Ok(());
    }
    spi.run(
        "UPDATE memory_agent.entries e SET extracted_at = 'infinity' \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.kind = 'turn' AND e.role = 'assistant' \
            AND e.extracted_at IS NULL AND 'decision' = ANY (e.markers) AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// Notes that nothing has to wait for these episodes any more, which go together.
fn end_waiting(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<()> {
    let Some(last) = ids.last() else { return Ok(()) };
    spi.run(
        "UPDATE memory_agent.episodes p \
            SET status = 'reflected', carried_into = CASE WHEN p.id <> $3 THEN $3 END \
          WHERE p.user_id = $1 AND p.id = ANY ($2) AND p.status = 'closed'",
        &mut params![user_id, ids, *last],
    )
}
