//! Whether a turn of a session is stored already: by the key of the request that brought it, or because
//! the user's latest says the same; and what else is stored of the conversation.

use crate::store::prelude::*;

/// Where metadata keeps the key of the request that a turn came with.
pub const REQUEST_KEY: &str = "request_key";

/// A turn that memory no longer shows does not count as stored.
const IS_THERE: &str = "e.state <> 'inactive' AND (e.expires_at IS NULL OR e.expires_at > now())";

/// The turn of a role that came with this key within the last day: no client repeats a request after that.
/// `content`, where it is given, has to be the same: a key that a client never changes names no request.
pub fn with_key(
    spi: &Spi,
    session: &SessionKey,
    role: &str,
    request_key: &str,
    content: Option<&str>,
) -> PgResult<Option<Uuid>> {
    spi.row(
        &format!(
            "SELECT e.id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                AND {IS_THERE} AND e.created_at > now() - interval '1 day' \
                AND e.role = $4 AND e.metadata ->> '{REQUEST_KEY}' = $5 \
                AND ($6 IS NULL OR e.content = $6) LIMIT 1"
        ),
        &mut params![session; role, request_key, content],
    )
}

/// The user's latest turn in the session, if it says this and is still there. What came before it does not
/// count: it was said, and then something else was.
pub fn latest_of_user(spi: &Spi, session: &SessionKey, content: &str) -> PgResult<Option<Uuid>> {
    let latest: Option<(Uuid, bool)> = spi.row(
        &format!(
            "SELECT e.id, e.content = $4 AND {IS_THERE} FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                AND e.role = 'user' \
              ORDER BY e.created_at DESC, e.id DESC LIMIT 1"
        ),
        &mut params![session; content],
    )?;
    Ok(latest.filter(|(_, same)| *same).map(|(id, _)| id))
}

/// What was said in a conversation, as far as it is compared.
pub struct Said {
    pub id: Uuid,
    pub role: String,
    pub hash: Option<Vec<u8>>,
    /// Within the last hour.
    pub is_recent: bool,
}

record!(Said: id role hash is_recent);

/// What the user and the assistant said in a session, oldest first, as it is shown.
pub fn conversation(spi: &Spi, session: &SessionKey, most: i64) -> PgResult<Vec<Said>> {
    spi.rows(
        &format!(
            "SELECT e.id, e.role, e.content_hash, e.created_at > now() - interval '1 hour' \
               FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                AND {IS_THERE} AND e.role IN ('user', 'assistant') AND e.source_relation IS NULL \
              ORDER BY e.created_at, e.id LIMIT $4"
        ),
        &mut params![session; most],
    )
}
