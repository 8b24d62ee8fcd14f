//! The statement check of an `extract` job: whether the user states each new fact, and means it. The LLM is
//! asked about the facts of one turn at a time, which is a question that small models can answer, and only
//! about messages that contain more than statements.

use crate::jobs::exchange::{self, Llm, Progress, Taken};
use crate::jobs::extract::{CHARS, ExtractTask, Stage};
use crate::jobs::prelude::*;
use crate::jobs::probing::{self, Probing};
use crate::memory::facts::extracted_facts;
use crate::memory::facts::unverified;
use crate::memory::llm::Question;
use crate::memory::scope::scope_settings;
use crate::store::llm::llm_probes::Tested;
use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::extract::original_message;
use memory_agent_core::facts::grounding::only_states;
use memory_agent_core::facts::statement_check::{self, Message, STATED};
use memory_agent_core::jobs::payloads::SavedFact;
use memory_agent_core::jobs::session_settings::{StatementCheck, UngroundedFacts};

impl ExtractTask {
    /// Takes out the facts that the LLM doubts. Returns the facts of the next turn of the user that contains more than
    /// statements and has unchecked facts, and the question about them.
    fn next_check(&mut self, saved: &[SavedFact]) -> Option<(Vec<SavedFact>, Question)> {
        let treatment = self.settings.ungrounded_facts;
        if self.settings.statement_check == StatementCheck::Off
            || treatment == UngroundedFacts::Accept
        {
            return None;
        }
        self.unverified.extend(unverified::take_doubted(&mut self.facts, saved, treatment));
        let is_open = |fact: &&SavedFact| {
            fact.checked.is_none()
                && self.facts.iter().any(|other| unverified::is_same_fact(other, fact))
        };
        let (open, said, turn, before) = self.turns.iter().enumerate().find_map(|(at, turn)| {
            let id = turn.id.to_string();
            let of_turn = saved.iter().filter(|fact| !turn.is_assistants && fact.turn == id);
            let open: Vec<SavedFact> = of_turn.filter(is_open).cloned().collect();
            if open.is_empty() {
                return None;
            }
            let said: String = original_message(&turn.content).chars().take(CHARS).collect();
            // Where a message only states things, small models doubt more right facts than wrong ones.
            (!only_states(&said)).then_some((open, said, turn, self.before(at)))
        })?;
        let texts: Vec<&str> = open.iter().map(|fact| fact.text.as_str()).collect();
        let facts = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let (said_at, speaker) = (turn.said_at.as_str(), turn.speaker.as_deref());
        let message = Message { said: &said, said_at, speaker, before };
        let question = Question {
            messages: statement_check::messages(&message, &texts),
            answer: AnswerFormat::Checks { facts },
            max_answer_tokens: 100 + facts.saturating_mul(20),
        };
        Some((open, question))
    }

    /// Keeps what the LLM said of the facts that it was asked about. Without a usable answer, no fact is lost.
    pub(super) fn take_checks(&mut self, answer: Result<&str, String>, llm: &mut Llm<'_>) -> Taken {
        let Stage::Checking(asked) = std::mem::replace(&mut self.stage, Stage::Extracting(None))
        else {
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
        self.check_and_compare(&saved, llm)
    }

    /// Asks about the next turn whose facts are to be checked, or compares all facts with what is known.
    pub(super) fn check_and_compare(&mut self, saved: &[SavedFact], llm: &mut Llm<'_>) -> Taken {
        if let Some((facts, question)) = self.next_check(saved) {
            let is_taken = match self.settings.statement_check {
                StatementCheck::Auto => probing::passed(llm, Tested::Statements)?,
                _ => Some(false),
            };
            let Some(is_taken) = is_taken else {
                self.stage = Stage::Probing(Probing::of(Tested::Statements, llm));
                return self.go_on_probing(llm);
            };
            if !is_taken {
                self.stage = Stage::Checking(facts);
                return self.exchange.ask(question, llm);
            }
        }
        let settings = transaction(|_| scope_settings::of_facts(&self.fact_scope()))?;
        extracted_facts::take_secrets_out(&mut self.facts, &settings.content);
        extracted_facts::embed(&mut self.facts, self.model.as_ref())?;
        self.compare(llm)
    }
}
