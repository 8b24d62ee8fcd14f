//! `memory_agent.llm_probes`: how many choices of the [probe](memory_agent_core::reconcile::probe) an LLM made
//! rightly. It is not there before 0.3.0.

use crate::store::prelude::*;
use memory_agent_model_server::protocol::Endpoint;

/// How long a result counts: a name may come to stand for another model.
const DAYS: i32 = 30;

/// Right choices of the LLM at an endpoint, if it was asked; before 0.3.0, none, so that it never is.
pub fn right(spi: &Spi, endpoint: &Endpoint) -> PgResult<Option<u32>> {
    if !schema::has_0_3() {
        return Ok(Some(0));
    }
    let right: Option<i32> = spi.row(
        "SELECT p.right_choices FROM memory_agent.llm_probes p \
          WHERE p.base_url = $1 AND p.model = $2 AND p.at > now() - make_interval(days => $3)",
        &mut params![&endpoint.base_url, &endpoint.model, DAYS],
    )?;
    Ok(right.map(|right| right.max(0).unsigned_abs()))
}

pub fn keep(spi: &Spi, endpoint: &Endpoint, right: u32) -> PgResult<u64> {
    spi.execute(
        "INSERT INTO memory_agent.llm_probes (base_url, model, right_choices) VALUES ($1, $2, $3) \
         ON CONFLICT (base_url, model) DO UPDATE SET right_choices = excluded.right_choices, at = now()",
        &mut params![&endpoint.base_url, &endpoint.model, right.cast_signed()],
    )
}

/// All LLMs that were asked, by name, with their right choices.
pub fn all(spi: &Spi) -> PgResult<Vec<(String, i32)>> {
    spi.rows(
        "SELECT p.model, p.right_choices FROM memory_agent.llm_probes p ORDER BY p.model, p.base_url",
        &mut params![],
    )
}
