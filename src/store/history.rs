//! `memory_agent.history`: what happened to facts, appended in the transaction that did it. The
//! row's body is committed to by a salted hash, so that it can be erased later while the chain over
//! the commitments stays whole.

use crate::error::PgResult;
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

/// 32 random bytes: two version-4 UUIDs carry 244 bits from the operating system.
fn salt() -> Vec<u8> {
    let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    a.as_bytes().iter().chain(b.as_bytes()).copied().collect()
}
