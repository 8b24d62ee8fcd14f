//! `extract` jobs: from waiting turns to facts. Extraction asks the LLM what the user said about
//! themselves and their world; the statement check, if it is on, asks whether they mean it (`statements`);
//! reconciliation compares the facts with what is known, first without an LLM, then with one (`comparison`);
//! `apply` stores the result. Between two answers nothing is held but the
//! lease.

mod comparison;
mod passages;
mod record;
mod statements;

use self::passages::Passages;
use self::record::Record;
use crate::jobs::exchange::{self, Exchange, Llm, LlmTask, Progress, Received, Start, Taken};
use crate::jobs::llm_connection::LostCall;
use crate::jobs::prelude::*;
use crate::jobs::probing::{self, Probing};
use crate::memory::facts::apply;
use crate::memory::facts::extracted_facts::{self, Fact};
use crate::memory::facts::neighborhood::Decision;
use crate::memory::facts::unverified::{self, Unverified};
use crate::memory::llm::Question;
use crate::memory::texts::language::Phrases;
use crate::memory::{scope::active_model, texts::follow_ups};
use crate::settings::{Effective, Search};
use crate::store::facts::NearFact;
use crate::store::facts::extraction::{self, MessageBefore, WaitingTurn};
use crate::store::llm::llm_probes::Tested;
use crate::store::models::Kind;
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::sessions;
use crate::store::schema;
use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::earlier::{self, Earlier, EarlierMessage, LOOK_BACK};
use memory_agent_core::facts::extract::{self, Marks, PendingTurn};
use memory_agent_core::facts::grounding::may_state;
use memory_agent_core::facts::passages::passages;
use memory_agent_core::jobs::payloads::SavedFact;
use memory_agent_core::jobs::session_settings::{
    ExtractionSettings, MAX_FACTS_PER_TURN, StatementCheck,
};
use memory_agent_model_server::protocol::{ChatOutcome, ModelRef};

/// Characters of the turns in one extraction.
const CHARS: usize = 30_000;
/// An extract job on its way.
pub struct ExtractTask {
    pub job: Job,
    pub(super) settings: ExtractionSettings,
    /// Most turns that one request extracts from; 0 is one sentence.
    batch: u32,
    pub(super) turns: Vec<WaitingTurn>,
    /// What came before each of them, as far as it is shown to the LLM.
    before: Vec<Vec<EarlierMessage>>,
    /// What is being stored.
    pub(super) facts: Vec<Fact>,
    /// What is kept beside it, as it is not borne out by what was said.
    pub(super) unverified: Vec<Unverified>,
    /// What is stored after that: it is about the same as something earlier in this job.
    pub(super) deferred: Vec<Fact>,
    /// What this attempt has stored: texts with their turns.
    pub(super) stored: Vec<(String, Vec<Uuid>)>,
    pub(super) model: Option<ModelRef>,
    pub(super) stage: Stage,
    /// Comparisons in a row that ended with nothing stored.
    pub(super) rounds: u32,
    /// Whether the LLM that compares has passed the probe.
    pub(super) has_passed: bool,
    /// Why less was decided by the LLM than should have been.
    pub(super) undecided: Option<String>,
    /// What a trace is to tell.
    pub(super) record: Option<Record>,
    exchange: Exchange,
}

/// Where a task stands.
pub(super) enum Stage {
    /// What the LLM is asked about, if it is not whole turns.
    Extracting(Option<Passages>),
    /// What an LLM was asked to check: facts of one turn.
    Checking(Vec<SavedFact>),
    /// What it is asked before the first check or comparison.
    Probing(Probing),
    Reconciling(Asked),
    /// Everything is decided, but another transaction has the session locked.
    Applying {
        decisions: Vec<Decision>,
        judged: Option<apply::Judged>,
    },
}

/// What an LLM was asked to compare.
pub(super) struct Asked {
    pub decisions: Vec<Decision>,
    /// Indexes of the facts whose decision is `Ask`, in the order in which they were sent.
    pub new: Vec<usize>,
    pub existing: Vec<NearFact>,
}

impl LlmTask for ExtractTask {
    fn job(&self) -> &Job {
        &self.job
    }

    fn proceed(&mut self, outcome: Result<ChatOutcome, LostCall>, llm: &mut Llm<'_>) -> Taken {
        let received = self.exchange.receive(outcome, &self.job, self.purpose());
        if let Stage::Probing(probing) = &mut self.stage {
            return match probing.take(received, llm)? {
                true => self.go_on_probing(llm),
                false => self.end_probing(llm),
            };
        }
        match received? {
            Received::Answer(answer) => {
                if let Some(record) = &mut self.record {
                    record.answered(&answer.text);
                }
                match &self.stage {
                    Stage::Extracting(_) => self.take_facts(&answer.text, llm),
                    Stage::Checking(_) => self.take_checks(Ok(&answer.text), llm),
                    _ => self.take_decisions(Ok(&answer.text), llm),
                }
            }
            Received::Failure(reason) => match &self.stage {
                Stage::Checking(_) if self.job.is_last_attempt() => {
                    self.take_checks(Err(reason), llm)
                }
                _ => self.count_failure(reason),
            },
            Received::BadAnswer(reason) => match &self.stage {
                Stage::Extracting(_) => {
                    let passages = self.take_passages();
                    self.pass_over(passages, reason, llm)
                }
                Stage::Checking(_) => self.take_checks(Err(reason), llm),
                _ => self.take_decisions(Err(reason), llm),
            },
        }
    }

    fn apply_again(&mut self, llm: &mut Llm<'_>) -> Taken {
        self.store_again(llm)
    }
}

impl Start for ExtractTask {
    /// Loads the turns of a claimed job and sends the first request.
    fn start(job: Job, llm: &mut Llm<'_>) -> (Self, Taken) {
        let server = Search::current().server_text_search_config;
        let settings = job.payload::<payloads::Extract>().session_settings(&server);
        let mut task = Self {
            job,
            batch: settings.extraction_batch,
            settings,
            turns: Vec::new(),
            before: Vec::new(),
            facts: Vec::new(),
            unverified: Vec::new(),
            deferred: Vec::new(),
            stored: Vec::new(),
            model: None,
            stage: Stage::Extracting(None),
            rounds: 0,
            has_passed: false,
            undecided: None,
            record: None,
            exchange: Exchange::default(),
        };
        let taken = task.begin(llm);
        (task, taken)
    }
}

impl ExtractTask {
    fn begin(&mut self, llm: &mut Llm<'_>) -> Taken {
        // Asked about several turns, an LLM that makes facts of questions overlooks what the user states.
        if self.settings.statement_check == StatementCheck::Auto
            && probing::passed(llm, Tested::Statements)? == Some(false)
        {
            self.batch = 0;
        }
        self.load()?;
        if self.turns.is_empty() {
            return self.finish_empty();
        }
        match self.job.payload::<payloads::Extract>().facts {
            Some(saved) => self.reconcile(&saved, llm),
            None => self.ask_for_facts(llm),
        }
    }

    fn scope(&self) -> FactScope<'_> {
        self.job.scope()
    }

    /// Where the facts go; to be asked in a transaction.
    pub(super) fn fact_scope(&self) -> FactScope<'_> {
        let session_id = self.job.session_id.as_deref().filter(|_| !self.settings.global);
        FactScope { session_id: schema::home_of(session_id), ..self.scope() }
    }

    /// Whether they are compared with what other sessions know; to be asked in a transaction.
    pub(super) fn with_others(&self) -> bool {
        self.settings.other_sessions && self.fact_scope().recalls_others()
    }

    /// Takes turns for this job, or finds those that it took before.
    fn load(&mut self) -> Result<(), Aborted> {
        let payload: payloads::Extract = self.job.payload();
        let mut taken = queue::uuids(&payload.entries);
        // Perhaps only one of the turns is what fails: after each failure half of them are left to
        // another job.
        let tried = payload.tried.unwrap_or(0);
        let attempts = i64::from(self.job.attempts);
        let is_extracted = payload.facts.is_some();
        let shortened = attempts > tried && !is_extracted && taken.len() > 1;
        if shortened {
            taken.truncate(taken.len().div_ceil(2));
        }
        self.job.keep(|payload: &mut payloads::Extract| payload.tried = Some(attempts));
        let (turns, before, model, record) = transaction(|spi| {
            let turns = if taken.is_empty() {
                let scope = self.scope();
                let most = self.batch.max(1) as usize;
                extraction::waiting(spi, &scope, self.job.id, most, CHARS)?
            } else {
                extraction::still_waiting(spi, &self.job.user_id, &taken, false)?
            };
            if taken.is_empty() || attempts != tried {
                let ids: Vec<String> = turns.iter().map(|turn| turn.id.to_string()).collect();
                self.job.keep(|payload: &mut payloads::Extract| payload.entries = ids);
                queue::save(spi, &self.job)?;
            }
            if shortened {
                self.queue_rest(spi)?;
            }
            // The facts of a session are counted in its row, which sessions of attached tables lack.
            if let (Some(turn), Some(key)) =
                (turns.iter().find(|turn| turn.is_attached), self.fact_scope().session())
            {
                sessions::lock(spi, &key, turn.created_at)?;
            }
            let before = self.said_before(spi, &turns)?;
            let record = match self.settings.traces && !turns.is_empty() {
                true => Some(Record::start(spi, &self.fact_scope())?),
                false => None,
            };
            Ok((turns, before, active_model::active(spi, Kind::Embedder)?, record))
        })?;
        (self.turns, self.before) = (turns, before);
        (self.model, self.record) = (model, record);
        Ok(())
    }

    /// What came before each turn, as far as it fits into the question.
    fn said_before(&self, spi: &Spi, turns: &[WaitingTurn]) -> PgResult<Vec<Vec<EarlierMessage>>> {
        let most = self.settings.extraction_context as usize;
        if most == 0 {
            return Ok(Vec::new());
        }
        let (read, mut left) = (most + LOOK_BACK, CHARS);
        let mut before = Vec::new();
        for turn in turns {
            let rows = extraction::said_before(spi, &self.job.user_id, turn.id, read as i64)?;
            let is_all = rows.len() < read;
            let earlier = rows.into_iter().map(|row| {
                if turns.iter().any(|turn| turn.id == row.id) {
                    Earlier::Asked
                } else if row.is_shown {
                    let MessageBefore { role, said_at, content, .. } = row;
                    Earlier::Message(EarlierMessage::new(role, said_at, &content))
                } else {
                    Earlier::Hidden { is_users: row.role == "user" }
                }
            });
            let mut shown = earlier::shown(earlier.collect(), most, is_all);
            let length = |message: &EarlierMessage| message.text.chars().count();
            while shown.iter().map(length).sum::<usize>() > left {
                shown.remove(0);
            }
            left -= shown.iter().map(length).sum::<usize>();
            before.push(shown);
        }
        Ok(before)
    }

    fn before(&self, turn: usize) -> &[EarlierMessage] {
        self.before.get(turn).map_or(&[], Vec::as_slice)
    }

    /// Its turns were erased, or another job extracted from them.
    fn finish_empty(&self) -> Taken {
        transaction(|spi| {
            if queue::lock(spi, &self.job)? {
                queue::finish(spi, &self.job)?;
            }
            self.queue_rest(spi)
        })?;
        Ok(Progress::Finished)
    }

    /// Queues the turns of the scope that did not fit into this job.
    pub(super) fn queue_rest(&self, spi: &Spi) -> PgResult<()> {
        if extraction::any_waiting(spi, &self.scope(), self.job.id)? {
            let payload = payloads::Extract::with(&self.settings);
            let server = Effective::current();
            follow_ups::enqueue(spi, JobKind::Extract, &self.scope(), &payload, &server)?;
        }
        Ok(())
    }

    fn ask_for_facts(&mut self, llm: &mut Llm<'_>) -> Taken {
        let texts: Vec<String> = self
            .turns
            .iter()
            .map(|turn| extract::original_message(&turn.content).chars().take(CHARS).collect())
            .collect();
        let is_worth_asking =
            |turn: usize| extract::is_worth_asking(&texts[turn], self.before(turn));
        if !(0..texts.len()).any(is_worth_asking) {
            return self.keep(Vec::new(), llm);
        }
        if self.batch > 0 || self.turns.len() > 1 {
            let all: Vec<(usize, &str)> = texts.iter().map(String::as_str).enumerate().collect();
            return self.ask_about(&all, None, llm);
        }
        // A decision of the assistant's is one statement, with its reasons; a mere answer to a question is one too.
        let (turn, text) = (&self.turns[0], texts[0].as_str());
        let is_one = turn.is_assistants || !may_state(text);
        let passages = if is_one { vec![text] } else { passages(text) };
        let states = |text: &&str| is_one || may_state(text);
        let texts = passages.into_iter().filter(states).map(str::to_owned).collect();
        let answers = self.job.payload::<payloads::Extract>().answers.unwrap_or_default();
        self.ask_about_passages(Passages { texts, answers }, llm)
    }

    /// Asks for the facts of texts, each of a turn.
    fn ask_about(
        &mut self,
        texts: &[(usize, &str)],
        passages: Option<Passages>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let (pending, marks): (Vec<PendingTurn<'_>>, Vec<Marks<'_>>) = texts
            .iter()
            .map(|&(turn, content)| {
                let WaitingTurn { speaker, said_at, markers, is_assistants, .. } =
                    &self.turns[turn];
                let (is_assistants, before) = (*is_assistants, self.before(turn));
                let marks = Marks { markers, is_assistants, before };
                (PendingTurn { content, speaker: speaker.as_deref(), said_at }, marks)
            })
            .unzip();
        let most = MAX_FACTS_PER_TURN;
        let turns = u32::try_from(pending.len()).unwrap_or(u32::MAX);
        let messages = extract::marked_messages(&pending, &marks, most);
        self.stage = Stage::Extracting(passages);
        let answer = AnswerFormat::Facts { turns, max_per_turn: most };
        let max_answer_tokens = 200 + turns.saturating_mul(most).saturating_mul(80);
        self.exchange.ask(Question { messages, answer, max_answer_tokens }, llm)
    }

    fn purpose(&self) -> &'static str {
        match self.stage {
            Stage::Extracting(_) => "extract",
            Stage::Checking(_) => "check",
            Stage::Probing(..) => "probe",
            _ => "reconcile",
        }
    }

    /// A failure of reconciliation that would be the last one adds the facts as they are; the next
    /// job of the scope compares them.
    pub(super) fn count_failure(&mut self, reason: String) -> Taken {
        let Stage::Reconciling(asked) = &self.stage else { return Ok(Progress::Failed(reason)) };
        if !self.job.is_last_attempt() {
            return Ok(Progress::Failed(reason));
        }
        let mut decisions = asked.decisions.clone();
        self.facts.append(&mut self.deferred);
        decisions.resize(self.facts.len(), Decision::Ask);
        self.undecided = Some(reason);
        self.apply(&decisions, apply::Judgement::Unreconciled)?;
        Ok(Progress::Finished)
    }

    fn take_facts(&mut self, answer: &str, llm: &mut Llm<'_>) -> Taken {
        let passages = self.take_passages();
        let turns = match passages {
            None => u32::try_from(self.turns.len()).unwrap_or(u32::MAX),
            Some(_) => 1,
        };
        match extract::parse(answer, turns, MAX_FACTS_PER_TURN) {
            Ok(facts) => {
                let language = Phrases::of(&self.settings.text_search_config);
                let saved = extracted_facts::save(facts, &self.turns, &language);
                match passages {
                    None => self.keep(saved, llm),
                    Some(passages) => self.take_passage(passages, saved, llm),
                }
            }
            Err(error) => self.pass_over(passages, error.to_string(), llm),
        }
    }

    fn keep(&mut self, saved: Vec<SavedFact>, llm: &mut Llm<'_>) -> Taken {
        self.job.keep(|payload: &mut payloads::Extract| {
            payload.facts = Some(saved.clone());
            payload.answers = None;
        });
        exchange::keep(&self.job)?;
        self.reconcile(&saved, llm)
    }

    fn reconcile(&mut self, saved: &[SavedFact], llm: &mut Llm<'_>) -> Taken {
        let ExtractionSettings { detect_markers, text_search_config, ungrounded_facts, .. } =
            &self.settings;
        let language = Phrases::of(text_search_config);
        self.facts = extracted_facts::of_turns(saved, &self.turns, &language, *detect_markers);
        self.unverified = unverified::of_turns(
            &mut self.facts,
            &self.turns,
            &self.before,
            *ungrounded_facts,
            &language,
        );
        self.check_and_compare(saved, llm)
    }
}
