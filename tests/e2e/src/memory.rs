//! Calls of the extension's functions, with their rows as Rust values.
//!
//! Arguments are SQL text, as a user would write them: `recall(&mut c, "'Where?', top_k => 3")`.

use chrono::{DateTime, Utc};
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Error};
use serde_json::Value;
use uuid::Uuid;

/// A row of `memory_recall`.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    pub id: Uuid,
    pub kind: String,
    pub role: String,
    pub content: String,
    pub score: f32,
    pub relevance: f32,
    pub similarity: Option<f32>,
    pub lexical: Option<f32>,
    pub recency: f32,
    pub markers: Vec<String>,
    pub token_count: i32,
    pub session_id: Option<String>,
    pub episode_id: Option<Uuid>,
    pub metadata: Value,
    pub created_at: DateTime<Utc>,
}

/// The rows of `memory_recall(arguments)`, or why there are none.
pub fn try_recall(client: &mut Client, arguments: &str) -> Result<Vec<Recalled>, Error> {
    let rows = client.query(&format!("SELECT * FROM memory_recall({arguments})"), &[])?;
    let row = |row: &postgres::Row| Recalled {
        id: row.get("id"),
        kind: row.get("kind"),
        role: row.get("role"),
        content: row.get("content"),
        score: row.get("score"),
        relevance: row.get("relevance"),
        similarity: row.get("similarity"),
        lexical: row.get("lexical"),
        recency: row.get("recency"),
        markers: row.get("markers"),
        token_count: row.get("token_count"),
        session_id: row.get("session_id"),
        episode_id: row.get("episode_id"),
        metadata: row.get("metadata"),
        created_at: row.get("created_at"),
    };
    Ok(rows.iter().map(row).collect())
}

/// The rows of `memory_recall(arguments)`.
#[track_caller]
pub fn recall(client: &mut Client, arguments: &str) -> Vec<Recalled> {
    match try_recall(client, arguments) {
        Ok(rows) => rows,
        Err(error) => panic!("memory_recall({arguments}): {error:?}"),
    }
}

/// The contents that `memory_recall(arguments)` returns, in its order.
#[track_caller]
pub fn recalled_texts(client: &mut Client, arguments: &str) -> Vec<String> {
    recall(client, arguments).into_iter().map(|row| row.content).collect()
}

/// The document of `memory_explain(arguments)`.
#[track_caller]
pub fn explain(client: &mut Client, arguments: &str) -> Value {
    value(client, &format!("SELECT memory_explain({arguments})"), &[])
}

/// Stores one turn of role `user`.
#[track_caller]
pub fn ingest(client: &mut Client, session: &str, content: &str) -> Uuid {
    value(client, "SELECT memory_ingest($1, 'user', $2)", &[&session, &content])
}

/// Stores turns of role `user` in one statement.
#[track_caller]
pub fn ingest_all(client: &mut Client, session: &str, contents: &[&str]) -> Vec<Uuid> {
    let turns: Vec<Value> = contents
        .iter()
        .map(|content| serde_json::json!({"role": "user", "content": content}))
        .collect();
    values(client, "SELECT memory_ingest_batch($1, $2)", &[&Value::from(turns), &session])
}

/// What the worker leaves behind if a turn said two things, and one of them no longer holds: the facts `was` and
/// `holds` of the turn, and `now`, of another turn, which replaced the first.
#[track_caller]
pub fn replace_fact_of(client: &mut Client, turn: Uuid, was: &str, now: &str, holds: &str) {
    let key = format!("of {turn}");
    let add = "SELECT memory_add($1, infer => false, fact_key => $2, created_at => $3::text::timestamptz)";
    for (text, key, day) in [
        (was, Some(&key), "2024-01-01"),
        (now, Some(&key), "2024-06-01"),
        (holds, None, "2024-01-01"),
    ] {
        value::<Uuid>(client, add, &[&text, &key, &day]);
    }
    let extracted = "UPDATE memory_agent.entries SET metadata = '{\"job_id\": \"its job\"}', fact_key = NULL, \
                     source_ids = CASE WHEN content = ANY ($2) THEN ARRAY[$1::uuid] ELSE '{}' END \
                     WHERE kind = 'fact' AND (fact_key = $3 OR content = ANY ($2))";
    let updated = client.execute(extracted, &[&turn, &[was, holds].as_slice(), &key]);
    assert_eq!(
        updated.unwrap_or_else(|error| panic!("{error:?}")),
        3,
        "{was:?}, {now:?}, {holds:?}"
    );
}

/// The one value that a query returns.
#[track_caller]
pub fn value<T: FromSqlOwned>(client: &mut Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
    match client.query_one(sql, params) {
        Ok(row) => row.get(0),
        Err(error) => panic!("{sql}: {error:?}"),
    }
}

/// The first column of all rows that a query returns.
#[track_caller]
pub fn values<T: FromSqlOwned>(
    client: &mut Client,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Vec<T> {
    match client.query(sql, params) {
        Ok(rows) => rows.iter().map(|row| row.get(0)).collect(),
        Err(error) => panic!("{sql}: {error:?}"),
    }
}

/// Runs statements that return nothing of interest.
#[track_caller]
pub fn run(client: &mut Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql) {
        panic!("{sql}: {error:?}");
    }
}

/// A prompt without the days of its memories, which are those of the test: `[user, 2026-03-01]` is `[user]`.
#[must_use]
pub fn undated(prompt: &str) -> String {
    let mut rest = prompt;
    let mut text = String::new();
    while let Some(at) = rest.find(", ") {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        let is_day = after.get(2..13).is_some_and(|day| {
            day.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                10 => byte == b']',
                _ => byte.is_ascii_digit(),
            })
        });
        let end = if is_day { 12 } else { 2 };
        if !is_day {
            text.push_str(", ");
        }
        rest = &after[end..];
    }
    text + rest
}

/// Has the LLM of the settings count as one that has passed the probe.
pub fn trust_llm(client: &mut Client) {
    run(
        client,
        "INSERT INTO memory_agent.llm_probes (base_url, model, probe, right_answers, valid_until) \
         VALUES (current_setting('memory_agent.llm_base_url'), current_setting('memory_agent.llm_model'), \
                 'choices', 16, now() + interval '1 day') \
         ON CONFLICT (base_url, model, probe) DO UPDATE \
            SET right_answers = 16, valid_until = excluded.valid_until",
    );
}
