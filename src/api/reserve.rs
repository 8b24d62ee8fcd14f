//! `memory_reserve_tokens`: makes the window of a session fit into a budget. What leaves it stays in
//! recall.

use crate::api::prelude::*;
use crate::api::prompt_limit;
use crate::api::window::session;
use crate::memory::window_plan::{ExactCounts, plan_for};
use crate::memory::{llm, window_summary};
use crate::store::summaries;
use crate::store::window::{self, Leaving};
use memory_agent_core::window::Plan;

#[pg_extern(sql = false)]
fn memory_reserve_tokens(
    _limits: WithinLimits,
    session_id: Option<String>,
    budget: Option<i32>,
    summarize: Option<bool>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Rows<(i64, i64, i32, i32)>> {
    let (caller, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    // Before the LLM is asked for what could not be stored.
    if !llm::may_write() {
        return Err(Error::read_only(
            "memory_reserve_tokens takes turns out of the window, which a read-only transaction cannot",
            "Use memory_context with a token_budget, which changes nothing.",
        ));
    }
    let plan = scope_settings::scoped(&caller, Some(&key.session_id), || {
        let budget = checked_budget(budget)?;
        let counts = ExactCounts::of(&key)?;
        if summarize.unwrap_or(false) {
            window_summary::summarize(&caller, &key, budget, &counts)?;
        }
        roles::as_owner(|| shrink(&key, budget, &counts))
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
fn checked_budget(budget: Option<i32>) -> PgResult<u32> {
    match budget {
        Some(budget) => u32::try_from(budget).map_err(|_| {
            Error::invalid(
                "budget is negative",
                "Leave it out for memory_agent.context_limit less context_margin.",
            )
        }),
        None => Ok(prompt_limit::longest()),
    }
}

/// Takes the oldest turns out of the window until it fits: first those that the summary stands for.
fn shrink(key: &SessionKey, budget: u32, counts: &ExactCounts) -> PgResult<Plan> {
    let spi = Spi::read_write()?;
    if sessions::lock_existing(&spi, key)?.is_none() {
        return Ok(Plan::default());
    }
    let turns = counts.turns(&spi, key)?;
    let summary = summaries::current(&spi, key)?;
    let plan = plan_for(&turns, summary.map(|summary| summary.tokens), budget);
    if plan.leaving() > 0 {
        let leaving = &turns[..plan.leaving()];
        for (covered, why) in [(true, Leaving::Compressed), (false, Leaving::Evicted)] {
            let ids: Vec<Uuid> =
                leaving.iter().filter(|turn| turn.covered == covered).map(|turn| turn.id).collect();
            window::archive(&spi, &key.user_id, &ids, why)?;
        }
        sessions::recount(&spi, key)?;
    }
    Ok(plan)
}
