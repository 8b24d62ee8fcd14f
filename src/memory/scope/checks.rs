//! What a text and a key must be, in a call or in a file that is imported.

use crate::memory::prelude::*;
use memory_agent_core::limits::FACT_KEY_BYTES;
use memory_agent_core::text::entry;

/// Refuses the name of a session that is empty or too long, where one is given.
pub fn check_session(session_id: Option<&str>) -> PgResult<()> {
    session_id.map_or(Ok(()), |id| entry::validate_session_id(id).map_err(Error::refused))
}

/// Refuses a text that is empty, has a NUL, or is longer than `memory_agent.max_content_bytes`.
pub fn check_content(content: &str, settings: &Content) -> PgResult<()> {
    entry::validate_content(content, settings.max_content_bytes).map_err(Error::refused)
}

/// Refuses keys that are blank or too long for an index.
pub fn check_fact_key(key: &str) -> PgResult<()> {
    if key.trim().is_empty() || key.len() > FACT_KEY_BYTES {
        return Err(Error::invalid(
            format!("fact_key must have 1 to {FACT_KEY_BYTES} bytes and not be blank"),
            "Example: fact_key => 'home_city'.",
        ));
    }
    Ok(())
}
