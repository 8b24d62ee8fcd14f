//! `memory_backfill`: work that was not queued when turns were stored, because there was no
//! LLM or extraction was off, is queued now.

use crate::api::prelude::*;
use crate::memory::{endpoints, follow_ups};
use crate::settings::{Extraction, Sessions};
use crate::store::backfill::{self, Scope};
use crate::store::sessions::Fill;
use std::collections::BTreeSet;

#[pg_extern(sql = false)]
fn memory_backfill(
    _limits: WithinLimits,
    since: Option<TimestampWithTimeZone>,
    user_id: Option<String>,
    all_users: Option<bool>,
) -> PgResult<i64> {
    let level = identity::require(Level::User)?;
    let user_id = match (all_users.unwrap_or(false), user_id) {
        (true, Some(_)) => {
            return Err(Error::invalid(
                "all_users and user_id exclude each other",
                "Leave one of them out.",
            ));
        }
        (true, None) if level < Level::Admin => {
            return Err(Error::not_permitted(
                "only administrators may ask for the work of all users",
                "Leave all_users out, or ask for SELECT memory_grant(role, 'admin').",
            ));
        }
        (true, None) => None,
        (false, user_id) => Some(identity::resolve(user_id.as_deref(), None, Level::User)?.user_id),
    };
    if let Some(reason) = roles::read_as_owner(endpoints::all_missing)? {
        return Err(Error::not_ready(
            format!("facts cannot be extracted: {reason}"),
            "Configure an LLM first; see docs/worker.md.",
        ));
    }
    let turns = roles::write_as_owner(|spi| {
        let scopes = backfill::scopes(spi, user_id.as_deref(), since)?;
        let unsummarized = backfill::unsummarized(spi, user_id.as_deref(), since)?;
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
    Ok(i64::try_from(turns).unwrap_or(i64::MAX))
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
    scope_settings::scoped_to(user_id, agent_id, session, || {
        let extraction = Sessions::current().extraction;
        if extraction == Extraction::Off {
            return Ok(0);
        }
        let key =
            session_id.as_ref().map(|session_id| SessionKey::new(user_id, agent_id, session_id));
        let mut turns = 0;
        if let Some(key) = &key {
            sessions::lock_existing(spi, key)?;
            if extraction == Extraction::Episode {
                follow_ups::queue_reflection(spi, key)?;
                turns += backfill::let_episodes_wait(spi, key, since)?;
            }
        }
        // Turns of no episode, or of one that was reflected on before, are extracted from.
        let scope = FactScope { user_id, agent_id, session_id: session };
        follow_ups::queue_extraction(spi, &scope)?;
        Ok(turns + backfill::let_wait(spi, &scope, since)?)
    })
}

/// Queues the summary that a session lacks, as its next turn would.
fn queue_summary(spi: &Spi, key: &SessionKey, fill: &Fill) -> PgResult<()> {
    scope_settings::of_session(key, || {
        sessions::lock_existing(spi, key)?;
        follow_ups::queue_summary(spi, key, fill)
    })
}
