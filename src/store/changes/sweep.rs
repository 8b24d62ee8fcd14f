//! What time does to entries: they expire, and inactive ones are deleted for good when the settings
//! say so.

use crate::store::prelude::*;
use crate::store::rows::history;

/// Makes expired entries inactive, at most `most`, and returns how many. Recall does not return them
/// from the moment they expire on; this is for the counters and for history. Sessions are locked
/// before their entries, as everywhere; one that is busy waits for the next sweep.
pub fn expire(spi: &Spi, most: i64) -> PgResult<u64> {
    let expired: Vec<(String, Uuid, bool)> =
        spi.rows(include_str!("../sql/expire_entries.sql"), &mut params![most])?;
    for (user_id, id, _) in expired.iter().filter(|(_, _, is_fact)| *is_fact) {
        history::append(spi, user_id, *id, "expire", None, None)?;
    }
    Ok(expired.len() as u64)
}

/// How long inactive entries are kept, in seconds; 0 is forever.
pub struct Kept {
    /// By the server.
    pub server: f64,
    /// By agents: what is stored, and what it comes to.
    pub agents: Vec<(String, f64)>,
}

/// What agents have stored for `purge_after`, as it was written.
pub fn purge_settings(spi: &Spi) -> PgResult<Vec<String>> {
    spi.rows(
        "SELECT DISTINCT settings ->> 'purge_after' FROM memory_agent.agents \
          WHERE settings ? 'purge_after'",
        &mut params![],
    )
}

/// Deletes entries that have been inactive for as long as they are kept, at most `most`, and returns how many;
/// documents of which no chunk is left go with them. Of a fact that was replaced the row stays, without
/// anything of its content: it is what tells that the turns it came from are stale.
pub fn purge(spi: &Spi, kept: &Kept, most: i64) -> PgResult<u64> {
    let ages = kept.agents.iter().map(|(_, age)| *age).chain([kept.server]);
    let Some(shortest) = ages.filter(|age| *age > 0.0).min_by(f64::total_cmp) else {
        return Ok(0);
    };
    let (stored, ages): (Vec<String>, Vec<f64>) = kept.agents.iter().cloned().unzip();
    let purged: Vec<(String, Option<String>)> = spi.rows(
        include_str!("../sql/purge_entries.sql"),
        &mut params![kept.server, most, stored, ages, shortest],
    )?;
    let (users, parents): (Vec<String>, Vec<String>) =
        purged.iter().filter_map(|(user, parent)| Some((user.clone(), parent.clone()?))).unzip();
    if !parents.is_empty() {
        spi.execute(
            "DELETE FROM memory_agent.archives a USING unnest($1, $2) gone(user_id, parent) \
              WHERE a.user_id = gone.user_id AND a.id::text = gone.parent \
                AND NOT EXISTS (SELECT FROM memory_agent.entries e \
                                 WHERE e.user_id = a.user_id AND e.kind = 'document' \
                                   AND e.metadata ->> 'parent_id' = gone.parent)",
            &mut params![users, parents],
        )?;
    }
    Ok(purged.len() as u64)
}
