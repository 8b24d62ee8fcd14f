//! Work that was not asked for when turns came, and is asked for now: which scopes have turns that were
//! not extracted from, and which sessions were not summarised.

use crate::pg::prelude::*;
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::sessions::{Fill, KEY_AND_FILL, SessionKey};

/// Where turns wait: user, agent, and session or the user's global memory.
pub type Scope = (String, String, Option<String>);

/// `e` is a turn of the user for which no extraction was queued, and that still is memory.
const SKIPPED: &str = "e.kind = 'turn' AND e.role = 'user' AND e.extracted_at = '-infinity' \
    AND e.state <> 'inactive' AND (e.expires_at IS NULL OR e.expires_at > now())";

/// The scopes with such turns, of one user or of all, in the order of their keys.
pub fn scopes(
    spi: &Spi,
    user_id: Option<&str>,
    since: Option<TimestampWithTimeZone>,
) -> PgResult<Vec<Scope>> {
    // A condition of its own, so that one user's turns are found by the index.
    let of_user = if user_id.is_some() { "e.user_id = $1" } else { "$1::text IS NULL" };
    let mut scopes: Vec<Scope> = spi.rows(
        &format!(
            "SELECT DISTINCT e.user_id, e.agent_id, e.session_id FROM memory_agent.entries e \
              WHERE {of_user} AND {SKIPPED} AND ($2::timestamptz IS NULL OR e.created_at >= $2)"
        ),
        &mut params![user_id, since],
    )?;
    // As every other writer orders sessions: by bytes, not by a collation.
    scopes.sort();
    Ok(scopes)
}

/// Lets the skipped turns of a scope wait for extraction, and returns how many there are.
pub fn let_wait(
    spi: &Spi,
    scope: &FactScope<'_>,
    since: Option<TimestampWithTimeZone>,
) -> PgResult<u64> {
    spi.execute(
        &format!(
            "UPDATE memory_agent.entries e SET extracted_at = NULL \
              WHERE {} AND {SKIPPED} AND ($4::timestamptz IS NULL OR e.created_at >= $4)",
            scope.condition()
        ),
        &mut scope.params().with(since),
    )
}

/// Lets those skipped turns of a session wait for the reflection on their episodes whose episodes
/// were not reflected on yet, and returns how many there are.
pub fn let_episodes_wait(
    spi: &Spi,
    key: &SessionKey,
    since: Option<TimestampWithTimeZone>,
) -> PgResult<u64> {
    spi.execute(
        &format!(
            "WITH episodes AS ( \
                UPDATE memory_agent.episodes p SET wants_reflection = true \
                 WHERE p.user_id = $1 AND p.agent_id = $2 AND p.session_id = $3 AND p.status <> 'reflected' \
                   AND EXISTS (SELECT FROM memory_agent.entries e \
                                WHERE e.user_id = $1 AND e.episode_id = p.id AND {SKIPPED} \
                                  AND ($4::timestamptz IS NULL OR e.created_at >= $4)) \
                RETURNING p.id) \
             UPDATE memory_agent.entries e SET extracted_at = 'infinity' FROM episodes p \
              WHERE e.user_id = $1 AND e.episode_id = p.id AND {SKIPPED} \
                AND ($4::timestamptz IS NULL OR e.created_at >= $4)"
        ),
        &mut key.params().with(since),
    )
}

/// Sessions with turns that no summary covers, of one user or of all, in the order of their keys.
pub fn unsummarized(
    spi: &Spi,
    user_id: Option<&str>,
    since: Option<TimestampWithTimeZone>,
) -> PgResult<Vec<(SessionKey, Fill)>> {
    let of_user = if user_id.is_some() { "s.user_id = $1" } else { "$1::text IS NULL" };
    let mut sessions: Vec<(SessionKey, Fill)> = spi.rows(
        &format!(
            "SELECT {KEY_AND_FILL} FROM memory_agent.sessions s \
              WHERE {of_user} AND s.unsummarized_tokens > 0 \
                AND ($2::timestamptz IS NULL OR s.last_turn_at >= $2)"
        ),
        &mut params![user_id, since],
    )?;
    sessions.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(sessions)
}
