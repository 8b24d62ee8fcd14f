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

/// Does the job, in one transaction. Locks in the order of all writers of facts: session, job, episodes, turns.
pub fn hand_over(job: &Job) -> Result<(), Aborted> {
    let payload: payloads::Reflect = job.payload();
    let settings = payload.settings.unwrap_or_default();
    let server = Search::current().server_text_search_config;
    let extraction = payloads::Extract::with(&settings.extraction().for_job(&server));
    transaction(|spi| {
        let key = job.session_key();
        let exists = sessions::lock_existing(spi, &key)?.is_some();
        if !queue::lock(spi, job)? {
            return Ok(());
        }
        // Short ones go along with the next, until as many turns are together as one has.
        let next = || if exists { due(spi, &key, &settings) } else { Ok(Vec::new()) };
        loop {
            let due = next()?;
            if due.is_empty() {
                break;
            }
            let ids: Vec<Uuid> = due.iter().map(|episode| episode.id).collect();
            let decisions = settings.assistant_decisions && schema::has_0_3();
            reflections::let_turns_wait(spi, &key.user_id, &ids, decisions)?;
            let scope = FactScope::of_session(&key);
            follow_ups::enqueue(spi, JobKind::Extract, &scope, &extraction, &Effective::current())?;
        }
        queue::finish(spi, job)
    })
}

/// The episodes of a session that go together and whose time has come; none while the waiting ones are too short and
/// another one may follow.
pub fn due(
    spi: &Spi,
    key: &SessionKey,
    settings: &ReflectionSettings,
) -> PgResult<Vec<WaitingEpisode>> {
    let mut waiting = reflections::waiting(spi, key, EPISODES)?;
    let closed: Vec<ClosedEpisode> = waiting
        .iter()
        .map(|episode| ClosedEpisode {
            turns: episode.turn_count.max(0).unsigned_abs(),
            quiet_since_micros: episode.quiet_since.into_inner(),
        })
        .collect();
    let next = episodes::next_reflection(
        &closed,
        sessions::open_episode(spi, key)?.is_some(),
        settings.min_episode_turns,
        settings.episode_gap,
        pgrx::datum::datetime_support::now().into_inner(),
    );
    let due = if let episodes::Reflection::Due(episodes) = next { episodes } else { 0 };
    waiting.truncate(due);
    Ok(waiting)
}
