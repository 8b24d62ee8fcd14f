//! Rows of attached tables as they are read: from the transition tables of a trigger, as the role that wrote
//! them; or from the table itself, as its owner. Every name is qualified and quoted.

use crate::pg::attempt::attempt;
use crate::pg::memory_context::scratch;
use crate::store::attach::attached_tables::KeyColumn;
use crate::store::attach::attachments::Source;
use crate::store::attach::row_columns::{BEHIND, columns, key, source_row};
use crate::store::prelude::*;
use memory_agent_core::attached::Refusal;

pub use crate::store::attach::row_columns::SourceRow;

/// Rows that are handed on together, and bytes of their contents.
pub const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a table that are fetched, and locked, at once.
const FETCH: usize = 32;

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
    batches(spi, source, &sql, params![max_bytes], batch)
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
            "ARRAY[{row}.content, {row}.rest, {row}.bytes::pg_catalog.text, {row}.user_id, {row}.session_id, \
                   {row}.role]"
        )
    };
    let sql = format!(
        "/* {} */ SELECT n.key, n.content, n.bytes, n.user_id, n.session_id, n.role, \
                CASE WHEN n.created_at OPERATOR(pg_catalog.<>) o.created_at THEN n.created_at END, n.metadata, n.rest \
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
    batches(spi, source, &sql, params![max_bytes], batch)
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

/// Reads the keys of the rows that a statement added or changed, batch by batch.
pub fn written_keys(
    spi: &Spi,
    source: &Source,
    batch: impl FnMut(Vec<JsonbText>) -> PgResult<()>,
) -> PgResult<()> {
    let (number, key) = (source.table.to_u32(), key(source, "n"));
    keys(spi, &format!("/* {number} */ SELECT {key} FROM memory_agent_new n"), batch)
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
    source: &Source,
    sql: &str,
    mut params: Params,
    mut batch: impl FnMut(Vec<SourceRow>) -> PgResult<()>,
) -> PgResult<()> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    spi.scan(sql, &mut params, FETCH, |row| {
        let row = scratch(|| source_row(source, row))?;
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
    let read = |source: &Source| stretch(spi, source, key, after, most, max_bytes);
    unless_condition_fails(source, read, |mut stretch| {
        stretch.rows = one_by_one(spi, source, key, stretch.rows, max_bytes)?;
        Ok(stretch)
    })
}

fn stretch(
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
        let found = scratch(|| source_row(source, row))?;
        last = Some(row.required::<Vec<String>>(BEHIND)?);
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
    let read = |source: &Source| {
        spi.all(
            &format!(
                "SELECT {} FROM unnest($2::jsonb[]) k(key) JOIN {} t ON {} FOR SHARE OF t",
                columns(source, "t"),
                source.table_name,
                equal(key)
            ),
            &mut params![max_bytes, keys.to_vec()],
            |row| source_row(source, row),
        )
    };
    unless_condition_fails(source, read, |rows| one_by_one(spi, source, key, rows, max_bytes))
}

/// Reads rows, or where the attachment's condition fails on one of them reads them without it and has `mend` find out
/// for which it holds.
fn unless_condition_fails<T>(
    source: &Source,
    read: impl Fn(&Source) -> PgResult<T>,
    mend: impl FnOnce(T) -> PgResult<T>,
) -> PgResult<T> {
    if source.definition.reading.condition.is_none() {
        return read(source);
    }
    attempt(&source.being_read(), || read(source))
        .or_else(|_| read(&source.without_condition()).and_then(mend))
}

/// Rows that were read without the attachment's condition, with it; those on which it fails say so.
fn one_by_one(
    spi: &Spi,
    source: &Source,
    key: &[KeyColumn],
    rows: Vec<SourceRow>,
    max_bytes: i32,
) -> PgResult<Vec<SourceRow>> {
    let with_condition = |row: SourceRow| {
        let keys = [row.key.clone()];
        let found =
            attempt(&source.being_read(), || rows_of_each(spi, source, key, &keys, max_bytes));
        match found.map(|found| found.into_iter().flatten().next()) {
            Ok(found) => Ok(found.unwrap_or(row)),
            Err(state) => Ok(row.with_problem(Refusal::Condition(state))),
        }
    };
    rows.into_iter().map(with_condition).collect()
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
        |row| source_row(source, row),
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
    let read = |source: &Source| rows_of_each(spi, source, key, keys, max_bytes);
    unless_condition_fails(source, read, |found| {
        let each = found.into_iter();
        each.map(|rows| one_by_one(spi, source, key, rows, max_bytes)).collect()
    })
}

fn rows_of_each(
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
            let position = usize::try_from(row.required::<i64>(BEHIND)? - 1).unwrap_or(usize::MAX);
            if let Some(of_key) = found.get_mut(position) {
                of_key.push(source_row(source, row)?);
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
