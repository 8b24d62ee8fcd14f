//! The keys with which summaries are signed and history is sealed: the lines of the file that
//! `memory_agent.audit_key_file` names. The first signs; further ones are those that signed before.
//! The file is read each time, so keys can be replaced without a reload, and it is never shown.

use crate::pg::error::{Error, PgResult};
use crate::settings::guc;
use memory_agent_core::history::chain::Key;

const HINT: &str = "Make the file readable for the server's operating system user, with the key as its first line.";

/// The key that signs; `None` when no file is named.
///
/// # Errors
/// F0000 when the file cannot be read or its first line is blank: what was to be signed must not go
/// unsigned.
pub fn key() -> PgResult<Option<Key>> {
    Ok(keys()?.into_iter().next())
}

/// All keys, the one that signs first; none when no file is named.
///
/// # Errors
/// As of [`key`].
pub fn keys() -> PgResult<Vec<Key>> {
    let file = guc::audit_key_file();
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file).map_err(|error| {
        let problem = format!("memory_agent.audit_key_file cannot be read: {}", error.kind());
        Error::configuration(problem, HINT)
    })?;
    let mut lines = text.lines().map(str::trim);
    match lines.next() {
        Some(first) if !first.is_empty() => {
            let older = lines.filter(|line| !line.is_empty());
            Ok(std::iter::once(first).chain(older).map(Key::new).collect())
        }
        _ => Err(Error::configuration("the file of memory_agent.audit_key_file is empty", HINT)),
    }
}
