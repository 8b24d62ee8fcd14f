//! What is due by itself: entries expire, inactive ones are purged, forgotten turns are
//! queued, idle episodes end, done jobs are forgotten, times of a clock that was ahead are mended. Each
//! step is a short transaction of its own and takes only so many rows; what is left waits for the next
//! sweep.

use crate::jobs::prelude::*;
use crate::jobs::reflect;
use crate::memory::summaries::archived_conversation::{Archived, archive_conversation};
use crate::memory::{
    scope::{active_model, endpoints, scope_settings},
    texts::follow_ups,
};
use crate::settings::overrides::{PURGE_AFTER, Settings};
use crate::settings::{EmbedOnIngest, LlmLimits, Sessions, job_settings};
use crate::store::changes::sweep::Kept;
use crate::store::models::Kind;
use crate::store::rows::episodes::{self, IdlePlace};
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::sessions::SessionKey;
use crate::store::{
    attach::attachments,
    changes::sweep,
    facts::{extraction, reflections},
    llm::llm_calls,
    models::model_change,
    queue::{queue_upkeep, traces},
    quotas,
    rows::sessions,
    schema, summaries,
    summaries::archives,
};
use memory_agent_core::facts::episodes::CloseReason;
use serde_json::json;

/// Rows that one step takes.
const BATCH: i64 = 1000;
/// Sessions that one sweep looks at for what their summaries lack; the next one goes on behind them.
const SESSIONS: i64 = 5000;
/// How long a step may go on that has a transaction for each session: jobs wait meanwhile.
const STEP_TIME: Duration = Duration::from_secs(2);
/// How long done jobs can be looked at in `memory_jobs`.
const DONE_JOBS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The sweeps of one worker.
#[derive(Default)]
pub struct Sweeper {
    /// The step that comes next.
    next: usize,
    /// Whether a step of this round may have left something.
    more: bool,
    /// The idle episode that was looked at last: sessions that have a longer gap of their own stay idle,
    /// and must not keep the others from their turn.
    idle_after: Option<IdlePlace>,
    /// Where in their lists the next sweep begins, if the last one had no time for all: scopes whose own
    /// settings say that nothing is due stay in front.
    extractions_from: usize,
    reflections_from: usize,
    /// The session up to which summaries were looked at.
    summaries_after: Option<SessionKey>,
}

/// A step of a sweep; true when it took a whole batch, so that there may be more.
type Step = fn(&mut Sweeper) -> Result<bool, Aborted>;

const STEPS: [Step; 13] = [
    |_| rows(|spi| queue_upkeep::mend_times(spi, BATCH)),
    |_| transaction(|spi| Ok(queue::release_expired(spi)? > 0)),
    |_| rows(|spi| queue_upkeep::revive_with_session(spi, BATCH)),
    |_| rows(|spi| sweep::expire(spi, BATCH)),
    |_| rows(purge),
    |_| delete_old(llm_calls::delete_old),
    |_| delete_old(traces::delete_old),
    |sweeper| with_llm(|| queue_extractions(&mut sweeper.extractions_from)),
    Sweeper::end_idle_episodes,
    |sweeper| with_llm(|| queue_reflections(&mut sweeper.reflections_from)),
    |sweeper| with_llm(|| renew_summaries(&mut sweeper.summaries_after)),
    |_| archive_idle(),
    |_| tidy(),
];

impl Sweeper {
    /// Runs one step; true when the sweep is not over.
    pub fn run(&mut self) -> Result<bool, Aborted> {
        let step = STEPS[self.next];
        self.next += 1;
        let is_over = self.next == STEPS.len();
        if is_over {
            self.next = 0;
        }
        let more = step(self)? | std::mem::take(&mut self.more);
        self.more = more && !is_over;
        Ok(more || !is_over)
    }

    /// Ends the episodes of sessions that have fallen silent; true when there may be more.
    fn end_idle_episodes(&mut self) -> Result<bool, Aborted> {
        let gap = Sessions::current().episode_gap;
        if gap.is_zero() {
            return Ok(false);
        }
        let after = self.idle_after.take();
        let idle = transaction(|spi| episodes::idle(spi, gap, after.as_ref(), BATCH))?;
        let is_full = idle.len() as i64 >= BATCH;
        // After the last ones come the first again.
        self.idle_after = idle.last().filter(|_| is_full).map(|(_, place)| place.clone());
        let mut ended = 0;
        let started = Instant::now();
        let mut seen = after;
        for (key, place) in idle {
            if started.elapsed() >= STEP_TIME {
                self.idle_after = seen;
                return Ok(true);
            }
            seen = Some(place);
            let outcome = transaction(|spi| {
                let Some(Some(episode)) = sessions::lock_existing(spi, &key)? else {
                    return Ok(false);
                };
                // The session may have a longer gap of its own, or none.
                let settings = scope_settings::of_session(&key, |settings| Ok(settings.clone()))?;
                let gap = settings.sessions.episode_gap;
                if gap.is_zero() || !episodes::is_still_idle(spi, &key.user_id, episode, gap)? {
                    return Ok(false);
                }
                let closed = episodes::close(spi, &key, episode, CloseReason::Gap.as_str())?;
                if closed == Some(true) {
                    follow_ups::queue_reflection(spi, &key, &settings)?;
                }
                Ok(true)
            });
            // None: another transaction works in the session, so it is not that silent.
            ended += u64::from(unless_passing(outcome)? == Some(true));
        }
        if ended > 0 {
            debug1!("memory_agent: idle episodes ended={ended}");
        }
        // Where nothing ended, the next ones wait for the next sweep.
        Ok(is_full && ended > 0)
    }
}

/// Runs a step that is one statement.
fn rows(step: impl FnOnce(&Spi) -> PgResult<u64>) -> Result<bool, Aborted> {
    transaction(|spi| Ok(step(spi)? >= BATCH as u64))
}

/// Deletes inactive entries that are older than what is set for their agent, or by `memory_agent.purge_after`.
fn purge(spi: &Spi) -> PgResult<u64> {
    let age = |stored: String| {
        let settings = Settings::of(&json!({ PURGE_AFTER: stored }));
        Ok((stored, settings.during(|settings| Ok(settings.sessions.purge_after.as_secs_f64()))?))
    };
    let agents = sweep::purge_settings(spi)?.into_iter().map(age).collect::<PgResult<_>>()?;
    let server = Sessions::current().purge_after.as_secs_f64();
    sweep::purge(spi, &Kept { server, agents }, BATCH)
}

/// Deletes records that are older than `memory_agent.purge_after`, if that is set.
fn delete_old(delete: impl FnOnce(&Spi, Duration, i64) -> PgResult<u64>) -> Result<bool, Aborted> {
    match Sessions::current().purge_after {
        Duration::ZERO => Ok(false),
        age => rows(|spi| delete(spi, age, BATCH)),
    }
}

/// Queues something for each of these, in a transaction each: no lock is held while the next is waited for.
/// True when the time was over before. `from` is where the next time begins, for those that stay in the list.
fn queue_each<T>(
    mut all: Vec<T>,
    from: &mut usize,
    mut queue: impl FnMut(&Spi, T) -> PgResult<()>,
) -> Result<bool, Aborted> {
    let started = Instant::now();
    let begin = std::mem::take(from) % all.len().max(1);
    all.rotate_left(begin);
    for (position, one) in all.into_iter().enumerate() {
        if started.elapsed() >= STEP_TIME {
            *from = begin + position;
            return Ok(true);
        }
        // What another session has locked is in the next list again.
        unless_passing(transaction(|spi| queue(spi, one)))?;
    }
    Ok(false)
}

/// Whether no agent has an LLM.
fn with_llm(step: impl FnOnce() -> Result<bool, Aborted>) -> Result<bool, Aborted> {
    if transaction(endpoints::all_missing)?.is_some() { Ok(false) } else { step() }
}

/// Queues turns that no job knows of.
fn queue_extractions(from: &mut usize) -> Result<bool, Aborted> {
    let forgotten = transaction(|spi| extraction::forgotten(spi, BATCH))?;
    queue_each(forgotten, from, |spi, (user_id, agent_id, session_id)| {
        let session_id = session_id.as_deref();
        let scope = FactScope { user_id: &user_id, agent_id: &agent_id, session_id };
        scope_settings::scoped_to(&user_id, &agent_id, session_id, |settings| {
            follow_ups::queue_extraction(spi, &scope, settings)
        })
    })
}

/// Queues reflections that no other code queued: on short episodes that nothing followed, and on those that
/// ended while there was no LLM.
fn queue_reflections(from: &mut usize) -> Result<bool, Aborted> {
    let settings = job_settings::reflection();
    let min_turns = i32::try_from(settings.min_episode_turns).unwrap_or(i32::MAX);
    let due = transaction(|spi| {
        let patience = Duration::from_secs(settings.patience().unsigned_abs());
        reflections::due(spi, min_turns, patience, BATCH)
    })?;
    queue_each(due, from, |spi, key| {
        // The session may have settings of its own, by which nothing is due.
        let own = scope_settings::of_session(&key, |settings| Ok(settings.clone()))?;
        if reflect::due(spi, &key, &own.reflection)?.is_empty() {
            return Ok(());
        }
        follow_ups::queue_reflection(spi, &key, &own)
    })
    // Those whose sessions say otherwise are due again at once: the next sweep looks at them.
    .map(|_| false)
}

/// Queues the sessions again whose summaries lack turns that no job knows of.
fn renew_summaries(after: &mut Option<SessionKey>) -> Result<bool, Aborted> {
    let least = Sessions::current().summary_min_tokens;
    let forgotten = transaction(|spi| summaries::forgotten(spi, least, after, SESSIONS))?;
    queue_each(forgotten, &mut 0, |spi, (key, fill)| {
        scope_settings::of_session(&key, |settings| {
            follow_ups::queue_summary(spi, &key, &fill, settings)
        })
    })
    .map(|_| false)
}

/// Archives the conversations of sessions that have fallen silent; true when there may be more. Their chunks
/// are embedded by a job.
fn archive_idle() -> Result<bool, Aborted> {
    let idle = Sessions::current().archive_idle_after;
    if idle.is_zero() {
        return Ok(false);
    }
    let (sessions, model) = transaction(|spi| {
        let model = active_model::active(spi, Kind::Embedder)?;
        Ok((archives::idle_conversations(spi, idle, BATCH)?, model))
    })?;
    let is_full = sessions.len() as i64 >= BATCH;
    let started = Instant::now();
    let mut archived = 0;
    for key in sessions {
        if started.elapsed() >= STEP_TIME {
            return Ok(archived > 0);
        }
        let found = transaction(|spi| {
            scope_settings::of_session(&key, |settings| {
                Ok((Archived::of_session(spi, &key)?, settings.clone()))
            })
        })?;
        let (Some(conversation), settings) = found else { continue };
        let content = &settings.content;
        let model = model.clone().filter(|_| content.embed_on_ingest != EmbedOnIngest::Off);
        let configuration = content.text_search_config.clone();
        let chunks = conversation.prepare(content.chunks, model, false, configuration);
        let stored = transaction(|spi| {
            if sessions::lock_existing(spi, &key)?.is_some() {
                archive_conversation(spi, &key, &conversation, &chunks, &settings)?;
            }
            Ok(())
        });
        // None: another transaction is at work in the session; the next sweep finds it again.
        archived += u64::from(unless_passing(stored)?.is_some());
    }
    Ok(is_full && archived > 0)
}

/// Queues rows again that a transaction stored with the old embedding model after the change to another
/// was over, notes what attached tables are called now, forgets counts that newer ones replace, and done jobs.
fn tidy() -> Result<bool, Aborted> {
    transaction(|spi| {
        let attempts = LlmLimits::current().max_attempts;
        match model_change::left_behind(spi)? {
            Some(model) => model_change::queue(spi, &model, attempts).map(drop),
            None => Ok(()),
        }
    })?;
    transaction(|spi| match schema::has_0_2() {
        true => attachments::renew(spi),
        false => Ok(()),
    })?;
    let has_more = rows(|spi| quotas::tidy(spi, BATCH))?;
    Ok(rows(|spi| queue_upkeep::forget_done(spi, DONE_JOBS_KEPT, BATCH))? | has_more)
}
