//! The turns of `memory_ingest_batch`, read from their jsonb array.

use crate::api::prelude::*;
use crate::memory::texts::turn::Turn;
use crate::pg::sql_types::without_nulls;
use memory_agent_core::limits::MAX_TURNS;
use pgrx::pg_sys::panic::CaughtError;
use std::panic::AssertUnwindSafe;

/// Reads the turns of a batch. PostgreSQL parses the values, so that times and intervals mean what
/// they mean elsewhere in SQL.
pub fn parse(turns: JsonbText, session_id: Option<String>) -> PgResult<Vec<Turn>> {
    const HINT: &str = "Example: [{\"role\": \"user\", \"content\": \"I moved to Rome.\", \"created_at\": \
                        \"2026-01-31T10:00:00Z\", \"metadata\": {\"name\": \"Ada\"}}]. Keys: session_id, role, \
                        content, metadata, markers, created_at, ttl.";
    // No table is read and no text becomes SQL, so this runs as the caller.
    let spi = Spi::read_only()?;
    let problem = spi.row::<Option<String>>(
        include_str!("sql/problem_of_turns.sql"),
        &mut params![turns.clone(), MAX_TURNS as i32],
    )?;
    if let Some(problem) = problem.flatten() {
        return Err(Error::invalid(problem, HINT));
    }
    PgTryBuilder::new(AssertUnwindSafe(|| rows(&spi, turns, session_id)))
        .catch_when(PgSqlErrorCode::ERRCODE_INVALID_DATETIME_FORMAT, |error| Err(bad_time(error)))
        .catch_when(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, |error| Err(bad_time(error)))
        .execute()
}

/// A time that PostgreSQL cannot read, as the wrong argument it is. The statement ends with it.
fn bad_time(error: CaughtError) -> ErrorReport {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    Error::invalid(
        report.message().to_owned(),
        "created_at is a timestamp such as 2026-01-31T10:00:00Z, ttl an interval such as 7 days.",
    )
}

/// The turns as PostgreSQL reads them.
fn rows(spi: &Spi, turns: JsonbText, session_id: Option<String>) -> PgResult<Vec<Turn>> {
    spi.all(
        "SELECT t.turn OPERATOR(pg_catalog.->>) 'session_id', t.turn OPERATOR(pg_catalog.->>) 'role', \
                t.turn OPERATOR(pg_catalog.->>) 'content', \
                CASE WHEN pg_catalog.jsonb_typeof(t.turn OPERATOR(pg_catalog.->) 'metadata') OPERATOR(pg_catalog.=) 'object' \
                     THEN t.turn OPERATOR(pg_catalog.->) 'metadata' ELSE '{}' END, \
                CASE WHEN pg_catalog.jsonb_typeof(t.turn OPERATOR(pg_catalog.->) 'markers') OPERATOR(pg_catalog.=) 'array' \
                     THEN ARRAY(SELECT m.marker FROM pg_catalog.jsonb_array_elements_text(t.turn OPERATOR(pg_catalog.->) 'markers') m(marker)) END, \
                (t.turn OPERATOR(pg_catalog.->>) 'created_at')::pg_catalog.timestamptz, \
                (t.turn OPERATOR(pg_catalog.->>) 'ttl')::pg_catalog.interval \
           FROM pg_catalog.jsonb_array_elements($1) WITH ORDINALITY t(turn, position) ORDER BY t.position",
        &mut params![turns],
        |row| {
            Ok(Turn {
                session_id: row
                    .optional::<String>(1)
                    .or_else(|| session_id.clone())
                    .unwrap_or_default(),
                role: row.optional(2).unwrap_or_default(),
                content: row.optional(3).unwrap_or_default(),
                metadata: row.required(4)?,
                markers: row.optional::<Vec<Option<String>>>(5).map(without_nulls).transpose()?,
                created_at: row.optional(6),
                ttl: row.optional(7),
            })
        },
    )
}
