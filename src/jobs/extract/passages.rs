//! With `extraction_batch` 0 an `extract` job asks about one passage of its turn after the other.

use super::{ExtractTask, Stage};
use crate::jobs::exchange::{self, Llm, Progress, Taken};
use crate::jobs::prelude::*;
use memory_agent_core::jobs::payloads::{PassageAnswers, SavedFact};

/// What is to be asked about, and what was answered so far.
pub struct Passages {
    pub texts: Vec<String>,
    pub answers: PassageAnswers,
}

impl ExtractTask {
    /// Asks about the next passage, or goes on with the facts of all.
    pub(super) fn ask_about_passages(&mut self, passages: Passages, llm: &mut Llm<'_>) -> Taken {
        if let Some(passage) = passages.texts.get(passages.answers.asked).cloned() {
            return self.ask_about(&[(0, &passage)], Some(passages), llm);
        }
        let PassageAnswers { asked, facts, unusable } = passages.answers;
        if let Some((times, reason)) = unusable {
            if times == asked {
                // Who has the job run again has it ask again.
                self.job.keep(|payload: &mut payloads::Extract| payload.answers = None);
                exchange::keep(&self.job)?;
                return Ok(Progress::FailedForGood(reason));
            }
            self.undecided = Some(format!("no facts of {times} of {asked} passages: {reason}"));
        }
        self.keep(facts, llm)
    }

    /// The passages that the LLM was asked about.
    pub(super) fn take_passages(&mut self) -> Option<Passages> {
        match &mut self.stage {
            Stage::Extracting(passages) => passages.take(),
            _ => None,
        }
    }

    /// Goes on behind the passage that was asked about; an attempt after this one does, too.
    pub(super) fn take_passage(
        &mut self,
        mut passages: Passages,
        facts: Vec<SavedFact>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let answers = &mut passages.answers;
        for fact in facts {
            if !answers.facts.iter().any(|known| known.text == fact.text) {
                answers.facts.push(fact);
            }
        }
        answers.asked += 1;
        let answers = answers.clone();
        self.job.keep(|payload: &mut payloads::Extract| payload.answers = Some(answers));
        exchange::keep(&self.job)?;
        self.ask_about_passages(passages, llm)
    }

    /// Neither an answer nor its correction can be used.
    pub(super) fn pass_over(
        &mut self,
        passages: Option<Passages>,
        reason: String,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let Some(mut passages) = passages else {
            return Ok(Progress::unusable(self.turns.len(), reason));
        };
        let times = passages.answers.unusable.as_ref().map_or(0, |(times, _)| *times);
        passages.answers.unusable = Some((times + 1, reason));
        self.take_passage(passages, Vec::new(), llm)
    }
}
