//! Documents and archived conversations that come from a record of memory_export_json.

use crate::memory::changes::documents::{check_title, check_type};
use crate::memory::prelude::*;
use crate::memory::scope::checks::{check_content, check_session};
use crate::memory::scope::scope_settings;
use crate::memory::summaries::archived_conversation::{insert_chunks, prepare_text};
use crate::memory::texts::prepare::embedder;
use crate::memory::texts::secrets;
use crate::memory::texts::turn::check_metadata;
use crate::memory::transfer::import_entries::{read_values, same};
use crate::store::summaries::archives::{self, CONVERSATION};
use crate::store::transfer::imports;
use memory_agent_core::condense::archive::namespace;
use memory_agent_core::files::record::{Archive, Record};
use memory_agent_core::text::raw_json::Json;

/// Stores a document without its chunks, which are memories, or a conversation with the chunks it has then.
/// It is checked by the settings of the server, as other [imports](crate::memory::transfer::import_entries::import).
pub fn import_archive(
    caller: &Caller,
    archive: &Archive,
    content: &str,
    server: &Content,
) -> PgResult<Uuid> {
    check_session(archive.session_id.as_deref())?;
    let (archive, content) = &match archive.memory_agent {
        0 => without_secrets(caller, archive, content)?,
        _ => (archive.clone(), content.to_owned()),
    };
    let session_id = archive.session_id.as_deref();
    check_content(content, server)?;
    check_title(archive.title.as_deref())?;
    let metadata = archive.metadata.as_ref().map_or("{}", |metadata| &metadata.0);
    let metadata = JsonbText(metadata.to_owned());
    check_metadata(&metadata, server)?;
    let conversation = archive.doc_type == CONVERSATION;
    let key = match session_id {
        Some(session_id) => Some(SessionKey::of(caller, session_id.to_owned())),
        None if conversation => {
            let problem = "an archived conversation belongs to a session";
            return Err(Error::invalid(problem, "Put its name under session_id."));
        }
        None => None,
    };
    let namespace = match conversation {
        true => namespace(&caller.user_id),
        false => {
            check_type(Some(archive.doc_type.clone()))?;
            format!("documents:{}", caller.user_id)
        }
    };
    let json = Record::Archive(archive.clone()).write(None);
    let (id, ended_at) = read_values(|spi| imports::read_archive(spi, &json))?;
    let user = caller.user_id.as_str();
    let stored = roles::read_as_owner(|spi| imports::content(spi, "archives", user, id))?;
    if let Some(id) = same(id, stored, content)? {
        return Ok(id);
    }
    let settings = scope_settings::scoped(caller, session_id, |settings| Ok(settings.clone()))?;
    let chunks = match conversation {
        true => {
            let Content { chunks, text_search_config, .. } = settings.content.clone();
            let (model, embed_now) = embedder(&settings.content)?;
            Some(prepare_text(content, chunks, model, embed_now, text_search_config))
        }
        false => None,
    };
    roles::write_as_owner(|spi| {
        if let Some(key) = &key {
            sessions::lock(spi, key, ended_at)?;
        }
        // Another call may have stored it since.
        let stored = imports::content(spi, "archives", user, id)?;
        if let Some(id) = same(id, stored, content)? {
            return Ok(id);
        }
        let scope = FactScope::of(caller, session_id);
        if !imports::insert_archive(spi, &scope, &namespace, &json, content)? {
            return Err(Error::taken(
                "a document with this text is stored already, with another id",
                "Leave the record out, or forget that document first.",
            ));
        }
        if let (Some(key), Some(chunks)) = (&key, &chunks) {
            insert_chunks(spi, key, id, &metadata, ended_at, chunks, &settings)?;
            if archive.is_forgotten == Some(true) {
                archives::forget_chunks(spi, user, id)?;
            }
        }
        debug1!("memory_agent: import user={user} id={id} archive={}", archive.doc_type);
        Ok(id)
    })
}

/// What is not the export of a document has come in from outside.
fn without_secrets(
    caller: &Caller,
    archive: &Archive,
    content: &str,
) -> PgResult<(Archive, String)> {
    let (mut archive, mut content) = (archive.clone(), content.to_owned());
    let given = JsonbText(archive.metadata.as_ref().map_or("{}", |values| &values.0).to_owned());
    scope_settings::scoped(caller, archive.session_id.clone().as_deref(), |settings| {
        // What is no object is refused later.
        if given.0.starts_with('{')
            && let Some((clean, JsonbText(values))) =
                secrets::clean(&content, &given, &settings.content)?
        {
            (content, archive.metadata) = (clean, Some(Json(values)));
        }
        if let Some(title) = &mut archive.title {
            *title = secrets::cleaned(title, &settings.content)?.into_owned();
        }
        Ok(())
    })?;
    Ok((archive, content))
}
