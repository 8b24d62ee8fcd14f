//! `memory_import_markdown`: a memory out of a Markdown file. The format is the core crate's `markdown`.

use crate::api::prelude::*;
use crate::memory::transfer::import_entries::import;
use memory_agent_core::files::markdown::{MarkdownError, Memory};

#[pg_extern(sql = false)]
fn memory_import_markdown(
    _limits: WithinLimits,
    path: Option<String>,
    content: Option<String>,
    user_id: Option<String>,
) -> PgResult<Uuid> {
    // Who may not import learns nothing about a file either.
    let level = identity::require(Level::User)?;
    let (memory, body) =
        Memory::read(&path.unwrap_or_default(), &content.unwrap_or_default()).map_err(refused)?;
    let caller = identity::resolve_at(level, user_id.as_deref(), memory.agent_id())?;
    import(&caller, &memory, &body, &Content::current())
}

fn refused(error: MarkdownError) -> ErrorReport {
    Error::invalid(
        error.to_string(),
        "A file begins with --- and lines such as `role: user`, then --- and the text. \
         SELECT * FROM memory_export_markdown(session_id) shows whole ones.",
    )
}
