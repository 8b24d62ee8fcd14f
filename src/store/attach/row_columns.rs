//! What is read of a row of an attached table, as its attachment says: the key, the content (of several columns, at a
//! path in JSON, under a condition), user, session, role, time and metadata. Every name is qualified and quoted.

use crate::pg::spi::Row;
use crate::store::attach::attachments::{Reading, Source};
use crate::store::prelude::*;
use memory_agent_core::attached::{self, Refusal};
use memory_agent_core::row_json::Document;
use pgrx::spi::{quote_identifier, quote_literal};

/// The column of a query that comes behind [`columns`].
pub const BEHIND: usize = 10;
/// What stands between the texts of two columns.
const BETWEEN: char = '\n';

/// A row of an attached table.
#[derive(Clone, Debug)]
pub struct SourceRow {
    /// The values of its primary key, a JSON array: `entries.source_key`.
    pub key: JsonbText,
    /// `None` also where it is longer than content may be, and where the attachment's condition does not hold.
    pub content: Option<String>,
    pub content_bytes: usize,
    pub user_id: Option<String>,
    pub session_id: Option<String>,
    pub role: Option<String>,
    /// From when on it holds; from an update only if that changed it.
    pub created_at: Option<TimestampWithTimeZone>,
    pub metadata: JsonbText,
    /// Why its content cannot be read.
    pub problem: Option<Refusal>,
}

impl SourceRow {
    /// The row as far as it decides what is remembered, for a user and a role that are settled.
    pub fn row<'a>(&'a self, user_id: Option<&'a str>, role: &'a str) -> attached::Row<'a> {
        attached::Row {
            key: &self.key.0,
            content: self.content.as_deref(),
            content_bytes: self.content_bytes,
            user_id,
            session_id: self.session_id.as_deref(),
            role,
            metadata_bytes: self.metadata.0.len(),
        }
    }

    /// The same row, of which it is not known whether it is to be remembered.
    pub fn with_problem(self, problem: Refusal) -> Self {
        Self { content: None, problem: Some(problem), ..self }
    }

    /// Reads the content where it is JSON, and calls the role by our name; false if rows of that role are not
    /// remembered.
    fn interpret(&mut self, reading: &Reading, has_role_column: bool) -> Result<bool, Refusal> {
        let read = |text: &Option<String>| text.as_deref().map(Document::read).transpose();
        if let Some(path) = &reading.role_path.0 {
            let holder = if has_role_column { &self.role } else { &self.content };
            let document = read(holder).map_err(Refusal::NotJson)?;
            self.role = document.and_then(|document| document.role_at(path));
        }
        if let Some(path) = &reading.content_path.0 {
            let document = read(&self.content).map_err(Refusal::NotJson)?;
            self.content = document.and_then(|document| document.text_at(path));
        }
        let Some(role) = &self.role else { return Ok(true) };
        self.role = reading.role_map.role(role).map(str::to_owned);
        Ok(self.role.is_some())
    }
}

/// Reads a row of a query that begins with [`columns`].
pub fn source_row(source: &Source, row: &Row<'_>) -> PgResult<SourceRow> {
    let mut found = SourceRow {
        key: row.required(1)?,
        content: row.optional(2),
        content_bytes: row.optional::<i32>(3).unwrap_or(0).max(0) as usize,
        user_id: row.optional(4),
        session_id: row.optional::<String>(5).filter(|session| !session.is_empty()),
        role: row.optional(6),
        created_at: row
            .optional::<TimestampWithTimeZone>(7)
            .filter(|at| !at.is_infinity() && !at.is_neg_infinity()),
        metadata: row.required(8)?,
        problem: None,
    };
    let rest: Option<String> = row.optional(9);
    if found.content.is_none() && rest.is_none() {
        return Ok(found);
    }
    let has_role_column = source.definition.role_column.is_some();
    match found.interpret(&source.definition.reading, has_role_column) {
        Err(refusal) => return Ok(found.with_problem(refusal)),
        Ok(false) => found.content = None,
        Ok(true) => found.content = joined(found.content, rest),
    }
    found.content_bytes = found.content.as_deref().map_or(0, str::len);
    Ok(found)
}

fn joined(content: Option<String>, rest: Option<String>) -> Option<String> {
    let written = |text: &String| !text.trim().is_empty();
    match (content.filter(written), rest.filter(written)) {
        (Some(content), Some(rest)) => Some(format!("{content}{BETWEEN}{rest}")),
        (content, rest) => content.or(rest),
    }
}

/// The key of a row of this name as JSON.
pub fn key(source: &Source, row: &str) -> String {
    let columns: Vec<String> =
        source.key.iter().map(|column| format!("{row}.{}", quote_identifier(column))).collect();
    format!("pg_catalog.jsonb_build_array({})", columns.join(", "))
}

/// The columns that [`source_row`] reads, of a row of this name; $1 is the most bytes of content.
pub fn columns(source: &Source, row: &str) -> String {
    let cast = |column: &String| format!("{row}.{}::pg_catalog.text", quote_identifier(column));
    let text =
        |column: &Option<String>| column.as_ref().map_or("NULL::pg_catalog.text".to_owned(), cast);
    let definition = &source.definition;
    let reading = &definition.reading;
    let under_condition = |value: String| match reading.holds(row) {
        Some(holds) => format!("CASE WHEN {holds} THEN {value} END"),
        None => value,
    };
    let content = under_condition(cast(&definition.content_column));
    let mut bytes = format!("pg_catalog.octet_length({content})");
    let mut rest = None;
    if !reading.more_content_columns.is_empty() {
        let more: Vec<String> = reading.more_content_columns.iter().map(cast).collect();
        let more = under_condition(format!("pg_catalog.concat_ws(E'\\n', {})", more.join(", ")));
        bytes = format!(
            "coalesce({bytes}, 0) OPERATOR(pg_catalog.+) coalesce(pg_catalog.octet_length({more}), 0)"
        );
        rest = Some(more);
    }
    let if_it_fits =
        |value: &str| format!("CASE WHEN {bytes} OPERATOR(pg_catalog.<=) $1 THEN {value} END");
    let created_at = match &definition.created_at_column {
        Some(column) => format!("{row}.{}::pg_catalog.timestamptz", quote_identifier(column)),
        None => "NULL::pg_catalog.timestamptz".to_owned(),
    };
    let metadata: Vec<String> = source
        .metadata_keys
        .iter()
        .zip(&definition.metadata_columns)
        .map(|(name, column)| {
            let name = quote_literal(name);
            format!("{name}::pg_catalog.text, {row}.{}", quote_identifier(column))
        })
        .collect();
    format!(
        "{} AS key, {} AS content, {bytes} AS bytes, {} AS user_id, {} AS session_id, {} AS role, \
         {created_at} AS created_at, pg_catalog.jsonb_build_object({}) AS metadata, {} AS rest",
        key(source, row),
        if_it_fits(&content),
        text(&definition.user_id_column),
        text(&definition.session_id_column),
        text(&definition.role_column),
        metadata.join(", "),
        rest.as_deref().map_or_else(|| text(&None), if_it_fits),
    )
}
