//! `memory_ingest_once`: a turn that a client may send again, because it repeats a request that it got no
//! answer to, or because each request of a conversation brings all that was said before; and what a client took back
//! that sends another text in the place of what is stored.

use crate::api::prelude::*;
use crate::memory::ingest::ingest_once;
use crate::memory::ingest::taken_back::Sent;
use crate::memory::texts::turn::Turn;
use memory_agent_core::llm::chat_messages::ChatMessages;
use serde_json::Value;

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
    history: Option<JsonbText>,
    replaces: Option<Vec<Option<Uuid>>>,
) -> PgResult<Rows<(Uuid, bool, Vec<Uuid>, Vec<Uuid>)>> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let session_id = session_id.unwrap_or_default();
    entry::validate_session_id(&session_id).map_err(Error::refused)?;
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
    let sent = history.map(|history| sent(&history, &turn)).transpose()?;
    let replaces: Vec<Uuid> = replaces.into_iter().flatten().flatten().collect();
    if !replaces.is_empty() && turn.role != "assistant" {
        let hint = "Give it with the answer: the column answers has the ids of the earlier ones.";
        return Err(Error::invalid("replaces is for turns of the role assistant", hint));
    }
    let once = ingest_once(&caller, turn, request_key.as_deref(), sent.as_ref(), replaces)?;
    Ok(Rows::once((once.id, once.is_new, once.replaced, once.answers)))
}

/// The conversation that a client sent, with the turn at its end.
fn sent(history: &JsonbText, turn: &Turn) -> PgResult<Sent> {
    const HINT: &str = "It is a JSON array of the messages before this one, as in memory_augment; '[]' if there are none.";
    if turn.role != "user" {
        return Err(Error::invalid("history is for turns of the role user", HINT));
    }
    let invalid = |reason: String| Error::invalid(format!("history: {reason}"), HINT);
    let value: Value =
        serde_json::from_str(&history.0).map_err(|error| invalid(error.to_string()))?;
    if value.as_array().is_some_and(Vec::is_empty) {
        return Ok(Sent::of(&[], &turn.content));
    }
    let messages = ChatMessages::parse(value).map_err(|error| invalid(error.to_string()))?;
    Ok(Sent::of(&messages.spoken(), &turn.content))
}
