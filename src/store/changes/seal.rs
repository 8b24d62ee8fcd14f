//! The hash chain in `memory_agent.history`: rows are sealed after they were committed, one user's
//! after the other, and read again to see whether they are still what was sealed. A chain that was
//! written by the callers' own transactions would make a user's calls wait for each other.

use crate::pg::spi::Row;
use crate::store::prelude::*;
use crate::store::rows::history;
use memory_agent_core::history::chain::{self, Body, Event, Key, Reader, Sealed, Verdict};

/// Rows that a reader of a chain fetches at once.
const FETCHED: usize = 1000;

/// The first user after `after`, in the order of the index, who has rows to seal.
pub fn next_user(spi: &Spi, after: &str) -> PgResult<Option<String>> {
    spi.row(
        "SELECT h.user_id FROM memory_agent.history h WHERE h.seq IS NULL AND h.user_id > $1 \
          ORDER BY h.user_id LIMIT 1",
        &mut params![after],
    )
}

/// A row that is to be sealed.
struct Unsealed {
    id: Uuid,
    entry_id: Option<Uuid>,
    op: String,
    at_micros: i64,
    actor: String,
    job_id: Option<Uuid>,
    commitment: Vec<u8>,
}

record!(Unsealed: id entry_id op at_micros actor job_id commitment);

/// Seals rows of a user, the oldest first, at most `most`, and returns how many.
///
/// Rows that another transaction has locked wait for the next time. Two sealers cannot fork the chain:
/// `seq` is unique for a user.
pub fn seal(spi: &Spi, user_id: &str, key: Option<&Key>, most: i64) -> PgResult<u64> {
    // A reason that 0.1.0 wrote is not committed to yet.
    let statement = format!(
        "SELECT h.id, h.entry_id, h.op, (extract(epoch FROM h.at) * 1000000)::int8, h.actor, h.job_id, \
                CASE WHEN h.reason IS NOT NULL AND h.commitment = {} THEN {} ELSE h.commitment END \
           FROM memory_agent.history h WHERE h.user_id = $1 AND h.seq IS NULL \
          ORDER BY h.at, h.id LIMIT $2 FOR UPDATE SKIP LOCKED",
        history::old_commitment("h.salt", "h.body"),
        history::commitment("h.salt", "h.body", "h.reason"),
    );
    let rows = spi.rows(&statement, &mut params![user_id, most])?;
    if rows.is_empty() {
        return Ok(0);
    }
    let head: Option<(i64, Vec<u8>)> = spi.row(
        "SELECT h.seq, h.hash FROM memory_agent.history h WHERE h.user_id = $1 AND h.seq IS NOT NULL \
          ORDER BY h.seq DESC LIMIT 1",
        &mut params![user_id],
    )?;
    write(spi, user_id, key, head, rows)
}

/// Links rows to the head of their chain, one after the other.
fn write(
    spi: &Spi,
    user_id: &str,
    key: Option<&Key>,
    head: Option<(i64, Vec<u8>)>,
    rows: Vec<Unsealed>,
) -> PgResult<u64> {
    let (mut seq, mut last) = head.map_or((0, None), |(seq, hash)| (seq, Some(hash)));
    let count = rows.len() as u64;
    let (mut ids, mut seqs, mut previous) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hashes, mut commitments) = (Vec::new(), Vec::new());
    for row in rows {
        seq += 1;
        let event = Event {
            id: *row.id.as_bytes(),
            user_id,
            entry_id: row.entry_id.map(|id| *id.as_bytes()),
            op: &row.op,
            at_micros: row.at_micros,
            actor: &row.actor,
            job_id: row.job_id.map(|id| *id.as_bytes()),
            commitment: &row.commitment,
        };
        let hash = chain::hash(&event, seq, last.as_deref(), key).to_vec();
        ids.push(row.id);
        seqs.push(seq);
        // Arrays hold no NULL here; the first row has nothing before it.
        previous.push(last.unwrap_or_default());
        hashes.push(hash.clone());
        commitments.push(row.commitment);
        last = Some(hash);
    }
    let sealed = history::opened(|| {
        spi.execute(
            "UPDATE memory_agent.history h \
                SET seq = n.seq, prev_hash = nullif(n.previous, ''::bytea), hash = n.hash, \
                    commitment = n.commitment, key_id = $7 \
               FROM unnest($2, $3, $4, $5, $6) n(id, seq, previous, hash, commitment) \
              WHERE h.user_id = $1 AND h.id = n.id AND h.seq IS NULL",
            &mut params![
                user_id,
                ids,
                seqs,
                previous,
                hashes,
                commitments,
                key.map(|key| key.id().to_owned())
            ],
        )
    })?;
    if sealed != count {
        return Err(Error::internal(format!("{sealed} of {count} rows of history sealed")));
    }
    Ok(count)
}

/// All users with history, in the order of the index.
pub fn users(spi: &Spi) -> PgResult<Vec<String>> {
    let mut users: Vec<String> = Vec::new();
    // One step of the index a user: most have many rows.
    while let Some(next) = spi.row(
        "SELECT h.user_id FROM memory_agent.history h WHERE h.user_id > $1 ORDER BY h.user_id LIMIT 1",
        &mut params![users.last().cloned().unwrap_or_default()],
    )? {
        users.push(next);
        pgrx::check_for_interrupts!();
    }
    Ok(users)
}

/// Reads the chain of a user from its beginning, then what is not sealed yet.
pub fn verify(
    spi: &Spi,
    user_id: &str,
    keys: &[Key],
    kept: Option<(i64, Vec<u8>)>,
) -> PgResult<Verdict> {
    let columns = format!(
        "h.id, CASE WHEN h.salt IS NULL AND h.body IS NULL THEN 'gone' \
                    WHEN h.commitment = {} THEN 'intact' \
                    WHEN h.seq IS NULL AND h.commitment = {} THEN 'intact' ELSE 'changed' END, \
         h.erased_by, CASE WHEN h.op = 'erase' THEN coalesce(h.body #>> '{{counts,history}}', '') END, \
         h.seq, h.prev_hash, h.hash, h.key_id, h.entry_id, h.op, \
         (extract(epoch FROM h.at) * 1000000)::int8, h.actor, h.job_id, h.commitment",
        history::commitment("h.salt", "h.body", "h.reason"),
        history::old_commitment("h.salt", "h.body"),
    );
    let mut reader = Reader::new(keys, kept);
    for rows in ["h.seq IS NOT NULL ORDER BY h.seq", "h.seq IS NULL"] {
        spi.scan(
            &format!(
                "SELECT {columns} FROM memory_agent.history h WHERE h.user_id = $1 AND {rows}"
            ),
            &mut params![user_id],
            FETCHED,
            |row| {
                take(&mut reader, user_id, row)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
    }
    Ok(reader.finish())
}

fn take(reader: &mut Reader<'_>, user_id: &str, row: &Row<'_>) -> PgResult<()> {
    let bytes = |id: Uuid| *id.as_bytes();
    let id = bytes(row.required(1)?);
    let body = match row.required::<String>(2)?.as_str() {
        "gone" => Body::Gone(row.optional(3).map(bytes)),
        "intact" => Body::Intact,
        _ => Body::Changed,
    };
    if let Some(count) = row.optional::<String>(4) {
        reader.erasure(id, count.parse().ok());
    }
    let Some(seq) = row.optional::<i64>(5) else {
        reader.unsealed(id, body);
        return Ok(());
    };
    let (previous, hash, key_id): (Option<Vec<u8>>, Option<Vec<u8>>, Option<String>) =
        (row.optional(6), row.optional(7), row.optional(8));
    let (op, actor): (String, String) = (row.required(10)?, row.required(12)?);
    let commitment: Vec<u8> = row.required(14)?;
    let sealed = Sealed {
        event: Event {
            id,
            user_id,
            entry_id: row.optional(9).map(bytes),
            op: &op,
            at_micros: row.required(11)?,
            actor: &actor,
            job_id: row.optional(13).map(bytes),
            commitment: &commitment,
        },
        seq,
        previous: previous.as_deref(),
        // A row whose hash was taken away is an edited one.
        hash: hash.as_deref().unwrap_or_default(),
        key_id: key_id.as_deref(),
    };
    reader.sealed(&sealed, body);
    Ok(())
}
