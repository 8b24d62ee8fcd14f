//! `summarize` and `compress` jobs. Both renew a session's summary: the L3 so far and the turns that
//! came after it become the next L3. A compress job then takes the older turns, which the summary
//! covers by now, out of the window. `demand` looks at the session, `summary_tree` says what the LLM is
//! asked, `renew` stores what came of it; nothing of the session is changed before that.

mod demand;

use crate::jobs::exchange::{self, Exchange, Llm, LlmTask, Progress, Received, Start, Taken};
use crate::jobs::llm_connection::LostCall;
use crate::jobs::prelude::*;
use crate::jobs::summarize::demand::Demand;
use crate::memory::llm;
use crate::memory::scope::active_model;
use crate::memory::summaries::archived_conversation::Archived;
use crate::memory::summaries::chunks::Chunks;
use crate::memory::summaries::summary_renewal::{self, Renewal};
use crate::memory::summaries::summary_tree::{
    self, Answers, Condensed, Division, Material, Next, Question, Tree,
};
use crate::settings::{Effective, Search};
use crate::store::models::Kind;
use crate::store::rows::sessions::{self, SessionKey};
use crate::store::summaries::{self, Coverage, Current};
use memory_agent_core::condense::levels;
use memory_agent_core::condense::shorten::{Shortening, Step as Shortened};
use memory_agent_core::condense::summarize::Sections;
use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::jobs::session_settings::SummarySettings;
use memory_agent_model_server::protocol::{ChatAnswer, ChatOutcome};

/// How often a job begins anew because the session changed meanwhile.
const MAX_ROUNDS: u32 = 5;
/// Tokens of an answer beside the summary: its sections, and what a model thinks before it writes.
const ANSWER_TOKENS: u32 = 1000;

/// A summarize or compress job on its way.
pub struct SummaryTask {
    job: Job,
    key: SessionKey,
    settings: SummarySettings,
    exchange: Exchange,
    answers: Answers,
    stage: Stage,
    rounds: u32,
    calls: u32,
    started: Instant,
}

/// Where a task stands.
enum Stage {
    /// Nothing was looked at yet.
    Beginning,
    Asking(Box<Asking>),
    /// Another transaction has the session locked.
    Storing(Box<Decided>),
}

/// What is to be stored.
#[derive(Default)]
struct Decided {
    /// What was condensed and what came of it; `None` when the summary holds already.
    condensed: Option<(Box<Condensing>, Tree)>,
    /// What is archived of the session, with its chunks.
    archive: Option<(Archived, Chunks)>,
}

/// What is being condensed.
struct Condensing {
    material: Material,
    division: Division,
    /// Whether the session has more turns than one job takes.
    has_more: bool,
}

/// A question in flight.
struct Asking {
    condensing: Box<Condensing>,
    question: Box<Question>,
    /// What is asked: the question, or to shorten its answer.
    shortening: Shortening<Condensed>,
}

impl Start for SummaryTask {
    /// Looks at the session of a claimed job and sends the first request, if one is needed.
    fn start(job: Job, llm: &mut Llm<'_>) -> (Self, Taken) {
        let payload: payloads::Summary = job.payload();
        let mut task = Self {
            key: job.session_key(),
            settings: payload.session_settings(&Search::current().server_text_search_config),
            exchange: Exchange::default(),
            answers: payload.answers,
            stage: Stage::Beginning,
            rounds: 0,
            calls: 0,
            started: Instant::now(),
            job,
        };
        let taken = task.begin(llm);
        (task, taken)
    }
}

impl SummaryTask {
    fn begin(&mut self, llm: &mut Llm<'_>) -> Taken {
        self.stage = Stage::Beginning;
        match transaction(|spi| Demand::of(spi, &self.job, &self.key, &self.settings))? {
            Demand::NoSession => Ok(Progress::NoSession),
            Demand::Nothing => self.finish_idle(),
            Demand::Compression(current) => {
                let Current { coverage, sections, .. } = *current;
                self.decide(None, coverage.map(|coverage| (sections, coverage)), llm)
            }
            Demand::Summary { material, has_more } => {
                let division = Division::of(&material, self.settings.chunks())?;
                let condensing = Condensing { material: *material, division, has_more };
                self.advance(Box::new(condensing), llm)
            }
        }
    }

    /// Keeps the answers so far, so that a failure from here on does not cost the same calls again.
    fn save(&mut self, material: &Material) -> Result<(), Aborted> {
        let ids: Vec<String> =
            material.sources.iter().map(|source| source.id.to_string()).collect();
        self.job.keep(|payload: &mut payloads::Summary| {
            payload.sources = Some(ids);
            payload.answers.clone_from(&self.answers);
        });
        exchange::keep(&self.job)
    }

    /// Ends a job that has nothing to do. The count that it was queued for may have been wrong, for
    /// example because turns expired.
    fn finish_idle(&self) -> Taken {
        transaction(|spi| {
            sessions::lock_existing(spi, &self.key)?;
            if queue::lock(spi, &self.job)? {
                summaries::recount(spi, &self.key)?;
                queue::finish(spi, &self.job)?;
            }
            Ok(())
        })?;
        Ok(Progress::Finished)
    }

    /// Asks the next question, or stores what came of all of them.
    fn advance(&mut self, condensing: Box<Condensing>, llm: &mut Llm<'_>) -> Taken {
        match condensing.material.next(&condensing.division, &self.answers) {
            Next::Done(tree) => {
                let material = &condensing.material;
                // What is only taken apart into its sections stays as it was written.
                let summary = match &material.current {
                    Some(current) if material.sources.is_empty() => {
                        current.sections.summary.clone()
                    }
                    _ => tree.whole.text.clone(),
                };
                let sections = tree.whole.sections.clone().unwrap_or_default();
                let sections = Sections { summary, ..sections };
                let covered = material.coverage().map(|coverage| (sections, coverage));
                self.decide(Some((condensing, *tree)), covered, llm)
            }
            Next::Ask(question) => {
                if self.calls > 0 && exchange::makes_room(&self.job)? {
                    return Ok(Progress::Finished);
                }
                let (messages, target) = (question.messages.clone(), question.target_tokens);
                let shortening = Shortening::new(messages, target, levels::most_tokens(target));
                self.send(Asking { condensing, question, shortening }, llm)
            }
        }
    }

    fn send(&mut self, asking: Asking, llm: &mut Llm<'_>) -> Taken {
        let question = llm::Question {
            messages: asking.shortening.messages().to_vec(),
            answer: AnswerFormat::Text,
            // One that is longer is asked for again, shorter: better than to be cut in the middle.
            max_answer_tokens: asking.question.target_tokens.saturating_mul(3) + ANSWER_TOKENS,
        };
        self.stage = Stage::Asking(Box::new(asking));
        self.calls += 1;
        self.exchange.ask(question, llm)
    }

    fn take(&mut self, answer: &ChatAnswer, llm: &mut Llm<'_>) -> Taken {
        let Stage::Asking(asking) = std::mem::replace(&mut self.stage, Stage::Beginning) else {
            return Ok(Progress::Failed("an answer without a question".to_owned()));
        };
        let Asking { condensing, question, shortening } = *asking;
        let condensed = summary_tree::read(&question, answer)?;
        if !condensed.text.contains(char::is_alphanumeric) {
            return Ok(Progress::FailedForGood("the summary is empty".to_owned()));
        }
        let condensed = match shortening.take(&answer.text, condensed) {
            Shortened::Done(condensed) => condensed,
            Shortened::Ask(shortening) => {
                return self.send(Asking { condensing, question, shortening }, llm);
            }
            Shortened::Cut(mut condensed) => {
                summary_tree::cut_short(&mut condensed, question.target_tokens)?;
                condensed
            }
        };
        self.answers.insert(question.digest, condensed);
        if question.is_part {
            self.save(&condensing.material)?;
        }
        self.advance(condensing, llm)
    }

    /// Prepares what is archived, if anything, and stores everything.
    fn decide(
        &mut self,
        condensed: Option<(Box<Condensing>, Tree)>,
        covered: Option<(Sections, Coverage)>,
        llm: &mut Llm<'_>,
    ) -> Taken {
        let mut decided = Decided { condensed, archive: None };
        if let Some((sections, coverage)) = covered
            && self.job.kind == JobKind::Compress
            && self.settings.archives
        {
            let model = transaction(|spi| active_model::active(spi, Kind::Embedder))?;
            let (start, end) = (coverage.first.1, coverage.last.1);
            let archived = Archived::new(sections, coverage.messages, start, end);
            let configuration = self.settings.text_search_config.clone();
            let limits = self.settings.archive_chunks();
            let chunks = archived.prepare(limits, model, true, configuration);
            decided.archive = Some((archived, chunks));
        }
        self.store(Box::new(decided), llm)
    }

    fn store(&mut self, decided: Box<Decided>, llm: &mut Llm<'_>) -> Taken {
        let condensed = decided.condensed.as_ref();
        let renewal = Renewal {
            job: &self.job,
            key: &self.key,
            settings: &self.settings,
            server: &Effective::current(),
            condensed: condensed.map(|(condensing, tree)| (&condensing.material, tree)),
            archive: decided.archive.as_ref().map(|(archived, chunks)| (archived, chunks)),
            has_more: condensed.is_some_and(|(condensing, _)| condensing.has_more),
        };
        match transaction(|spi| summary_renewal::store(spi, &renewal)) {
            Ok(Applied::Stored(archived)) => {
                self.log(condensed.map(|(condensing, _)| &condensing.material), archived);
                Ok(Progress::Finished)
            }
            Ok(Applied::NotOurs) => Ok(Progress::Finished),
            Ok(Applied::Changed(())) => {
                self.rounds += 1;
                if self.rounds >= MAX_ROUNDS {
                    let reason = "the session changes faster than it is summarised";
                    return Ok(Progress::Failed(reason.to_owned()));
                }
                self.begin(llm)
            }
            Ok(Applied::NoSession) => {
                self.stage = Stage::Storing(decided);
                Ok(Progress::NoSession)
            }
            Err(aborted) => {
                self.stage = Stage::Storing(decided);
                Err(Progress::blocked_by(aborted))
            }
        }
    }

    fn log(&self, material: Option<&Material>, archived: u64) {
        debug1!(
            "memory_agent: {} user={} job={} sources={} tokens={} level={} calls={} archived={archived} \
             took={:.1}ms",
            self.job.kind.as_str(),
            self.job.user_id,
            self.job.id,
            material.map_or(0, |material| material.sources.len()),
            material.map_or(0, Material::new_tokens),
            material.map_or("none", |material| material.level().method()),
            self.calls,
            self.started.elapsed().as_secs_f64() * 1000.0
        );
    }
}

impl LlmTask for SummaryTask {
    fn job(&self) -> &Job {
        &self.job
    }

    fn proceed(&mut self, outcome: Result<ChatOutcome, LostCall>, llm: &mut Llm<'_>) -> Taken {
        let purpose = self.job.kind.as_str();
        match self.exchange.receive(outcome, &self.job, purpose)? {
            Received::Answer(answer) => self.take(&answer, llm),
            Received::Failure(reason) => Ok(Progress::Failed(reason)),
            // The turns that come next make another question of it, in a job of their own.
            Received::BadAnswer(reason) => Ok(Progress::FailedForGood(reason)),
        }
    }

    fn apply_again(&mut self, llm: &mut Llm<'_>) -> Taken {
        match std::mem::replace(&mut self.stage, Stage::Beginning) {
            Stage::Storing(decided) => self.store(decided, llm),
            Stage::Beginning | Stage::Asking(_) => self.begin(llm),
        }
    }
}
