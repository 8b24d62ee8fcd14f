//! The second half of an `extract` job: new facts are compared with what is known, and stored. What
//! can be decided from similarity and words is; the rest is asked of an LLM, in rounds.

use crate::jobs::exchange::{Llm, Progress, Taken};
use crate::jobs::extract::{Asked, ExtractTask, Stage};
use crate::jobs::prelude::*;
use crate::jobs::probing::{self, Probing};
use crate::memory::facts::apply;
use crate::memory::facts::extracted_facts::{self, Fact};
use crate::memory::facts::neighborhood::{self, Comparison, Decision};
use crate::memory::facts::reconciler::Target;
use crate::memory::llm::Question;
use crate::memory::scope::scope_settings;
use crate::store::facts::NearFact;
use crate::store::llm::llm_probes::Tested;
use crate::store::{facts as fact_store, facts::extraction};
use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::gate::GateThresholds;
use memory_agent_core::facts::reconcile::{self, Choice, DatedFact, concerns_both};
use memory_agent_core::jobs::session_settings::compared_at_once;

/// Facts that a later job compares again because an earlier one could not.
const UNRECONCILED: i32 = 5;
/// Most known facts in one reconciliation.
const MAX_EXISTING: usize = 30;
/// How often a job compares again because another transaction changed the facts meanwhile.
const MAX_ROUNDS: u32 = 5;

impl Asked {
    /// The known facts and the new ones of `facts`, as they were or are to be sent.
    fn question<'a>(&'a self, facts: &'a [Fact]) -> (Vec<DatedFact<'a>>, Vec<DatedFact<'a>>) {
        let existing = (self.existing.iter())
            .map(|near| DatedFact { content: &near.content, since: &near.said_at })
            .collect();
        let new = (self.new.iter().map(|&index| &facts[index]))
            .map(|fact| DatedFact { content: &fact.text, since: &fact.said_at })
            .collect();
        (existing, new)
    }
}

impl ExtractTask {
    /// Decides what can be decided without an LLM, and asks about the rest.
    pub(super) fn compare(&mut self, llm: &mut Llm<'_>) -> Taken {
        let has_passed = probing::passed(llm, Tested::Choices)?;
        self.has_passed = has_passed.unwrap_or(false);
        let asked = self.look()?;
        if let Some(record) = &mut self.record {
            record.compared_with(&asked.existing);
        }
        if asked.new.is_empty() {
            return self.apply_or_compare(asked.decisions, None, llm);
        }
        if has_passed.is_none() {
            self.stage = Stage::Probing(Probing::of(Tested::Choices, llm));
            return self.go_on_probing(llm);
        }
        let (existing, new) = asked.question(&self.facts);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let answer =
            AnswerFormat::Decisions { existing: count(existing.len()), new: count(new.len()) };
        let max_answer_tokens = 300 + count(new.len()).saturating_mul(100);
        let messages = reconcile::messages(&existing, &new);
        self.stage = Stage::Reconciling(asked);
        self.exchange.ask(Question { messages, answer, max_answer_tokens }, llm)
    }

    /// Asks the next question of a probe, or goes on with what it was asked for.
    pub(super) fn go_on_probing(&mut self, llm: &mut Llm<'_>) -> Taken {
        let Stage::Probing(probing) = &self.stage else { return self.compare(llm) };
        match probing.question()? {
            Some(question) => self.exchange.ask(question, llm),
            None => self.end_probing(llm),
        }
    }

    pub(super) fn end_probing(&mut self, llm: &mut Llm<'_>) -> Taken {
        match &self.stage {
            Stage::Probing(probing) if probing.tested() == Tested::Statements => {
                let saved = self.job.payload::<payloads::Extract>().facts.unwrap_or_default();
                self.check_and_compare(&saved, llm)
            }
            _ => self.compare(llm),
        }
    }

    fn thresholds(&self) -> GateThresholds {
        neighborhood::thresholds(self.model.as_ref())
    }

    /// Looks at the neighbourhood of each fact, and of those that an earlier job left uncompared.
    fn look(&mut self) -> Result<Asked, Aborted> {
        let earlier = transaction(|spi| {
            let model = self.model.as_ref().map(|model| model.name.as_str());
            fact_store::unreconciled(spi, &self.fact_scope(), model, UNRECONCILED)
        })?;
        let mut all: Vec<Fact> =
            earlier.into_iter().map(extracted_facts::of_unreconciled).collect();
        self.facts.append(&mut self.deferred);
        all.extend(self.facts.drain(..).filter(|fact| fact.stored_as.is_none()));
        let thresholds = self.thresholds();
        (self.facts, self.deferred) = neighborhood::independent(all, &thresholds);
        // Those that are stored already are read again by the next round.
        self.deferred.retain(|fact| fact.stored_as.is_none());
        let asked = transaction(|spi| {
            let configuration = &self.settings.text_search_config;
            let (spi, scope, model) = (spi, self.fact_scope(), self.model.as_ref());
            let with_others = self.with_others();
            let comparison =
                Comparison { spi, scope, with_others, model, thresholds, configuration };
            let mut asked = Asked { decisions: Vec::new(), new: Vec::new(), existing: Vec::new() };
            for (index, fact) in self.facts.iter().enumerate() {
                let (decision, neighbors) = comparison.look(fact, &[])?;
                if decision == Decision::Ask {
                    let known = |near: &NearFact| {
                        near.unreconciled || asked.existing.iter().any(|other| other.id == near.id)
                    };
                    let unknown: Vec<NearFact> =
                        neighbors.into_iter().filter(|near| !known(near)).collect();
                    let is_full = asked.new.len() >= compared_at_once(self.has_passed)
                        || asked.existing.len() + unknown.len() > MAX_EXISTING;
                    if is_full && !asked.new.is_empty() {
                        // This one and what follows is asked about in the next round.
                        break;
                    }
                    asked.existing.extend(unknown);
                    asked.new.push(index);
                }
                asked.decisions.push(decision);
            }
            Ok(asked)
        })?;
        let mut rest = self.facts.split_off(asked.decisions.len());
        rest.retain(|fact| fact.stored_as.is_none());
        rest.append(&mut self.deferred);
        self.deferred = rest;
        Ok(asked)
    }

    /// Goes on with the LLM's answer. Where that cannot be used, nor its correction could, a rule decides:
    /// asking a third time would cost more and bring the same.
    pub(super) fn take_decisions(
        &mut self,
        answer: Result<&str, String>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let Stage::Reconciling(asked) = std::mem::replace(&mut self.stage, Stage::Extracting(None))
        else {
            return Ok(Progress::Failed("an answer without a question".to_owned()));
        };
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (existing, new) = (count(asked.existing.len()), count(asked.new.len()));
        let decided = answer.and_then(|answer| {
            reconcile::parse(answer, existing, new).map_err(|error| error.to_string())
        });
        let mut decisions = decided.unwrap_or_else(|reason| {
            self.undecided = Some(reason);
            Vec::new()
        });
        // Both hold: what a turn says of itself is no change of it, nor what another session says of something else.
        for decision in &mut decisions {
            if self.is_of_one_turn(decision, &asked) || self.is_foreign(decision, &asked) {
                decision.choice = Choice::New;
            }
        }
        let (existing, new) = asked.question(&self.facts);
        let plan = reconcile::plan(&decisions, &existing, &new, self.has_passed);
        let texts: Vec<String> = plan.update.iter().map(|update| update.text.clone()).collect();
        let unmeasured = vec![extracted_facts::UNMEASURED; texts.len()];
        let measured = extracted_facts::measure(texts, self.model.as_ref()).unwrap_or(unmeasured);
        let judged = apply::Judged { plan, new: asked.new, existing: asked.existing, measured };
        self.apply_or_compare(asked.decisions, Some(judged), llm)
    }

    /// Whether a fact is to replace or end another one of its own turn.
    fn is_of_one_turn(&self, decision: &reconcile::Decision, asked: &Asked) -> bool {
        let (Choice::Replaces { memory, .. } | Choice::Ends(memory)) = &decision.choice else {
            return false;
        };
        let Some((known, fact)) = self.chosen(decision.fact, *memory, asked) else { return false };
        self.stored.iter().any(|(text, turns)| *text == known.content && *turns == fact.source_ids)
    }

    /// Whether a fact is to change what another session knows and what does not concern it: it was asked about
    /// for another one.
    fn is_foreign(&self, decision: &reconcile::Decision, asked: &Asked) -> bool {
        let (Choice::Same(memory) | Choice::Replaces { memory, .. } | Choice::Ends(memory)) =
            &decision.choice
        else {
            return false;
        };
        let Some((known, fact)) = self.chosen(decision.fact, *memory, asked) else { return false };
        known.is_others && !concerns_both(&fact.text, &known.content)
    }

    /// The known fact and the new one of a decision.
    fn chosen<'a>(
        &'a self,
        fact: u32,
        memory: u32,
        asked: &'a Asked,
    ) -> Option<(&'a NearFact, &'a Fact)> {
        let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let fact = self.facts.get(*asked.new.get(index(fact)?)?)?;
        Some((asked.existing.get(index(memory)?)?, fact))
    }

    fn apply_or_compare(
        &mut self,
        decisions: Vec<Decision>,
        judged: Option<apply::Judged>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        self.rounds += 1;
        let judgement = apply::Judgement::Decided {
            judged: judged.as_ref(),
            may_compare_again: self.rounds < MAX_ROUNDS,
        };
        match self.apply(&decisions, judgement) {
            Ok(Applied::Changed(())) => self.compare(llm),
            Ok(Applied::Stored(())) if !self.deferred.is_empty() => {
                self.unverified.clear();
                let stored = std::mem::replace(&mut self.facts, std::mem::take(&mut self.deferred));
                self.stored.extend(stored.into_iter().map(|fact| (fact.text, fact.source_ids)));
                self.rounds = 0;
                self.compare(llm)
            }
            Ok(Applied::Stored(()) | Applied::NotOurs) => Ok(Progress::Finished),
            Ok(Applied::NoSession) => {
                self.stage = Stage::Applying { decisions, judged };
                Ok(Progress::NoSession)
            }
            Err(aborted) => {
                self.stage = Stage::Applying { decisions, judged };
                Err(Progress::blocked_by(aborted))
            }
        }
    }

    /// Tries once more to store what was decided, without asking the LLM again.
    pub(super) fn store_again(&mut self, llm: &mut Llm<'_>) -> Taken {
        match std::mem::replace(&mut self.stage, Stage::Extracting(None)) {
            Stage::Applying { decisions, judged } => {
                // Waiting is no change of the facts: it does not count as a round.
                self.rounds = self.rounds.saturating_sub(1);
                self.apply_or_compare(decisions, judged, llm)
            }
            _ => Ok(Progress::Failed("nothing is decided yet".to_owned())),
        }
    }

    /// Stores the result; with the error, if less was decided than should have been.
    pub(super) fn apply(
        &mut self,
        decisions: &[Decision],
        judgement: apply::Judgement<'_>,
    ) -> Result<Applied, Aborted> {
        let mut stored = self.job.payload::<payloads::Extract>().stored;
        let applied = transaction(|spi| {
            let work = apply::Work {
                target: Target {
                    job: &self.job,
                    scope: self.fact_scope(),
                    with_others: self.with_others(),
                    model: self.model.as_ref(),
                    thresholds: self.thresholds(),
                    configuration: self.settings.text_search_config.clone(),
                    settings: scope_settings::of_facts(&self.fact_scope())?,
                },
                turns: &self.turns,
                facts: &self.facts,
                decisions,
                unverified: &self.unverified,
            };
            let effects = match apply::apply(spi, &work, judgement)? {
                Applied::Stored(effects) => effects,
                Applied::Changed(()) => return Ok(Applied::Changed(())),
                Applied::NotOurs => return Ok(Applied::NotOurs),
                Applied::NoSession => return Ok(Applied::NoSession),
            };
            if self.record.is_some() {
                stored.saved.extend(effects.saved.iter().map(Uuid::to_string));
                stored.ended.extend(effects.ended.iter().map(Uuid::to_string));
            }
            if self.deferred.is_empty() {
                if let Some(record) = &self.record {
                    record.store(spi, &self.job, &self.turns, &stored)?;
                }
                let ids: Vec<Uuid> = self.turns.iter().map(|turn| turn.id).collect();
                extraction::mark_done(spi, &self.job.user_id, &ids)?;
                queue::finish(spi, &self.job)?;
                if let Some(error) = &self.undecided {
                    queue::note_error(spi, &self.job, error)?;
                }
                self.queue_rest(spi)?;
            } else {
                // An attempt after this one goes on with the rest.
                let mut job = self.job.clone();
                let saved = extracted_facts::to_saved(&self.deferred);
                job.keep(|payload: &mut payloads::Extract| {
                    payload.facts = Some(saved);
                    payload.stored = stored.clone();
                });
                queue::save(spi, &job)?;
            }
            Ok(Applied::Stored(()))
        })?;
        self.job.keep(|payload: &mut payloads::Extract| payload.stored = stored);
        Ok(applied)
    }
}
