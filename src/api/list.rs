//! `memory_list`: entries page by page, without a question. What a page costs depends on what it shows, not on
//! how much the user has: that is what the views cannot do, which read all rows of a user first.

use crate::api::prelude::*;
use crate::api::search_archive::check_limit;
use crate::store::listing::{self, Kind, Listed, Wanted};
use memory_agent_core::text;

/// Entries on a page where the call does not say how many.
const DEFAULT_LISTED: i32 = 50;

#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn memory_list(
    _limits: WithinLimits,
    session_id: Option<String>,
    kind: Option<String>,
    limit: Option<i32>,
    from_at: Option<TimestampWithTimeZone>,
    from_id: Option<Uuid>,
    oldest_first: Option<bool>,
    id: Option<Uuid>,
    source_id: Option<Uuid>,
    own_only: Option<bool>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> Rows<(
    Uuid,
    String,
    Option<String>,
    String,
    String,
    String,
    String,
    JsonbText,
    Vec<String>,
    TimestampWithTimeZone,
    TimestampWithTimeZone,
    Option<TimestampWithTimeZone>,
    bool,
    i32,
    Option<Uuid>,
    Option<String>,
    Option<f32>,
    Option<Vec<Uuid>>,
)> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    if let Some(session_id) = &session_id {
        text::validate_session_id(session_id).map_err(Error::refused)?;
    }
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
        limit: check_limit(limit, DEFAULT_LISTED)?,
    };
    let users = match own_only {
        Some(true) => vec![caller.user_id.clone()],
        _ => caller.visible(),
    };
    let listed = roles::read_as_owner(|spi| listing::page(spi, &users, &wanted))?;
    let row = |row: Listed| {
        (
            row.id,
            row.user_id,
            row.session_id,
            row.agent_id,
            row.kind,
            row.role,
            row.content,
            row.metadata,
            row.markers,
            row.created_at,
            row.updated_at,
            row.expires_at,
            row.is_active,
            row.token_count,
            row.episode_id,
            row.fact_key,
            row.confidence,
            row.source_ids,
        )
    };
    Ok(TableIterator::new(listed.into_iter().map(row).collect::<Vec<_>>()))
}

fn known(kind: &str) -> PgResult<Kind> {
    match kind {
        "turn" => Ok(Kind::Turn),
        "fact" => Ok(Kind::Fact),
        "document" => Ok(Kind::Document),
        _ => Err(Error::invalid("unknown kind", "Kinds are turn, fact and document.")),
    }
}
