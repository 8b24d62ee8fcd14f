//! `memory_agent.llm_probes`: how many choices of the [probe](memory_agent_core::facts::reconcile::probe) an LLM made
//! rightly. It is not there before 0.3.0.

use crate::store::prelude::*;
use memory_agent_model_server::protocol::Endpoint;

/// How long a result counts: a name may come to stand for another model.
pub const LASTING: Duration = Duration::from_secs(30 * 86_400);
/// The same where there was no answer, or none that could be used: that may pass.
pub const PASSING: Duration = Duration::from_secs(3_600);

/// Right choices of the LLM at an endpoint, if it was asked; before 0.3.0, none, so that it never is.
pub fn right(spi: &Spi, endpoint: &Endpoint) -> PgResult<Option<u32>> {
    if !schema::has_0_3() {
        return Ok(Some(0));
    }
    let right: Option<i32> = spi.row(
        "SELECT p.right_choices FROM memory_agent.llm_probes p \
          WHERE p.base_url = $1 AND p.model = $2 AND p.valid_until > now()",
        &mut params![&endpoint.base_url, &endpoint.model],
    )?;
    Ok(right.map(|right| right.max(0).unsigned_abs()))
}

/// Keeps a result, and deletes those that no longer count.
pub fn keep(spi: &Spi, endpoint: &Endpoint, right: u32, age: Duration) -> PgResult<()> {
    spi.run(
        "WITH old AS (DELETE FROM memory_agent.llm_probes p \
                       WHERE p.valid_until <= now() AND (p.base_url, p.model) <> ($1, $2)) \
         INSERT INTO memory_agent.llm_probes (base_url, model, right_choices, valid_until) \
         VALUES ($1, $2, $3, now() + make_interval(secs => $4)) \
         ON CONFLICT (base_url, model) DO UPDATE \
            SET right_choices = excluded.right_choices, asked_at = now(), valid_until = excluded.valid_until",
        &mut params![&endpoint.base_url, &endpoint.model, right.cast_signed(), age.as_secs_f64()],
    )
}

/// The LLMs of which a result counts, by name, with their right choices.
pub fn all(spi: &Spi) -> PgResult<Vec<(String, i32)>> {
    spi.rows(
        "SELECT p.model, p.right_choices FROM memory_agent.llm_probes p \
          WHERE p.valid_until > now() ORDER BY p.model, p.base_url",
        &mut params![],
    )
}
