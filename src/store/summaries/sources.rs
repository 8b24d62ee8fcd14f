//! What a session's next summary is made of: turns that none covers yet, or the facts that are left of
//! them.

use super::{COVERED, SUMMARIZED, tail};
use crate::store::prelude::*;

/// `e` is a fact of the session that is all that is left of what was said: its turns are gone.
const ORPHANED: &str = "e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'fact' \
     AND e.state <> 'inactive' AND (e.expires_at IS NULL OR e.expires_at > now()) \
     AND e.source_ids IS NOT NULL \
     AND NOT EXISTS (SELECT FROM memory_agent.entries o \
                      WHERE o.user_id = $1 AND o.id = ANY (e.source_ids) \
                        AND (o.state <> 'inactive' OR o.state_reason IS NULL)) \
     AND NOT EXISTS (SELECT FROM unnest(e.source_ids) o(id) WHERE o.id IN (SELECT c.id FROM covered c))";

pub(super) const SOURCE: &str = "e.id, e.role, \
     CASE WHEN jsonb_typeof(e.metadata->'name') = 'string' THEN nullif(e.metadata->>'name', '') END, \
     e.content, e.token_count, e.created_at, to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')";

/// A turn, or a fact, that a summary is made of.
#[derive(Clone)]
pub struct Source {
    pub id: Uuid,
    pub role: String,
    /// The speaker's name, if the turn has one.
    pub speaker: Option<String>,
    pub content: String,
    pub tokens: u32,
    pub created_at: TimestampWithTimeZone,
    /// The day it was said, as ISO 8601 date in UTC.
    pub said_at: String,
}

record!(Source: id role speaker content tokens created_at said_at);

/// Turns that no summary covers, oldest first.
pub struct Uncovered {
    pub turns: Vec<Source>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
}

/// The oldest turns of a session that no summary covers, up to `tokens` (at least one).
pub fn uncovered(spi: &Spi, key: &SessionKey, tokens: u64) -> PgResult<Uncovered> {
    let mut found = Uncovered { turns: Vec::new(), has_more: false };
    let mut sum = 0;
    let from = if tail::is_all(spi, key)? {
        tail::turns()
    } else {
        format!(
            "memory_agent.entries e WHERE {SUMMARIZED} AND e.id NOT IN (SELECT c.id FROM covered c)"
        )
    };
    spi.scan(
        &format!("{COVERED} SELECT {SOURCE} FROM {from} ORDER BY e.created_at, e.id"),
        &mut key.params(),
        200,
        |row| {
            let turn: Source = row.record()?;
            sum += u64::from(turn.tokens);
            if sum > tokens && !found.turns.is_empty() {
                found.has_more = true;
                return Ok(ControlFlow::Break(()));
            }
            found.turns.push(turn);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(found)
}

/// The facts of a session, oldest first, whose turns are gone before a summary covered them.
pub fn orphaned_facts(spi: &Spi, key: &SessionKey, most: i64) -> PgResult<Vec<Source>> {
    spi.rows(
        &format!(
            "{COVERED} SELECT {SOURCE} FROM memory_agent.entries e \
              WHERE {ORPHANED} AND e.id NOT IN (SELECT c.id FROM covered c) \
              ORDER BY e.created_at, e.id LIMIT $4"
        ),
        &mut key.params().with(most),
    )
}

/// Locks these entries until the end of the transaction and returns the tokens of the turns among them;
/// `None` when one is not there any more.
pub fn lock_sources(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<Option<i64>> {
    let tokens: Vec<i32> = spi.rows(
        "SELECT CASE e.kind WHEN 'turn' THEN e.token_count ELSE 0 END FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id = ANY ($2) \
            AND (e.state <> 'inactive' OR e.kind = 'turn' AND e.state_reason IS NULL) \
          ORDER BY e.created_at, e.id FOR NO KEY UPDATE",
        &mut params![user_id, ids],
    )?;
    Ok((tokens.len() == ids.len()).then(|| tokens.into_iter().map(i64::from).sum()))
}
