//! What an LLM is asked once, before its answers count: the [probe of its choices](memory_agent_core::facts::reconcile::probe)
//! before something that it chose is replaced or ended, and the [probe of what it
//! extracts](memory_agent_core::facts::statement_probe) before facts of messages with more than statements are stored.

use crate::jobs::exchange::{Llm, Progress, Received};
use crate::jobs::prelude::*;
use crate::memory::llm::Question;
use crate::store::llm::llm_probes::{self, LASTING, PASSING, Tested};
use memory_agent_core::facts::reconcile::probe::Probe;
use memory_agent_core::facts::statement_probe;
use memory_agent_model_server::protocol::Endpoint;

/// Most tokens of an answer: of eight choices, and for a model that thinks first.
const ANSWER_TOKENS: u32 = 2100;

/// Whether the LLM has passed; `None` if it is to be asked.
pub fn passed(llm: &Llm<'_>, tested: Tested) -> Result<Option<bool>, Aborted> {
    transaction(|spi| llm_probes::passed(spi, &llm.endpoint, tested))
}

/// A probe on its way.
pub struct Probing {
    probe: Asked,
    endpoint: Endpoint,
}

enum Asked {
    Choices(Probe),
    /// With the messages that were right, once they were asked about.
    Statements(Option<u32>),
}

impl Probing {
    pub fn of(tested: Tested, llm: &Llm<'_>) -> Self {
        let probe = match tested {
            Tested::Choices => Asked::Choices(Probe::default()),
            Tested::Statements => Asked::Statements(None),
        };
        Self { probe, endpoint: llm.endpoint.clone() }
    }

    pub fn tested(&self) -> Tested {
        match self.probe {
            Asked::Choices(_) => Tested::Choices,
            Asked::Statements(_) => Tested::Statements,
        }
    }

    /// The next question. After the last one, keeps the result.
    pub fn question(&self) -> Result<Option<Question>, Aborted> {
        let (next, right) = match &self.probe {
            Asked::Choices(probe) => (probe.question(), probe.right()),
            Asked::Statements(None) => (Some(statement_probe::question()), 0),
            Asked::Statements(Some(right)) => (None, *right),
        };
        let Some((messages, answer)) = next else {
            self.keep(right, LASTING)?;
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
                match &mut self.probe {
                    Asked::Choices(probe) => probe.take(&answer.text),
                    Asked::Statements(right) => *right = Some(statement_probe::right(&answer.text)),
                }
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
        transaction(|spi| llm_probes::keep(spi, &self.endpoint, self.tested(), right, age))
    }
}
