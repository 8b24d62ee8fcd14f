//! `memory_configure`: settings that belong to an agent or to one of its sessions, wherever they are
//! used from.

use crate::api::prelude::*;
use crate::memory::scope::configure::{configure, document};

#[pg_extern(sql = false)]
fn memory_configure(
    _limits: WithinLimits,
    agent_id: Option<String>,
    session_id: Option<String>,
    settings: Option<JsonbText>,
    content_type: Option<String>,
    user_id: Option<String>,
) -> PgResult<JsonbText> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    check_session(session_id.as_deref())?;
    let (agent, session) = (caller.agent(), session_id.as_deref());
    let stored = configure(&caller, session, settings.as_ref(), content_type.as_deref())?;
    let document = document(agent, session, &stored)?;
    Ok(JsonbText(document.to_string()))
}
