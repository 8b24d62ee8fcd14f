//! `memory_agent.llm_probes`: how many answers of a probe an LLM gave rightly. It is not there before 0.3.0.

use crate::store::prelude::*;
use memory_agent_core::facts::reconcile::probe;
use memory_agent_core::facts::statement_probe;
use memory_agent_model_server::protocol::Endpoint;

/// How long a result counts: a name may come to stand for another model.
pub const LASTING: Duration = Duration::from_secs(30 * 86_400);
/// The same where there was no answer, or none that could be used: that may pass.
pub const PASSING: Duration = Duration::from_secs(3_600);

/// What is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// Whether an LLM sees [what replaces what](probe).
    Choices,
    /// Whether it makes facts only of [what is stated](statement_probe).
    Statements,
}

impl Tested {
    fn as_str(self) -> &'static str {
        match self {
            Self::Choices => "choices",
            Self::Statements => "statements",
        }
    }

    fn passes(self, right: u32) -> bool {
        match self {
            Self::Choices => probe::passes(right),
            Self::Statements => statement_probe::passes(right),
        }
    }
}

/// Whether the LLM at an endpoint has passed, if it was asked. Before 0.3.0 none was, and each was believed.
pub fn passed(spi: &Spi, endpoint: &Endpoint, tested: Tested) -> PgResult<Option<bool>> {
    if !schema::has_0_3() {
        return Ok(Some(true));
    }
    let right: Option<i32> = spi.row(
        "SELECT p.right_answers FROM memory_agent.llm_probes p \
          WHERE p.base_url = $1 AND p.model = $2 AND p.probe = $3 AND p.valid_until > now()",
        &mut params![&endpoint.base_url, &endpoint.model, tested.as_str()],
    )?;
    Ok(right.map(|right| tested.passes(right.max(0).unsigned_abs())))
}

/// Keeps a result, and deletes those that no longer count.
pub fn keep(
    spi: &Spi,
    endpoint: &Endpoint,
    tested: Tested,
    right: u32,
    age: Duration,
) -> PgResult<()> {
    spi.run(
        "WITH old AS (DELETE FROM memory_agent.llm_probes p \
                       WHERE p.valid_until <= now() AND (p.base_url, p.model, p.probe) <> ($1, $2, $3)) \
         INSERT INTO memory_agent.llm_probes (base_url, model, probe, right_answers, valid_until) \
         VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5)) \
         ON CONFLICT (base_url, model, probe) DO UPDATE \
            SET right_answers = excluded.right_answers, asked_at = now(), valid_until = excluded.valid_until",
        &mut params![
            &endpoint.base_url,
            &endpoint.model,
            tested.as_str(),
            right.cast_signed(),
            age.as_secs_f64()
        ],
    )
}

/// The LLMs of which a result counts, by name, with their right answers.
pub fn all(spi: &Spi, tested: Tested) -> PgResult<Vec<(String, i32)>> {
    if !schema::has_0_3() {
        return Ok(Vec::new());
    }
    spi.rows(
        "SELECT p.model, p.right_answers FROM memory_agent.llm_probes p \
          WHERE p.probe = $1 AND p.valid_until > now() ORDER BY p.model, p.base_url",
        &mut params![tested.as_str()],
    )
}
