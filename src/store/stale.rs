//! Turns that say what no longer holds: a fact that was extracted from them, or that they repeat, has been
//! replaced since.

use crate::pg::error::PgResult;
use crate::pg::spi::{Params, Session as Spi};
use crate::store::scope::{Scope, bind};
use pgrx::datum::Uuid;
use pgrx::prelude::*;

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
    let visible: Vec<Uuid> = spi.all(&statement, &mut sql.params, |row| row.required(1))?;
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
    // of it, not of a text that somebody put in the place of one. The row of a repetition (`repetitions`)
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
    spi.all(
        &statement,
        &mut Params::new().with(users.to_vec()).with(turns.to_vec()).with(as_of),
        |row| Ok((row.required(1)?, row.required(2)?)),
    )
}
