//! `evict` jobs: the oldest entries of a full window leave it, so many at a time.

use crate::jobs::prelude::*;
use crate::memory::scope::scope_settings;
use crate::store::changes::eviction;
use crate::store::rows::sessions::{self};

/// Entries that leave in one step.
const BATCH: i64 = 1000;

/// Does a step of the job, in one transaction. What is left is given back, so that others have their turn.
pub fn step(job: &Job) -> Result<(), Aborted> {
    transaction(|spi| {
        let key = job.session_key();
        // Sessions before jobs: an ingest holds its session while it touches the pending job.
        let exists = sessions::lock_existing(spi, &key)?.is_some();
        if !queue::lock(spi, job)? {
            return Ok(());
        }
        let limit = scope_settings::of_session(&key, |settings| Ok(settings.sessions.max_entries))?;
        if exists && limit > 0 {
            let evicted = eviction::evict(spi, &key, limit, BATCH)?;
            debug1!("memory_agent: evict user={} rows={evicted}", key.user_id);
            if evicted >= BATCH as u64 {
                return queue::hand_over(spi, job);
            }
        }
        queue::finish(spi, job)
    })
}
