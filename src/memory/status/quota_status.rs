//! The row of `memory_status()` about quotas.

use crate::memory::prelude::*;
use crate::memory::quotas::NEARLY;
use crate::memory::status::{StatusRow, row};
use crate::store::llm::llm_calls;
use crate::store::quotas as store;

/// The row of `memory_status()`, where any quota is set. How many, not who: each reads it.
pub fn row_of_quotas(spi: &Spi) -> PgResult<Option<StatusRow>> {
    /// Calls of LLMs that the answer waits for.
    const MOST_CALLS: i64 = 2_000;
    if !store::are_set(spi)? {
        return Ok(None);
    }
    let (near, all_near) = store::users_near(spi, NEARLY)?;
    let (without, all_without) = llm_calls::users_without_tokens(spi, MOST_CALLS)?;
    let at_least = |all: bool| if all { "" } else { "at least " };
    let detail = format!(
        "users with 90 % of their entries or bytes when they last stored something: {}{near}; users without tokens \
         left for today: {}{without}",
        at_least(all_near),
        at_least(all_without),
    );
    Ok(Some(match near + without {
        0 => row("quotas", "in use", detail, None),
        _ => row(
            "quotas",
            "nearly used up",
            detail,
            "memory_usage(user_id) says how much a user has; memory_set_quota allows more.",
        ),
    }))
}
