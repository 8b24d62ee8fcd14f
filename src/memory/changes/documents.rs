//! The knowledge base: what a document must be, and how it is stored. It is kept as a whole and searched by its
//! chunks, which recall returns like any other memory.

use crate::memory::changes::lifecycle::{lock_document, restore_document};
use crate::memory::prelude::*;
use crate::memory::scope::checks::check_content;
use crate::memory::scope::scope_settings;
use crate::memory::summaries::chunks::{self, Chunks, Parent, Uncut, prepare_chunks};
use crate::memory::texts::prepare::embedder;
use crate::memory::texts::secrets;
use crate::pg::locks::keep_erasures_out;
use crate::settings::Effective;
use crate::store::changes::lifecycle::Stored;
use crate::store::rows::forms::content_hashes;
use crate::store::rows::history;
use crate::store::rows::history::UPDATE;
use crate::store::summaries::archives::{self, CONVERSATION, NewDocument, Whole};
use memory_agent_core::condense::chunk;
use memory_agent_core::limits::{DOC_TYPE_BYTES, TITLE_BYTES};

/// What documents are when nothing else is said.
const DEFAULT_TYPE: &str = "document";

/// Refuses a title that is too long.
pub fn check_title(title: Option<&str>) -> PgResult<()> {
    if title.is_some_and(|title| title.len() > TITLE_BYTES) {
        return Err(Error::invalid(
            format!("title must have at most {TITLE_BYTES} bytes"),
            "Put the rest into content.",
        ));
    }
    Ok(())
}

/// The type of a document, which is not that of conversations.
pub fn check_type(doc_type: Option<String>) -> PgResult<String> {
    let doc_type = doc_type.unwrap_or_else(|| DEFAULT_TYPE.to_owned());
    if doc_type.trim().is_empty() || doc_type.len() > DOC_TYPE_BYTES {
        return Err(Error::invalid(
            format!("doc_type must have 1 to {DOC_TYPE_BYTES} bytes and not be blank"),
            "Leave it out for 'document'.",
        ));
    }
    if singular(&doc_type) == CONVERSATION {
        return Err(Error::invalid(
            "doc_type 'conversation' is for conversations that were archived",
            "Store the turns of a conversation with memory_ingest.",
        ));
    }
    Ok(doc_type)
}

/// The type of archives as it is stored: `conversations` is accepted for conversations.
pub fn singular(doc_type: &str) -> &str {
    if doc_type == "conversations" { CONVERSATION } else { doc_type }
}

/// A document whose arguments were checked.
pub struct Document {
    pub content: String,
    pub title: Option<String>,
    pub doc_type: String,
    pub session_id: Option<String>,
    pub metadata: JsonbText,
}

impl Document {
    fn scope<'a>(&'a self, caller: &'a Caller) -> FactScope<'a> {
        FactScope::of(caller, self.session_id.as_deref())
    }

    /// Stores the document, unless its scope has it already. One that was forgotten comes back.
    pub fn add(&self, caller: &Caller, settings: &Effective) -> PgResult<Uuid> {
        let (model, embed_now) = embedder(&settings.content)?;
        let known = roles::as_owner(|| {
            let Some((id, is_forgotten)) =
                archives::with_content(&Spi::read_only()?, &self.scope(caller), &self.content)?
            else {
                return Ok(None);
            };
            if is_forgotten {
                let model = model.as_ref().map(|model| model.name.as_str());
                restore_document(&Spi::read_write()?, &caller.user_id, id, model, settings)?;
            }
            Ok(Some(id))
        })?;
        if let Some(id) = known {
            return Ok(id);
        }
        let text = headed(&self.content, self.title.as_deref(), &self.metadata);
        let chunks = cut(&text, &settings.content, (model, embed_now));
        roles::write_as_owner(|spi| {
            let now = pgrx::datum::datetime_support::now();
            keep_erasures_out(&caller.user_id);
            if let Some(session_id) = &self.session_id {
                let key = SessionKey::of(caller, session_id.clone());
                sessions::lock(spi, &key, now)?;
            }
            let document = NewDocument {
                scope: self.scope(caller),
                content: &self.content,
                title: self.title.as_deref(),
                doc_type: &self.doc_type,
                metadata: &self.metadata,
            };
            let Some(id) = archives::insert_document(spi, &document)? else {
                // Another transaction stored the same text meanwhile.
                return archives::with_content(spi, &document.scope, &self.content)?
                    .map(|(id, _)| id)
                    .ok_or_else(|| Error::internal("a document vanished"));
            };
            let parent = Parent {
                scope: document.scope,
                metadata: &self.metadata,
                id,
                doc_type: &self.doc_type,
                title: self.title.as_deref(),
                at: now,
                source_relation: None,
            };
            chunks::insert_chunks(spi, &parent, &chunks, settings)?;
            debug1!(
                "memory_agent: document user={} id={id} chunks={} embedded={}",
                caller.user_id,
                chunks.chunks.len(),
                chunks.prepared.embeddings.len()
            );
            Ok(id)
        })
    }
}

/// The text of a document, whose chunks are found by what stands above them.
fn headed<'a>(content: &'a str, title: Option<&'a str>, metadata: &'a JsonbText) -> Uncut<'a> {
    Uncut { content, title, metadata, is_headed: true }
}

fn cut(text: &Uncut<'_>, settings: &Content, (model, now): (Option<ModelRef>, bool)) -> Chunks {
    let Content { chunks, text_search_config, .. } = settings.clone();
    prepare_chunks(text, chunks, model, now, text_search_config)
}

/// Gives a document the text that `change` makes of its text. Its chunks are made anew; those before become
/// inactive. `reason` is told in history. False when there is no such document.
pub fn update(
    user: &str,
    id: Uuid,
    reason: Option<&str>,
    change: impl FnOnce(&str) -> PgResult<String>,
) -> PgResult<bool> {
    let Some(old) = roles::read_as_owner(|spi| archives::whole(spi, user, id))? else {
        return Ok(false);
    };
    if old.doc_type == CONVERSATION {
        return Err(Error::wrong_object(
            format!("{id} is an archived conversation"),
            "Update its turns, and archive it again (memory_archive).",
        ));
    }
    if old.is_forgotten {
        let hint = "Bring it back with memory_restore first.";
        return Err(Error::not_ready(format!("the document {id} was forgotten"), hint));
    }
    let content = change(&old.content)?;
    if content.trim() == old.content.trim() {
        return Ok(true);
    }
    scope_settings::scoped_to(user, &old.agent_id, old.session_id.as_deref(), |settings| {
        check_content(&content, &settings.content)?;
        let (content, metadata) = secrets::revised(&content, &old.metadata, &settings.content)?;
        if content.trim() == old.content.trim() {
            return Ok(());
        }
        let text = headed(&content, old.title.as_deref(), &metadata);
        let chunks = cut(&text, &settings.content, embedder(&settings.content)?);
        roles::write_as_owner(|spi| {
            let (content, metadata) = (&content, &metadata);
            let version = Version { user, id, old: &old, content, metadata, reason };
            version.store(spi, &chunks, settings)
        })
    })?;
    Ok(true)
}

/// A new text for a document.
struct Version<'a> {
    user: &'a str,
    id: Uuid,
    old: &'a Whole,
    content: &'a str,
    metadata: &'a JsonbText,
    reason: Option<&'a str>,
}

impl Version<'_> {
    fn store(&self, spi: &Spi, chunks: &Chunks, settings: &Effective) -> PgResult<()> {
        let Self { user, id, old, content, metadata, reason } = *self;
        lock_document(spi, user, id)?;
        // Another transaction may have changed it since it was read.
        let now = archives::whole(spi, user, id)?;
        if !now.is_some_and(|now| now.content == old.content && !now.is_forgotten) {
            let problem = format!("the document {id} was changed meanwhile");
            return Err(Error::not_ready(problem, "Try again with its text of now."));
        }
        let (agent_id, session_id) = (old.agent_id.as_str(), old.session_id.as_deref());
        let scope = FactScope { user_id: user, agent_id, session_id };
        if let Some((other, _)) = archives::with_content(spi, &scope, content)? {
            return Err(Error::taken(
                format!("the document {other} has this text"),
                format!("Forget {id}, or leave it as it is."),
            ));
        }
        history::append_all(spi, user, (history::ARCHIVES, &[id]), UPDATE, reason, None)?;
        archives::replace_content(spi, user, id, content, metadata)?;
        history::append_all(spi, user, (history::ARCHIVES, &[id]), "add", None, None)?;
        let parent = Parent {
            scope,
            metadata,
            id,
            doc_type: &old.doc_type,
            title: old.title.as_deref(),
            at: pgrx::datum::datetime_support::now(),
            source_relation: None,
        };
        chunks::insert_chunks(spi, &parent, chunks, settings)?;
        debug1!("memory_agent: update user={user} document={id} chunks={}", chunks.chunks.len());
        Ok(())
    }
}

/// Takes up a chunk whose file was changed by hand, once, and returns the id of its document. `None` when its
/// document is not there as a whole.
pub fn take_up_chunk(user: &str, chunk: &Stored, text: &str) -> PgResult<Option<Uuid>> {
    let Some(document) = chunk.document() else { return Ok(None) };
    let reason = |hash: &Vec<u8>| {
        let digest: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("edited chunk {}, sha256 {digest}", chunk.id)
    };
    let reasons: Vec<String> = content_hashes(text).iter().map(reason).collect();
    let (is_done, has_gaps) = roles::read_as_owner(|spi| {
        let mut is_done = false;
        for reason in &reasons {
            is_done |= history::has(spi, user, document, UPDATE, reason)?;
        }
        Ok((is_done, archives::has_gaps(spi, user, document)?))
    })?;
    if is_done {
        return Ok(Some(document));
    }
    let edited = |old: &str| {
        let unclear = match chunk::edited(old, &chunk.content, text) {
            _ if has_gaps => "has chunks that were forgotten, and would come back",
            Some(text) => return Ok(text),
            None => "does not have the old text of this chunk exactly once",
        };
        Err(Error::not_ready(
            format!("the document {document} {unclear}"),
            format!("Give the document its new text: memory_update('{document}', ...)."),
        ))
    };
    let reason = reasons.first().map(String::as_str);
    Ok(update(user, document, reason, edited)?.then_some(document))
}
