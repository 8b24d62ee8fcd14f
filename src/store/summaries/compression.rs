//! Compression of a session's window: all but the newest turns leave it once a summary covers them.
//! They stay in recall.

use crate::pg::prelude::*;
use crate::store::rows::sessions::{self, SessionKey};
use crate::store::summaries::COVERED;

/// `w`: the turns of a session's window without the newest ones, for the parameters of a session's
/// key and how many are left out.
const OLDER: &str = "(SELECT e.id, e.token_count FROM memory_agent.entries e \
      WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
        AND e.state = 'active' AND e.source_relation IS NULL \
        AND (e.expires_at IS NULL OR e.expires_at > now()) \
      ORDER BY e.created_at DESC, e.id DESC OFFSET $4) w";

/// The turns of a window that compression takes out of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Older {
    pub turns: i64,
    /// Those that the session's summary covers.
    pub covered: i64,
    /// Tokens of the others.
    pub uncovered_tokens: i64,
}

record!(Older: turns covered uncovered_tokens);

fn params(key: &SessionKey, keep: u32) -> Params {
    key.params().with(i64::from(keep))
}

/// Looks at the turns of a window but the newest `keep`.
pub fn older(spi: &Spi, key: &SessionKey, keep: u32) -> PgResult<Older> {
    let found = spi.row(
        &format!(
            "{COVERED} SELECT count(*), count(*) FILTER (WHERE w.is_covered), \
                    coalesce(sum(w.token_count) FILTER (WHERE NOT w.is_covered), 0)::int8 \
               FROM (SELECT w.token_count, w.id IN (SELECT c.id FROM covered c) AS is_covered FROM {OLDER}) w"
        ),
        &mut params(key, keep),
    )?;
    Ok(found.unwrap_or_default())
}

/// Takes the turns of a window but the newest `keep` out of it, as far as the session's summary covers
/// them, and returns how many left. The caller holds the session's lock.
pub fn archive(spi: &Spi, key: &SessionKey, keep: u32) -> PgResult<u64> {
    let archived = spi.execute(
        &format!(
            "{COVERED} UPDATE memory_agent.entries a \
                SET state = 'archived', state_reason = 'compressed', state_at = now(), updated_at = now() \
              WHERE a.user_id = $1 \
                AND a.id IN (SELECT w.id FROM {OLDER} WHERE (w.id IN (SELECT c.id FROM covered c)) IS TRUE)"
        ),
        &mut params(key, keep),
    )?;
    sessions::recount(spi, key)?;
    Ok(archived)
}
