//! The knowledge base: what a document must be, and how it is stored. It is kept as a whole and searched by its
//! chunks, which recall returns like any other memory.

use crate::memory::chunks::{self, Parent, Uncut, prepare_chunks};
use crate::memory::lifecycle::restore_document;
use crate::memory::prelude::*;
use crate::memory::prepare::embedder;
use crate::settings::Effective;
use crate::store::archives::{self, CONVERSATION, NewDocument};
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
        let text = Uncut {
            content: &self.content,
            title: self.title.as_deref(),
            metadata: &self.metadata,
            is_headed: true,
        };
        let Content { chunks, text_search_config, .. } = settings.content.clone();
        let chunks = prepare_chunks(&text, chunks, model, embed_now, text_search_config);
        roles::write_as_owner(|spi| {
            let now = pgrx::datum::datetime_support::now();
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
