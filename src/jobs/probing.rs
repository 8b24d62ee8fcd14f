//! What an LLM is asked before something that it chose is replaced or ended for the first time: the
//! [probe](memory_agent_core::facts::reconcile::probe).

use crate::jobs::exchange::{Llm, Progress, Received};
use crate::jobs::prelude::*;
use crate::memory::llm::Question;
use crate::store::llm::llm_probes::{self, LASTING, PASSING};
use memory_agent_core::facts::reconcile::probe::{self, Probe};
use memory_agent_model_server::protocol::Endpoint;

/// Most tokens of an answer: of eight choices, and for a model that thinks first.
const ANSWER_TOKENS: u32 = 2100;

/// Whether the LLM has passed the probe; `None` if it is to be asked.
pub fn passed(llm: &Llm<'_>) -> Result<Option<bool>, Aborted> {
    let right = transaction(|spi| llm_probes::right(spi, &llm.endpoint))?;
    Ok(right.map(probe::passes))
}

/// A probe on its way.
pub struct Probing {
    probe: Probe,
    endpoint: Endpoint,
}

impl Probing {
    pub fn of(llm: &Llm<'_>) -> Self {
        Self { probe: Probe::default(), endpoint: llm.endpoint.clone() }
    }

    /// The next question. After the last one, keeps the result.
    pub fn question(&self) -> Result<Option<Question>, Aborted> {
        let Some((messages, answer)) = self.probe.question() else {
            self.keep(self.probe.right(), LASTING)?;
            return Ok(None);
        };
        Ok(Some(Question { messages, answer, max_answer_tokens: ANSWER_TOKENS }))
    }

    /// Takes what came of a question, and returns whether to go on. Without an answer that can be used, the LLM has not
    /// passed for a while, so that the same failure does not hold up the next job, nor the next attempt of this one.
    pub fn take(
        &mut self,
        received: Result<Received, Progress>,
        llm: &Llm<'_>,
    ) -> Result<bool, Progress> {
        // An admin may have chosen another endpoint meanwhile, to which a second question would go.
        let is_same = (&self.endpoint.base_url, &self.endpoint.model)
            == (&llm.endpoint.base_url, &llm.endpoint.model);
        match received {
            Ok(Received::Answer(answer)) => {
                self.probe.take(&answer.text);
                return Ok(is_same);
            }
            Ok(Received::Failure(_) | Received::BadAnswer(_)) => self.keep(0, PASSING)?,
            Err(progress) => {
                if let Progress::Unavailable { .. } = progress {
                    self.keep(0, PASSING)?;
                }
                return Err(progress);
            }
        }
        Ok(false)
    }

    fn keep(&self, right: u32, age: Duration) -> Result<(), Aborted> {
        transaction(|spi| llm_probes::keep(spi, &self.endpoint, right, age))
    }
}
