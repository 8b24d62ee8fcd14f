//! What an LLM is asked before its first job that compares facts: the [probe](memory_agent_core::reconcile::probe),
//! where settings leave it to that what it is trusted with.

use crate::jobs::exchange::{Exchange, Llm, LlmTask, Progress, Received, Start, Taken};
use crate::jobs::llm_connection::LostCall;
use crate::jobs::prelude::*;
use crate::memory::llm::Question;
use crate::store::llm_probes;
use memory_agent_core::reconcile::probe::{self, Probe};
use memory_agent_model_server::protocol::{ChatOutcome, Endpoint};

/// A task of a kind for which it may matter how well the LLM chooses.
pub trait Choosing: Start {
    /// Whether it matters for this job.
    fn wants_probe(job: &Job) -> bool;
}

/// A task that begins when the result of the probe is known.
pub enum Probed<T> {
    Asking(Box<Asking>),
    Begun(T),
}

pub struct Asking {
    job: Job,
    /// Whom it asks: an admin may choose another endpoint meanwhile.
    endpoint: Endpoint,
    probe: Probe,
    exchange: Exchange,
}

/// Most tokens of an answer: eight choices, each with a sentence.
const ANSWER_TOKENS: u32 = 1000;

impl Asking {
    /// Asks the next question; `None` if there is none.
    fn ask(&mut self, llm: &mut Llm<'_>) -> Option<Taken> {
        let (messages, answer) = self.probe.question()?;
        let question = Question { messages, answer, max_answer_tokens: ANSWER_TOKENS };
        Some(self.exchange.ask(question, llm))
    }

    /// Takes what came of a question, and keeps the result with the last one. Whether the probe is of any use: after
    /// a failed call the next job asks again, and this one goes on as if the LLM had not passed.
    fn take(&mut self, outcome: Result<ChatOutcome, LostCall>) -> Result<bool, Progress> {
        match self.exchange.receive(outcome, &self.job, "probe")? {
            Received::Answer(answer) => self.probe.take(Some(&answer.text)),
            Received::BadAnswer(_) => self.probe.take(None),
            Received::Failure(_) => return Ok(false),
        }
        if self.probe.question().is_none() {
            let right = self.probe.right();
            transaction(|spi| llm_probes::keep(spi, &self.endpoint, right))?;
        }
        Ok(true)
    }

    fn is_of(&self, endpoint: &Endpoint) -> bool {
        (&self.endpoint.base_url, &self.endpoint.model) == (&endpoint.base_url, &endpoint.model)
    }
}

impl<T: Choosing> LlmTask for Probed<T> {
    fn job(&self) -> &Job {
        match self {
            Self::Asking(asking) => &asking.job,
            Self::Begun(task) => task.job(),
        }
    }

    fn proceed(&mut self, outcome: Result<ChatOutcome, LostCall>, llm: &mut Llm<'_>) -> Taken {
        let asking = match self {
            Self::Asking(asking) => asking,
            Self::Begun(task) => return task.proceed(outcome, llm),
        };
        let goes_on = asking.take(outcome)? && asking.is_of(&llm.endpoint);
        if goes_on && let Some(taken) = asking.ask(llm) {
            return taken;
        }
        llm.has_passed = goes_on && probe::passes(asking.probe.right());
        let (task, taken) = T::start(asking.job.clone(), llm);
        *self = Self::Begun(task);
        taken
    }

    fn apply_again(&mut self, llm: &mut Llm<'_>) -> Taken {
        match self {
            Self::Asking(_) => Ok(Progress::Failed("nothing is decided yet".to_owned())),
            Self::Begun(task) => task.apply_again(llm),
        }
    }
}

impl<T: Choosing> Start for Probed<T> {
    /// Begins the task at once where the result is known, or does not matter.
    fn start(job: Job, llm: &mut Llm<'_>) -> (Self, Taken) {
        let known = if T::wants_probe(&job) {
            transaction(|spi| llm_probes::right(spi, &llm.endpoint))
        } else {
            Ok(Some(0))
        };
        if let Ok(Some(right)) = known {
            llm.has_passed = probe::passes(right);
            let (task, taken) = T::start(job, llm);
            return (Self::Begun(task), taken);
        }
        let endpoint = llm.endpoint.clone();
        let (probe, exchange) = (Probe::default(), Exchange::default());
        let mut asking = Box::new(Asking { job, endpoint, probe, exchange });
        let taken = match known {
            Err(aborted) => Err(Progress::from(aborted)),
            Ok(_) => asking.ask(llm).unwrap_or(Ok(Progress::Finished)),
        };
        (Self::Asking(asking), taken)
    }
}
