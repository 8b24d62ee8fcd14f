//! Turns that say what no longer holds: a fact that was extracted from them, or that they repeat, has been
//! replaced since.

use crate::store::prelude::*;
use crate::store::rows::scope::{Scope, bind};
use memory_agent_core::prompt::augment::Outdated;
use std::collections::HashSet;

/// Replacements followed from one fact to the next.
const MAX_STEPS: i32 = 100;

/// A turn that says what no longer holds, and what holds instead as far as that is in the scope and was not
/// forgotten since.
pub type Replaced = (Uuid, Option<Uuid>);

/// Of these turns those that say facts which were replaced, each with what holds now (at `as_of`), the newest
/// first.
pub fn replaced(spi: &Spi, scope: &Scope, turns: &[Uuid]) -> PgResult<Vec<Replaced>> {
    let pairs = replacements(spi, &scope.caller.visible(), turns, scope.as_of)?;
    let replacing: Vec<Uuid> = pairs.iter().filter_map(|(_, by)| *by).collect();
    if replacing.is_empty() {
        return Ok(pairs);
    }
    let mut sql = scope.to_sql()?;
    let replacing = bind(&mut sql.params, replacing);
    let statement = sql.select("e.id", &format!(" AND e.id = ANY ({replacing})"));
    let visible: Vec<Uuid> = spi.rows(&statement, &mut sql.params)?;
    // What another session said is not told in this one; that something no longer holds is.
    Ok(pairs.into_iter().map(|(turn, by)| (turn, by.filter(|by| visible.contains(by)))).collect())
}

/// Of these turns those that say what was replaced by facts of which none is left: they were forgotten since, or have
/// expired.
pub fn without_successor(spi: &Spi, scope: &Scope, turns: &[Uuid]) -> PgResult<HashSet<Uuid>> {
    let pairs = replacements(spi, &scope.caller.visible(), turns, scope.as_of)?;
    let succeeded = |pair: &&Replaced| pair.1.is_some();
    let with: HashSet<Uuid> = pairs.iter().filter(succeeded).map(|(turn, _)| *turn).collect();
    Ok(pairs.into_iter().map(|(turn, _)| turn).filter(|turn| !with.contains(turn)).collect())
}

/// The same wherever what holds now was said.
pub fn replacements(
    spi: &Spi,
    users: &[String],
    turns: &[Uuid],
    as_of: Option<TimestampWithTimeZone>,
) -> PgResult<Vec<Replaced>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    // A fact was replaced at the moment that is asked about when its validity had ended by then. A turn
    // that says the new fact as well is not stale; whether it does is known only of facts that a job made
    // of it, not of a text that a user put in the place of one. The row of a repetition (`repetitions`)
    // is no replacement: it leads to the fact that is repeated, at step 0.
    let statement = format!(include_str!("../sql/replacements.sql"), MAX_STEPS = MAX_STEPS);
    spi.rows(&statement, &mut params![users.to_vec(), turns, as_of])
}

/// Of these turns those that also say something that may hold: a fact that a job made of them, or that they
/// repeat, is not replaced. One that the turn does not bear out (`unverified`) is not replaced either.
pub fn still_true(spi: &Spi, users: &[String], turns: &[Uuid]) -> PgResult<Vec<Uuid>> {
    spi.rows(
        "SELECT DISTINCT turn.id \
           FROM memory_agent.entries f \
          CROSS JOIN unnest(f.source_ids) turn(id) \
           LEFT JOIN memory_agent.entries r ON r.user_id = ANY ($1) AND r.id = f.replaced_by \
          WHERE f.user_id = ANY ($1) AND f.source_ids && $2 AND turn.id = ANY ($2) AND f.kind = 'fact' \
            AND (f.state_reason = 'unverified' \
              OR CASE WHEN f.content <> '' THEN CASE WHEN f.metadata ? 'job_id' THEN f.state END \
                      WHEN f.state_reason IS NULL THEN r.state END <> 'inactive')",
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
/// replaced by what was said after it, or in another session; the ten that were replaced last, oldest first. Each
/// as it was, if that is known, else as it is now.
pub fn no_longer_summarized(spi: &Spi, key: &SessionKey) -> PgResult<Vec<Outdated>> {
    replaced_since(spi, key, None, None)
}

/// The same of a part of what was archived of a session, whose last turn was said at `ended_at`. An archive tells
/// turns as they were said, so what was replaced before its end counts too; what `part` quotes comes before the
/// rest, if there are more than ten.
pub fn no_longer_archived(
    spi: &Spi,
    key: &SessionKey,
    ended_at: TimestampWithTimeZone,
    part: &str,
) -> PgResult<Vec<Outdated>> {
    replaced_since(spi, key, Some(ended_at), Some(part))
}

fn replaced_since(
    spi: &Spi,
    key: &SessionKey,
    ended_at: Option<TimestampWithTimeZone>,
    part: Option<&str>,
) -> PgResult<Vec<Outdated>> {
    let statement = format!(include_str!("../sql/no_longer_summarized.sql"), MAX_STEPS = MAX_STEPS);
    let mut params = key.params().with(ended_at).with(part);
    let outdated: Vec<Option<Outdated>> = spi.all(&statement, &mut params, |row| {
        Ok(match (row.optional(1), row.optional(2)) {
            (Some(was), _) => Some(Outdated::Was(was)),
            (None, Some(now)) => Some(Outdated::Now(now)),
            (None, None) => None,
        })
    })?;
    Ok(outdated.into_iter().flatten().collect())
}
