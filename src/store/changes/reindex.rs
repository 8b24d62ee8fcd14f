//! Rows of all users, in the order of their ids, whose hash and words an older version made of their text: those with
//! characters beyond ASCII. Every other text has the same form now as then.

use crate::identity::SHARED_USER;
use crate::store::prelude::*;
use crate::store::rows::lexemes::Lexemes;

/// What is gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Entries,
    Archives,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Archives => "archives",
        }
    }
}

/// The largest id that there is.
pub fn last_id(spi: &Spi, table: Table) -> PgResult<Option<Uuid>> {
    let table = table.name();
    let statement = format!("SELECT r.id FROM memory_agent.{table} r ORDER BY r.id DESC LIMIT 1");
    spi.row(&statement, &mut params![])
}

/// How many rows there are, as the planner counts them.
pub fn estimated_rows(spi: &Spi, table: Table) -> PgResult<i64> {
    let table = format!("memory_agent.{}", table.name());
    spi.one(
        "SELECT greatest(c.reltuples, 0)::int8 FROM pg_class c WHERE c.oid = $1::regclass",
        &mut params![table],
    )
}

/// The last id and the number of the next rows, at most `most`, from `after` to `until`. Two users may have rows with
/// one id: those of the last one are all meant.
pub fn page(
    spi: &Spi,
    table: Table,
    (after, until): (Uuid, Uuid),
    most: i64,
) -> PgResult<Option<(Uuid, i64)>> {
    let table = table.name();
    spi.row(
        &format!(
            "SELECT p.id, p.place FROM ( \
                SELECT r.id, row_number() OVER (ORDER BY r.id) AS place FROM memory_agent.{table} r \
                 WHERE r.id > $1 AND r.id <= $2 ORDER BY r.id LIMIT $3) p \
              ORDER BY p.place DESC LIMIT 1"
        ),
        &mut params![after, until, most],
    )
}

/// The place of a row, and the bytes of its text.
pub type Place = (String, Uuid, i64);

/// The rows after an id and up to another one whose text has characters beyond ASCII, in the order of their ids.
pub fn beyond_ascii(spi: &Spi, table: Table, after: Uuid, until: Uuid) -> PgResult<Vec<Place>> {
    let table = table.name();
    spi.rows(
        &format!(
            "SELECT r.user_id, r.id, octet_length(r.content)::int8 FROM memory_agent.{table} r \
              WHERE r.id > $1 AND r.id <= $2 \
                AND (octet_length(r.content) <> length(r.content) \
                  OR octet_length(r.metadata ->> 'name') <> length(r.metadata ->> 'name')) \
              ORDER BY r.id, r.user_id"
        ),
        &mut params![after, until],
    )
}

/// A row as far as its hash and its words are made of it.
pub struct Row {
    pub user_id: String,
    pub id: Uuid,
    pub content: String,
    pub metadata: JsonbText,
    pub content_hash: Option<Vec<u8>>,
    /// The configuration that it was indexed by, if that is still there; an archive has none.
    pub configuration: Option<String>,
}

record!(Row: user_id id content metadata content_hash configuration);

/// These rows, locked until the end of the transaction. It waits for none: those that others have locked, and those
/// that are gone, are left out.
pub fn locked(spi: &Spi, table: Table, places: &[Place]) -> PgResult<Vec<Row>> {
    let configuration = match table {
        Table::Entries => {
            "(SELECT r.lexeme_config WHERE EXISTS (SELECT FROM pg_ts_config c \
                                                   WHERE c.oid::regconfig::text = r.lexeme_config))"
        }
        Table::Archives => "NULL::text",
    };
    let table = table.name();
    let users: Vec<String> = places.iter().map(|(user_id, ..)| user_id.clone()).collect();
    let ids: Vec<Uuid> = places.iter().map(|(_, id, _)| *id).collect();
    spi.rows(
        &format!(
            "SELECT r.user_id, r.id, r.content, r.metadata, r.content_hash, {configuration} \
               FROM unnest($1::text[], $2::uuid[]) place(user_id, id) \
               JOIN memory_agent.{table} r ON r.user_id = place.user_id AND r.id = place.id \
              ORDER BY r.id, r.user_id FOR NO KEY UPDATE OF r SKIP LOCKED"
        ),
        &mut params![users, ids],
    )
}

/// Whether one of these rows is there.
pub fn is_any_there(spi: &Spi, table: Table, places: &[(String, Uuid)]) -> PgResult<bool> {
    let table = table.name();
    let (users, ids): (Vec<String>, Vec<Uuid>) = places.iter().cloned().unzip();
    spi.exists(
        &format!(
            "SELECT true FROM unnest($1::text[], $2::uuid[]) place(user_id, id) \
               JOIN memory_agent.{table} r ON r.user_id = place.user_id AND r.id = place.id LIMIT 1"
        ),
        &mut params![users, ids],
    )
}

/// Gives an entry its hash and, if there are any, its words; whether they were others.
pub fn renew_entry(spi: &Spi, row: &Row, hash: &[u8], words: Option<Lexemes>) -> PgResult<bool> {
    spi.changes(
        "UPDATE memory_agent.entries e \
            SET content_hash = $3, lexemes = coalesce($4, e.lexemes), doc_len = coalesce($5, e.doc_len) \
          WHERE e.user_id = $1 AND e.id = $2 \
            AND (e.content_hash IS DISTINCT FROM $3 OR e.lexemes <> $4)",
        &mut params![
            &row.user_id, row.id, hash.to_vec(), words, words.map(Lexemes::document_length),
        ],
    )
}

/// Gives an archive its hash, unless its scope has a document with that: two from before may differ in their form
/// alone, and both stay.
pub fn renew_archive(spi: &Spi, row: &Row, hash: &[u8]) -> PgResult<bool> {
    spi.changes(
        "UPDATE memory_agent.archives a SET content_hash = $3 \
          WHERE a.user_id = $1 AND a.id = $2 AND a.content_hash <> $3 \
            AND (a.doc_type = 'conversation' \
              OR NOT EXISTS (SELECT FROM memory_agent.archives o \
                              WHERE o.user_id = $1 AND o.agent_id = a.agent_id \
                                AND coalesce(o.session_id, '') = coalesce(a.session_id, '') \
                                AND o.content_hash = $3 AND o.doc_type <> 'conversation'))",
        &mut params![&row.user_id, row.id, hash.to_vec()],
    )
}

/// A job that is not done: its id, `pending`, `running` or `dead`, and how many rows it looked at of how many.
pub struct Underway {
    pub job: Uuid,
    pub status: String,
    pub done: i64,
    pub of: i64,
}

record!(Underway: job status done of);

/// The job that is not done, if any.
pub fn underway(spi: &Spi) -> PgResult<Option<Underway>> {
    spi.row(
        "SELECT j.id, j.status, coalesce(j.progress, 0), greatest(j.progress, j.progress_of, 0) \
           FROM memory_agent.jobs j \
          WHERE j.user_id = $1 AND j.session_id IS NULL AND j.kind = 'reindex' AND j.status <> 'done' \
          ORDER BY j.id DESC LIMIT 1",
        &mut params![SHARED_USER],
    )
}
