//! The window of a session makes room: it comes to fit into a budget. What leaves it stays in recall.

use crate::memory::prelude::*;
use crate::memory::summaries::window_plan::{ExactCounts, plan_for};
use crate::memory::summaries::window_summary;
use crate::settings::Effective;
use crate::store::summaries;
use crate::store::summaries::window::{self, Leaving};
use memory_agent_core::prompt::window::Plan;

/// Makes the window fit, with a summary of what has to leave it when one is asked for; what was done.
pub fn reserve(
    caller: &Caller,
    key: &SessionKey,
    budget: u32,
    summarize: bool,
    settings: &Effective,
) -> PgResult<Plan> {
    let counts = ExactCounts::of(key, &settings.prompts)?;
    if summarize {
        window_summary::summarize(caller, key, budget, &counts, settings)?;
    }
    roles::as_owner(|| shrink(key, budget, &counts))
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
