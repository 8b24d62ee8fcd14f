//! `memory_agent.tokens` and `memory_agent.spending`: who may act for which user through the gateway, and what
//! that has cost today. They hold only the SHA-256 of a token, so that neither the table nor a dump of it lets
//! its reader use one.

use crate::pg::prelude::*;

/// A token, without what would let a reader use it: its user, its name, since when and until when, what was spent with
/// it today, and whether it may name other users.
pub type Token = (String, String, TimestampWithTimeZone, Option<TimestampWithTimeZone>, i64, bool);

/// A day of spending begins everywhere at the same time.
const TODAY: &str = "(now() AT TIME ZONE 'UTC')::date";

/// Stores a new token; `false` when the user has one of that name.
pub fn insert(
    spi: &Spi,
    user_id: &str,
    name: &str,
    hash: Vec<u8>,
    expires_at: Option<TimestampWithTimeZone>,
    for_users: bool,
) -> PgResult<bool> {
    spi.changes(
        "INSERT INTO memory_agent.tokens (user_id, name, hash, expires_at, for_users) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (user_id, name) DO NOTHING",
        &mut params![user_id, name, hash, expires_at, for_users],
    )
}

/// Deletes a token; `false` when there is none of that name.
pub fn delete(spi: &Spi, user_id: &str, name: &str) -> PgResult<bool> {
    spi.changes(
        "DELETE FROM memory_agent.tokens t WHERE t.user_id = $1 AND t.name = $2",
        &mut params![user_id, name],
    )
}

/// Of all users, those that have expired included, by user and name.
pub fn all(spi: &Spi) -> PgResult<Vec<Token>> {
    spi.rows(
        &format!(
            "SELECT t.user_id, t.name, t.created_at, t.expires_at, coalesce(s.tokens, 0), \
                    t.for_users \
               FROM memory_agent.tokens t \
               LEFT JOIN memory_agent.spending s ON s.token_hash = t.hash AND s.day = {TODAY} \
              ORDER BY 1, 2"
        ),
        &mut params![],
    )
}

/// The user of a token that has not expired, and whether it may name other users.
pub fn user_of(spi: &Spi, hash: Vec<u8>) -> PgResult<Vec<(String, bool)>> {
    spi.rows(
        "SELECT t.user_id, t.for_users FROM memory_agent.tokens t \
          WHERE t.hash = $1 AND (t.expires_at IS NULL OR t.expires_at > now())",
        &mut params![hash],
    )
}

/// Adds to what a caller has spent today and returns the sum. With `at_most` the tokens are a guess, which is
/// reserved; `None`, and nothing is added, when so much is spent. With `reserved` they come in the place of what was
/// reserved: no more is taken back than still is so today, for what was reserved yesterday must not become a credit.
pub fn spend(
    spi: &Spi,
    hash: Vec<u8>,
    tokens: i64,
    at_most: Option<i64>,
    reserved: Option<i64>,
) -> PgResult<Option<i64>> {
    const OF_TODAY: &str = "(s.day >= excluded.day)::int";
    spi.row(
        &format!(
            "INSERT INTO memory_agent.spending AS s (token_hash, day, tokens, reserved) \
             VALUES ($1, {TODAY}, greatest($2 - $4, 0), CASE WHEN $3 IS NULL THEN 0 ELSE $2 END) \
             ON CONFLICT (token_hash) DO UPDATE SET \
                 day = greatest(s.day, excluded.day), \
                 tokens = {OF_TODAY} * s.tokens + greatest($2 - $4, {OF_TODAY} * -s.reserved), \
                 reserved = greatest({OF_TODAY} * s.reserved - $4, 0) + excluded.reserved \
             WHERE $3 IS NULL OR s.day < excluded.day OR s.tokens < $3 \
             RETURNING s.tokens"
        ),
        &mut params![hash, tokens, at_most, reserved.unwrap_or(0)],
    )
}

/// What all callers have spent today.
pub fn spent_today(spi: &Spi) -> PgResult<i64> {
    spi.one(
        &format!(
            "SELECT coalesce(sum(s.tokens), 0)::int8 FROM memory_agent.spending s WHERE s.day = {TODAY}"
        ),
        &mut params![],
    )
}

/// Forgets the spending of callers that were not here for a week, but for those that are back just now.
pub fn tidy(spi: &Spi) -> PgResult<()> {
    let sql = format!(
        "DELETE FROM memory_agent.spending t WHERE t.token_hash IN ( \
            SELECT s.token_hash FROM memory_agent.spending s \
             WHERE s.day < {TODAY} - 7 FOR UPDATE SKIP LOCKED)"
    );
    spi.run(&sql, &mut params![])
}
