//! The window of a session: `memory_load` reads it, `memory_clear` empties it, and forgets the
//! session's facts with it.

use crate::api::prelude::*;
use crate::api::prompt_limit;
use crate::memory::context::window_messages;
use crate::store::changes::clearing;
use crate::store::facts;
use crate::store::facts::shared_facts;
use crate::store::summaries::window::{self, Message};

/// The caller, and the session that is meant.
pub fn session(
    session_id: Option<String>,
    user_id: Option<&str>,
    agent_id: Option<&str>,
    needed: Level,
) -> PgResult<(Caller, SessionKey)> {
    let caller = identity::resolve(user_id, agent_id, needed)?;
    let session_id = session_id.unwrap_or_default();
    entry::validate_session_id(&session_id).map_err(Error::refused)?;
    let key = SessionKey::of(&caller, session_id);
    Ok((caller, key))
}

/// Refuses the user's global memory, unless the caller says that it is meant: an application that names its
/// sessions as it likes must not clear what all of them rest on.
pub fn confirm(key: &SessionKey, is_meant: Option<bool>, verb: &str) -> PgResult<()> {
    if !key.is_global() || is_meant == Some(true) {
        return Ok(());
    }
    let all = format!("SELECT memory_{verb}(session_id => 'global', confirm_global => true)");
    Err(Error::invalid(
        "session \"global\" is the user's global memory, which all their sessions share",
        format!("If you want to {verb} it, confirm that: {all}."),
    ))
}

#[pg_extern(sql = false)]
fn memory_load(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<Message>> {
    let (_, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let loaded = roles::read_as_owner(|spi| window::load(spi, &key))?;
    Ok(Rows::new(loaded.into_iter().map(|loaded| loaded.message).collect::<Vec<_>>()))
}

/// `memory_load` with a budget.
#[pg_extern(sql = false)]
fn memory_load_within(
    _limits: WithinLimits,
    session_id: Option<String>,
    token_budget: Option<Whole>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<Message>> {
    let (caller, key) =
        session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let messages = scope_settings::scoped(&caller, Some(&key.session_id), |settings| {
        window_messages::within(
            &key,
            prompt_limit::budget(token_budget.map(|tokens| tokens.0), 0, &settings.prompts)?,
            settings,
        )
    })?;
    Ok(Rows::new(messages))
}

#[pg_extern(sql = false)]
fn memory_clear(
    limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<i32> {
    memory_clear_confirmed(limits, session_id, None, user_id, agent_id)
}

/// `memory_clear` that says whether it may be global memory.
#[pg_extern(sql = false)]
fn memory_clear_confirmed(
    _limits: WithinLimits,
    session_id: Option<String>,
    confirm_global: Option<bool>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<i32> {
    let (_, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    confirm(&key, confirm_global, "clear")?;
    let cleared = roles::write_as_owner(|spi| {
        let mut is_there = false;
        for locked in shared_facts::with_heirs(spi, &key)? {
            is_there |= sessions::lock_existing(spi, &locked)?.is_some() && locked == key;
        }
        if key.is_global() {
            facts::lock_global(&key.user_id, &key.agent_id);
        }
        if is_there || key.is_global() {
            clearing::clear(spi, &key)
        } else {
            Ok(clearing::Cleared::default())
        }
    })?;
    let clearing::Cleared { turns, facts, summaries, jobs } = cleared;
    debug1!(
        "memory_agent: clear user={} turns={turns} facts={facts} summaries={summaries} jobs={jobs}",
        key.user_id
    );
    Ok(i32::try_from(turns).unwrap_or(i32::MAX))
}
