//! `memory-agent add`, `recall` and `forget`: one call of memory, for scripts.

use super::{memory_of, plain, say};
use crate::args::{Add, Forget, Recall};
use crate::db::memory::{Param, column};
use crate::screen;
use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// How long a call may take: a large text is embedded, and a cold model loaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stores a fact, and prints its id, or the id of the fact that says the same.
///
/// # Errors
/// Why it is not stored.
pub async fn add(options: Add) -> Result<bool, String> {
    let text = match options.text.as_str() {
        "-" => {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| format!("standard input: {error}"))?;
            text.trim_end().to_owned()
        }
        text => text.to_owned(),
    };
    let (memory, user) = memory_of(&options.person).await?;
    let sql = "SELECT memory_add($1, session_id => $2, user_id => $3, infer => false)::text";
    let params: [Param<'_>; 3] =
        [(&text, Type::TEXT), (&options.session, Type::TEXT), (&user, Type::TEXT)];
    let rows = memory.call(&user, PATIENCE, sql, &params).await.map_err(|error| plain(&error))?;
    let id = rows.first().map(|row| column::<String>(row, 0)).transpose();
    print(&id.map_err(|error| plain(&error))?.unwrap_or_default())?;
    Ok(true)
}

/// Prints the memories that answer a question, best first, a line each.
///
/// # Errors
/// Why there are none.
pub async fn recall(options: Recall) -> Result<bool, String> {
    let (memory, user) = memory_of(&options.person).await?;
    let line = if options.json {
        "jsonb_build_object('id', r.id, 'score', round(r.score::numeric, 3), 'kind', r.kind, 'role', r.role, \
            'session_id', r.session_id, 'created_at', r.created_at, 'content', r.content)::text"
    } else {
        "concat_ws(E'\\t', r.id, to_char(r.score, 'FM0.000'), \
            to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), \
            translate(r.content, E'\\t\\n\\r', '   '))"
    };
    let sql = format!(
        "SELECT {line} FROM memory_recall($1, user_id => $2, top_k => $3::int4) WITH ORDINALITY r ORDER BY ordinality"
    );
    let params: [Param<'_>; 3] =
        [(&options.question, Type::TEXT), (&user, Type::TEXT), (&options.top_k, Type::INT4)];
    let rows = memory.call(&user, PATIENCE, &sql, &params).await.map_err(|error| plain(&error))?;
    for row in &rows {
        print(column(row, 0).map_err(|error| plain(&error))?)?;
    }
    Ok(true)
}

/// Forgets memories; whether all of them were there.
///
/// # Errors
/// Why one is not forgotten.
pub async fn forget(options: Forget) -> Result<bool, String> {
    let (memory, user) = memory_of(&options.person).await?;
    let sql = "SELECT memory_forget($1, $2, user_id => $3)";
    let mut all = true;
    for id in &options.ids {
        let params: [Param<'_>; 3] =
            [(id, Type::UUID), (&options.reason, Type::TEXT), (&user, Type::TEXT)];
        let rows =
            memory.call(&user, PATIENCE, sql, &params).await.map_err(|error| plain(&error))?;
        let forgotten = rows.first().map(|row| column::<bool>(row, 0)).transpose();
        if forgotten.map_err(|error| plain(&error))? != Some(true) {
            missing(*id);
            all = false;
        }
    }
    Ok(all)
}

fn missing(id: Uuid) {
    say(&format!("memory-agent: {id}: there is no such memory"));
}

/// Prints a line; a terminal gets nothing that moves its cursor.
fn print(line: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let printed = if out.is_terminal() {
        writeln!(out, "{}", screen::lines(line))
    } else {
        writeln!(out, "{line}")
    };
    printed.map_err(|error| format!("standard output: {error}"))
}
