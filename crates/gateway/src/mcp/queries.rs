//! What the tools ask of memory, each in one statement.

use super::shapes::{Entry, Event, Found, Kind, Page, Summary};
use crate::memory::{Memory, MemoryError, Param, column};
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
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

/// The memories that answer a query, best first.
pub async fn find(
    memory: &Memory,
    user_id: &str,
    query: &str,
    limit: i32,
) -> Result<Vec<Found>, MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, round(score::numeric, 3)::float8 \
           FROM memory_recall($1, user_id => $2, top_k => $3)"
    );
    let params: [Param<'_>; 3] =
        [(&query, Type::TEXT), (&user_id, Type::TEXT), (&limit, Type::INT4)];
    let rows = memory.call(user_id, PATIENCE, &sql, &params).await?;
    rows.iter().map(|row| Ok(Found { entry: entry(row)?, score: column(row, 6)? })).collect()
}

/// A page of the memories of a kind, newest first.
pub async fn list(
    memory: &Memory,
    user_id: &str,
    kind: Kind,
    limit: i32,
    after: Option<&Place>,
) -> Result<Page, MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, \
                to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') \
           FROM memory_list(kind => $2, user_id => $1, from_at => $3::timestamptz, from_id => $4, \
                            \"limit\" => $5) memory_entries \
          ORDER BY memory_entries.created_at DESC, memory_entries.id DESC"
    );
    let (time, id) = (after.map(|place| &place.time), after.map(|place| place.id));
    let one_more = limit + 1;
    let params: [Param<'_>; 5] = [
        (&user_id, Type::TEXT),
        (&kind.name(), Type::TEXT),
        (&time, Type::TEXT),
        (&id, Type::UUID),
        (&one_more, Type::INT4),
    ];
    let mut rows = memory.call(user_id, PATIENCE, &sql, &params).await?;
    let is_last = rows.len() <= limit as usize;
    rows.truncate(limit as usize);
    let last = rows.last().filter(|_| !is_last);
    let next_cursor = last
        .map(|row| Ok(format!("{}~{}", column::<String>(row, 6)?, column::<String>(row, 0)?)))
        .transpose()?;
    let memories = rows.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(Page { memories, next_cursor })
}

/// The last memory of a page, as `next_cursor` says it.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    time: String,
    id: Uuid,
}

impl Place {
    /// Reads a cursor. The database reads its time.
    pub fn read(cursor: &str) -> Option<Self> {
        let (time, id) = cursor.split_once('~')?;
        Some(Self { time: time.to_owned(), id: Uuid::parse_str(id).ok()? })
    }
}

/// A memory, its metadata, and what happened to it.
pub type Whole = (Entry, JsonObject, Vec<Event>);

/// A memory that holds.
pub async fn get(memory: &Memory, user_id: &str, id: Uuid) -> Result<Option<Whole>, MemoryError> {
    let sql = format!(
        "SELECT {ENTRY}, entry_metadata, \
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
    Ok(Some((entry(row)?, metadata, read(column(row, 7)?)?)))
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
    let sql = "SELECT memory_summarize($1, $2, $3)";
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
        session: column(row, 4)?,
        created_at: column(row, 5)?,
    })
}

fn one<'a, T: tokio_postgres::types::FromSql<'a>>(rows: &'a [Row]) -> Result<T, MemoryError> {
    column(rows.first().ok_or(MemoryError::Unexpected)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_time_and_an_id() {
        let id = Uuid::nil();
        let place = Place::read(&format!("2026-11-23T07:00:00.000001Z~{id}"));
        assert_eq!(place, Some(Place { time: "2026-11-23T07:00:00.000001Z".to_owned(), id }));
        for cursor in ["", "~", "2026-11-23T07:00:00Z", "2026-11-23T07:00:00Z~1"] {
            assert_eq!(Place::read(cursor), None, "{cursor}");
        }
    }
}
