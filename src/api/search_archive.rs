//! `memory_search_archive` finds what was archived of a conversation again, from another session.

use crate::api::prelude::*;
use crate::memory::changes::documents::singular;
use crate::memory::recall::request::Arguments;
use crate::memory::recall::{self, RecallRow};
use crate::store::rows::scope::Archives;
use crate::store::summaries::archives::CONVERSATION;
use memory_agent_core::limits::MAX_LISTED;
use serde_json::json;

/// What a search finds when no limit is given, and the most that it may be asked for.
const DEFAULT_LIMIT: i32 = 5;
/// Where all documents and archived conversations are.
pub const IN_THE_VIEW: &str = "The view memory_archives has all of them.";

#[pg_extern(sql = false)]
fn memory_search_archive(
    _limits: WithinLimits,
    query: Option<String>,
    top_k: Option<Whole>,
    user_id: Option<String>,
    exclude_session: Option<String>,
    agent_id: Option<String>,
    doc_type: Option<String>,
) -> PgResult<
    Rows<(Uuid, String, f32, Option<f32>, JsonbText, Option<String>, TimestampWithTimeZone)>,
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
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let arguments = Arguments {
        query,
        top_k: Some(check_limit("top_k", top_k, DEFAULT_LIMIT, IN_THE_VIEW)?),
        filter,
        archives,
        except_session: exclude_session.map(|session| (caller.agent().to_owned(), session)),
        ..Arguments::default()
    };
    let rows = recall::answer(arguments, caller)?;
    Ok(Rows::new(rows.into_iter().map(|row| {
        let RecallRow { id, content, score, similarity, metadata, session_id, created_at, .. } =
            row;
        (id, content, score, similarity, metadata, session_id, created_at)
    })))
}

/// The most rows that a search or list may return, by the argument of that name; `instead` says how one gets more.
pub fn check_limit(name: &str, limit: Option<Whole>, default: i32, instead: &str) -> PgResult<i32> {
    match limit.map_or(default, |rows| rows.0) {
        limit if limit < 0 => Err(Error::invalid(
            format!("{name} is negative"),
            format!("0 returns nothing; leave it out for {default}."),
        )),
        limit if limit > MAX_LISTED => {
            Err(Error::invalid(format!("{name} must be at most {MAX_LISTED}"), instead))
        }
        limit => Ok(limit),
    }
}
