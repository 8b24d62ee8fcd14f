//! `evict` jobs: the oldest entries of a full window leave it.

use crate::guc;
use crate::store::eviction;
use crate::store::queue::{self, Job};
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::Session as Spi;
use crate::worker::transaction::{Aborted, transaction};
use pgrx::prelude::*;

/// Runs the job in one transaction.
pub fn run(job: &Job) -> Result<(), Aborted> {
    transaction(|| {
        let spi = Spi::read_write()?;
        let key = SessionKey {
            user_id: job.user_id.clone(),
            agent_id: job.agent_id.clone(),
            session_id: job.session_id.clone().unwrap_or_default(),
        };
        // Sessions before jobs: an ingest holds its session while it touches the pending job.
        let exists = sessions::lock_existing(&spi, &key)?.is_some();
        if !queue::lock(&spi, job)? {
            return Ok(());
        }
        let limit = i64::from(guc::max_entries());
        if exists && limit > 0 {
            let evicted = eviction::evict(&spi, &key, limit)?;
            debug1!("memory_agent: evict user={} rows={evicted}", key.user_id);
        }
        queue::finish(&spi, job)
    })
}
