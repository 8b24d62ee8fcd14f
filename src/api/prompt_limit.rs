//! How long a prompt may be: what the application's model reads, less the share of its answer.

use crate::api::prelude::*;
use crate::settings::Prompts;

/// Tokens that a prompt may have: the budget of the call, if it has one, and never more than
/// the longest prompt has, or than an answer of `answer_tokens` leaves.
///
/// # Errors
/// 22023 for a budget that is negative.
pub fn budget(token_budget: Option<i32>, answer_tokens: u32, settings: &Prompts) -> PgResult<i64> {
    if token_budget.is_some_and(|budget| budget < 0) {
        return Err(Error::invalid(
            "token_budget is negative",
            "Leave it out for 95 % of memory_agent.context_limit.",
        ));
    }
    let beside_answer = i64::from(settings.context_limit) - i64::from(answer_tokens);
    let most = i64::from(settings.longest()).min(beside_answer.max(0));
    Ok(token_budget.map_or(most, |budget| i64::from(budget).min(most)))
}
