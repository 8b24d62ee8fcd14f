//! `memory_state`: whether what a prompt tells still holds, for who keeps a prompt while tools answer.

use crate::api::prelude::*;
use crate::memory::scope::state::{self, Told};
use serde_json::Value;

#[pg_extern(sql = false)]
fn memory_state(
    _limits: WithinLimits,
    memories: Option<JsonbText>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<String> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    check_session(session_id.as_deref())?;
    let ids = match memories {
        Some(memories) => ids(&memories.0).ok_or_else(malformed)?,
        None => Vec::new(),
    };
    let summary_of = session_id.map(|session_id| SessionKey::of(&caller, session_id));
    state::now(&caller, &Told { ids, summary_of })
}

/// The ids of a list of memories.
fn ids(memories: &str) -> Option<Vec<Uuid>> {
    let memories: Value = serde_json::from_str(memories).ok()?;
    let id = |memory: &Value| {
        let id = uuid::Uuid::parse_str(memory.get("id")?.as_str()?).ok()?;
        Some(Uuid::from_bytes(*id.as_bytes()))
    };
    memories.as_array()?.iter().map(id).collect()
}

fn malformed() -> ErrorReport {
    Error::invalid(
        "memories is no list of objects with an id".to_owned(),
        "Pass memory_hits of memory_augment, or memories of memory_context.",
    )
}
