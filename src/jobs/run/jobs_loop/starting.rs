//! Which jobs are claimed, and when: one of a kind at a time, or as many as the LLM may be asked at once.

use crate::jobs::embed::EmbedTask;
use crate::jobs::exchange::Llm;
use crate::jobs::prelude::*;
use crate::jobs::registry::{self, Begin, Started};
use crate::jobs::run::jobs_loop::{Due, JobsLoop};
use crate::jobs::run::llm_pauses::{self, Asked};
use crate::memory::scope::endpoints::Chosen;
use crate::settings::{LlmLimits, providers};
use crate::store::llm::{endpoints, llm_calls};
use memory_agent_model_server::protocol::Endpoint;

/// How often the tokens of the day are counted.
const COUNT_TOKENS_EVERY: Duration = Duration::from_millis(500);
/// How long it may take until an endpoint that was chosen for an agent is asked.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// When a claimed job is looked at again whose endpoint is paused, and one that has no LLM or no tokens left.
const SHORT_DELAY: Duration = Duration::from_secs(2);
const LONG_DELAY: Duration = Duration::from_mins(1);

impl JobsLoop {
    pub(super) fn claim_jobs(&mut self) {
        self.has_more = false;
        for &kind in JobKind::ALL {
            while self.can_start(kind) {
                let claimed = self.try_or_note(|jobs| jobs.claim(kind));
                let Some(Some(job)) = claimed else { break };
                self.start(job);
                if matches!(registry::begin(kind), Begin::AtOnce(_)) {
                    // It is done by now, and there may be thousands.
                    self.has_more = true;
                    break;
                }
            }
        }
    }

    /// Claims the next job of a kind, another user's than the last one if there is any.
    fn claim(&mut self, kind: JobKind) -> Result<Option<Job>, Aborted> {
        let after = self.last_served.get(&kind).map_or("", String::as_str);
        let claimed = transaction(|spi| queue::claim(spi, self.slot, kind, after))?;
        if let Some(job) = &claimed {
            self.last_served.insert(kind, job.user_id.clone());
        }
        Ok(claimed)
    }

    /// Whether a job of this kind can be started now.
    pub(super) fn can_start(&mut self, kind: JobKind) -> bool {
        if self.is_closing {
            return false;
        }
        match kind {
            JobKind::Evict | JobKind::Reflect => true,
            JobKind::Attach | JobKind::Reindex => !self.is_stepping(kind),
            JobKind::Embed | JobKind::Reembed => {
                !self.is_stepping(kind) && self.models_pause.is_over()
            }
            JobKind::Extract | JobKind::Compress | JobKind::Summarize => {
                self.models_pause.is_over()
                    && self.asking.len() < LlmLimits::current().concurrency
                    && (self.may_ask_settings(kind) || self.has_rows())
            }
        }
    }

    /// Whether agents have endpoints of their own: then each job is looked at when it is claimed.
    fn has_rows(&mut self) -> bool {
        if self.look_for_rows.is_now() {
            let found = self.try_or_note(|_| transaction(endpoints::are_used));
            self.look_for_rows = Due::after(LOOK_AGAIN_AFTER);
            self.llm_pauses.has_rows = found.unwrap_or(self.llm_pauses.has_rows);
        }
        self.llm_pauses.has_rows
    }

    /// Whether jobs of a kind may ask the LLM of the settings.
    fn may_ask_settings(&mut self, kind: JobKind) -> bool {
        providers::missing_llm().is_none()
            && (!self.llm_pauses.is_any_known()
                || self.llm_pauses.may_ask(&llm_pauses::of_settings(kind)))
            && self.has_tokens_left()
    }

    /// Whether the tokens of the day are not used up.
    pub(super) fn has_tokens_left(&mut self) -> bool {
        let limit = providers::daily_tokens();
        if limit == 0 {
            return true;
        }
        if self.count_tokens.is_now() {
            let used = self.try_or_note(|_| transaction(|spi| llm_calls::tokens_today(spi, None)));
            self.count_tokens = Due::after(COUNT_TOKENS_EVERY);
            self.over_daily_limit = used.is_none_or(|used| used >= limit);
        }
        !self.over_daily_limit
    }

    pub(super) fn start(&mut self, job: Job) {
        match registry::begin(job.kind) {
            Begin::Asking(start) => self.start_asking(job, start),
            Begin::Stepping(start) => {
                // One that goes on from its place has passed rows that the others are about.
                if job.kind == JobKind::Embed && !EmbedTask::is_resumed(&job) {
                    self.try_or_note(|_| transaction(|spi| queue::fold(spi, &job)));
                }
                self.stepping.push(start(job));
            }
            Begin::AtOnce(run) => {
                if let Err(aborted) = run(&job) {
                    self.aborted(&job, &aborted);
                }
            }
        }
    }

    /// Begins a job that asks an LLM.
    fn start_asking(&mut self, job: Job, start: fn(Job, &mut Llm<'_>) -> Started) {
        if let Some((delay, reason)) = self.held_back(&job) {
            return self.postpone(&job, delay, &reason);
        }
        match self.llm_of(&job) {
            Ok((endpoint, chosen)) => {
                let mut llm = Llm::of(endpoint, &chosen, &job, &mut self.llm);
                let (task, taken) = start(job, &mut llm);
                self.settle(task, taken.unwrap_or_else(|ended| ended));
            }
            Err(reason) if self.llm_pauses.has_rows => self.postpone(&job, LONG_DELAY, &reason),
            Err(reason) => {
                let delay = self.pause_llm(&job, None);
                self.postpone(&job, delay, &reason);
            }
        }
    }

    /// Why a claimed job waits all the same, and how long: where agents have endpoints of their own, the one that
    /// it asks may be paused, or its tokens of the day used up.
    fn held_back(&mut self, job: &Job) -> Option<(Duration, String)> {
        if !self.has_rows() {
            return None;
        }
        let asked = self.asked_by_job(job);
        if !self.llm_pauses.may_ask(&asked) {
            return Some((SHORT_DELAY, "the LLM's endpoint is waited for".to_owned()));
        }
        let used_up = self.try_or_note(|_| {
            transaction(|spi| {
                let chosen = Chosen::of_agent(spi, &job.agent_id)?;
                let (limit, setting) = chosen.daily_tokens();
                let is_used_up = limit > 0 && llm_calls::tokens_today(spi, chosen.name())? >= limit;
                Ok(is_used_up.then(|| format!("{setting} is used up for today")))
            })
        })??;
        Some((LONG_DELAY, used_up))
    }

    /// Where the LLM is that a job asks, and what chose it.
    pub(super) fn llm_of(&mut self, job: &Job) -> Result<(Endpoint, Chosen), String> {
        let chosen = match self.llm_pauses.has_rows {
            false => Chosen::of_settings(),
            true => transaction(|spi| Chosen::of_agent(spi, &job.agent_id))
                .map_err(|aborted| aborted.message)?,
        };
        Ok((registry::asked(job.kind, &chosen)?, chosen))
    }

    pub(super) fn asked_by_job(&mut self, job: &Job) -> Asked {
        self.llm_of(job).ok().map(|(endpoint, _)| endpoint)
    }
}
