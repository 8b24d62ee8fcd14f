//! Rows of attached tables as they are read: from the transition tables of a trigger, as the role that wrote
//! them; or from the table itself, as its owner. Every name is qualified and quoted.

use crate::pg::memory_context::scratch;
use crate::pg::spi::Row;
use crate::store::attached_tables::KeyColumn;
use crate::store::attachments::Source;
use crate::store::prelude::*;
use memory_agent_core::attached;
use pgrx::spi::quote_identifier;

/// Rows that are handed on together, and bytes of their contents.
pub const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a table that are fetched, and locked, at once.
const FETCH: usize = 32;

/// A row of an attached table.
#[derive(Clone, Debug)]
pub struct SourceRow {
    /// The values of its primary key, a JSON array: `entries.source_key`.
    pub key: JsonbText,
    /// `None` also where it is longer than content may be.
    pub content: Option<String>,
    pub content_bytes: usize,
    pub user_id: Option<String>,
    pub session_id: Option<String>,
    pub role: Option<String>,
    /// From when on it holds; from an update only if that changed it.
    pub created_at: Option<TimestampWithTimeZone>,
    pub metadata: JsonbText,
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
}

fn source_row(row: &Row<'_>) -> PgResult<SourceRow> {
    Ok(SourceRow {
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
    })
}

/// The key of a row of this name as JSON.
fn key(source: &Source, row: &str) -> String {
    let columns: Vec<String> =
        source.key.iter().map(|column| format!("{row}.{}", quote_identifier(column))).collect();
    format!("pg_catalog.jsonb_build_array({})", columns.join(", "))
}

/// The columns that [`source_row`] reads, of a row of this name; $1 is the most bytes of content.
fn columns(source: &Source, row: &str) -> String {
    let text = |column: &Option<String>| match column {
        Some(column) => format!("{row}.{}::pg_catalog.text", quote_identifier(column)),
        None => "NULL::pg_catalog.text".to_owned(),
    };
    let definition = &source.definition;
    let content = text(&Some(definition.content_column.clone()));
    let created_at = match &definition.created_at_column {
        Some(column) => format!("{row}.{}::pg_catalog.timestamptz", quote_identifier(column)),
        None => "NULL::pg_catalog.timestamptz".to_owned(),
    };
    let metadata: Vec<String> = source
        .metadata_keys
        .iter()
        .zip(&definition.metadata_columns)
        .map(|(name, column)| {
            let name = pgrx::spi::quote_literal(name);
            format!("{name}::pg_catalog.text, {row}.{}", quote_identifier(column))
        })
        .collect();
    format!(
        "{} AS key, \
         CASE WHEN pg_catalog.octet_length({content}) OPERATOR(pg_catalog.<=) $1 THEN {content} END AS content, \
         pg_catalog.octet_length({content}) AS bytes, {} AS user_id, {} AS session_id, {} AS role, \
         {created_at} AS created_at, pg_catalog.jsonb_build_object({}) AS metadata",
        key(source, row),
        text(&definition.user_id_column),
        text(&definition.session_id_column),
        text(&definition.role_column),
        metadata.join(", "),
    )
}

/// Reads the rows that a statement added, batch by batch. `spi` sees the transition tables.
pub fn added(
    spi: &Spi,
    source: &Source,
    max_bytes: i32,
    batch: impl FnMut(Vec<SourceRow>) -> PgResult<()>,
) -> PgResult<()> {
    let sql = format!(
        "/* {} */ SELECT {} FROM memory_agent_new n",
        source.table.to_u32(),
        columns(source, "n")
    );
    batches(spi, &sql, params![max_bytes], batch)
}

/// Reads the rows whose attached columns an update changed, batch by batch; a row whose key it changed
/// is new. Those of which only other columns changed are found here and nowhere else.
pub fn changed(
    spi: &Spi,
    source: &Source,
    max_bytes: i32,
    batch: impl FnMut(Vec<SourceRow>) -> PgResult<()>,
) -> PgResult<()> {
    // NULLs are equal to each other as elements of arrays.
    let texts = |row: &str| {
        format!(
            "ARRAY[{row}.content, {row}.bytes::pg_catalog.text, {row}.user_id, {row}.session_id, {row}.role]"
        )
    };
    let sql = format!(
        "/* {} */ SELECT n.key, n.content, n.bytes, n.user_id, n.session_id, n.role, \
                CASE WHEN n.created_at OPERATOR(pg_catalog.<>) o.created_at THEN n.created_at END, n.metadata \
           FROM (SELECT {} FROM memory_agent_new t) n \
           LEFT JOIN (SELECT {} FROM memory_agent_old t) o ON o.key OPERATOR(pg_catalog.=) n.key \
          WHERE o.key IS NULL OR {} OPERATOR(pg_catalog.<>) {} \
             OR n.metadata OPERATOR(pg_catalog.<>) o.metadata",
        source.table.to_u32(),
        columns(source, "t"),
        columns(source, "t"),
        texts("n"),
        texts("o"),
    );
    batches(spi, &sql, params![max_bytes], batch)
}

/// Whether the transition tables of an update hold a row twice: a foreign key changed it again, as part
/// of the same statement.
pub fn has_several_versions(spi: &Spi, source: &Source) -> PgResult<bool> {
    let twice = |table: &str| {
        format!(
            "EXISTS (SELECT FROM {table} t GROUP BY {} \
                     HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1)",
            key(source, "t")
        )
    };
    let sql = format!(
        "/* {} */ SELECT {} OR {}",
        source.table.to_u32(),
        twice("memory_agent_new"),
        twice("memory_agent_old")
    );
    let found = spi.row(&sql, &mut params![])?;
    Ok(found.unwrap_or(false))
}

/// Which keys a statement took away: all of the rows it deleted, or those that an update changed.
#[derive(Clone, Copy)]
pub enum Gone {
    Deleted,
    Rekeyed,
}

/// Reads the keys that a statement took away, batch by batch.
pub fn gone(
    spi: &Spi,
    source: &Source,
    which: Gone,
    batch: impl FnMut(Vec<JsonbText>) -> PgResult<()>,
) -> PgResult<()> {
    let unless_kept = match which {
        Gone::Deleted => String::new(),
        Gone::Rekeyed => format!(
            " WHERE NOT EXISTS (SELECT FROM memory_agent_new n WHERE {} OPERATOR(pg_catalog.=) {})",
            key(source, "n"),
            key(source, "o")
        ),
    };
    let sql = format!(
        "/* {} */ SELECT {} FROM memory_agent_old o{unless_kept}",
        source.table.to_u32(),
        key(source, "o")
    );
    keys(spi, &sql, batch)
}

/// Reads the keys of all rows of one table, batch by batch.
pub fn all_keys(
    spi: &Spi,
    source: &Source,
    batch: impl FnMut(Vec<JsonbText>) -> PgResult<()>,
) -> PgResult<()> {
    keys(spi, &format!("SELECT {} FROM ONLY {} t", key(source, "t"), source.table_name), batch)
}

fn keys(
    spi: &Spi,
    sql: &str,
    mut batch: impl FnMut(Vec<JsonbText>) -> PgResult<()>,
) -> PgResult<()> {
    let mut found = Vec::new();
    spi.scan(sql, &mut params![], BATCH, |row| {
        found.push(scratch(|| row.required::<JsonbText>(1))?);
        if found.len() >= BATCH {
            batch(std::mem::take(&mut found))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if found.is_empty() { Ok(()) } else { batch(found) }
}

fn batches(
    spi: &Spi,
    sql: &str,
    mut params: Params,
    mut batch: impl FnMut(Vec<SourceRow>) -> PgResult<()>,
) -> PgResult<()> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    spi.scan(sql, &mut params, FETCH, |row| {
        let row = scratch(|| source_row(row))?;
        bytes += row.content.as_ref().map_or(0, String::len);
        found.push(row);
        if found.len() >= BATCH || bytes >= BATCH_BYTES {
            bytes = 0;
            batch(std::mem::take(&mut found))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if found.is_empty() { Ok(()) } else { batch(found) }
}

/// A stretch of a table, and where it ends.
pub struct Stretch {
    pub rows: Vec<SourceRow>,
    /// The key of the last row as texts; `None` when there are no more rows.
    pub last: Option<Vec<String>>,
}

/// The next rows of a table after a key, in the order of their keys, at most `most`. They stay as they
/// are until the end of the transaction.
pub fn after(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    after: Option<&[String]>,
    most: usize,
    max_bytes: i32,
) -> PgResult<Stretch> {
    let mut params = params![max_bytes];
    let condition = match after {
        Some(values) => {
            params = params.with(values.to_vec());
            format!(" WHERE {}", behind(key))
        }
        None => String::new(),
    };
    let names: Vec<String> = key.iter().map(|column| format!("t.{}", column.name)).collect();
    let texts: Vec<String> = names.iter().map(|name| format!("{name}::text")).collect();
    let sql = format!(
        "SELECT {}, ARRAY[{}] FROM {} t{condition} ORDER BY {} LIMIT {most} FOR SHARE",
        columns(source, "t"),
        texts.join(", "),
        source.table_name,
        names.join(", "),
    );
    let (mut rows, mut last, mut bytes) = (Vec::new(), None, 0);
    spi.scan(&sql, &mut params, FETCH, |row| {
        let found = scratch(|| source_row(row))?;
        last = Some(row.required::<Vec<String>>(9)?);
        bytes += found.content.as_ref().map_or(0, String::len);
        rows.push(found);
        Ok(if bytes >= BATCH_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let is_end = rows.len() < most && bytes < BATCH_BYTES;
    Ok(Stretch { rows, last: last.filter(|_| !is_end) })
}

/// The condition that the key of `t` comes after $2, in a form of which the index serves the first
/// column: `a >= x AND (a > x OR a = x AND (b > y))`.
fn behind(key: &[KeyColumn]) -> String {
    let value = |position: usize| format!("($2[{}])::{}", position + 1, key[position].type_name);
    let mut condition = String::from("false");
    for (position, column) in key.iter().enumerate().rev() {
        let (name, value) = (format!("t.{}", column.name), value(position));
        let (greater, equal) = (&column.greater, &column.equal);
        condition = format!("({name} {greater} {value} OR {name} {equal} {value} AND {condition})");
    }
    let first = format!("t.{}", key[0].name);
    let (greater, equal) = (&key[0].greater, &key[0].equal);
    format!("({first} {greater} {0} OR {first} {equal} {0}) AND {condition}", value(0))
}

/// The rows of a table with these keys. They stay as they are until the end of the transaction.
pub fn with_keys(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    keys: &[JsonbText],
    max_bytes: i32,
) -> PgResult<Vec<SourceRow>> {
    spi.all(
        &format!(
            "SELECT {} FROM unnest($2::jsonb[]) k(key) JOIN {} t ON {} FOR SHARE OF t",
            columns(source, "t"),
            source.table_name,
            equal(key)
        ),
        &mut params![max_bytes, keys.to_vec()],
        source_row,
    )
}

/// Whether the role that runs this may read all rows of the table.
pub fn can_be_read(spi: &Spi, source: &Source) -> PgResult<bool> {
    let readable = spi.row(
        "SELECT pg_catalog.has_table_privilege($1, 'SELECT') AND NOT pg_catalog.row_security_active($1)",
        &mut params![source.table],
    )?;
    Ok(readable.unwrap_or(false))
}

/// The rows of the table whose keys an update's old versions have and its new ones lack. No code of the key's
/// types runs but their operators.
pub fn untold(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    max_bytes: i32,
) -> PgResult<Vec<SourceRow>> {
    let same = |row: &str| {
        let columns: Vec<String> = key
            .iter()
            .map(|column| format!("{row}.{0} {1} o.{0}", column.name, column.equal))
            .collect();
        columns.join(" AND ")
    };
    spi.all(
        &format!(
            "/* {} */ SELECT {} FROM memory_agent_old o JOIN {} t ON {} \
              WHERE NOT EXISTS (SELECT FROM memory_agent_new n WHERE {})",
            source.table.to_u32(),
            columns(source, "t"),
            source.table_name,
            same("t"),
            same("n"),
        ),
        &mut params![max_bytes],
        source_row,
    )
}

/// For each of these keys the rows that the table has as this transaction sees it: one or none, and two
/// while a deferred key is double.
pub fn of_each(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    keys: &[JsonbText],
    max_bytes: i32,
) -> PgResult<Vec<Vec<SourceRow>>> {
    let mut found: Vec<Vec<SourceRow>> = keys.iter().map(|_| Vec::new()).collect();
    spi.for_each(
        &format!(
            "SELECT {}, k.position FROM unnest($2::jsonb[]) WITH ORDINALITY k(key, position) JOIN {} t ON {}",
            columns(source, "t"),
            source.table_name,
            equal(key)
        ),
        &mut params![max_bytes, keys.to_vec()],
        |row| {
            let position = usize::try_from(row.required::<i64>(9)? - 1).unwrap_or(usize::MAX);
            if let Some(of_key) = found.get_mut(position) {
                of_key.push(source_row(row)?);
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// Those of these keys that no row of the table has.
pub fn vanished(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    keys: &[JsonbText],
) -> PgResult<Vec<JsonbText>> {
    spi.rows(
        &format!(
            "SELECT k.key FROM unnest($1::jsonb[]) k(key) \
              WHERE NOT EXISTS (SELECT FROM {} t WHERE {})",
            source.table_name,
            equal(key)
        ),
        &mut params![keys.to_vec()],
    )
}

/// The condition that `t` is the row of the key `k.key`.
fn equal(key: &[KeyColumn]) -> String {
    let columns = key.iter().enumerate().map(|(position, column)| {
        format!("t.{} {} (k.key ->> {position})::{}", column.name, column.equal, column.type_name)
    });
    columns.collect::<Vec<_>>().join(" AND ")
}
