//! Clearing a session: what was said and learned in it becomes inactive, its work is cancelled, and
//! history says so. The session itself and its settings stay, and so do archived conversations.

use crate::store::facts::shared_facts;
use crate::store::prelude::*;
use crate::store::queue::jobs::JobKind;
use crate::store::rows::history;
use crate::store::rows::scope::in_session;
use memory_agent_core::jobs::Subject;

/// The event and its reason in history, and the reason of the episode's end.
const OP: &str = "delete";
const REASON: &str = "cleared";

/// What became inactive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cleared {
    pub turns: usize,
    pub facts: usize,
    pub summaries: usize,
    pub jobs: u64,
}

/// Clears a session. The caller holds its lock, and those of the sessions that its facts go to; jobs, turns and facts, summaries follow in the order
/// in which all transactions lock them.
pub fn clear(spi: &Spi, key: &SessionKey) -> PgResult<Cleared> {
    let jobs = cancel_jobs(spi, key)?;
    close_episodes(spi, key)?;
    shared_facts::leave(spi, key)?;
    let entries = end_entries(spi, key)?;
    let turns = entries.iter().filter(|(_, is_turn)| *is_turn).count();
    let ids: Vec<Uuid> = entries.iter().map(|(id, _)| *id).collect();
    history::append_all(spi, &key.user_id, (history::ENTRIES, &ids), OP, Some(REASON), None)?;
    let summaries = end_summaries(spi, key)?;
    history::append_all(
        spi,
        &key.user_id,
        (history::SUMMARIES, &summaries),
        OP,
        Some(REASON),
        None,
    )?;
    spi.execute(
        "UPDATE memory_agent.sessions s \
            SET open_episode_id = NULL, active_tokens = 0, active_entries = 0, unsummarized_tokens = 0 \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )?;
    Ok(Cleared { turns, facts: ids.len() - turns, summaries: summaries.len(), jobs })
}

/// Cancels the session's jobs. One that runs loses its lease, so its worker drops the result.
/// Embed jobs stay: documents and archived conversations are not cleared, and may wait for theirs.
fn cancel_jobs(spi: &Spi, key: &SessionKey) -> PgResult<u64> {
    let kinds = JobKind::about(&[Subject::Conversation]);
    let mut cancelled = 0;
    // Two statements: each of the conditions has its index.
    for unfinished in ["o.status IN ('pending', 'running')", "o.status = 'dead'"] {
        cancelled += spi.execute(
            &format!(
                "UPDATE memory_agent.jobs j \
                    SET status = 'done', finished_at = now(), leased_by = NULL, leased_until = NULL, \
                        payload = '{{}}', last_error = 'cancelled: its session was cleared' \
                  WHERE j.id IN (SELECT o.id FROM memory_agent.jobs o \
                                  WHERE o.user_id = $1 AND o.agent_id = $2 \
                                    AND coalesce(o.session_id, '') = ANY ($3) \
                                    AND o.kind = ANY ($4) AND {unfinished} \
                                  ORDER BY o.id FOR UPDATE)"
            ),
            &mut params![&key.user_id, &key.agent_id, key.names(), kinds.clone()],
        )?;
    }
    Ok(cancelled)
}

/// Ends the running episode; no episode of the session is reflected on any more.
fn close_episodes(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.episodes e \
            SET status = CASE WHEN e.status = 'open' THEN 'closed' ELSE e.status END, \
                close_reason = coalesce(e.close_reason, $4), wants_reflection = false \
          WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 \
            AND (e.status = 'open' OR e.wants_reflection)",
        &mut key.params().with(REASON.to_owned()),
    )
}

/// Makes the session's turns and facts inactive, in the window or not, and returns those that were
/// not yet, with whether each is a turn. Rows of attached tables are what their table says.
fn end_entries(spi: &Spi, key: &SessionKey) -> PgResult<Vec<(Uuid, bool)>> {
    // The sources of memory_add are inactive from the start; without a reason, they wait for
    // extraction.
    spi.execute(
        &format!(
            "UPDATE memory_agent.entries e SET state_reason = 'deleted', updated_at = now() \
              WHERE e.user_id = $1 AND {} AND e.kind = 'turn' AND e.state = 'inactive' \
                AND e.state_reason IS NULL",
            in_session("e", key)
        ),
        &mut key.params(),
    )?;
    spi.rows(
        &format!(
            "UPDATE memory_agent.entries e \
                SET state = 'inactive', state_reason = 'deleted', state_at = now(), valid_to = now(), \
                    updated_at = now() \
              WHERE e.user_id = $1 AND e.id IN ( \
                    SELECT o.id FROM memory_agent.entries o \
                     WHERE o.user_id = $1 AND {} AND o.kind IN ('turn', 'fact') AND o.state <> 'inactive' \
                       AND o.source_relation IS NULL \
                     ORDER BY o.created_at, o.id FOR UPDATE) \
             RETURNING e.id, e.kind = 'turn'",
            in_session("o", key)
        ),
        &mut key.params(),
    )
}

fn end_summaries(spi: &Spi, key: &SessionKey) -> PgResult<Vec<Uuid>> {
    spi.rows(
        "UPDATE memory_agent.session_summaries s SET is_active = false, updated_at = now() \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 AND s.is_active \
         RETURNING s.id",
        &mut key.params(),
    )
}
