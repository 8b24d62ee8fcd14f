//! Which jobs are claimed, and when: one of a kind at a time, or as many as the LLM may be asked at once.

use crate::jobs::attach::AttachTask;
use crate::jobs::embed::EmbedTask;
use crate::jobs::evict;
use crate::jobs::exchange::Llm;
use crate::jobs::reembed::ReembedTask;
use crate::jobs::registry::{self, Started};
use crate::jobs::run::jobs_loop::{JobsLoop, llm_endpoint};
use crate::jobs::run::llm_pauses::{LlmPauses, Permission};
use crate::jobs::step::StepTask;
use crate::pg::background_transaction::transaction;
use crate::pg::spi::Session as Spi;
use crate::settings::endpoint;
use crate::settings::guc;
use crate::store::jobs::JobKind;
use crate::store::llm_calls;
use crate::store::queue::{self, Job};
use std::time::{Duration, Instant};

/// How often the tokens of the day are counted.
const COUNT_TOKENS_EVERY: Duration = Duration::from_millis(500);

impl JobsLoop {
    pub(super) fn claim_jobs(&mut self) {
        self.has_more = false;
        for kind in JobKind::ALL {
            while self.can_start(kind) {
                let slot = self.slot;
                let claimed = self.try_or_note(|jobs| jobs.turns.claim(slot, kind));
                let Some(Some(job)) = claimed else { break };
                self.start(job);
                if kind == JobKind::Evict {
                    // It is done by now, and there may be thousands.
                    self.has_more = true;
                    break;
                }
            }
        }
    }

    /// Whether a job of this kind can be started now.
    pub(super) fn can_start(&mut self, kind: JobKind) -> bool {
        if self.is_closing {
            return false;
        }
        match kind {
            JobKind::Evict => true,
            JobKind::Attach => self.attaching.is_none(),
            JobKind::Embed => self.embedding.is_none() && self.models_pause.is_over(),
            JobKind::Reembed => self.reembedding.is_none() && self.models_pause.is_over(),
            JobKind::Extract | JobKind::Reflect | JobKind::Compress | JobKind::Summarize => {
                endpoint::missing_llm().is_none()
                    && self.models_pause.is_over()
                    && self.may_ask(kind)
                    && self.has_tokens_left()
            }
        }
    }

    /// Whether the LLM of such jobs may be asked one question more: one at a time, while it is not
    /// known whether it works again.
    pub(super) fn may_ask(&mut self, kind: JobKind) -> bool {
        let most = usize::try_from(guc::llm_concurrency()).unwrap_or(1);
        self.asking.len() < most
            && match self.llm_pauses.permission(kind) {
                Permission::Ask => true,
                Permission::Probe => {
                    !self.asking.iter().any(|(_, task)| LlmPauses::is_shared(task.job().kind, kind))
                }
                Permission::Wait => false,
            }
    }

    /// Whether the tokens of the day are not used up.
    pub(super) fn has_tokens_left(&mut self) -> bool {
        let limit = i64::from(guc::llm_daily_tokens());
        if limit == 0 {
            return true;
        }
        if self.tokens_counted_at.is_none_or(|at| at.elapsed() >= COUNT_TOKENS_EVERY) {
            let used =
                self.try_or_note(|_| transaction(|| llm_calls::tokens_today(&Spi::read_write()?)));
            self.tokens_counted_at = Some(Instant::now());
            self.over_daily_limit = used.is_none_or(|used| used >= limit);
        }
        !self.over_daily_limit
    }

    pub(super) fn start(&mut self, job: Job) {
        if let Some(start) = registry::asking(job.kind) {
            return self.start_asking(job, start);
        }
        match job.kind {
            JobKind::Evict => {
                if let Err(aborted) = evict::step(&job) {
                    self.aborted(&job, &aborted);
                }
            }
            JobKind::Reembed => self.reembedding = Some(ReembedTask::start(job)),
            JobKind::Embed => {
                // One that goes on from its place has passed rows that these are about.
                if !EmbedTask::is_resumed(&job) {
                    self.try_or_note(|_| transaction(|| queue::fold(&Spi::read_write()?, &job)));
                }
                self.embedding = Some(EmbedTask::start(job));
            }
            JobKind::Attach => self.attaching = Some(AttachTask::start(job)),
            JobKind::Extract | JobKind::Reflect | JobKind::Compress | JobKind::Summarize => {}
        }
    }

    /// Begins a job that asks an LLM.
    fn start_asking(&mut self, job: Job, start: fn(Job, &mut Llm<'_>) -> Started) {
        match llm_endpoint() {
            Ok(endpoint) => {
                let (task, progress) = start(job, &mut Llm { endpoint, calls: &mut self.llm });
                self.settle(task, progress);
            }
            Err(reason) => {
                let delay = self.pause_llm(job.kind, None);
                self.postpone(&job, delay, &reason);
            }
        }
    }
}
