//! `memory_archive`: the conversation of a session, to be found from other sessions.

use crate::api::prelude::*;
use crate::api::window;
use crate::memory::summaries::archived_conversation::{Archived, archive_conversation};
use crate::memory::texts::prepare::embedder;

#[pg_extern(sql = false)]
fn memory_archive(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    let (caller, key) =
        window::session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    if key.is_global() {
        return Err(Error::invalid(
            "session \"global\" is the user's global memory, not a conversation",
            "Every session finds global memory without an archive.",
        ));
    }
    scope_settings::scoped(&caller, Some(&key.session_id), |settings| {
        let read = || Archived::of_session(&Spi::read_only()?, &key);
        let Some(archived) = roles::as_owner(read)? else { return Ok(None) };
        let Content { chunks, text_search_config, .. } = settings.content.clone();
        let (model, embed_now) = embedder(&settings.content)?;
        let chunks = archived.prepare(chunks, model, embed_now, text_search_config);
        roles::write_as_owner(|spi| match sessions::lock_existing(spi, &key)? {
            None => Ok(None),
            Some(_) => archive_conversation(spi, &key, &archived, &chunks, settings).map(Some),
        })
    })
}
