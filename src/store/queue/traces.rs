//! `memory_agent.traces`: one document per extraction from turns of episodes, written in the transaction that ends it.

use crate::store::prelude::*;
use crate::store::queue::Job;
use crate::store::rows::entries::new_id;
use crate::store::rows::fact_scope::FactScope;
use serde_json::{Value, json};

/// Facts that an extraction stored, and those that it ended.
#[derive(Default)]
pub struct Effects {
    pub saved: Vec<Uuid>,
    pub ended: Vec<Uuid>,
}

/// The active facts of a scope: how many there are, and the newest as `[{id, content}, ...]`, at most `most`.
pub fn prior_facts(spi: &Spi, scope: &FactScope<'_>, most: i32) -> PgResult<(i64, Value)> {
    let mut count = 0;
    let newest = spi.all(
        &format!(
            "SELECT e.id, e.content, count(*) OVER () FROM memory_agent.entries e \
              WHERE {} ORDER BY e.created_at DESC, e.id DESC LIMIT $4",
            scope.holds()
        ),
        &mut params![scope; most],
        |row| {
            count = row.required(3)?;
            Ok(json!({
                "id": row.required::<Uuid>(1)?.to_string(),
                "content": row.required::<String>(2)?,
            }))
        },
    )?;
    Ok((count, Value::from(newest)))
}

/// Stores the trace of a job. `episode` is the last one of its turns. `body` is an object; `saved_facts` and
/// `superseded_facts` are added to it as the facts are now.
pub fn insert(
    spi: &Spi,
    job: &Job,
    episode: Option<Uuid>,
    body: &Value,
    effects: &Effects,
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
            JsonbText(body.to_string()), effects.saved.clone(), effects.ended.clone(),
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
