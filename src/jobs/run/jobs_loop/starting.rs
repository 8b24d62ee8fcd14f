//! Which jobs are claimed, and when: one of a kind at a time, or as many as the LLM may be asked at once.

use crate::jobs::attach::AttachTask;
use crate::jobs::embed::EmbedTask;
use crate::jobs::evict;
use crate::jobs::exchange::{LlmTask, Progress};
use crate::jobs::extract::ExtractTask;
use crate::jobs::llm_connection::LlmCalls;
use crate::jobs::reembed::ReembedTask;
use crate::jobs::reflect::ReflectTask;
use crate::jobs::run::jobs_loop::{JobsLoop, llm_endpoint};
use crate::jobs::run::llm_pauses::{LlmPauses, Permission};
use crate::jobs::summarize::SummaryTask;
use crate::pg::background_transaction::transaction;
use crate::pg::spi::Session as Spi;
use crate::settings::endpoint;
use crate::settings::guc;
use crate::store::jobs::JobKind;
use crate::store::llm_calls;
use crate::store::queue::{self, Job};
use memory_agent_model_server::protocol::Endpoint;
use std::time::{Duration, Instant};

/// The kinds of jobs, the most urgent first: what recall waits for, then what becomes a memory, then
/// what tidies up.
pub(super) const CLAIMED: [JobKind; 8] = [
    JobKind::Embed,
    JobKind::Extract,
    JobKind::Reflect,
    JobKind::Compress,
    JobKind::Summarize,
    JobKind::Evict,
    JobKind::Reembed,
    JobKind::Attach,
];
/// How often the tokens of the day are counted.
const COUNT_TOKENS_EVERY: Duration = Duration::from_millis(500);

impl JobsLoop {
    pub(super) fn claim_jobs(&mut self) {
        self.has_more = false;
        for kind in CLAIMED {
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
            _ => {
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
        match job.kind {
            JobKind::Evict => {
                if let Err(aborted) = evict::step(&job) {
                    self.aborted(&job, &aborted);
                }
            }
            JobKind::Reembed => self.reembedding = Some(ReembedTask::new(job)),
            JobKind::Embed => {
                // One that goes on from its place has passed rows that these are about.
                if !EmbedTask::is_resumed(&job) {
                    self.try_or_note(|_| transaction(|| queue::fold(&Spi::read_write()?, &job)));
                }
                self.embedding = Some(EmbedTask::new(job));
            }
            JobKind::Attach => self.attaching = Some(AttachTask::new(job)),
            _ => match llm_endpoint() {
                Ok(endpoint) => {
                    let (task, progress) = start_asking(job, &endpoint, &mut self.llm);
                    self.settle(task, progress);
                }
                Err(reason) => {
                    let delay = self.pause_llm(job.kind, None);
                    self.postpone(&job, delay, &reason);
                }
            },
        }
    }
}

/// Begins a job that asks an LLM.
fn start_asking(job: Job, endpoint: &Endpoint, llm: &mut LlmCalls) -> (Box<dyn LlmTask>, Progress) {
    match job.kind {
        JobKind::Reflect => {
            let (task, progress) = ReflectTask::start(job, endpoint, llm);
            (Box::new(task), progress)
        }
        JobKind::Compress | JobKind::Summarize => {
            let (task, progress) = SummaryTask::start(job, endpoint, llm);
            (Box::new(task), progress)
        }
        _ => {
            let (task, progress) = ExtractTask::start(job, endpoint, llm);
            (Box::new(task), progress)
        }
    }
}
