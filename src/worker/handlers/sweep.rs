//! What is due without anybody asking: entries expire, inactive ones are purged, forgotten turns are
//! queued, done jobs are forgotten. Each step is a short transaction of its own and takes only so many
//! rows; what is left waits for the next sweep.

use crate::guc;
use crate::store::jobs::{self, JobKind};
use crate::store::spi::Session as Spi;
use crate::store::{extraction, queue, sweep};
use crate::worker::settings;
use crate::worker::transaction::{Aborted, transaction};
use pgrx::prelude::*;
use std::time::Duration;

/// Rows that one step takes.
const BATCH: i64 = 1000;
/// How long done jobs can be looked at in `memory_jobs`.
const DONE_JOBS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Runs all steps; true when a step took a whole batch, so that there may be more.
pub fn run() -> Result<bool, Aborted> {
    let mut more = transaction(|| Ok(queue::release_expired(&Spi::read_write()?)? > 0))?;
    let expired = transaction(|| sweep::expire(&Spi::read_write()?, BATCH))?;
    if expired > 0 {
        debug1!("memory_agent: expire rows={expired}");
    }
    more |= expired >= BATCH as u64;
    if let Ok(seconds @ 1..) = u64::try_from(guc::purge_after()) {
        let purged =
            transaction(|| sweep::purge(&Spi::read_write()?, Duration::from_secs(seconds), BATCH))?;
        if purged > 0 {
            debug1!("memory_agent: purge rows={purged}");
        }
        more |= purged >= BATCH as u64;
    }
    if !guc::llm_base_url().is_empty() {
        let forgotten = transaction(|| extraction::forgotten(&Spi::read_write()?, BATCH))?;
        // One transaction each: no lock is held while the next is waited for.
        for (user_id, agent_id, session_id) in forgotten {
            transaction(|| {
                let spi = Spi::read_write()?;
                let payload = settings::extraction_payload();
                let session = session_id.as_deref();
                jobs::enqueue(&spi, JobKind::Extract, &user_id, &agent_id, session, payload)
            })?;
        }
    }
    let done = transaction(|| queue::forget_done(&Spi::read_write()?, DONE_JOBS_KEPT, BATCH))?;
    more |= done >= BATCH as u64;
    Ok(more)
}
