//! The statement check of an `extract` job: whether the user states each new fact, and means it. The LLM is
//! asked about the facts of one turn at a time, which is a question that small models can answer, and only
//! where the message does something else than state as well.

use crate::jobs::exchange::{self, Llm, Progress, Taken};
use crate::jobs::extract::{CHARS, ExtractTask, Stage};
use crate::jobs::prelude::*;
use crate::memory::facts::grounds;
use crate::memory::llm::Question;
use memory_agent_core::answers::AnswerFormat;
use memory_agent_core::extract::original_message;
use memory_agent_core::grounding::only_states;
use memory_agent_core::jobs::payloads::SavedFact;
use memory_agent_core::jobs::session_settings::UngroundedFacts;
use memory_agent_core::statement_check::{self, STATED};

impl ExtractTask {
    /// Sets the facts aside that were found not to be stated, and returns the question about the next turn
    /// that does not only state things and has facts which the rules accept and nobody has checked.
    pub(super) fn check(&mut self, saved: &[SavedFact]) -> Option<Question> {
        let treatment = self.settings.ungrounded_facts;
        if !self.settings.statement_check || treatment == UngroundedFacts::Accept {
            return None;
        }
        self.unverified.extend(grounds::checked(&mut self.facts, saved, treatment));
        let said = |fact: &SavedFact| -> Option<String> {
            let turn = self.turns.iter().find(|turn| turn.id.to_string() == fact.turn)?;
            Some(original_message(&turn.content).chars().take(CHARS).collect())
        };
        let is_open = |fact: &&SavedFact| {
            fact.checked.is_none() && self.facts.iter().any(|other| grounds::is_of(other, fact))
        };
        // Where a message only states things, small models doubt more that is right than what is wrong.
        let is_doubtful = |fact: &&SavedFact| said(fact).is_some_and(|said| !only_states(&said));
        let first = saved.iter().filter(is_open).find(is_doubtful)?;
        let said = said(first)?;
        let open: Vec<SavedFact> =
            saved.iter().filter(is_open).filter(|fact| fact.turn == first.turn).cloned().collect();
        let texts: Vec<&str> = open.iter().map(|fact| fact.text.as_str()).collect();
        let facts = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let question = Question {
            messages: statement_check::messages(&said, &texts),
            answer: AnswerFormat::Checks { facts },
            max_answer_tokens: 100 + facts.saturating_mul(20),
        };
        self.stage = Stage::Checking(open);
        Some(question)
    }

    /// Keeps what the LLM said of the facts that it was asked about. Without an answer that can be used they
    /// are taken as they are: the check only takes facts away where it is sure.
    pub(super) fn take_words(&mut self, answer: Result<&str, String>, llm: &mut Llm<'_>) -> Taken {
        let Stage::Checking(asked) = std::mem::replace(&mut self.stage, Stage::Extracting) else {
            return Ok(Progress::Failed("an answer without a question".to_owned()));
        };
        let facts = u32::try_from(asked.len()).unwrap_or(u32::MAX);
        let words = answer.and_then(|answer| {
            statement_check::parse(answer, facts).map_err(|error| error.to_string())
        });
        let words = words.unwrap_or_else(|reason| {
            self.undecided = Some(reason);
            vec![STATED; asked.len()]
        });
        let mut saved = self.job.payload::<payloads::Extract>().facts.unwrap_or_default();
        for (fact, word) in asked.iter().zip(words) {
            for known in saved.iter_mut().filter(|known| *known == fact) {
                known.checked = Some(word.to_owned());
            }
        }
        self.job.keep(|payload: &mut payloads::Extract| payload.facts = Some(saved.clone()));
        exchange::keep(&self.job)?;
        self.reconcile(&saved, llm)
    }
}
