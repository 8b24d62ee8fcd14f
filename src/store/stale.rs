//! Turns that say what no longer holds: a fact that was extracted from them, or that they repeat, has been
//! replaced since.

use crate::pg::prelude::*;
use crate::store::scope::{Scope, bind};
use crate::store::sessions::SessionKey;
use memory_agent_core::augment::Outdated;

/// Replacements followed from one fact to the next.
const MAX_STEPS: i32 = 100;

/// Of these turns those that say facts which were replaced, each with the facts that hold now (at `as_of`) and
/// are in the scope, the newest first.
pub fn replaced(spi: &Spi, scope: &Scope, turns: &[Uuid]) -> PgResult<Vec<(Uuid, Uuid)>> {
    let pairs = replacements(spi, &scope.caller.visible(), turns, scope.as_of)?;
    if pairs.is_empty() {
        return Ok(pairs);
    }
    let replacing: Vec<Uuid> = pairs.iter().map(|(_, by)| *by).collect();
    let mut sql = scope.to_sql()?;
    let replacing = bind(&mut sql.params, replacing);
    let statement = sql.select("e.id", &format!(" AND e.id = ANY ({replacing})"));
    let visible: Vec<Uuid> = spi.rows(&statement, &mut sql.params)?;
    Ok(pairs.into_iter().filter(|(_, by)| visible.contains(by)).collect())
}

fn replacements(
    spi: &Spi,
    users: &[String],
    turns: &[Uuid],
    as_of: Option<TimestampWithTimeZone>,
) -> PgResult<Vec<(Uuid, Uuid)>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    // A fact was replaced at the moment that is asked about when its validity had ended by then. A turn
    // that says the new fact as well is not stale; whether it does is known only of facts that a job made
    // of it, not of a text that a user put in the place of one. The row of a repetition (`repetitions`)
    // is no replacement: it leads to the fact that is repeated, at step 0.
    let statement = format!(
        "WITH RECURSIVE chain AS ( \
            SELECT turn.id AS turn, f.replaced_by AS fact, \
                   CASE WHEN f.state_reason IS NULL AND f.content = '' THEN 0 ELSE 1 END AS step \
              FROM memory_agent.entries f, unnest(f.source_ids) turn(id) \
             WHERE f.user_id = ANY ($1) AND f.source_ids && $2 AND turn.id = ANY ($2) \
               AND f.kind = 'fact' AND f.state = 'inactive' AND f.replaced_by IS NOT NULL \
               AND ($3::timestamptz IS NULL OR f.valid_to <= $3) \
            UNION \
            SELECT c.turn, f.replaced_by, c.step + 1 \
              FROM chain c JOIN memory_agent.entries f ON f.user_id = ANY ($1) AND f.id = c.fact \
             WHERE f.state = 'inactive' AND f.replaced_by IS NOT NULL \
               AND ($3::timestamptz IS NULL OR f.valid_to <= $3) AND c.step < {MAX_STEPS}) \
         SELECT c.turn, f.id \
           FROM chain c JOIN memory_agent.entries f ON f.user_id = ANY ($1) AND f.id = c.fact \
          WHERE c.turn <> f.id AND c.step > 0 \
            AND (NOT coalesce(f.source_ids, '{{}}') @> ARRAY[c.turn] OR NOT f.metadata ? 'job_id') \
            AND f.content <> '' \
            AND CASE WHEN $3::timestamptz IS NULL THEN f.state <> 'inactive' \
                     ELSE f.created_at <= $3 AND (f.valid_to IS NULL OR f.valid_to > $3) END \
          GROUP BY c.turn, f.id, f.created_at ORDER BY c.turn, f.created_at DESC, f.id DESC"
    );
    spi.rows(&statement, &mut params![users.to_vec(), turns, as_of])
}

/// Of these turns those that also say something that holds: a fact that a job made of them, or that they
/// repeat, is not replaced.
pub fn still_true(spi: &Spi, users: &[String], turns: &[Uuid]) -> PgResult<Vec<Uuid>> {
    spi.rows(
        "SELECT DISTINCT turn.id \
           FROM memory_agent.entries f \
          CROSS JOIN unnest(f.source_ids) turn(id) \
           LEFT JOIN memory_agent.entries r ON r.user_id = ANY ($1) AND r.id = f.replaced_by \
          WHERE f.user_id = ANY ($1) AND f.source_ids && $2 AND turn.id = ANY ($2) AND f.kind = 'fact' \
            AND CASE WHEN f.content <> '' THEN CASE WHEN f.metadata ? 'job_id' THEN f.state END \
                     WHEN f.state_reason IS NULL THEN r.state END <> 'inactive'",
        &mut params![users.to_vec(), turns],
    )
}

/// What these turns say and what no longer holds, as the facts say it that were replaced: at most five a turn,
/// oldest first.
pub fn no_longer_true(
    spi: &Spi,
    users: &[String],
    turns: &[Uuid],
) -> PgResult<Vec<(Uuid, String)>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    spi.rows(
        "SELECT s.turn, s.content \
           FROM (SELECT turn.id AS turn, o.content, min(o.created_at) AS since, \
                        row_number() OVER (PARTITION BY turn.id ORDER BY min(o.created_at), o.content) AS place \
                   FROM memory_agent.entries f \
                  CROSS JOIN unnest(f.source_ids) turn(id) \
                   JOIN memory_agent.entries o \
                     ON o.user_id = ANY ($1) AND o.id = CASE WHEN f.content <> '' THEN f.id ELSE f.replaced_by END \
                  WHERE f.user_id = ANY ($1) AND f.source_ids && $2 AND turn.id = ANY ($2) AND f.kind = 'fact' \
                    AND (f.content <> '' OR f.state_reason IS NULL) AND o.state = 'inactive' AND o.replaced_by IS NOT NULL AND o.content <> '' \
                  GROUP BY turn.id, o.content) s \
          WHERE s.place <= 5 ORDER BY s.turn, s.place",
        &mut params![users.to_vec(), turns],
    )
}

/// What the summary of a session says and what no longer holds: facts of turns that it may cover, which were
/// replaced by what was said after it; the ten that were replaced last, oldest first. Each as it was, if that
/// is known, and as it is now.
pub fn no_longer_summarized(spi: &Spi, key: &SessionKey) -> PgResult<Vec<Outdated>> {
    let statement = format!(
        "SELECT nullif(l.content, ''), \
                (WITH RECURSIVE c AS ( \
                    SELECT n.content, n.state, n.replaced_by, 1 AS step FROM memory_agent.entries n \
                     WHERE n.user_id = $1 AND n.id = l.by \
                    UNION ALL \
                    SELECT n.content, n.state, n.replaced_by, c.step + 1 \
                      FROM c JOIN memory_agent.entries n ON n.user_id = $1 AND n.id = c.replaced_by \
                     WHERE c.state = 'inactive' AND c.step < {MAX_STEPS}) \
                 SELECT c.content FROM c WHERE c.state <> 'inactive' AND c.content <> '' LIMIT 1) \
           FROM (SELECT f.content, g.id AS by, g.created_at, f.id \
                   FROM memory_agent.session_summaries s \
                   JOIN memory_agent.entries g \
                     ON g.user_id = $1 AND g.agent_id = $2 AND (g.session_id = $3 OR g.session_id IS NULL) \
                    AND g.created_at > coalesce(s.last_entry_at, s.created_at) \
                    AND g.kind = 'fact' AND g.content <> '' \
                   JOIN memory_agent.entries f \
                     ON f.user_id = $1 AND f.replaced_by = g.id AND f.replaced_by IS NOT NULL \
                    AND f.kind = 'fact' AND (f.content <> '' OR f.state_reason IS NOT NULL) AND f.state = 'inactive' \
                  WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 AND s.level = 'L3' AND s.is_active \
                    AND EXISTS (SELECT FROM memory_agent.entries t \
                                 WHERE t.user_id = $1 AND t.id = ANY (f.source_ids) AND t.session_id = $3 \
                                   AND t.created_at <= coalesce(s.last_entry_at, s.created_at)) \
                  ORDER BY g.created_at DESC, f.id LIMIT 10) l \
          ORDER BY l.created_at, l.id"
    );
    let outdated: Vec<Option<Outdated>> = spi.all(&statement, &mut key.params(), |row| {
        Ok(match (row.optional(1), row.optional(2)) {
            (Some(was), _) => Some(Outdated::Was(was)),
            (None, Some(now)) => Some(Outdated::Now(now)),
            (None, None) => None,
        })
    })?;
    Ok(outdated.into_iter().flatten().collect())
}
