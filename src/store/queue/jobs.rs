//! `memory_agent.jobs`, the side of who asks for work: at most one job of a kind is waiting per scope
//! that no worker has seen. What workers do with jobs is in `queue`.

use crate::pg::prelude::*;
use crate::pg::wake_at_commit;
use crate::store::rows::entries::new_id;
use crate::store::rows::fact_scope::FactScope;
pub use memory_agent_core::jobs::JobKind;
use memory_agent_core::jobs::payloads::Payload;

/// Queues work for a session, or for a user's global memory.
///
/// A job of the same kind and scope that waits already is touched instead of skipped: that locks its
/// row, so no worker can take it, and miss these rows, before this transaction commits. Its settings
/// become the new ones, but what one session said for itself alone is never made global by another,
/// and what was asked for by hand stays so. It is given up after `max_attempts` failures. Returns the id of the
/// job that waits then.
pub fn enqueue(
    spi: &Spi,
    kind: JobKind,
    scope: &FactScope<'_>,
    payload: &impl Payload,
    max_attempts: i32,
) -> PgResult<Uuid> {
    let id = spi.one(
        "INSERT INTO memory_agent.jobs AS j \
            (id, kind, user_id, agent_id, session_id, payload, max_attempts) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (kind, coalesce(user_id, ''), coalesce(agent_id, ''), coalesce(session_id, ''), \
                      coalesce(entry_id, '00000000-0000-0000-0000-000000000000')) \
            WHERE status = 'pending' AND leased_by IS NULL \
         DO UPDATE SET run_after = least(j.run_after, excluded.run_after), \
            payload = CASE WHEN j.payload #>> '{settings,global}' = 'false' \
                             OR j.payload->>'forced' = 'true' THEN j.payload \
                           ELSE excluded.payload END \
         RETURNING j.id",
        &mut params![
            new_id(), kind.as_str(), scope.user_id, scope.agent_id, scope.session_id,
            JsonbText(payload.text()),
            max_attempts,
        ],
    )?;
    wake_at_commit::job_queued();
    Ok(id)
}
