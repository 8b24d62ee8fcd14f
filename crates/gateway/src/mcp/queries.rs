//! What the tools ask of memory, each in one statement.

use super::shapes::{Entry, Event, Found, Kind, Page, Summary};
use crate::db::memory::{Memory, MemoryError, Param, column};
use crate::db::place::{AT, Place};
use memory_agent_core::text::excerpt::excerpts;
use memory_agent_core::text::tokens::estimate_tokens;
use memory_agent_core::text::words_sought::Sought;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Longest wait of a tool.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for a language model, which may be asked several times.
const PATIENCE_WITH_MODEL: Duration = Duration::from_secs(300);

/// The columns of an [`Entry`], in its order; times to the second.
const ENTRY: &str = "id::text, kind, role, content, session_id, \
                     to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
/// Most tokens of a text that is not asked for by its id.
const MEMORY_TOKENS: &str =
    "coalesce(current_setting('memory_agent.memory_tokens', true)::int4, 200)";

/// The memories that answer a query, best first, and how many tokens of each may be told.
pub async fn find(
    memory: &Memory,
    user_id: &str,
    query: &str,
    limit: i32,
) -> Result<(Vec<Found>, u32), MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, round(score::numeric, 3)::float8, {MEMORY_TOKENS} \
           FROM memory_recall($1, user_id => $2, top_k => $3::int4)"
    );
    let params: [Param<'_>; 3] =
        [(&query, Type::TEXT), (&user_id, Type::TEXT), (&limit, Type::INT4)];
    let rows = memory.call(user_id, PATIENCE, &sql, &params).await?;
    let found = |row: &Row| Ok(Found { entry: entry(row)?, score: column(row, 6)? });
    let found = rows.iter().map(found).collect::<Result<_, _>>()?;
    Ok((found, memory_tokens(&rows, 7)?))
}

/// The setting, as the column of every row has it.
fn memory_tokens(rows: &[Row], at: usize) -> Result<u32, MemoryError> {
    let setting: i32 = rows.first().map(|row| column(row, at)).transpose()?.unwrap_or_default();
    Ok(setting.unsigned_abs())
}

/// A page of the memories of a kind, newest first. Of long ones it has the beginning.
pub async fn list(
    memory: &Memory,
    user_id: &str,
    kind: Kind,
    limit: i32,
    after: Option<&Place>,
) -> Result<Page, MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, \
                {AT}, id, {MEMORY_TOKENS} \
           FROM memory_list(kind => $2, user_id => $1, from_at => $3::timestamp AT TIME ZONE 'UTC', \
                            from_id => $4, \"limit\" => $5::int4) memory_entries \
          ORDER BY memory_entries.created_at DESC, memory_entries.id DESC"
    );
    let (at, id) = (after.map(|place| &place.at), after.map(|place| place.id));
    let one_more = limit + 1;
    let params: [Param<'_>; 5] = [
        (&user_id, Type::TEXT),
        (&kind.name(), Type::TEXT),
        (&at, Type::TEXT),
        (&id, Type::UUID),
        (&one_more, Type::INT4),
    ];
    let mut rows = memory.call(user_id, PATIENCE, &sql, &params).await?;
    let is_last = rows.len() <= limit as usize;
    rows.truncate(limit as usize);
    let last = rows.last().filter(|_| !is_last);
    let last = last.map(|row| Place::of(row, 6)).transpose()?.flatten();
    let next_cursor = last.map(|last| last.to_string());
    let mut memories: Vec<Entry> = rows.iter().map(entry).collect::<Result<_, _>>()?;
    shorten(&mut memories, "", memory_tokens(&rows, 8)?);
    Ok(Page { memories, next_cursor })
}

/// A memory, its metadata, and what happened to it.
pub type Whole = (Entry, JsonObject, Vec<Event>);

/// A memory that holds, as a whole. Of earlier texts that are long it has the beginning.
pub async fn get(memory: &Memory, user_id: &str, id: Uuid) -> Result<Option<Whole>, MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, entry_metadata, {MEMORY_TOKENS}, \
                (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object( \
                            'at', to_char(h.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), \
                            'event', h.op, 'text', h.content, 'reason', h.reason))), '[]') \
                   FROM memory_history($1, user_id => $2) h) \
           FROM memory_list(id => $1, user_id => $2) memory_entries \
          WHERE (expires_at IS NULL OR expires_at > now())"
    );
    let params: [Param<'_>; 2] = [(&id, Type::UUID), (&user_id, Type::TEXT)];
    let rows = memory.call(user_id, PATIENCE, &sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let metadata = read(column(row, 6)?)?;
    let mut history: Vec<Event> = read(column(row, 8)?)?;
    let texts: Vec<&str> =
        history.iter().map(|event| event.text.as_deref().unwrap_or_default()).collect();
    let passages = passages(&texts, "", memory_tokens(&rows, 7)?);
    for (event, passage) in history.iter_mut().zip(passages) {
        event.text = passage.or(event.text.take());
    }
    Ok(Some((entry(row)?, metadata, history)))
}

/// Stores a fact, and returns its id, or the id of the fact that says the same.
pub async fn add(memory: &Memory, user_id: &str, text: &str) -> Result<String, MemoryError> {
    let sql = "SELECT memory_add($1, user_id => $2, infer => false)::text";
    let params: [Param<'_>; 2] = [(&text, Type::TEXT), (&user_id, Type::TEXT)];
    one(&memory.call(user_id, PATIENCE, sql, &params).await?)
}

/// Gives a memory another text, and returns the id of the version that holds now.
pub async fn update(
    memory: &Memory,
    user_id: &str,
    id: Uuid,
    text: &str,
) -> Result<String, MemoryError> {
    let sql = "SELECT memory_update($1, $2, user_id => $3)::text";
    let params: [Param<'_>; 3] = [(&id, Type::UUID), (&text, Type::TEXT), (&user_id, Type::TEXT)];
    one(&memory.call(user_id, PATIENCE, sql, &params).await?)
}

/// Forgets a memory, and returns whether there was one.
pub async fn forget(
    memory: &Memory,
    user_id: &str,
    id: Uuid,
    reason: Option<&str>,
) -> Result<bool, MemoryError> {
    let sql = "SELECT memory_forget($1, $2, user_id => $3)";
    let params: [Param<'_>; 3] = [(&id, Type::UUID), (&reason, Type::TEXT), (&user_id, Type::TEXT)];
    one(&memory.call(user_id, PATIENCE, sql, &params).await?)
}

/// Has the server's language model condense a text.
pub async fn summarize(
    memory: &Memory,
    user_id: &str,
    text: &str,
    max_tokens: Option<i32>,
    content_type: Option<&str>,
) -> Result<Summary, MemoryError> {
    let sql = "SELECT memory_summarize($1, $2::int4, $3)";
    let params: [Param<'_>; 3] =
        [(&text, Type::TEXT), (&max_tokens, Type::INT4), (&content_type, Type::TEXT)];
    let rows = memory.call_with_model(user_id, PATIENCE_WITH_MODEL, sql, &params).await?;
    read(one(&rows)?)
}

fn read<T: DeserializeOwned>(document: Value) -> Result<T, MemoryError> {
    serde_json::from_value(document).map_err(|_| MemoryError::Unexpected)
}

fn entry(row: &Row) -> Result<Entry, MemoryError> {
    Ok(Entry {
        id: column(row, 0)?,
        kind: column(row, 1)?,
        role: column(row, 2)?,
        text: column(row, 3)?,
        shortened: false,
        session: column(row, 4)?,
        created_at: column(row, 5)?,
    })
}

/// Leaves of long texts a passage around the words of a question.
pub fn shorten<'a>(
    entries: impl IntoIterator<Item = &'a mut Entry>,
    question: &str,
    most_tokens: u32,
) {
    let mut entries: Vec<&mut Entry> = entries.into_iter().collect();
    let texts: Vec<&str> = entries.iter().map(|entry| entry.text.as_str()).collect();
    let passages = passages(&texts, question, most_tokens);
    for (entry, passage) in entries.iter_mut().zip(passages) {
        if let Some(passage) = passage {
            entry.text = passage;
            entry.shortened = true;
        }
    }
}

/// Of each text the passage that is told of it, by estimates of its tokens; `None` for one that is short.
fn passages(texts: &[&str], question: &str, most_tokens: u32) -> Vec<Option<String>> {
    let mut estimates = |texts: &[String]| {
        Ok::<_, Infallible>(texts.iter().map(|text| estimate_tokens(text)).collect())
    };
    let Ok(passages) = excerpts(texts, &Sought::of(question), most_tokens, &mut estimates);
    passages
}

fn one<'a, T: tokio_postgres::types::FromSql<'a>>(rows: &'a [Row]) -> Result<T, MemoryError> {
    column(rows.first().ok_or(MemoryError::Unexpected)?, 0)
}
