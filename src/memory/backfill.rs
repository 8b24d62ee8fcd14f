//! Work that was not queued when turns were stored, because there was no LLM or extraction was off, is queued
//! now: facts from turns that were skipped, and summaries that sessions lack.

use crate::memory::prelude::*;
use crate::memory::{scope::scope_settings, texts::follow_ups};
use crate::settings::Extraction;
use crate::store::queue::backfill::{self, Scope};
use crate::store::rows::sessions::Fill;
use std::collections::BTreeSet;

/// Queues what turns since a time wait for, of one user or of all; how many turns are to become facts.
pub fn queue(user_id: Option<&str>, since: Option<TimestampWithTimeZone>) -> PgResult<u64> {
    let turns = roles::write_as_owner(|spi| {
        let scopes = backfill::scopes(spi, user_id, since)?;
        let unsummarized = backfill::unsummarized(spi, user_id, since)?;
        lock_sessions(spi, &scopes, &unsummarized)?;
        let mut turns = 0;
        for scope in scopes {
            turns += queue_facts(spi, &scope, since)?;
            pgrx::check_for_interrupts!();
        }
        for (key, fill) in unsummarized {
            queue_summary(spi, &key, &fill)?;
            pgrx::check_for_interrupts!();
        }
        Ok(turns)
    })?;
    debug1!("memory_agent: backfill turns={turns}");
    Ok(turns)
}

/// Locks all sessions that are worked on, in the order of their keys as a batch of turns does: in two
/// rounds the two could wait for each other.
fn lock_sessions(spi: &Spi, scopes: &[Scope], unsummarized: &[(SessionKey, Fill)]) -> PgResult<()> {
    let of_scopes = scopes.iter().filter_map(|(user_id, agent_id, session_id)| {
        Some(SessionKey::new(user_id, agent_id, session_id.as_ref()?))
    });
    let keys: BTreeSet<SessionKey> =
        of_scopes.chain(unsummarized.iter().map(|(key, _)| key.clone())).collect();
    for key in keys {
        sessions::lock_existing(spi, &key)?;
        pgrx::check_for_interrupts!();
    }
    Ok(())
}

/// Queues the skipped turns of a scope, unless its settings still say that nothing is extracted.
fn queue_facts(
    spi: &Spi,
    (user_id, agent_id, session_id): &Scope,
    since: Option<TimestampWithTimeZone>,
) -> PgResult<u64> {
    let session = session_id.as_deref();
    scope_settings::scoped_to(user_id, agent_id, session, |settings| {
        let extraction = settings.sessions.extraction;
        if extraction == Extraction::Off {
            return Ok(0);
        }
        let key =
            session_id.as_ref().map(|session_id| SessionKey::new(user_id, agent_id, session_id));
        let mut turns = 0;
        if let Some(key) = &key {
            sessions::lock_existing(spi, key)?;
            if extraction == Extraction::Episode {
                follow_ups::queue_reflection(spi, key, settings)?;
                turns += backfill::let_episodes_wait(spi, key, since)?;
            }
        }
        // Turns of no episode, or of one that was reflected on before, are extracted from.
        let scope = FactScope { user_id, agent_id, session_id: session };
        follow_ups::queue_extraction(spi, &scope, settings)?;
        Ok(turns + backfill::let_wait(spi, &scope, since)?)
    })
}

/// Queues the summary that a session lacks, as its next turn would.
fn queue_summary(spi: &Spi, key: &SessionKey, fill: &Fill) -> PgResult<()> {
    scope_settings::of_session(key, |settings| {
        sessions::lock_existing(spi, key)?;
        follow_ups::queue_summary(spi, key, fill, settings)
    })
}
