//! `memory_erase()`: takes memory away for good. What is erased is decided here; how, in
//! `store/changes/erase.rs`.

use crate::api::prelude::*;
use crate::api::window;
use crate::memory::texts::follow_ups;
use crate::models::client;
use crate::pg::spi;
use crate::store::changes::erase::{self as store, Target};

/// As 0.2.0 and older versions declare it.
#[pg_extern(sql = false)]
fn memory_erase(
    limits: WithinLimits,
    user_id: Option<String>,
    session_id: Option<String>,
    id: Option<Uuid>,
    reason: Option<String>,
    agent_id: Option<String>,
) -> PgResult<JsonbText> {
    memory_erase_confirmed(limits, user_id, session_id, id, reason, agent_id, None)
}

/// `memory_erase` that may be told that global memory is meant.
#[pg_extern(sql = false)]
fn memory_erase_confirmed(
    _limits: WithinLimits,
    user_id: Option<String>,
    session_id: Option<String>,
    id: Option<Uuid>,
    reason: Option<String>,
    agent_id: Option<String>,
    confirm_global: Option<bool>,
) -> PgResult<JsonbText> {
    let caller = identity::resolve_kept(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let target = target(&caller, user_id.is_some(), session_id, id)?;
    if let Target::Session(key) = &target {
        window::confirm(key, confirm_global, "erase")?;
    }
    erase(&caller, &target, reason.as_deref())
}

fn erase(caller: &Caller, target: &Target, reason: Option<&str>) -> PgResult<JsonbText> {
    if spi::sees_one_snapshot() {
        let problem = "memory_erase needs isolation level READ COMMITTED: \
                       this transaction does not see what was stored since it began";
        return Err(Error::active_transaction(problem, "Call it outside of the transaction."));
    }
    let counts = roles::write_as_owner(|spi| {
        let (counts, sessions) = store::erase(spi, &caller.user_id, target, reason)?;
        for key in &sessions {
            queue_summary(spi, key)?;
        }
        Ok(counts)
    })?;
    // The caches hold numbers under hashes of texts; a server that does not answer has none.
    if let Err(failure) = client::flush_caches() {
        debug1!("memory_agent: caches were not flushed: {}", failure.message);
    }
    debug1!("memory_agent: erase user={} {}", caller.user_id, counts.document().0);
    Ok(counts.document())
}

fn target(
    caller: &Caller,
    names_user: bool,
    session_id: Option<String>,
    id: Option<Uuid>,
) -> PgResult<Target> {
    let hint = "Name one of id and session_id, or the user alone for everything of that user.";
    match (session_id, id) {
        (Some(_), Some(_)) => Err(Error::invalid("both session_id and id are given", hint)),
        (None, Some(id)) => Ok(Target::One(id)),
        (Some(session_id), None) => session(caller, session_id).map(Target::Session),
        (None, None) if names_user && !caller.agent_is_explicit => Ok(Target::User),
        (None, None) if names_user => {
            let hint = "An agent's memory is erased session by session.";
            Err(Error::invalid("agent_id needs a session_id", hint))
        }
        (None, None) => Err(Error::invalid("nothing to erase is named", hint)),
    }
}

fn session(caller: &Caller, session_id: String) -> PgResult<SessionKey> {
    identity::check_kept_id("session_id", &session_id)?;
    Ok(SessionKey::of(caller, session_id))
}

/// Queues a new summary of what is left of a session, as if its turns had just come.
fn queue_summary(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    let Some(fill) = sessions::fill(spi, key)? else { return Ok(()) };
    scope_settings::of_session(key, |settings| follow_ups::queue_summary(spi, key, &fill, settings))
}
