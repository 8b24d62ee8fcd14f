//! `memory_add`: a statement stored as a fact at once, or as the source of facts that an LLM is to find in it.

use crate::api::prelude::*;
use crate::memory::facts::addition::add;
use crate::memory::scope::checks::check_fact_key;
use crate::memory::scope::endpoints;
use crate::memory::scope::scope_settings;
use crate::memory::texts::turn::Turn;
use crate::pg::sql_types::without_nulls;
use crate::settings::Extraction;

#[pg_extern(sql = false)]
fn memory_add(
    _limits: WithinLimits,
    content: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
    markers: Option<Vec<Option<String>>>,
    created_at: Option<TimestampWithTimeZone>,
    ttl: Option<Interval>,
    infer: Option<bool>,
    fact_key: Option<String>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    check_session(session_id.as_deref())?;
    let has_key = fact_key.is_some();
    let infer = match infer {
        None => !has_key && is_inferred(&caller, session_id.as_deref())?,
        Some(infer) => infer,
    };
    if infer {
        check_inference(caller.agent(), has_key)?;
    }
    fact_key.as_deref().map_or(Ok(()), check_fact_key)?;
    let turn = Turn {
        session_id: session_id.clone().unwrap_or_default(),
        role: "user".to_owned(),
        content: content.unwrap_or_default(),
        metadata: metadata.unwrap_or_else(|| JsonbText("{}".into())),
        markers: markers.map(without_nulls).transpose()?,
        created_at,
        ttl,
    };
    add(&caller, turn, session_id.as_deref(), fact_key, infer)
}

/// Whether what is added becomes facts if the caller does not say: an LLM is asked for them, and extraction is on.
fn is_inferred(caller: &Caller, session_id: Option<&str>) -> PgResult<bool> {
    let is_on = scope_settings::scoped(caller, session_id, |settings| {
        Ok(settings.sessions.extraction != Extraction::Off)
    })?;
    Ok(is_on && roles::read_as_owner(|spi| endpoints::missing(spi, caller.agent()))?.is_none())
}

/// Refuses what could only be promised: without an LLM, no facts would be extracted.
fn check_inference(agent_id: &str, has_key: bool) -> PgResult<()> {
    let missing = roles::read_as_owner(|spi| endpoints::missing(spi, agent_id))?;
    if let Some(reason) = missing {
        return Err(Error::not_ready(
            format!("memory_add cannot extract facts: {reason}"),
            "Pass infer => false to store the text itself as one fact, or configure an LLM.",
        ));
    }
    if has_key {
        return Err(Error::invalid(
            "fact_key names one fact, and several may be extracted from the text",
            "Pass infer => false to store the text itself as the fact of this key.",
        ));
    }
    Ok(())
}
