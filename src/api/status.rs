//! `memory_status()`: what runs, what does not, and what to do about it; `memory_stats()`: how much
//! there is. Counts only, never content.

use crate::api::prelude::*;
use crate::jobs::status as background;
use crate::memory::status::{self, StatusRow};
use crate::settings::Effective;
use crate::store::rows::counts;

#[pg_extern(sql = false)]
fn memory_status() -> PgResult<Rows<StatusRow>> {
    let level = identity::require(Level::Reader)?;
    let settings = Effective::current();
    let (mut rows, server) = status::of_session();
    roles::read_as_owner(|spi| {
        status::add_models(spi, &mut rows, server.is_some())?;
        rows.extend(background::rows(spi, server.as_ref())?);
        rows.extend(status::of_tables(spi, level, &settings.search)?);
        Ok(())
    })?;
    Ok(Rows::new(rows))
}

#[pg_extern(sql = false)]
fn memory_stats(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<JsonbText> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    check_session(session_id.as_deref())?;
    // A session belongs to one agent; without a session, no agent means all of them.
    let agent = match &session_id {
        Some(_) => Some(caller.agent().to_owned()),
        None => caller.agent_id.clone(),
    };
    roles::read_as_owner(|spi| {
        counts::stats(spi, &caller.user_id, agent.as_deref(), session_id.as_deref())
    })
}
