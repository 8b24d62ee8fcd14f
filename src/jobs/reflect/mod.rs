//! `reflect` jobs: the turns of episodes that are over wait for an `extract` job from then on. Short episodes are
//! carried into the next.

use crate::jobs::prelude::*;
use crate::memory::texts::follow_ups;
use crate::settings::{Effective, Search};
use crate::store::facts::reflections::{self, WaitingEpisode};
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::sessions::{self, SessionKey};
use crate::store::schema;
use memory_agent_core::facts::episodes::{self, ClosedEpisode};
use memory_agent_core::jobs::session_settings::ReflectionSettings;

/// Closed episodes that are looked at together.
const EPISODES: i64 = 100;

/// Does a step of the job, in one transaction. Locks in the order of all writers of facts: session, job, episodes,
/// turns. What is left is given back, so that others have their turn.
pub fn hand_over(job: &Job) -> Result<(), Aborted> {
    let settings = job.payload::<payloads::Reflect>().settings.unwrap_or_default();
    let server = Search::current().server_text_search_config;
    let extraction = payloads::Extract::with(&settings.extraction().for_job(&server));
    transaction(|spi| {
        let key = job.session_key();
        let exists = sessions::lock_existing(spi, &key)?.is_some();
        if !queue::lock(spi, job)? {
            return Ok(());
        }
        let groups = if exists { due(spi, &key, &settings)? } else { Vec::new() };
        for group in &groups {
            let decisions = settings.assistant_decisions && schema::has_0_3();
            reflections::let_turns_wait(spi, &key.user_id, group, decisions)?;
        }
        if !groups.is_empty() {
            let (scope, server) = (FactScope::of_session(&key), Effective::current());
            follow_ups::enqueue(spi, JobKind::Extract, &scope, &extraction, &server)?;
            debug1!("memory_agent: reflect user={} groups={}", key.user_id, groups.len());
            if !due(spi, &key, &settings)?.is_empty() {
                return queue::hand_over(spi, job);
            }
        }
        queue::finish(spi, job)
    })
}

/// The episodes of a session whose time has come, of the oldest that wait: those of a group go together. None while they
/// are too short and another one may follow.
pub fn due(spi: &Spi, key: &SessionKey, settings: &ReflectionSettings) -> PgResult<Vec<Vec<Uuid>>> {
    let waiting = reflections::waiting(spi, key, EPISODES)?;
    let is_open = sessions::open_episode(spi, key)?.is_some();
    let now = pgrx::datum::datetime_support::now().into_inner();
    let mut rest = &waiting[..];
    let mut groups = Vec::new();
    loop {
        let closed: Vec<ClosedEpisode> = rest.iter().map(closed).collect();
        let (least, gap) = (settings.min_episode_turns, settings.episode_gap);
        match episodes::next_reflection(&closed, is_open, least, gap, now) {
            episodes::Reflection::Due(count) => {
                let (group, later) = rest.split_at(count);
                groups.push(group.iter().map(|episode| episode.id).collect());
                rest = later;
            }
            _ => return Ok(groups),
        }
    }
}

fn closed(episode: &WaitingEpisode) -> ClosedEpisode {
    ClosedEpisode {
        turns: episode.turn_count.max(0).unsigned_abs(),
        quiet_since_micros: episode.quiet_since.into_inner(),
    }
}
