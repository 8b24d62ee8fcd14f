//! `memory_list`: entries page by page, without a question. What a page costs depends on what it shows, not on
//! how much the user has: that is what the views cannot do, which read all rows of a user first.

use crate::api::prelude::*;
use crate::api::search_archive::check_limit;
use crate::store::changes::listing::{self, Kind, Listed, Wanted};

/// Entries on a page where the call does not say how many.
const DEFAULT_LISTED: i32 = 50;
/// How one gets more than fit on a page.
const NEXT_PAGE: &str = "from_at and from_id of its last entry bring the next page.";

#[pg_extern(sql = false)]
fn memory_list(
    _limits: WithinLimits,
    session_id: Option<String>,
    kind: Option<String>,
    limit: Option<Whole>,
    from_at: Option<TimestampWithTimeZone>,
    from_id: Option<Uuid>,
    oldest_first: Option<bool>,
    id: Option<Uuid>,
    source_id: Option<Uuid>,
    own_only: Option<bool>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<Listed>> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    check_session(session_id.as_deref())?;
    if from_at.is_none() && from_id.is_some() {
        let hint = "Pass created_at and id of the entry that the page begins at.";
        return Err(Error::invalid("from_id needs from_at", hint));
    }
    let wanted = Wanted {
        id,
        source_id,
        kind: kind.as_deref().map(known).transpose()?,
        session_id,
        agent_id: caller.agent_id.clone().filter(|_| caller.agent_is_explicit),
        from: from_at.map(|at| (at, from_id)),
        oldest_first: oldest_first.unwrap_or(false),
        limit: check_limit("limit", limit, DEFAULT_LISTED, NEXT_PAGE)?,
    };
    let users = match own_only {
        Some(true) => vec![caller.user_id.clone()],
        _ => caller.visible(),
    };
    roles::read_as_owner(|spi| listing::page(spi, &users, &wanted)).map(Rows::new)
}

fn known(kind: &str) -> PgResult<Kind> {
    Kind::of(kind)
        .ok_or_else(|| Error::invalid("unknown kind", "Kinds are turn, fact and document."))
}
