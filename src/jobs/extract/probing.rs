//! What an LLM is asked before the first comparison: the [probe](memory_agent_core::facts::reconcile::probe), where settings
//! leave it to that what it is trusted with.

use crate::jobs::exchange::{Llm, Progress, Received, Taken};
use crate::jobs::extract::{ExtractTask, Stage};
use crate::jobs::prelude::*;
use crate::memory::llm::Question;
use crate::store::llm::llm_probes::{self, LASTING, PASSING};
use memory_agent_core::facts::reconcile::probe::{self, Probe};
use memory_agent_model_server::protocol::Endpoint;

/// Most tokens of an answer: of eight choices, and for a model that thinks first.
const ANSWER_TOKENS: u32 = 2100;

impl ExtractTask {
    /// Whether the LLM has passed the probe; `None` if it is to be asked.
    pub(super) fn passed(&self, llm: &Llm<'_>) -> Result<Option<bool>, Aborted> {
        let right = transaction(|spi| llm_probes::right(spi, &llm.endpoint))?;
        Ok(right.map(probe::passes))
    }

    pub(super) fn begin_probe(&mut self, llm: &mut Llm<'_>) -> Taken {
        self.go_on_probing(Probe::default(), llm.endpoint.clone(), llm)
    }

    /// Asks the next question, or keeps the result and goes on with the comparison.
    fn go_on_probing(&mut self, probe: Probe, endpoint: Endpoint, llm: &mut Llm<'_>) -> Taken {
        let Some((messages, answer)) = probe.question() else {
            transaction(|spi| llm_probes::keep(spi, &endpoint, probe.right(), LASTING))?;
            return self.compare(llm);
        };
        self.stage = Stage::Probing(probe, endpoint);
        self.exchange.ask(Question { messages, answer, max_answer_tokens: ANSWER_TOKENS }, llm)
    }

    /// Takes what came of a question. Without an answer that can be used, the LLM has not passed for a while, so that
    /// the same failure does not hold up the next job, nor the next attempt of this one.
    pub(super) fn take_probe(
        &mut self,
        received: Result<Received, Progress>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let Stage::Probing(mut probe, endpoint) =
            std::mem::replace(&mut self.stage, Stage::Extracting)
        else {
            return Ok(Progress::Failed("an answer without a question".to_owned()));
        };
        // An admin may have chosen another endpoint meanwhile, to which a second question would go.
        let is_same =
            (&endpoint.base_url, &endpoint.model) == (&llm.endpoint.base_url, &llm.endpoint.model);
        match received {
            Ok(Received::Answer(answer)) if is_same => {
                probe.take(&answer.text);
                self.go_on_probing(probe, endpoint, llm)
            }
            Ok(Received::Answer(_)) => self.compare(llm),
            Ok(Received::Failure(_) | Received::BadAnswer(_)) => {
                transaction(|spi| llm_probes::keep(spi, &endpoint, 0, PASSING))?;
                self.compare(llm)
            }
            Err(progress) => {
                if let Progress::Unavailable { .. } = progress {
                    transaction(|spi| llm_probes::keep(spi, &endpoint, 0, PASSING))?;
                }
                Err(progress)
            }
        }
    }
}
