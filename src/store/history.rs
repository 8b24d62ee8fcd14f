//! `memory_agent.history`: what happened to memory, appended in the transaction that did it. The
//! row's body is committed to by a salted hash, so that it can be erased later while the chain over
//! the commitments stays whole.

use crate::error::PgResult;
use crate::sql_types::JsonbText;
use crate::store::entries::new_id;
use crate::store::spi::{Params, Session as Spi};
use pgrx::datum::Uuid;

/// Appends one event about an entry, by a job if one is given. The body is the entry as it is now,
/// without its vector.
pub fn append(
    spi: &Spi,
    user_id: &str,
    entry_id: Uuid,
    op: &str,
    reason: Option<&str>,
    job: Option<Uuid>,
) -> PgResult<()> {
    // The salt makes the commitment useless for guessing an erased body.
    spi.execute(
        "INSERT INTO memory_agent.history (id, user_id, entry_id, op, reason, body, salt, commitment, job_id) \
         SELECT $1, $2, $3, $4, $5, b.body, $6, sha256($6 || convert_to(b.body::text, 'UTF8')), $7 \
           FROM (SELECT to_jsonb(e) - '{embedding,lexemes,content_hash}'::text[] AS body \
                   FROM memory_agent.entries e WHERE e.user_id = $2 AND e.id = $3 OFFSET 0) b",
        &mut Params::new()
            .with(new_id())
            .with(user_id.to_owned())
            .with(entry_id)
            .with(op.to_owned())
            .with(reason.map(str::to_owned))
            .with(salt())
            .with(job),
    )?;
    Ok(())
}

/// Appends the same event about many entries.
pub fn append_all(
    spi: &Spi,
    user_id: &str,
    entry_ids: &[Uuid],
    op: &str,
    reason: &str,
) -> PgResult<()> {
    let body = "to_jsonb(e) - '{embedding,lexemes,content_hash}'::text[]";
    append_rows(spi, user_id, entry_ids, op, reason, ("entries", body))
}

/// Appends the same event about many summaries, by their ids.
pub fn append_summaries(
    spi: &Spi,
    user_id: &str,
    summary_ids: &[Uuid],
    op: &str,
    reason: &str,
) -> PgResult<()> {
    append_rows(spi, user_id, summary_ids, op, reason, ("session_summaries", "to_jsonb(e)"))
}

/// One row for each id of a table, whose rows `e` have the body that is given.
fn append_rows(
    spi: &Spi,
    user_id: &str,
    ids: &[Uuid],
    op: &str,
    reason: &str,
    (table, body): (&str, &str),
) -> PgResult<()> {
    let new_ids: Vec<Uuid> = ids.iter().map(|_| new_id()).collect();
    let salts: Vec<Vec<u8>> = ids.iter().map(|_| salt()).collect();
    spi.execute(
        &format!(
            "INSERT INTO memory_agent.history (id, user_id, entry_id, op, reason, body, salt, commitment) \
             SELECT n.id, $1, b.id, $2, $3, b.body, n.salt, \
                    sha256(n.salt || convert_to(b.body::text, 'UTF8')) \
               FROM unnest($4, $5, $6) n(about, id, salt) \
               JOIN (SELECT e.id, {body} AS body FROM memory_agent.{table} e \
                      WHERE e.user_id = $1 AND e.id = ANY ($4) OFFSET 0) b ON b.id = n.about"
        ),
        &mut Params::new()
            .with(user_id.to_owned())
            .with(op.to_owned())
            .with(reason.to_owned())
            .with(ids.to_vec())
            .with(new_ids)
            .with(salts),
    )?;
    Ok(())
}

/// Appends an event that is about no entry, with a body of its own.
pub fn append_event(spi: &Spi, user_id: &str, op: &str, body: JsonbText) -> PgResult<()> {
    spi.execute(
        "INSERT INTO memory_agent.history (id, user_id, op, body, salt, commitment) \
         VALUES ($1, $2, $3, $4, $5, sha256($5 || convert_to($4::text, 'UTF8')))",
        &mut Params::new()
            .with(new_id())
            .with(user_id.to_owned())
            .with(op.to_owned())
            .with(body)
            .with(salt()),
    )?;
    Ok(())
}

/// 32 random bytes: two version-4 UUIDs carry 244 bits from the operating system.
fn salt() -> Vec<u8> {
    let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    a.as_bytes().iter().chain(b.as_bytes()).copied().collect()
}
