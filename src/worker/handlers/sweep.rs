//! What is due without anybody asking: entries expire, inactive ones are purged, forgotten turns are
//! queued, idle episodes end, done jobs are forgotten, times of a clock that was ahead are mended. Each
//! step is a short transaction of its own and takes only so many rows; what is left waits for the next
//! sweep.

use super::reflect;
use crate::api::{self, ingest};
use crate::configured;
use crate::guc;
use crate::store::episodes::IdlePlace;
use crate::store::jobs::{self, JobKind};
use crate::store::spi::Session as Spi;
use crate::store::{
    attachments, episodes, extraction, llm_calls, model_change, queue, reflections, schema,
    sessions, summaries, sweep, traces,
};
use crate::worker::endpoint;
use crate::worker::settings::{self, ReflectionSettings};
use crate::worker::transaction::{Aborted, transaction};
use memory_agent_core::episodes::CloseReason;
use pgrx::datum::Uuid;
use pgrx::prelude::*;
use std::time::Duration;

/// Rows that one step takes.
const BATCH: i64 = 1000;
/// How long done jobs can be looked at in `memory_jobs`.
const DONE_JOBS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The sweeps of one worker.
#[derive(Default)]
pub struct Sweeper {
    /// The idle episode that was looked at last: sessions that have a longer gap of their own stay idle,
    /// and must not keep the others from their turn.
    idle_after: Option<IdlePlace>,
}

impl Sweeper {
    /// Runs all steps; true when a step took a whole batch, so that there may be more.
    pub fn run(&mut self) -> Result<bool, Aborted> {
        let mut more = transaction(|| queue::mend_times(&Spi::read_write()?, BATCH))? > 0;
        more |= transaction(|| Ok(queue::release_expired(&Spi::read_write()?)? > 0))?;
        more |=
            transaction(|| queue::revive_with_session(&Spi::read_write()?, BATCH))? >= BATCH as u64;
        let expired = transaction(|| sweep::expire(&Spi::read_write()?, BATCH))?;
        if expired > 0 {
            debug1!("memory_agent: expire rows={expired}");
        }
        more |= expired >= BATCH as u64;
        if let Ok(seconds @ 1..) = u64::try_from(guc::purge_after()) {
            let purged = transaction(|| {
                sweep::purge(&Spi::read_write()?, Duration::from_secs(seconds), BATCH)
            })?;
            if purged > 0 {
                debug1!("memory_agent: purge rows={purged}");
            }
            more |= purged >= BATCH as u64;
            for delete_old in [llm_calls::delete_old, traces::delete_old] {
                let age = Duration::from_secs(seconds);
                let deleted = transaction(|| delete_old(&Spi::read_write()?, age, BATCH))?;
                more |= deleted >= BATCH as u64;
            }
        }
        if endpoint::missing_llm().is_none() {
            let forgotten = transaction(|| extraction::forgotten(&Spi::read_write()?, BATCH))?;
            // One transaction each: no lock is held while the next is waited for.
            for (user_id, agent_id, session_id) in forgotten {
                transaction(|| {
                    let spi = Spi::read_write()?;
                    let session = session_id.as_deref();
                    let payload = configured::scoped_to(&user_id, &agent_id, session, || {
                        Ok(settings::extraction_payload())
                    })?;
                    jobs::enqueue(&spi, JobKind::Extract, &user_id, &agent_id, session, payload)
                })?;
            }
        }
        more |= self.end_idle_episodes()?;
        if endpoint::missing_llm().is_none() {
            queue_reflections()?;
            renew_summaries()?;
        }
        embed_left_behind()?;
        transaction(|| match schema::has_0_2() {
            true => attachments::renew(&Spi::read_write()?),
            false => Ok(()),
        })?;
        let done = transaction(|| queue::forget_done(&Spi::read_write()?, DONE_JOBS_KEPT, BATCH))?;
        more |= done >= BATCH as u64;
        Ok(more)
    }

    /// Ends the episodes of sessions that have fallen silent; true when there may be more.
    fn end_idle_episodes(&mut self) -> Result<bool, Aborted> {
        let Ok(seconds @ 1..) = u64::try_from(guc::episode_gap()) else { return Ok(false) };
        let gap = Duration::from_secs(seconds);
        let after = self.idle_after.take();
        let idle = transaction(|| episodes::idle(&Spi::read_write()?, gap, after.as_ref(), BATCH))?;
        let is_full = idle.len() as i64 >= BATCH;
        // After the last ones come the first again.
        self.idle_after = idle.last().filter(|_| is_full).map(|(_, place)| place.clone());
        let mut ended = 0;
        for (key, _) in idle {
            let outcome = transaction(|| {
                let spi = Spi::read_write()?;
                let Some(Some(episode)) = sessions::lock_existing(&spi, &key)? else {
                    return Ok(false);
                };
                // The session may have a longer gap of its own, or none.
                let gap = configured::scoped_to(
                    &key.user_id,
                    &key.agent_id,
                    Some(&key.session_id),
                    || Ok(Duration::from_secs(u64::try_from(guc::episode_gap()).unwrap_or(0))),
                )?;
                if gap.is_zero() || !episodes::is_still_idle(&spi, &key.user_id, episode, gap)? {
                    return Ok(false);
                }
                let closed = episodes::close(&spi, &key, episode, CloseReason::Gap.as_str())?;
                if closed.is_some_and(|closed| closed.wants_reflection) {
                    ingest::queue_reflection(&spi, &key)?;
                }
                Ok(true)
            });
            match outcome {
                Ok(was_idle) => ended += u64::from(was_idle),
                // Somebody is at work in the session: it is not that silent.
                Err(aborted) if aborted.may_pass => {}
                Err(aborted) => return Err(aborted),
            }
        }
        if ended > 0 {
            debug1!("memory_agent: idle episodes ended={ended}");
        }
        // Where nothing ended, the next ones wait for the next sweep.
        Ok(is_full && ended > 0)
    }
}

/// Queues reflections that nobody else did: on short episodes that nothing followed, and on those that
/// ended while there was no LLM.
fn queue_reflections() -> Result<(), Aborted> {
    let settings = ReflectionSettings::default();
    let min_turns = i32::try_from(settings.min_episode_turns).unwrap_or(i32::MAX);
    let due = transaction(|| {
        let patience = Duration::from_secs(settings.patience().unsigned_abs());
        reflections::due(&Spi::read_write()?, min_turns, patience, BATCH)
    })?;
    for key in due {
        transaction(|| {
            let spi = Spi::read_write()?;
            // The session may have settings of its own, by which nothing is due.
            let own =
                configured::scoped_to(&key.user_id, &key.agent_id, Some(&key.session_id), || {
                    Ok(ReflectionSettings::default())
                })?;
            let no_job = Uuid::from_bytes([0; 16]);
            if reflect::due(&spi, &key, no_job, &own)?.is_empty() {
                return Ok(());
            }
            ingest::queue_reflection(&spi, &key)
        })?;
    }
    Ok(())
}

/// Queues rows again that a transaction stored with the old embedding model after the change to another
/// was over.
fn embed_left_behind() -> Result<(), Aborted> {
    transaction(|| {
        let spi = Spi::read_write()?;
        match model_change::left_behind(&spi)? {
            Some(model) => model_change::queue(&spi, &model).map(drop),
            None => Ok(()),
        }
    })
}

/// Queues the sessions again whose summaries lack turns that no job knows of.
fn renew_summaries() -> Result<(), Aborted> {
    let least = i64::from(guc::summary_min_tokens());
    let forgotten = transaction(|| summaries::forgotten(&Spi::read_write()?, least, BATCH))?;
    for (key, fill) in forgotten {
        transaction(|| {
            let (user, agent) = (&key.user_id, &key.agent_id);
            configured::scoped_to(user, agent, Some(&key.session_id), || {
                api::summaries::queue(&Spi::read_write()?, &key, &fill)
            })
        })?;
    }
    Ok(())
}
