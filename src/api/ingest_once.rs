//! `memory_ingest_once`: a turn that a client may send again, because it repeats a request that it got no
//! answer to, or because each request of a conversation brings all that was said before.

use crate::api::prelude::*;
use crate::memory::ingest::ingest_once;
use crate::memory::turn::Turn;

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
    let session_id = session_id.unwrap_or_default();
    text::validate_session_id(&session_id).map_err(Error::refused)?;
    let turn = Turn {
        session_id,
        role: role.unwrap_or_default(),
        content: content.unwrap_or_default(),
        metadata: metadata.unwrap_or_else(|| JsonbText("{}".into())),
        markers: None,
        created_at: None,
        ttl: None,
    };
    // An empty key names no request.
    let request_key = request_key.filter(|key| !key.trim().is_empty());
    ingest_once(&caller, turn, request_key.as_deref()).map(Rows::once)
}
