//! Facts that perhaps no longer hold: an LLM that has not passed the probe chose to replace or to end them.
//! They stay, and name in `doubted_by` what was said later, until a second statement decides. The tables of 0.2.0 have
//! no such column: there, both stay.

use crate::store::facts::Home;
use crate::store::facts::stale::Replaced;
use crate::store::prelude::*;
use crate::store::rows::scope::{Scope, bind};

/// Notes what was said later than a fact, and perhaps instead of it: another fact, or a turn.
pub fn note(spi: &Spi, user_id: &str, id: Uuid, by: Uuid) -> PgResult<()> {
    if !schema::has_0_3() {
        return Ok(());
    }
    spi.run(
        "UPDATE memory_agent.entries e SET doubted_by = $3, updated_at = now() \
          WHERE e.user_id = $1 AND e.id = $2 AND e.id <> $3 AND e.state <> 'inactive' \
            AND e.doubted_by IS DISTINCT FROM $3",
        &mut params![user_id, id, by],
    )
}

/// A fact that is doubted, where it is at home, and the event time of what was said later.
pub struct Doubted {
    pub id: Uuid,
    pub since: TimestampWithTimeZone,
    pub home: Home,
}

record!(Doubted: id since home);

/// The active facts that a repetition of `by` at this event time decides about: each was said last before it. Turns
/// that `by` rests on already are no repetition; without turns, a caller states it.
pub fn decided_by(
    spi: &Spi,
    user_id: &str,
    by: Uuid,
    turns: &[Uuid],
    at: TimestampWithTimeZone,
) -> PgResult<Vec<Doubted>> {
    if !schema::has_0_3() {
        return Ok(Vec::new());
    }
    spi.rows(
        "SELECT e.id, d.created_at, e.agent_id, e.session_id \
           FROM memory_agent.entries e \
           JOIN memory_agent.entries d ON d.user_id = $1 AND d.id = e.doubted_by \
          WHERE e.user_id = $1 AND e.doubted_by = $2 AND e.kind = 'fact' AND e.state <> 'inactive' \
            AND d.kind = 'fact' AND (cardinality($3) = 0 OR NOT coalesce(d.source_ids, '{}') @> $3) \
            AND greatest(e.created_at, (SELECT max(s.created_at) FROM memory_agent.entries s \
                                         WHERE s.user_id = $1 AND s.id = ANY (e.source_ids))) < $4 \
          ORDER BY e.created_at, e.id",
        &mut params![user_id, by, turns, at],
    )
}

/// Where the active facts are at home that one of these perhaps took the place of.
pub fn homes(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<Vec<Home>> {
    if !schema::has_0_3() {
        return Ok(Vec::new());
    }
    spi.rows(
        "SELECT DISTINCT e.agent_id, e.session_id FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.doubted_by = ANY ($2) AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// Lifts the doubt about a fact that is said again, at this event time.
pub fn lift(spi: &Spi, user_id: &str, id: Uuid, at: TimestampWithTimeZone) -> PgResult<()> {
    if !schema::has_0_3() {
        return Ok(());
    }
    spi.run(
        "UPDATE memory_agent.entries e SET doubted_by = NULL, updated_at = now() \
          WHERE e.user_id = $1 AND e.id = $2 AND e.doubted_by IS NOT NULL \
            AND NOT EXISTS (SELECT FROM memory_agent.entries d \
                             WHERE d.user_id = $1 AND d.id = e.doubted_by AND d.created_at > $3)",
        &mut params![user_id, id, at],
    )
}

/// Has what took the place of a fact stand for it where it raised doubts.
pub fn pass_on(spi: &Spi, user_id: &str, old: Uuid, new: Uuid) -> PgResult<()> {
    if !schema::has_0_3() {
        return Ok(());
    }
    spi.run(
        "UPDATE memory_agent.entries e SET doubted_by = $3, updated_at = now() \
          WHERE e.user_id = $1 AND e.doubted_by = $2 AND e.id <> $3",
        &mut params![user_id, old, new],
    )
}

/// Of these facts and turns those that perhaps no longer hold (at `as_of`), each with what was said later, as far as
/// that is in the scope. A turn says what the facts say that were made of it, unless the later one was made of it too.
pub fn doubted(spi: &Spi, scope: &Scope, ids: &[Uuid]) -> PgResult<Vec<Replaced>> {
    if ids.is_empty() || !schema::has_0_3() {
        return Ok(Vec::new());
    }
    // Few facts are doubted: the index has these alone.
    let pairs: Vec<(Uuid, Uuid)> = spi.rows(
        "SELECT DISTINCT x.id, d.id \
           FROM memory_agent.entries f \
          CROSS JOIN LATERAL unnest(coalesce(f.source_ids, '{}') || f.id) x(id) \
           JOIN memory_agent.entries d ON d.user_id = ANY ($1) AND d.id = f.doubted_by \
          WHERE f.user_id = ANY ($1) AND f.doubted_by IS NOT NULL AND f.kind = 'fact' AND x.id = ANY ($2) \
            AND CASE WHEN $3::timestamptz IS NULL THEN f.state <> 'inactive' AND d.state <> 'inactive' \
                     ELSE d.created_at <= $3 AND (f.valid_to IS NULL OR f.valid_to > $3) \
                          AND (d.valid_to IS NULL OR d.valid_to > $3) END \
            AND NOT coalesce(d.source_ids, '{}') @> ARRAY[x.id] AND x.id <> d.id \
          ORDER BY x.id, d.id",
        &mut params![scope.caller.visible(), ids, scope.as_of],
    )?;
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = scope.to_sql()?;
    let later = bind(&mut sql.params, pairs.iter().map(|(_, by)| *by).collect::<Vec<_>>());
    let statement = sql.select("e.id", &format!(" AND e.id = ANY ({later})"));
    let visible: Vec<Uuid> = spi.rows(&statement, &mut sql.params)?;
    Ok(pairs.into_iter().map(|(id, by)| (id, Some(by).filter(|by| visible.contains(by)))).collect())
}
