//! Which episodes wait for a reflection.

use crate::jobs::prelude::*;
use crate::store::facts::reflections::{self, WaitingEpisode};
use crate::store::rows::sessions::{self, SessionKey};
use memory_agent_core::facts::episodes::{self, ClosedEpisode};
use memory_agent_core::jobs::session_settings::ReflectionSettings;

/// Closed episodes that are looked at together.
const EPISODES: i64 = 100;

/// The episodes of a session that are to be reflected on together now, by this job or a new one; none
/// while the waiting ones are too short and another one may follow.
pub fn due(
    spi: &Spi,
    key: &SessionKey,
    job: Uuid,
    settings: &ReflectionSettings,
) -> PgResult<Vec<WaitingEpisode>> {
    let mut waiting = reflections::waiting(spi, key, job, EPISODES)?;
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
