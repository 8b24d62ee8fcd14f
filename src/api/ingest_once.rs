//! `memory_ingest_once`: a turn that a client may send again, because it repeats a request that it got no
//! answer to, or because each request of a conversation brings all that was said before.

use crate::api::prelude::*;
use crate::memory::ingest::ingest_one;
use crate::memory::turn::{self, Turn};
use crate::pg::locks::Lock;
use crate::store::repeated_turns::{self, REQUEST_KEY};

/// Whose latest turn is not stored twice in succession, and whose turn has to say the same to be the one of
/// a request. An answer may well be the same as the last one, and another when the request is repeated.
const REPEATS: &str = "user";

#[pg_extern(sql = false)]
fn memory_ingest_once(
    _limits: WithinLimits,
    session_id: Option<String>,
    role: Option<String>,
    content: Option<String>,
    request_key: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
) -> PgResult<Rows<(Uuid, bool)>> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let (session_id, role) = (session_id.unwrap_or_default(), role.unwrap_or_default());
    text::validate_session_id(&session_id).map_err(Error::refused)?;
    let content = content.unwrap_or_default();
    // An empty key names no request.
    let request_key = request_key.filter(|key| !key.trim().is_empty());
    let key = SessionKey::of(&caller, session_id.as_str());
    let stored = roles::as_owner(|| {
        Lock::turns_once(&key.user_id, &key.agent_id, &key.session_id).hold();
        stored(&key, &role, &content, request_key.as_deref())
    })?;
    if let Some(id) = stored {
        return Ok(Rows::once((id, false)));
    }
    let metadata = metadata.unwrap_or_else(|| JsonbText("{}".into()));
    turn::check_metadata(&metadata, &Content::current())?;
    let metadata = match &request_key {
        Some(key) => with_request_key(metadata, key),
        None => metadata,
    };
    let turn =
        Turn { session_id, role, content, metadata, markers: None, created_at: None, ttl: None };
    Ok(Rows::once((ingest_one(&caller, turn)?, true)))
}

/// No other transaction stores a turn of the session by this function until the transaction ends; what was stored
/// before is seen, whatever the snapshot of the statement.
fn stored(
    key: &SessionKey,
    role: &str,
    content: &str,
    request_key: Option<&str>,
) -> PgResult<Option<Uuid>> {
    let spi = Spi::read_latest()?;
    let said = (role == REPEATS).then_some(content);
    if let Some(request_key) = request_key
        && let Some(id) = repeated_turns::with_key(&spi, key, role, request_key, said)?
    {
        return Ok(Some(id));
    }
    said.map_or(Ok(None), |said| repeated_turns::latest_of_user(&spi, key, said))
}

/// The metadata with the key of the request; everything else in it stays as it was written. jsonb keeps
/// the last of two equal keys.
fn with_request_key(metadata: JsonbText, key: &str) -> JsonbText {
    let entry = format!("{}: {}", serde_json::json!(REQUEST_KEY), serde_json::json!(key));
    let rest = metadata.0.trim_end();
    let rest = rest.strip_suffix('}').unwrap_or(rest);
    let comma = if rest.trim() == "{" { "" } else { ", " };
    JsonbText(format!("{rest}{comma}{entry}}}"))
}
