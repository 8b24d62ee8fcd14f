//! `memory_context`: what to put into a prompt now, within a token budget.

use crate::api::prelude::*;
use crate::api::{prompt_limit, window};
use crate::memory::context::prompt::Wanted;
use memory_agent_core::prompt::DEFAULT_TOKEN_BUDGET;

#[pg_extern(sql = false)]
fn memory_context(
    _limits: WithinLimits,
    session_id: Option<String>,
    query: Option<String>,
    token_budget: Option<Whole>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<JsonbText> {
    let (caller, key) =
        window::session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let query = query.unwrap_or_default();
    check_content(&query, &Content::current())?;
    let session_id = key.session_id.clone();
    let context = scope_settings::scoped(&caller, Some(&session_id), |settings| {
        let budget = token_budget.map_or(DEFAULT_TOKEN_BUDGET, |tokens| tokens.0);
        let budget = prompt_limit::budget(Some(budget), 0, &settings.prompts)?;
        Wanted { key, query, caller: caller.clone(), budget, settings }.fill()
    })?;
    Ok(JsonbText(context.to_string()))
}
