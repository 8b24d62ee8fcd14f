//! `memory_agent.jobs`, the side of the sweep: what no worker does for a job of its own. Times of a clock
//! that was ahead are mended, jobs whose session has come are run, done ones are forgotten.

use crate::store::prelude::*;
use crate::store::queue::jobs::JobKind;
use crate::store::queue::{LEASE, NO_SESSION};

/// Longer than anything makes a job wait: the pauses that endpoints ask for are an hour at most.
const LONGEST_WAIT: Duration = Duration::from_hours(2);

/// Brings the times of jobs back that lie further ahead than any of them can: the machine's clock was put
/// back since. What was queued while it was a year ahead would wait for that year. A lease is shortened, not
/// ended, for its worker may be alive. At most `most` of each state; returns how many.
pub fn mend_times(spi: &Spi, most: i64) -> PgResult<u64> {
    let ahead = |condition: &str| {
        format!(
            "ARRAY(SELECT o.id FROM memory_agent.jobs o \
               WHERE {condition} > now() + make_interval(secs => $1) \
               LIMIT $3 FOR UPDATE SKIP LOCKED)"
        )
    };
    spi.execute(
        &format!(
            "UPDATE memory_agent.jobs j \
                SET run_after = least(j.run_after, now()), created_at = least(j.created_at, now()), \
                    finished_at = least(j.finished_at, now()), \
                    leased_until = least(j.leased_until, now() + make_interval(secs => $2)) \
              WHERE j.id = ANY ({} || {} || {})",
            ahead("o.status = 'pending' AND o.run_after"),
            ahead("o.status = 'running' AND o.leased_until"),
            ahead("o.status = 'dead' AND o.finished_at"),
        ),
        &mut params![LONGEST_WAIT.as_secs_f64(), LEASE.as_secs_f64(), most],
    )
}

/// Runs jobs at once, from the first attempt, that found no session and whose session is there by now: a
/// restore that comes in parts brings it later than its jobs, and may take longer than all their attempts.
/// At most `most`; returns how many.
pub fn revive_with_session(spi: &Spi, most: i64) -> PgResult<u64> {
    spi.execute(
        "UPDATE memory_agent.jobs j \
            SET status = 'pending', attempts = 0, run_after = now(), finished_at = NULL, last_error = NULL \
          WHERE j.id IN ( \
            SELECT o.id FROM memory_agent.jobs o \
              JOIN memory_agent.sessions s \
                ON s.user_id = o.user_id AND s.agent_id = o.agent_id AND s.session_id = o.session_id \
             WHERE o.last_error = $1 \
               AND (o.status = 'dead' OR o.status = 'pending' AND o.run_after > now()) \
             ORDER BY o.id LIMIT $2 FOR UPDATE OF o SKIP LOCKED)",
        &mut params![NO_SESSION, most],
    )
}

/// Runs jobs of these kinds at once that were given back for a while, as after an outage. At most `most`; returns how
/// many.
pub fn run_postponed(spi: &Spi, kinds: &[JobKind], most: i64) -> PgResult<u64> {
    let kinds: Vec<String> = kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
    spi.execute(
        "UPDATE memory_agent.jobs j SET run_after = now() WHERE j.id IN ( \
            SELECT o.id FROM memory_agent.jobs o \
             WHERE o.status = 'pending' AND o.run_after > now() AND o.last_error IS NOT NULL \
               AND o.kind = ANY ($1) \
             ORDER BY o.id LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &mut params![kinds, most],
    )
}

/// Runs jobs at once that wait for a reason that begins like this, up to ten thousand.
pub fn run_waiting_for(spi: &Spi, reason: &str) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j SET run_after = now() WHERE j.id IN ( \
            SELECT o.id FROM memory_agent.jobs o \
             WHERE o.status = 'pending' AND o.run_after > now() AND starts_with(o.last_error, $1) \
             ORDER BY o.run_after LIMIT 10000 FOR UPDATE SKIP LOCKED)",
        &mut params![reason],
    )
}

/// Forgets jobs that were done this long ago.
pub fn forget_done(spi: &Spi, age: Duration, most: i64) -> PgResult<u64> {
    spi.execute(
        "DELETE FROM memory_agent.jobs j WHERE j.id IN ( \
            SELECT j.id FROM memory_agent.jobs j \
             WHERE j.status = 'done' AND j.finished_at < now() - make_interval(secs => $1) \
             LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &mut params![age.as_secs_f64(), most],
    )
}
