//! `memory_add_document` and `memory_list_documents`: the knowledge base. A document is kept as a whole
//! and searched by its chunks, which recall returns like any other memory.

use crate::api::arguments::WithinLimits;
use crate::api::search_archive::{check_limit, singular};
use crate::identity::grants::Level;
use crate::identity::{self, Caller};
use crate::memory::checks::check_content;
use crate::memory::chunks::{self, Parent, Uncut, prepare_chunks};
use crate::memory::lifecycle::restore_document;
use crate::memory::prepare::embedder;
use crate::memory::scope_settings;
use crate::memory::turn::check_metadata;
use crate::pg::error::{Error, ErrorReport, PgResult};
use crate::pg::roles;
use crate::pg::spi::Session as Spi;
use crate::pg::sql_types::JsonbText;
use crate::settings::Content;
use crate::store::archives::{self, CONVERSATION, Listed, NewDocument};
use crate::store::facts::FactScope;
use crate::store::schema;
use crate::store::sessions::{self, SessionKey};
use memory_agent_core::limits::{DOC_TYPE_BYTES, TITLE_BYTES};
use memory_agent_core::text;
use pgrx::datum::Uuid;
use pgrx::prelude::*;
use serde_json::{Map, json};

/// What documents are when nothing else is said.
const DEFAULT_TYPE: &str = "document";
/// Documents that are listed when no limit is given.
const DEFAULT_LISTED: i32 = 10;

#[pg_extern(sql = false)]
fn memory_add_document(
    _limits: WithinLimits,
    content: Option<String>,
    title: Option<String>,
    doc_type: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let content = content.unwrap_or_default();
    let title = title.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty());
    check_title(title.as_deref())?;
    let doc_type = check_type(doc_type)?;
    if let Some(session_id) = &session_id {
        text::validate_session_id(session_id).map_err(Error::refused)?;
    }
    let metadata = metadata.unwrap_or_else(|| JsonbText("{}".into()));
    scope_settings::scoped(&caller, session_id.as_deref(), || {
        check_content(&content)?;
        check_metadata(&metadata, &Content::current())?;
        let session_id = schema::home_of(session_id.as_deref()).map(str::to_owned);
        Document { content, title, doc_type, session_id, metadata }.add(&caller)
    })
}

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

/// A document whose arguments were checked.
struct Document {
    content: String,
    title: Option<String>,
    doc_type: String,
    session_id: Option<String>,
    metadata: JsonbText,
}

impl Document {
    fn scope<'a>(&'a self, caller: &'a Caller) -> FactScope<'a> {
        FactScope::of(caller, self.session_id.as_deref())
    }

    /// Stores the document, unless its scope has it already. One that was forgotten comes back.
    fn add(&self, caller: &Caller) -> PgResult<Uuid> {
        let (model, embed_now) = embedder()?;
        let known = roles::as_owner(|| {
            let Some((id, is_forgotten)) =
                archives::with_content(&Spi::read_only()?, &self.scope(caller), &self.content)?
            else {
                return Ok(None);
            };
            if is_forgotten {
                let model = model.as_ref().map(|model| model.name.as_str());
                restore_document(&Spi::read_write()?, &caller.user_id, id, model)?;
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
        let chunks = prepare_chunks(&text, Content::current().chunks, model, embed_now);
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
            let mut keys = Map::new();
            keys.insert("parent_id".into(), json!(id.to_string()));
            keys.insert("doc_type".into(), json!(self.doc_type));
            if let Some(title) = &self.title {
                keys.insert("title".into(), json!(title));
            }
            let parent = Parent {
                scope: document.scope,
                metadata: &self.metadata,
                keys,
                at: now,
                source_relation: None,
            };
            chunks::insert_chunks(spi, &parent, &chunks)?;
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

#[pg_extern(sql = false)]
fn memory_list_documents(
    _limits: WithinLimits,
    doc_type: Option<String>,
    limit: Option<i32>,
    user_id: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(id, Uuid),
            name!(doc_type, String),
            name!(title, Option<String>),
            name!(session_id, Option<String>),
            name!(agent_id, String),
            name!(chunks, i64),
            name!(metadata, JsonbText),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
        ),
    >,
    ErrorReport,
> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::Reader)?;
    let limit = check_limit(limit, DEFAULT_LISTED)?;
    let listed = roles::read_as_owner(|spi| {
        archives::list(spi, &caller.visible(), doc_type.as_deref().map(singular), i64::from(limit))
    })?;
    let row = |row: Listed| {
        (
            row.id,
            row.doc_type,
            row.title,
            row.session_id,
            row.agent_id,
            row.chunks,
            row.metadata,
            row.created_at,
            row.updated_at,
        )
    };
    Ok(TableIterator::new(listed.into_iter().map(row).collect::<Vec<_>>()))
}
