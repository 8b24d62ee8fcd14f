//! Archived conversations: what the worker stores when it compresses one, and `memory_search_archive`,
//! which finds it again from another session.

use crate::api::chunks::{self, Chunks, Parent, Uncut, prepare_chunks};
use crate::api::recall;
use crate::api::request::Arguments;
use crate::arguments::WithinLimits;
use crate::error::{Error, PgResult};
use crate::sql_types::JsonbText;
use crate::store::archives::{self, ARCHIVE_RELATION, CONVERSATION};
use crate::store::facts::FactScope;
use crate::store::scope::Archives;
use crate::store::sessions::SessionKey;
use crate::store::spi::Session as Spi;
use memory_agent_core::archive::{Conversation, namespace};
use memory_agent_core::chunk::Limits;
use memory_agent_core::limits::MAX_LISTED;
use memory_agent_core::summarize::Sections;
use memory_agent_model_server::protocol::ModelRef;
use pgrx::datum::{ToIsoString, Uuid};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde_json::{Map, json};

/// A conversation to be archived. It is made in a transaction and prepared outside of one.
pub struct Archived {
    sections: Sections,
    message_count: u32,
    start: String,
    end: String,
    ended_at: TimestampWithTimeZone,
}

impl Archived {
    /// `sections` is the summary with what was found in the conversation, `message_count` the turns
    /// it stands for, the times are those of the first and the last of them.
    pub fn new(
        sections: Sections,
        message_count: u32,
        started_at: TimestampWithTimeZone,
        ended_at: TimestampWithTimeZone,
    ) -> Self {
        Self { sections, message_count, start: utc(started_at), end: utc(ended_at), ended_at }
    }

    /// Cuts and embeds the text that is archived. The database is not touched.
    pub fn prepare(&self, limits: Limits, model: Option<ModelRef>) -> Chunks {
        let content = self.conversation("", "").document();
        let metadata = JsonbText("{}".into());
        // The headings are the same in every archive: they say nothing of this one.
        let text = Uncut { content: &content, title: None, metadata: &metadata, is_headed: false };
        prepare_chunks(&text, limits, model, true)
    }

    fn conversation<'a>(&'a self, agent_id: &'a str, session_id: &'a str) -> Conversation<'a> {
        Conversation {
            session_id,
            agent_id,
            sections: &self.sections,
            message_count: self.message_count,
            start: &self.start,
            end: &self.end,
        }
    }
}

/// A time in ISO 8601, in UTC.
fn utc(at: TimestampWithTimeZone) -> String {
    format!("{}Z", at.to_utc().to_iso_string())
}

/// Archives a conversation in the place of what was archived of it before its active L3, and returns
/// the id of the archive, which stays the same; one that was forgotten stays so. The caller holds the session's lock. `chunks` are made from
/// [`Archived::prepare`].
pub fn archive_conversation(
    spi: &Spi,
    key: &SessionKey,
    archived: &Archived,
    chunks: &Chunks,
) -> PgResult<Uuid> {
    let conversation = archived.conversation(&key.agent_id, &key.session_id);
    let metadata = conversation.metadata();
    let id = archives::upsert_conversation(
        spi,
        key,
        &namespace(&key.user_id),
        &conversation.document(),
        JsonbText(metadata.to_string()),
    )?;
    let was_forgotten = archives::is_forgotten(spi, &key.user_id, id)?;
    archives::delete_chunks(spi, &key.user_id, id)?;
    let mut keys = Map::new();
    keys.insert("parent_id".into(), json!(id.to_string()));
    keys.insert("doc_type".into(), json!(CONVERSATION));
    let parent = Parent {
        scope: FactScope {
            user_id: &key.user_id,
            agent_id: &key.agent_id,
            session_id: Some(&key.session_id),
        },
        metadata: &JsonbText(metadata.to_string()),
        keys,
        at: archived.ended_at,
        source_relation: Some(ARCHIVE_RELATION),
    };
    chunks::insert_chunks(spi, &parent, chunks)?;
    if was_forgotten {
        archives::forget_chunks(spi, &key.user_id, id)?;
    }
    debug1!("memory_agent: archive user={} id={id} chunks={}", key.user_id, chunks.chunks.len());
    Ok(id)
}

/// What a search finds when no limit is given, and the most that it may be asked for.
const DEFAULT_LIMIT: i32 = 5;

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn memory_search_archive(
    _limits: WithinLimits,
    query: Option<String>,
    limit: Option<i32>,
    user_id: Option<String>,
    exclude_session: Option<String>,
    agent_id: Option<String>,
    doc_type: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(id, Uuid),
            name!(content, String),
            name!(score, f32),
            name!(similarity, Option<f32>),
            name!(metadata, JsonbText),
            name!(session_id, Option<String>),
            name!(created_at, TimestampWithTimeZone),
        ),
    >,
    ErrorReport,
> {
    let doc_type = doc_type.map(|doc_type| singular(&doc_type).to_owned());
    let (archives, filter) = match doc_type.as_deref() {
        None => (Archives::AndDocuments, None),
        Some(CONVERSATION) => (Archives::Only, None),
        Some(other) => {
            let filter = json!({"kind": ["document"], "metadata": {"doc_type": other}});
            (Archives::Without, Some(JsonbText(filter.to_string())))
        }
    };
    let arguments = Arguments {
        query,
        user_id,
        agent_id,
        top_k: Some(check_limit(limit, DEFAULT_LIMIT)?),
        filter,
        archives,
        except_session: exclude_session,
        ..Arguments::default()
    };
    let rows = arguments.with_settings(|arguments| {
        let request = arguments.check()?;
        match recall::run(&request)? {
            Some(recalled) => recall::rows(&request, recalled),
            None => Ok(Vec::new()),
        }
    })?;
    Ok(TableIterator::new(
        rows.into_iter()
            .map(|row| (row.0, row.3, row.4, row.6, row.13, row.11, row.14))
            .collect::<Vec<_>>(),
    ))
}

/// The type of archives as it is stored: `conversations` is accepted for conversations.
pub fn singular(doc_type: &str) -> &str {
    if doc_type == "conversations" { CONVERSATION } else { doc_type }
}

/// The most rows that a search or list may return.
pub fn check_limit(limit: Option<i32>, default: i32) -> PgResult<i32> {
    match limit.unwrap_or(default) {
        limit if limit > MAX_LISTED => Err(Error::invalid(
            format!("limit must be at most {MAX_LISTED}"),
            "Read memory_agent.archives to see everything.",
        )
        .into()),
        limit => Ok(limit.max(0)),
    }
}
