//! The entries of attached tables' rows: `entries.source_relation` is the attachment's name of the
//! table, `source_key` the row's primary key as a JSON array. They are turns that are not extracted from
//! and that no limit of a window counts.

use crate::pg::pinned_settings::{by_index, by_list};
use crate::pg::prelude::*;
use crate::pg::spi::sees_one_snapshot;
use crate::store::attach::attachments::Source;
use crate::store::attach::source_rows::{BATCH, SourceRow};
use crate::store::rows::forms::content_hash;
use crate::store::rows::history;
use crate::store::rows::lexemes::Lexemes;
use std::collections::{BTreeMap, HashMap};

/// The entry that a row has.
pub struct Known {
    pub user_id: String,
    pub agent_id: String,
    pub id: Uuid,
    pub session_id: Option<String>,
    pub role: String,
    pub content_hash: Option<Vec<u8>>,
    pub metadata: JsonbText,
    pub same_metadata: bool,
    pub created_at: TimestampWithTimeZone,
}

record!(Known: id user_id agent_id session_id role content_hash metadata created_at; same_metadata);

/// The entries that rows have, per row, oldest first; normally one. They stay as they are until the end
/// of the transaction.
///
/// Each key is looked up by itself, and each entry by its user and id (an id alone may be another user's
/// as well): a join with the keys would be planned by what statistics say of a table that is just being
/// filled, and read all of it for each row.
pub fn known(spi: &Spi, label: &str, rows: &[SourceRow]) -> PgResult<Vec<Vec<Known>>> {
    let mut found: Vec<Vec<Known>> = rows.iter().map(|_| Vec::new()).collect();
    let mut positions: HashMap<(String, Uuid), usize> = HashMap::new();
    let keys: Vec<JsonbText> = rows.iter().map(|row| row.key.clone()).collect();
    spi.for_each(
        "SELECT k.position, f.user_id, f.id \
           FROM unnest($2::jsonb[]) WITH ORDINALITY k(key, position), \
                LATERAL (SELECT e.user_id, e.id FROM memory_agent.entries e \
                          WHERE e.source_relation = $1 AND e.source_key = k.key \
                            AND e.source_key IS NOT NULL AND e.state <> 'inactive' OFFSET 0) f",
        &mut params![label, keys],
        |row| {
            let position = usize::try_from(row.required::<i64>(1)? - 1).unwrap_or(usize::MAX);
            positions.insert((row.required(2)?, row.required(3)?), position);
            Ok(())
        },
    )?;
    if positions.is_empty() {
        return Ok(found);
    }
    let (users, ids): (Vec<String>, Vec<Uuid>) = positions.keys().cloned().unzip();
    let mut params = params![users, ids];
    let sql = "SELECT e.id, e.user_id, e.agent_id, e.session_id, e.role, e.content_hash, e.metadata, e.created_at \
           FROM unnest($1::text[], $2::uuid[]) n(user_id, id) \
           JOIN memory_agent.entries e ON e.user_id = n.user_id AND e.id = n.id \
          WHERE e.id = ANY ($2) AND e.state <> 'inactive' \
          ORDER BY e.created_at, e.id, e.user_id FOR UPDATE OF e";
    let known: Vec<Known> = by_list(|| spi.rows(sql, &mut params))?;
    for mut one in known {
        let Some(&position) = positions.get(&(one.user_id.clone(), one.id)) else { continue };
        let (Some(of_row), Some(row_now)) = (found.get_mut(position), rows.get(position)) else {
            continue;
        };
        one.same_metadata = one.metadata == row_now.metadata;
        of_row.push(one);
    }
    Ok(found)
}

/// Divides rows into those whose entries this transaction sees as they are, and those whose entries others
/// stored or changed since its snapshot was taken. Where one snapshot holds for a whole transaction, to
/// touch these would be a serialization failure; elsewhere there are none.
pub fn in_sight<T>(
    label: &str,
    rows: Vec<T>,
    key: impl Fn(&T) -> &JsonbText,
) -> PgResult<(Vec<T>, Vec<T>)> {
    if !sees_one_snapshot() {
        return Ok((rows, Vec::new()));
    }
    let keys: Vec<JsonbText> = rows.iter().map(|row| key(row).clone()).collect();
    by_index(|| {
        let seen = versions(&Spi::read_write()?, label, &keys)?;
        let latest = versions(&Spi::read_latest()?, label, &keys)?;
        let mut same = seen.iter().zip(&latest).map(|(seen, latest)| seen == latest);
        Ok(rows.into_iter().partition(|_| same.next() == Some(true)))
    })
}

/// Per key the row versions of its entries.
fn versions(spi: &Spi, label: &str, keys: &[JsonbText]) -> PgResult<Vec<Option<String>>> {
    spi.rows(
        "SELECT v.rows FROM unnest($2::jsonb[]) WITH ORDINALITY k(key, position), \
                LATERAL (SELECT string_agg(e.ctid || ' ' || e.xmin, ',' ORDER BY e.ctid) AS rows \
                           FROM memory_agent.entries e \
                          WHERE e.source_relation = $1 AND e.source_key = k.key \
                            AND e.source_key IS NOT NULL AND e.state <> 'inactive') v \
          ORDER BY k.position",
        &mut params![label, keys.to_vec()],
    )
}

/// An entry to be stored.
pub struct NewRow<'a> {
    pub id: Uuid,
    pub row: &'a SourceRow,
    pub user_id: &'a str,
    pub role: &'a str,
    pub content: &'a str,
    pub indexed_text: String,
    /// An estimate.
    pub token_count: i32,
    pub markers: Vec<String>,
    pub created_at: TimestampWithTimeZone,
}

/// Stores entries, and returns how many there are: one that another transaction stored meanwhile is
/// left out.
pub fn insert(
    spi: &Spi,
    source: &Source,
    configuration: &str,
    rows: &[NewRow<'_>],
) -> PgResult<u64> {
    if rows.is_empty() {
        return Ok(0);
    }
    let lexemes = rows
        .iter()
        .map(|row| Lexemes::index(spi, configuration, &row.indexed_text))
        .collect::<PgResult<Vec<_>>>()?;
    let texts = |of: fn(&NewRow<'_>) -> String| rows.iter().map(of).collect::<Vec<_>>();
    spi.execute(
        "INSERT INTO memory_agent.entries \
            (id, user_id, agent_id, session_id, kind, role, content, content_hash, token_count, \
             token_count_exact, markers, metadata, lexemes, lexeme_config, doc_len, created_at, \
             extracted_at, source_relation, source_key) \
         SELECT n.id, n.user_id, $1, n.session_id, 'turn', n.role, n.content, n.content_hash, n.token_count, \
                false, string_to_array(n.markers, chr(10)), n.metadata, n.lexemes, $2, n.doc_len, \
                n.created_at, CASE WHEN NOT $17 OR n.role <> 'user' THEN now() END, $3, n.source_key \
           FROM unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::int4[], \
                       $11::text[], $12::jsonb[], $13::tsvector[], $14::int4[], $15::timestamptz[], $16::jsonb[]) \
                n(id, user_id, session_id, role, content, content_hash, token_count, markers, metadata, \
                  lexemes, doc_len, created_at, source_key) \
         ON CONFLICT (user_id, source_relation, source_key) \
            WHERE source_relation IS NOT NULL AND state <> 'inactive' DO NOTHING",
        &mut params![
            &source.definition.agent_id, configuration, &source.label,
            rows.iter().map(|row| row.id).collect::<Vec<_>>(), texts(|row| row.user_id.to_owned()),
            rows.iter().map(|row| row.row.session_id.clone()).collect::<Vec<_>>(),
            texts(|row| row.role.to_owned()), texts(|row| row.content.to_owned()),
            rows.iter().map(|row| content_hash(row.content)).collect::<Vec<_>>(),
            rows.iter().map(|row| row.token_count).collect::<Vec<_>>(),
            texts(|row| row.markers.join("\n")),
            rows.iter().map(|row| row.row.metadata.clone()).collect::<Vec<_>>(),
            lexemes.clone(),
            lexemes.iter().map(|lexemes| lexemes.document_length()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.created_at).collect::<Vec<_>>(),
            rows.iter().map(|row| row.row.key.clone()).collect::<Vec<_>>(),
            source.definition.extract_facts,
        ],
    )
}

/// How an entry ends.
pub struct Ended<'a> {
    pub known: &'a Known,
    /// The version that takes its place, and from when on that holds.
    pub replaced_by: Option<(Uuid, TimestampWithTimeZone)>,
}

/// Ends entries: they stay for audit and for questions about the past. `reason` is told in history.
pub fn end(spi: &Spi, ended: &[Ended<'_>], reason: &str) -> PgResult<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let mut params = params![
        ended.iter().map(|ended| ended.known.user_id.clone()).collect::<Vec<_>>(),
        ended.iter().map(|ended| ended.known.id).collect::<Vec<_>>(),
        ended.iter().map(|ended| ended.replaced_by.map(|(id, _)| id)).collect::<Vec<_>>(),
        ended.iter().map(|ended| ended.replaced_by.map(|(_, since)| since)).collect::<Vec<_>>(),
    ];
    let sql = "UPDATE memory_agent.entries e \
            SET state = 'inactive', state_at = now(), updated_at = now(), \
                state_reason = CASE WHEN n.replaced_by IS NULL THEN 'deleted' ELSE 'superseded' END, \
                replaced_by = n.replaced_by, valid_to = coalesce(n.since, now()) \
           FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::timestamptz[]) n(user_id, id, replaced_by, since) \
          WHERE e.user_id = n.user_id AND e.id = n.id AND e.id = ANY ($2) AND e.state <> 'inactive'";
    by_list(|| spi.run(sql, &mut params))?;
    for (op, is_replaced) in [("supersede", true), ("delete", false)] {
        let of_op = ended.iter().filter(|ended| ended.replaced_by.is_some() == is_replaced);
        append(spi, of_op.map(|ended| (ended.known.user_id.clone(), ended.known.id)), op, reason)?;
    }
    Ok(())
}

/// Ends the entries of rows that are gone, and returns how many there were. In a transaction
/// with one snapshot they have to be [in sight](in_sight).
pub fn end_keys(spi: &Spi, label: &str, keys: &[JsonbText], reason: &str) -> PgResult<u64> {
    by_index(|| end_keys_by_index(spi, label, keys, reason))
}

fn end_keys_by_index(spi: &Spi, label: &str, keys: &[JsonbText], reason: &str) -> PgResult<u64> {
    let ended = lock_keys(spi, label, keys)?;
    if ended.is_empty() {
        return Ok(0);
    }
    let (users, ids): (Vec<String>, Vec<Uuid>) = ended.iter().cloned().unzip();
    let mut params = params![users, ids];
    let sql = "UPDATE memory_agent.entries e \
            SET state = 'inactive', state_reason = 'deleted', state_at = now(), updated_at = now(), \
                valid_to = now() \
           FROM unnest($1::text[], $2::uuid[]) n(user_id, id) \
          WHERE e.user_id = n.user_id AND e.id = n.id AND e.id = ANY ($2)";
    let count = by_list(|| spi.execute(sql, &mut params))?;
    append(spi, ended, "delete", reason)?;
    Ok(count)
}

/// Locks the entries with these keys until the end of the transaction, in the order in which
/// forgetting and erasing a session do. Returns their users and ids.
pub fn lock_keys(spi: &Spi, label: &str, keys: &[JsonbText]) -> PgResult<Vec<(String, Uuid)>> {
    spi.rows(
        "SELECT e.user_id, e.id FROM memory_agent.entries e \
          WHERE e.source_relation = $1 AND e.source_key = ANY ($2) AND e.source_key IS NOT NULL \
            AND e.state <> 'inactive' ORDER BY e.created_at, e.id FOR UPDATE",
        &mut params![label, keys.to_vec()],
    )
}

/// History of entries of several users.
fn append(
    spi: &Spi,
    entries: impl IntoIterator<Item = (String, Uuid)>,
    op: &str,
    reason: &str,
) -> PgResult<()> {
    let mut by_user: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for (user_id, id) in entries {
        by_user.entry(user_id).or_default().push(id);
    }
    for (user_id, ids) in by_user {
        history::append_all(spi, &user_id, (history::ENTRIES, &ids), op, Some(reason), None)?;
    }
    Ok(())
}

/// The keys of a table's entries after a key, in their order, at most one batch.
pub fn keys_after(spi: &Spi, label: &str, after: Option<&JsonbText>) -> PgResult<Vec<JsonbText>> {
    let mut params = params![label];
    let behind = match after {
        Some(after) => {
            params = params.with(after.clone());
            "AND e.source_key > $2"
        }
        None => "",
    };
    let sql = format!(
        "SELECT e.source_key FROM memory_agent.entries e \
          WHERE e.source_relation = $1 AND e.source_key IS NOT NULL AND e.state <> 'inactive' {behind} \
          ORDER BY e.source_key LIMIT {BATCH}"
    );
    by_index(|| spi.rows(&sql, &mut params))
}

/// Calls `each` with the keys of all entries of a table, batch by batch.
pub fn for_all_keys(
    spi: &Spi,
    label: &str,
    mut each: impl FnMut(Vec<JsonbText>) -> PgResult<()>,
) -> PgResult<()> {
    let mut after = None;
    loop {
        let keys = keys_after(spi, label, after.as_ref())?;
        let is_last = keys.len() < BATCH;
        after = keys.last().cloned();
        if !keys.is_empty() {
            each(keys)?;
        }
        if is_last {
            return Ok(());
        }
        pgrx::check_for_interrupts!();
    }
}

/// Ends all entries of a table, and returns how many there were.
pub fn end_all(spi: &Spi, label: &str, reason: &str) -> PgResult<u64> {
    let mut ended = 0;
    for_all_keys(spi, label, |keys| {
        ended += end_keys(spi, label, &keys, reason)?;
        Ok(())
    })?;
    Ok(ended)
}

/// Gives entries new metadata; what is searched stays.
pub fn relabel(spi: &Spi, entries: &[(&Known, &SourceRow)]) -> PgResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut params = params![
        entries.iter().map(|(known, _)| known.user_id.clone()).collect::<Vec<_>>(),
        entries.iter().map(|(known, _)| known.id).collect::<Vec<_>>(),
        entries.iter().map(|(_, row)| row.metadata.clone()).collect::<Vec<_>>(),
    ];
    let sql = "UPDATE memory_agent.entries e SET metadata = n.metadata, updated_at = now() \
           FROM unnest($1::text[], $2::uuid[], $3::jsonb[]) n(user_id, id, metadata) \
          WHERE e.user_id = n.user_id AND e.id = n.id AND e.id = ANY ($2)";
    by_list(|| spi.run(sql, &mut params))
}
