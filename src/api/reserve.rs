//! `memory_reserve_tokens`: makes the window of a session fit into a budget. What leaves it stays in
//! recall.

use crate::api::prelude::*;
use crate::api::window::session;
use crate::memory::{llm, summaries::reservation};
use crate::settings::Prompts;

#[pg_extern(sql = false)]
fn memory_reserve_tokens(
    _limits: WithinLimits,
    session_id: Option<String>,
    budget: Option<Whole>,
    summarize: Option<bool>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<(i64, i64, i32, i32)>> {
    let (caller, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    // Before the LLM is asked for what could not be stored.
    if !llm::may_write() {
        return Err(Error::read_only(
            "memory_reserve_tokens takes turns out of the window, which a read-only transaction cannot do",
            "Use memory_context with a token_budget, which changes nothing.",
        ));
    }
    let plan = scope_settings::scoped(&caller, Some(&key.session_id), |settings| {
        let budget = checked_budget(budget.map(|tokens| tokens.0), &settings.prompts)?;
        reservation::reserve(&caller, &key, budget, summarize.unwrap_or(false), settings)
    })?;
    debug1!("memory_agent: reserve user={} {plan:?}", key.user_id);
    let count = |turns: usize| i32::try_from(turns).unwrap_or(i32::MAX);
    Ok(Rows::once((
        i64::try_from(plan.tokens_before).unwrap_or(i64::MAX),
        i64::try_from(plan.tokens_after).unwrap_or(i64::MAX),
        count(plan.summarized),
        count(plan.dropped),
    )))
}

/// The budget that was given, or what the application's model reads less the margin.
fn checked_budget(budget: Option<i32>, settings: &Prompts) -> PgResult<u32> {
    match budget {
        Some(budget) => u32::try_from(budget).map_err(|_| {
            Error::invalid(
                "budget is negative",
                "Leave it out for 95 % of memory_agent.context_limit.",
            )
        }),
        None => Ok(settings.longest()),
    }
}
