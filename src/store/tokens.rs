//! `memory_agent.tokens`: who may act for which user through the gateway. Only the SHA-256 of a token is
//! here, so that whoever reads the table, or a dump of it, can use none.

use crate::pg::error::PgResult;
use crate::pg::spi::{Params, Session as Spi};
use pgrx::prelude::*;

/// A token, without what would let anybody use it: whose, its name, since when and until when.
pub type Token = (String, String, TimestampWithTimeZone, Option<TimestampWithTimeZone>);

/// Stores a new token; `false` when the user has one of that name.
pub fn insert(
    user_id: &str,
    name: &str,
    hash: Vec<u8>,
    expires_at: Option<TimestampWithTimeZone>,
) -> PgResult<bool> {
    let rows = Spi::read_write()?.execute(
        "INSERT INTO memory_agent.tokens (user_id, name, hash, expires_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (user_id, name) DO NOTHING",
        &mut Params::new()
            .with(user_id.to_owned())
            .with(name.to_owned())
            .with(hash)
            .with(expires_at),
    )?;
    Ok(rows > 0)
}

/// Deletes a token; `false` when there is none of that name.
pub fn delete(user_id: &str, name: &str) -> PgResult<bool> {
    let rows = Spi::read_write()?.execute(
        "DELETE FROM memory_agent.tokens t WHERE t.user_id = $1 AND t.name = $2",
        &mut Params::new().with(user_id.to_owned()).with(name.to_owned()),
    )?;
    Ok(rows > 0)
}

/// Of all users, those that have expired included, by user and name.
pub fn all() -> PgResult<Vec<Token>> {
    Spi::read_only()?.all(
        "SELECT t.user_id, t.name, t.created_at, t.expires_at FROM memory_agent.tokens t ORDER BY 1, 2",
        &mut Params::new(),
        |row| Ok((row.required(1)?, row.required(2)?, row.required(3)?, row.optional(4))),
    )
}

/// The user of a token that has not expired.
pub fn user_of(hash: Vec<u8>) -> PgResult<Option<String>> {
    Spi::read_only()?.first(
        "SELECT t.user_id FROM memory_agent.tokens t \
          WHERE t.hash = $1 AND (t.expires_at IS NULL OR t.expires_at > now())",
        &mut Params::new().with(hash),
        |row| row.required(1),
    )
}
