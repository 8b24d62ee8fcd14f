//! `memory_add_document` and `memory_list_documents`: the knowledge base. A document is kept as a whole
//! and searched by its chunks, which recall returns like any other memory.

use crate::api::prelude::*;
use crate::api::search_archive::{IN_THE_VIEW, check_limit};
use crate::memory::changes::documents::{Document, check_title, check_type, singular};
use crate::memory::texts::secrets;
use crate::memory::texts::turn::check_metadata;
use crate::store::summaries::archives::{self, Listed};

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
    check_session(session_id.as_deref())?;
    let metadata = metadata.unwrap_or_else(|| JsonbText("{}".into()));
    scope_settings::scoped(&caller, session_id.as_deref(), |settings| {
        check_content(&content, &settings.content)?;
        check_metadata(&metadata, &settings.content)?;
        let (mut content, mut title, mut metadata) = (content, title, metadata);
        if let Some(clean) = secrets::clean(&content, &metadata, &settings.content)? {
            (content, metadata) = clean;
        }
        if let Some(title) = &mut title {
            *title = secrets::cleaned(title, &settings.content)?.into_owned();
        }
        let session_id = schema::home_of(session_id.as_deref()).map(str::to_owned);
        Document { content, title, doc_type, session_id, metadata }.add(&caller, settings)
    })
}

#[pg_extern(sql = false)]
fn memory_list_documents(
    _limits: WithinLimits,
    doc_type: Option<String>,
    limit: Option<Whole>,
    user_id: Option<String>,
) -> PgResult<Rows<Listed>> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::Reader)?;
    let limit = check_limit("limit", limit, DEFAULT_LISTED, IN_THE_VIEW)?;
    roles::read_as_owner(|spi| {
        archives::list(spi, &caller.visible(), doc_type.as_deref().map(singular), i64::from(limit))
    })
    .map(Rows::new)
}
