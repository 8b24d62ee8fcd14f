//! `memory_agent.traces`: one document per reflection, written in the transaction that stores what the
//! reflection came to.

use crate::store::prelude::*;
use crate::store::queue::Job;
use crate::store::rows::entries::new_id;
use serde_json::Value;

/// What a reflection did, beside what its document says.
pub struct Effects<'a> {
    /// Facts that it stored.
    pub saved: &'a [Uuid],
    /// Facts that it ended.
    pub ended: &'a [Uuid],
}

/// Stores the trace of a reflection on `episode`. `body` is an object; `saved_facts` and
/// `superseded_facts` are added to it as the facts are now.
pub fn insert(
    spi: &Spi,
    job: &Job,
    episode: Uuid,
    body: &Value,
    effects: &Effects<'_>,
) -> PgResult<()> {
    spi.run(
        "INSERT INTO memory_agent.traces (id, user_id, agent_id, session_id, episode_id, job_id, body) \
         SELECT $1, $2, $3, $4, $5, $6, \
                $7 || jsonb_build_object( \
                    'saved_facts', (SELECT coalesce(jsonb_agg(jsonb_build_object( \
                            'id', e.id, 'content', e.content, 'markers', e.markers, \
                            'confidence', e.confidence, 'source_ids', e.source_ids) ORDER BY e.id), '[]') \
                        FROM memory_agent.entries e WHERE e.user_id = $2 AND e.id = ANY ($8)), \
                    'superseded_facts', (SELECT coalesce(jsonb_agg(jsonb_build_object( \
                            'id', e.id, 'content', e.content, 'reason', e.state_reason, \
                            'replaced_by', e.replaced_by) ORDER BY e.id), '[]') \
                        FROM memory_agent.entries e WHERE e.user_id = $2 AND e.id = ANY ($9)))",
        &mut params![
            new_id(), &job.user_id, &job.agent_id, job.session_id.as_deref(), episode, job.id,
            JsonbText(body.to_string()), effects.saved, effects.ended,
        ],
    )
}

/// Deletes traces that are older than `age`, at most `most`, and returns how many.
pub fn delete_old(spi: &Spi, age: Duration, most: i64) -> PgResult<u64> {
    spi.execute(
        "DELETE FROM memory_agent.traces t WHERE (t.user_id, t.id) IN ( \
            SELECT o.user_id, o.id FROM memory_agent.traces o \
             WHERE o.at < now() - make_interval(secs => $1) \
             ORDER BY o.at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &mut params![age.as_secs_f64(), most],
    )
}
