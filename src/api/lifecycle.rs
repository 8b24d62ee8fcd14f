//! `memory_forget`, `memory_restore` and `memory_history`: what a user can do about one memory. Nothing
//! is deleted here: what is forgotten stays for history and for questions about the past.

use crate::api::prelude::*;
use crate::memory::changes::lifecycle;
use crate::store::changes::versions::{self, Event};

#[pg_extern(sql = false)]
fn memory_forget(
    _limits: WithinLimits,
    id: Option<Uuid>,
    reason: Option<String>,
    user_id: Option<String>,
) -> PgResult<bool> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::User)?;
    let id = given_id(id)?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    roles::write_as_owner(|spi| lifecycle::forget(spi, &caller.user_id, id, reason.as_deref()))
}

#[pg_extern(sql = false)]
fn memory_restore(
    _limits: WithinLimits,
    id: Option<Uuid>,
    user_id: Option<String>,
) -> PgResult<bool> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::User)?;
    let id = given_id(id)?;
    lifecycle::restore(&caller.user_id, id)
}

#[pg_extern(sql = false)]
fn memory_history(
    _limits: WithinLimits,
    id: Option<Uuid>,
    user_id: Option<String>,
) -> PgResult<Rows<Event>> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::Reader)?;
    let id = given_id(id)?;
    roles::read_as_owner(|spi| versions::events(spi, &caller.user_id, id)).map(Rows::new)
}

/// Refuses NULL for an id.
pub fn given_id(id: Option<Uuid>) -> PgResult<Uuid> {
    id.ok_or_else(|| {
        Error::null(
            "id is NULL",
            "Take it from memory_recall, memory_load or the view memory_entries.",
        )
    })
}
