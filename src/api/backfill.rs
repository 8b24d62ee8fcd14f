//! `memory_backfill`: work that was not queued when turns were stored, because there was no
//! LLM or extraction was off, is queued now.

use crate::api::prelude::*;
use crate::memory::{backfill, scope::endpoints};

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
                identity::hint_of_admin("Leave all_users out"),
            ));
        }
        (true, None) => None,
        (false, user_id) => Some(identity::resolve_at(level, user_id.as_deref(), None)?.user_id),
    };
    if let Some(reason) = roles::read_as_owner(endpoints::all_missing)? {
        return Err(Error::not_ready(
            format!("facts cannot be extracted: {reason}"),
            "Configure an LLM first; see docs/worker.md.",
        ));
    }
    let turns = backfill::queue(user_id.as_deref(), since)?;
    Ok(i64::try_from(turns).unwrap_or(i64::MAX))
}
