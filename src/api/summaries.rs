//! `memory_compress` and `memory_originals`. Summaries themselves are made by the worker
//! (`jobs/summarize`).

use crate::api::prelude::*;
use crate::api::window::session;
use crate::memory::{scope::endpoints, texts::follow_ups};
use crate::store::queue::jobs::JobKind;
use crate::store::summaries::compression;
use crate::store::summaries::{self, Original};
use memory_agent_core::jobs::payloads;

#[pg_extern(sql = false)]
fn memory_compress(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    let (caller, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let missing = roles::read_as_owner(|spi| endpoints::missing(spi, caller.agent()))?;
    if let Some(reason) = missing {
        return Err(Error::not_ready(
            format!("memory_compress cannot summarise: {reason}"),
            "Configure an LLM, or let memory_reserve_tokens take the oldest turns out of the window.",
        ));
    }
    scope_settings::scoped(&caller, Some(&key.session_id), |settings| {
        roles::write_as_owner(|spi| {
            if sessions::lock_existing(spi, &key)?.is_none()
                || compression::older(spi, &key, settings.summary.keep)?.turns == 0
            {
                return Ok(None);
            }
            let payload = payloads::Summary::with(&settings.summary, true);
            debug1!("memory_agent: compress user={} agent={}", key.user_id, key.agent_id);
            let scope = FactScope::of_session(&key);
            follow_ups::enqueue(spi, JobKind::Compress, &scope, &payload, settings).map(Some)
        })
    })
}

#[pg_extern(sql = false)]
fn memory_originals(
    _limits: WithinLimits,
    summary_id: Option<Uuid>,
    user_id: Option<String>,
) -> PgResult<Rows<Original>> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::Reader)?;
    let Some(summary_id) = summary_id else {
        return Err(Error::null(
            "summary_id is NULL",
            "Take it from the view memory_session_summaries.",
        ));
    };
    roles::read_as_owner(|spi| summaries::originals(spi, &caller.user_id, summary_id))
        .map(Rows::new)
}
