//! `memory_agent.quotas`: what users may have; and `memory_agent.quota_counts`: what they had when it was last
//! counted. Neither is there before 0.3.0.
//!
//! Nothing counts with a row that two sessions of a user would lock: counts are only added, and a sweep takes away
//! those that newer ones replace. Between two counts, the rows are counted that came since.

use crate::identity::SHARED_USER;
use crate::store::prelude::*;
use crate::store::rows::entries::new_id;
use crate::store::rows::scope::ARCHIVE_RELATION;

/// Rows since the last count that are counted by themselves; with more, all are counted again.
pub const MOST_SINCE: i64 = 1000;
/// Seconds after which a count is too old: what others stored and had not committed then, and what came with an older
/// id, is not in it.
const COUNT_AGE: f64 = 60.0;
/// Seconds that the last count of a user is kept for `memory_status()`.
const COUNT_KEPT: f64 = 7.0 * 86_400.0;
/// Counts that `memory_status()` reads at most.
const MOST_READ: i64 = 2_000;

/// What a user may have; `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub entries: Option<i64>,
    /// Of the contents of the entries.
    pub bytes: Option<i64>,
    /// Tokens of LLMs a day, in UTC.
    pub daily_tokens: Option<i64>,
}

record!(Quota: entries bytes daily_tokens);

/// Memory of a user that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub entries: i64,
    pub bytes: i64,
}

record!(Held: entries bytes);

/// The last count of a user, and what came since.
pub struct Counted {
    pub then: Held,
    pub since: Held,
}

record!(Counted: then since);

/// The limits of the user `$1`: the user's own, or else those of all users. 0 is no limit.
const LIMITS: &str = "nullif(coalesce(o.entries, a.entries), 0), nullif(coalesce(o.bytes, a.bytes), 0), \
     nullif(coalesce(o.daily_tokens, a.daily_tokens), 0)";

/// The quota of a user. The shared memory has none: administrators write it.
pub fn of(spi: &Spi, user_id: &str) -> PgResult<Quota> {
    if !schema::has_0_3() || user_id == SHARED_USER {
        return Ok(Quota::default());
    }
    spi.one(
        &format!(
            "SELECT {LIMITS} FROM (VALUES (1)) one(n) \
               LEFT JOIN memory_agent.quotas o ON o.user_id = $1 \
               LEFT JOIN memory_agent.quotas a ON a.user_id = '*'"
        ),
        &mut params![user_id],
    )
}

/// Sets what was said of a user, or with `*` of all users without one of their own. A quota that says nothing
/// is deleted.
pub fn set(spi: &Spi, user_id: &str, quota: Quota) -> PgResult<()> {
    if quota == Quota::default() {
        return spi
            .run("DELETE FROM memory_agent.quotas q WHERE q.user_id = $1", &mut params![user_id]);
    }
    spi.run(
        "INSERT INTO memory_agent.quotas (user_id, entries, bytes, daily_tokens) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (user_id) DO UPDATE \
            SET entries = excluded.entries, bytes = excluded.bytes, daily_tokens = excluded.daily_tokens, \
                set_at = now()",
        &mut params![user_id, quota.entries, quota.bytes, quota.daily_tokens],
    )
}

/// A quota as it was set: whose, entries, bytes, tokens a day.
pub type Listed = (String, Option<i64>, Option<i64>, Option<i64>);

/// All quotas as they were set, by user.
pub fn all(spi: &Spi) -> PgResult<Vec<Listed>> {
    spi.rows(
        "SELECT q.user_id, q.entries, q.bytes, q.daily_tokens FROM memory_agent.quotas q ORDER BY q.user_id",
        &mut params![],
    )
}

/// The entries `e` that count: those that hold. Archived conversations repeat turns, and count for nothing.
fn counts() -> String {
    format!("e.state <> 'inactive' AND e.source_relation IS DISTINCT FROM '{ARCHIVE_RELATION}'")
}

/// Counts all that a user has.
pub fn count(spi: &Spi, user_id: &str) -> PgResult<Held> {
    spi.one(
        &format!(
            "SELECT count(*), coalesce(sum(octet_length(e.content)), 0)::int8 FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND {}",
            counts()
        ),
        &mut params![user_id],
    )
}

/// The last count of a user, unless it is too old, with up to [`MOST_SINCE`] + 1 rows that came since.
pub fn counted(spi: &Spi, user_id: &str) -> PgResult<Option<Counted>> {
    spi.row(
        &format!(
            "SELECT l.entries, l.bytes, s.entries, s.bytes \
               FROM (SELECT c.id, c.entries, c.bytes, c.counted_at FROM memory_agent.quota_counts c \
                      WHERE c.user_id = $1 ORDER BY c.id DESC LIMIT 1) l, \
                    LATERAL (SELECT count(*) AS entries, coalesce(sum(r.bytes), 0)::int8 AS bytes \
                               FROM (SELECT octet_length(e.content) AS bytes FROM memory_agent.entries e \
                                      WHERE e.user_id = $1 AND e.id > l.id AND {} \
                                      LIMIT {MOST_SINCE} + 1) r) s \
              WHERE l.counted_at > clock_timestamp() - make_interval(secs => $2)",
            counts()
        ),
        &mut params![user_id, COUNT_AGE],
    )
}

/// Keeps a count that was made just now.
pub fn keep(spi: &Spi, user_id: &str, held: Held) -> PgResult<()> {
    spi.run(
        "INSERT INTO memory_agent.quota_counts (user_id, id, entries, bytes) VALUES ($1, $2, $3, $4)",
        &mut params![user_id, new_id(), held.entries, held.bytes],
    )
}

/// Forgets what was counted of a user.
pub fn forget(spi: &Spi, user_id: &str) -> PgResult<()> {
    spi.run("DELETE FROM memory_agent.quota_counts c WHERE c.user_id = $1", &mut params![user_id])
}

/// Deletes counts that newer ones replace, and those of users who have stored nothing for long. At most `most`;
/// returns how many.
pub fn tidy(spi: &Spi, most: i64) -> PgResult<u64> {
    if !schema::has_0_3() {
        return Ok(0);
    }
    spi.execute(
        "DELETE FROM memory_agent.quota_counts c WHERE (c.user_id, c.id) IN ( \
            SELECT o.user_id, o.id FROM memory_agent.quota_counts o \
             WHERE o.counted_at < now() - make_interval(secs => $1) \
                OR EXISTS (SELECT FROM memory_agent.quota_counts n WHERE n.user_id = o.user_id AND n.id > o.id) \
             LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &mut params![COUNT_KEPT, most],
    )
}

/// Whether any quota is set.
pub fn are_set(spi: &Spi) -> PgResult<bool> {
    spi.exists("SELECT true FROM memory_agent.quotas LIMIT 1", &mut params![])
}

/// How many users had this share of their quota of entries or bytes when it was last counted; and how many counts
/// were read. No more are read than the answer can wait for.
pub fn users_near(spi: &Spi, share: f64) -> PgResult<(i64, bool)> {
    let (near, read): (i64, i64) = spi.one(
        &format!(
            "SELECT count(*) FILTER (WHERE n.entries >= $1 * n.most_entries OR n.bytes >= $1 * n.most_bytes), \
                    coalesce(max(n.counts), 0) \
               FROM (SELECT DISTINCT ON (c.user_id) c.entries, c.bytes, count(*) OVER () AS counts, \
                            nullif(coalesce(o.entries, a.entries), 0) AS most_entries, \
                            nullif(coalesce(o.bytes, a.bytes), 0) AS most_bytes \
                       FROM (SELECT * FROM memory_agent.quota_counts LIMIT {MOST_READ} + 1) c \
                       LEFT JOIN memory_agent.quotas o ON o.user_id = c.user_id \
                       LEFT JOIN memory_agent.quotas a ON a.user_id = '*' \
                      ORDER BY c.user_id, c.id DESC) n"
        ),
        &mut params![share],
    )?;
    Ok((near, read <= MOST_READ))
}
