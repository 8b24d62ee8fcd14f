//! Quotas of users: `memory_set_quota` and `memory_list_quotas` for administrators, `memory_usage` for every user
//! about their own memory.

use crate::api::prelude::*;
use crate::memory::quotas::{self, NO_TOKENS_LEFT, Usage};
use crate::pg::wake_at_commit;
use crate::store::queue::queue_upkeep;
use crate::store::quotas::{self as store, Listed, Quota};

#[pg_extern(sql = false)]
fn memory_set_quota(
    _limits: WithinLimits,
    user_id: Option<String>,
    entries: Option<i64>,
    bytes: Option<i64>,
    daily_tokens: Option<i64>,
) -> PgResult<()> {
    identity::require(Level::Admin)?;
    let user_id = user_id.unwrap_or_default();
    identity::check_id("user_id", &user_id)?;
    let quota = Quota { entries, bytes, daily_tokens };
    if [entries, bytes, daily_tokens].into_iter().flatten().any(i64::is_negative) {
        let hint = "0 means no limit. Leave a limit out, and the one for all users ('*') counts.";
        return Err(Error::invalid("a quota is negative", hint));
    }
    debug1!("memory_agent: set quota user={user_id}");
    roles::write_as_owner(|spi| {
        store::set(spi, &user_id, quota)?;
        // Jobs that waited for the next day look again.
        queue_upkeep::run_waiting_for(spi, NO_TOKENS_LEFT)
    })?;
    wake_at_commit::job_queued();
    Ok(())
}

#[pg_extern(sql = false)]
fn memory_list_quotas(_limits: WithinLimits) -> PgResult<Rows<Listed>> {
    identity::require(Level::Admin)?;
    roles::read_as_owner(store::all).map(Rows::new)
}

#[pg_extern(sql = false)]
fn memory_usage(_limits: WithinLimits, user_id: Option<String>) -> PgResult<Rows<Usage>> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::Reader)?;
    roles::read_as_owner(|spi| quotas::usage(spi, &caller.user_id)).map(Rows::new)
}
