//! `memory_export_markdown`: the memories of a session as Markdown files in agent-cli's layout. The
//! format is the core crate's `markdown`.

use crate::api::prelude::*;
use crate::store::transfer::exports::{self, ExportScope};
use std::collections::BTreeMap;

#[pg_extern(sql = false)]
fn memory_export_markdown(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<(String, String)>> {
    let caller = identity::resolve_kept(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    session_id.as_deref().map_or(Ok(()), |id| identity::check_kept_id("session_id", id))?;
    let session_id = schema::home_of(session_id.as_deref());
    let scope = ExportScope {
        user_id: &caller.user_id,
        // All agents read global memory, unless one is named.
        agent_id: match session_id {
            Some(_) => Some(caller.agent()),
            None => caller.agent_id.as_deref().filter(|_| caller.agent_is_explicit),
        },
        session_id,
    };
    let memories = roles::read_as_owner(|spi| exports::memories(spi, &scope))?;
    let mut files = BTreeMap::new();
    for (memory, body) in memories {
        pgrx::check_for_interrupts!();
        let (path, content) = memory.write(&body, |path| files.contains_key(path));
        files.insert(path, content);
    }
    Ok(Rows::new(files))
}
