//! `reflect` jobs: from episodes that are over to facts. The LLM reads what was said in an episode
//! together with the facts that it may concern, and says of each whether it is kept, updated or
//! removed, and what is new; `consolidate` stores the result. Short episodes are carried into the
//! next. An episode too long for one prompt is reflected on in parts. Where no reflection is wanted, its
//! turns are handed over to an `extract` job.

mod consolidate;
mod episode_question;
mod handover;
mod waiting;

pub use waiting::due;

use crate::jobs::exchange::{self, Exchange, Llm, LlmTask, Progress, Received, Start, Taken};
use crate::jobs::llm_connection::LostCall;
use crate::jobs::prelude::*;
use crate::jobs::probing::{self, Probing};
use crate::jobs::reflect::consolidate::Reflection;
use crate::jobs::reflect::episode_question::{TURNS, fitting, question, said};
use crate::memory::facts::reconciler::Target;
use crate::memory::facts::{extracted_facts, neighborhood};
use crate::memory::llm::Question;
use crate::memory::scope::active_model;
use crate::memory::scope::scope_settings;
use crate::memory::texts::follow_ups;
use crate::settings::{Effective, Search};
use crate::store::facts::NearFact;
use crate::store::facts::reflections::{self, Concerned, EpisodeTurn, WaitingEpisode};
use crate::store::llm::llm_probes::Tested;
use crate::store::models::Kind;
use crate::store::rows::fact_scope::{Among, FactScope};
use crate::store::rows::sessions::SessionKey;
use crate::store::schema;
use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::gate::GateThresholds;
use memory_agent_core::facts::reflect::Action;
use memory_agent_core::facts::{reconcile, reflect};
use memory_agent_core::jobs::payloads::SavedAnswer;
use memory_agent_core::jobs::session_settings::MAX_FACTS_PER_EPISODE;
use memory_agent_core::jobs::session_settings::ReflectionSettings;
use memory_agent_model_server::protocol::{ChatOutcome, ModelRef};
use serde_json::Value;

/// Most known facts in one reflection. A scope that has no more of them is shown as a whole, unless a
/// session set a threshold: similarity sometimes hides the fact that has to be updated.
const MAX_EXISTING: i32 = 50;
/// Known facts that a trace lists.
const TRACED_FACTS: i32 = 100;
/// How often a job asks about the same turns because the answer concerns facts that were not shown,
/// or because another transaction changed those that were.
const MAX_ROUNDS: u32 = 3;

/// A reflect job on its way.
pub struct ReflectTask {
    job: Job,
    key: SessionKey,
    settings: ReflectionSettings,
    model: Option<ModelRef>,
    /// The episodes that are reflected on together.
    episodes: Vec<WaitingEpisode>,
    /// What was said in them, or as much as fits into one prompt.
    turns: Vec<EpisodeTurn>,
    /// Whether there are more turns than that.
    has_more: bool,
    /// The facts that are shown to the LLM.
    shown: Vec<NearFact>,
    /// All facts of the scope, as traces list them.
    known: (i64, Value),
    /// An answer, and what the LLM is asked before what it chose is replaced or ended.
    probing: Option<(Probing, String)>,
    /// What is to be stored; another transaction has the session locked.
    decided: Option<consolidate::Decided>,
    rounds: u32,
    started: Instant,
    exchange: Exchange,
}

/// Which of the known facts are looked for, beside those that are named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Named,
    /// Those that the turns may concern.
    Concerned,
}

impl LlmTask for ReflectTask {
    fn job(&self) -> &Job {
        &self.job
    }

    fn proceed(&mut self, outcome: Result<ChatOutcome, LostCall>, llm: &mut Llm<'_>) -> Taken {
        let purpose = if self.probing.is_some() { "probe" } else { "reflect" };
        let received = self.exchange.receive(outcome, &self.job, purpose);
        if let Some((mut probing, answer)) = self.probing.take() {
            return match probing.take(received, llm)? {
                true => self.go_on_probing(probing, answer, llm),
                false => self.decide(answer, llm),
            };
        }
        match received? {
            Received::Answer(answer) => self.take_answer(answer.text, llm),
            Received::Failure(reason) => Ok(Progress::Failed(reason)),
            Received::BadAnswer(reason) => Ok(Progress::unusable(self.turns.len(), reason)),
        }
    }

    fn apply_again(&mut self, llm: &mut Llm<'_>) -> Taken {
        match self.decided.take() {
            Some(decided) => self.apply(decided, llm),
            None => Ok(Progress::Failed("nothing is decided yet".to_owned())),
        }
    }
}

impl Start for ReflectTask {
    /// Chooses the episodes of a claimed job and sends the first request.
    fn start(job: Job, llm: &mut Llm<'_>) -> (Self, Taken) {
        let key = job.session_key();
        let mut task = Self {
            settings: job
                .payload::<payloads::Reflect>()
                .session_settings(&Search::current().server_text_search_config),
            key,
            job,
            model: None,
            episodes: Vec::new(),
            turns: Vec::new(),
            has_more: false,
            shown: Vec::new(),
            known: (0, Value::Null),
            probing: None,
            decided: None,
            rounds: 0,
            started: Instant::now(),
            exchange: Exchange::default(),
        };
        let taken = task.begin(llm);
        (task, taken)
    }
}

impl ReflectTask {
    /// Begins with the first turns that were not reflected on.
    fn begin(&mut self, llm: &mut Llm<'_>) -> Taken {
        self.rounds = 0;
        self.started = Instant::now();
        self.load()?;
        if self.turns.is_empty() {
            return self.finish_empty();
        }
        if let Some(extraction) = &self.settings.extraction {
            return self.hand_over(extraction);
        }
        match self.saved_answer()? {
            Some(text) => self.decide(text, llm),
            None => self.ask(&[], llm),
        }
    }

    /// Where the facts go; to be asked in a transaction.
    fn scope(&self) -> FactScope<'_> {
        FactScope {
            user_id: &self.key.user_id,
            agent_id: &self.key.agent_id,
            session_id: schema::home_of(Some(&self.key.session_id))
                .filter(|_| !self.settings.global),
        }
    }

    /// Whether they are compared with what other sessions know; to be asked in a transaction.
    fn with_others(&self) -> bool {
        self.settings.other_sessions && self.scope().recalls_others()
    }

    fn thresholds(&self) -> GateThresholds {
        neighborhood::thresholds(self.model.as_ref())
    }

    /// To be asked in a transaction.
    fn target(&self) -> PgResult<Target<'_>> {
        Ok(Target {
            job: &self.job,
            scope: self.scope(),
            with_others: self.with_others(),
            model: self.model.as_ref(),
            thresholds: self.thresholds(),
            configuration: self.settings.text_search_config.clone(),
            settings: scope_settings::of_facts(&self.scope())?,
        })
    }

    /// Takes episodes for this job, or finds those that it took before, and their turns.
    fn load(&mut self) -> Result<(), Aborted> {
        let payload: payloads::Reflect = self.job.payload();
        let taken = queue::uuids(&payload.episodes);
        let after = queue::uuids(&payload.after).first().copied();
        let (episodes, mut turns, model) = transaction(|spi| {
            let user = &self.key.user_id;
            let episodes = if taken.is_empty() {
                let due = self.due(spi)?;
                if !due.is_empty() {
                    let ids = texts(due.iter().map(|one| one.id));
                    self.job.keep(|payload: &mut payloads::Reflect| payload.episodes = ids);
                    queue::save(spi, &self.job)?;
                }
                due
            } else {
                reflections::still_waiting(spi, user, &taken, false)?
            };
            let ids: Vec<Uuid> = episodes.iter().map(|episode| episode.id).collect();
            let turns = reflections::turns(spi, user, &ids, after, TURNS as i64 + 1)?;
            Ok((episodes, turns, active_model::active(spi, Kind::Embedder)?))
        })?;
        // An answer that is kept is about so many.
        let fitting = match payload.answer {
            Some(answer) => answer.turns.len().min(turns.len()),
            None => fitting(&turns, self.job.attempts),
        };
        self.has_more = fitting < turns.len();
        turns.truncate(fitting);
        (self.episodes, self.turns, self.model) = (episodes, turns, model);
        Ok(())
    }

    fn due(&self, spi: &Spi) -> PgResult<Vec<WaitingEpisode>> {
        due(spi, &self.key, self.job.id, &self.settings)
    }

    /// Nothing is due, or nothing is left of what was said.
    fn finish_empty(&self) -> Taken {
        let ids: Vec<Uuid> = self.episodes.iter().map(|episode| episode.id).collect();
        transaction(|spi| {
            if queue::lock(spi, &self.job)? {
                reflections::mark_reflected(spi, &self.key.user_id, &ids)?;
                queue::finish(spi, &self.job)?;
                self.queue_rest(spi)?;
            }
            Ok(())
        })?;
        Ok(Progress::Finished)
    }

    /// Queues the session's other episodes, if some are due.
    fn queue_rest(&self, spi: &Spi) -> PgResult<()> {
        if self.due(spi)?.is_empty() {
            return Ok(());
        }
        let payload = payloads::Reflect::with(&self.settings);
        let server = Effective::current();
        follow_ups::enqueue_for_session(spi, JobKind::Reflect, &self.key, &payload, &server)
    }

    /// The answer of an attempt that could not be stored, if what it is about is unchanged.
    fn saved_answer(&mut self) -> Result<Option<String>, Aborted> {
        let Some(saved) = self.job.payload::<payloads::Reflect>().answer else { return Ok(None) };
        self.forget_answer();
        if saved.turns != texts(self.turns.iter().map(|turn| turn.id)) {
            return Ok(None);
        }
        let ids = queue::uuids(&saved.shown);
        self.look(&ids, Shown::Named)?;
        let position = |near: &NearFact| ids.iter().position(|id| *id == near.id);
        self.shown.retain(|near| position(near).is_some());
        self.shown.sort_by_key(position);
        Ok((self.shown.len() == ids.len()).then_some(saved.text))
    }

    fn forget_answer(&mut self) {
        self.job.keep(|payload: &mut payloads::Reflect| payload.answer = None);
    }

    /// Finds facts to be shown, those in `also` among them.
    fn look(&mut self, also: &[Uuid], wanted: Shown) -> Result<(), Aborted> {
        let turns: Vec<Uuid> = self.turns.iter().map(|turn| turn.id).collect();
        let related = self.thresholds().related;
        let (known, shown) = transaction(|spi| {
            let scope = self.scope();
            let known = reflections::known(spi, &scope, TRACED_FACTS)?;
            let is_small = known.0 <= i64::from(MAX_EXISTING);
            let similarity = match wanted {
                Shown::Named => f64::INFINITY,
                Shown::Concerned if is_small => f64::NEG_INFINITY,
                Shown::Concerned => related,
            };
            let asked = Concerned {
                model: self.model.as_ref().map(|model| model.name.as_str()),
                turns: &turns,
                similarity,
                also,
                most: MAX_EXISTING,
            };
            let mut shown = reflections::concerned(spi, &scope, Among::Own, &asked)?;
            if self.with_others() {
                // What was said is no statement yet that could name a person.
                let asked = Concerned { similarity: similarity.max(related), ..asked };
                let others = reflections::concerned(spi, &scope, Among::Others, &asked)?;
                shown.extend(
                    others
                        .into_iter()
                        .filter(|near| {
                            also.contains(&near.id) || reconcile::is_about_user(&near.content)
                        })
                        .map(|near| near.found(Among::Others)),
                );
                shown.sort_by(|left, right| right.similarity.total_cmp(&left.similarity));
                shown.sort_by_key(|near| !also.contains(&near.id));
                shown.truncate(MAX_EXISTING as usize);
            }
            Ok((known, shown))
        })?;
        (self.known, self.shown) = (known, shown);
        Ok(())
    }

    fn ask(&mut self, also: &[Uuid], llm: &mut Llm<'_>) -> Taken {
        self.look(also, Shown::Concerned)?;
        let said = said(&self.turns);
        let (prior, turns) = question(&self.shown, &self.turns, &said);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (existing, max_facts) = (count(prior.len()), MAX_FACTS_PER_EPISODE);
        let question = Question {
            messages: reflect::messages(&prior, &turns, max_facts, self.settings.tool_failures),
            answer: AnswerFormat::Reflection { existing, turns: count(turns.len()), max_facts },
            max_answer_tokens: 300 + existing.saturating_mul(60) + max_facts.saturating_mul(150),
        };
        self.exchange.ask(question, llm)
    }

    fn take_answer(&mut self, text: String, llm: &mut Llm<'_>) -> Taken {
        let saved = SavedAnswer {
            shown: texts(self.shown.iter().map(|near| near.id)),
            turns: texts(self.turns.iter().map(|turn| turn.id)),
            text,
        };
        let text = saved.text.clone();
        self.job.keep(|payload: &mut payloads::Reflect| payload.answer = Some(saved));
        exchange::keep(&self.job)?;
        self.decide(text, llm)
    }

    /// Reads an answer about the turns and the shown facts, and stores what follows from it.
    fn decide(&mut self, answer: String, llm: &mut Llm<'_>) -> Taken {
        let said = said(&self.turns);
        let (prior, turns) = question(&self.shown, &self.turns, &said);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let actions = reflect::parse(&answer, count(prior.len()), count(turns.len()))
            .map_err(|error| Progress::Failed(error.to_string()))?;
        let passed = probing::passed(llm, Tested::Choices)?;
        if passed.is_none() && actions.iter().any(Action::is_change) {
            return self.go_on_probing(Probing::of(Tested::Choices, llm), answer, llm);
        }
        let trusted = passed.unwrap_or(false);
        let plan = reflect::plan(&actions, &prior, &turns, MAX_FACTS_PER_EPISODE, trusted);
        let mut decided =
            consolidate::Decided::new(answer, plan, &self.turns, &self.shown, &self.settings);
        let settings = transaction(|_| scope_settings::of_facts(&self.scope()))?;
        extracted_facts::take_secrets_out(&mut decided.facts, &settings.content);
        extracted_facts::embed(&mut decided.facts, self.model.as_ref())?;
        self.apply(decided, llm)
    }

    /// Asks the next question of the probe, or goes on with the answer about the turns.
    fn go_on_probing(&mut self, probing: Probing, answer: String, llm: &mut Llm<'_>) -> Taken {
        let Some(question) = probing.question()? else { return self.decide(answer, llm) };
        self.probing = Some((probing, answer));
        self.exchange.ask(question, llm)
    }

    fn apply(&mut self, decided: consolidate::Decided, llm: &mut Llm<'_>) -> Taken {
        let applied = transaction(|spi| {
            let target = self.target()?;
            let reflection = Reflection {
                target: &target,
                episodes: &self.episodes,
                turns: &self.turns,
                has_more: self.has_more,
                shown: &self.shown,
                known: &self.known,
                rounds: self.rounds + 1,
                may_ask_again: self.rounds + 1 < MAX_ROUNDS,
                elapsed: self.started.elapsed(),
            };
            let applied = consolidate::apply(spi, &reflection, &decided)?;
            if matches!(applied, Applied::Stored(())) {
                self.note_progress(spi)?;
            }
            Ok(applied)
        });
        match applied {
            Ok(Applied::Stored(())) if self.has_more => {
                self.job = self.next_part();
                if exchange::makes_room(&self.job)? {
                    return Ok(Progress::Finished);
                }
                self.begin(llm)
            }
            Ok(Applied::Stored(()) | Applied::NotOurs) => Ok(Progress::Finished),
            Ok(Applied::Changed(unseen)) => {
                self.rounds += 1;
                self.forget_answer();
                self.ask(&unseen, llm)
            }
            Ok(Applied::NoSession) => {
                self.decided = Some(decided);
                Ok(Progress::NoSession)
            }
            Err(aborted) => {
                self.decided = Some(decided);
                Err(Progress::blocked_by(aborted))
            }
        }
    }

    /// The job as it goes on with the next part of a long episode.
    fn next_part(&self) -> Job {
        let mut job = self.job.clone();
        job.keep(|payload: &mut payloads::Reflect| {
            payload.answer = None;
            payload.after = texts(self.turns.last().map(|turn| turn.id));
        });
        job
    }

    /// Finishes the job, or notes how far it has come, in the transaction that stores the result.
    fn note_progress(&self, spi: &Spi) -> PgResult<()> {
        if self.has_more {
            queue::save(spi, &self.next_part())
        } else {
            queue::finish(spi, &self.job)?;
            self.queue_rest(spi)
        }
    }
}

/// Ids as JSON holds them.
pub(super) fn texts(ids: impl IntoIterator<Item = Uuid>) -> Vec<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}
