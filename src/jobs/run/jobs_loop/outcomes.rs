//! What becomes of a job after a step of it: it goes on, waits, fails, or is given back to the queue.

use crate::jobs::exchange::{LlmTask, Missing, Progress};
use crate::jobs::prelude::*;
use crate::jobs::run::jobs_loop::{Blocked, Due, JobsLoop};
use crate::jobs::run::pause::LONGEST_PAUSE;
use crate::jobs::step::SLOW_DELAY;
use memory_agent_core::llm::retry;

/// When a job is tried again whose rows another transaction has locked: first, and at last.
pub(super) const BUSY_DELAY: Duration = Duration::from_secs(1);
const LONGEST_BUSY_DELAY: Duration = Duration::from_secs(30);
/// When a job is tried again whose session is not there: a dump that psql loads may bring it in a
/// moment, or in minutes. Each time it waits four times as long as before. A sweep runs it when its session
/// has come.
const MISSING_DELAY: Duration = Duration::from_secs(5);
const LONGEST_MISSING_DELAY: Duration = Duration::from_mins(10);
/// Tasks that are kept while they are blocked; more go back to the queue.
const MAX_BLOCKED: usize = 64;

impl JobsLoop {
    pub(super) fn settle(&mut self, task: Box<dyn LlmTask>, progress: Progress) {
        match progress {
            Progress::Waiting(call) => self.asking.push((call, task)),
            Progress::Finished => {}
            Progress::Unavailable { retry_in, reason, what } => {
                let delay = match what {
                    Missing::Llm => self.pause_llm(task.job(), retry_in),
                    Missing::Models => self.models_pause.begin(retry_in),
                    Missing::Answer => retry_in.unwrap_or(SLOW_DELAY),
                };
                self.postpone(task.job(), delay, &reason);
            }
            Progress::Failed(reason) => self.fail(task.job(), &reason),
            Progress::FailedForGood(reason) => {
                self.note_error(&reason);
                self.give_back(|spi| queue::give_up(spi, task.job(), &reason));
            }
            Progress::Aborted(aborted) => self.aborted(task.job(), &aborted),
            Progress::Blocked(reason) => {
                self.note_error(&reason);
                self.block(task, BUSY_DELAY, &reason);
            }
            Progress::NoSession => self.miss_session(task.job()),
        }
    }

    /// A job has no session: a restore brings it in a moment, or its row was deleted by hand.
    pub(super) fn miss_session(&mut self, job: &Job) {
        let reason = queue::NO_SESSION;
        self.look_for_restore = Due::default();
        if self.is_being_restored() {
            self.postpone(job, LONGEST_BUSY_DELAY, reason);
        } else {
            let misses = u32::try_from(job.attempts).unwrap_or(0);
            let delay = MISSING_DELAY.saturating_mul(4_u32.saturating_pow(misses));
            self.fail_for(job, delay.min(LONGEST_MISSING_DELAY), reason);
        }
    }

    pub(super) fn block(&mut self, task: Box<dyn LlmTask>, delay: Duration, reason: &str) {
        if self.blocked.len() < MAX_BLOCKED && !self.is_closing {
            self.blocked.push(Blocked { due: Due::after(delay), delay, task });
        } else {
            self.postpone(task.job(), delay, reason);
        }
    }

    pub(super) fn try_blocked(&mut self) {
        let is_due = |blocked: &mut Blocked| blocked.due.is_now();
        let due: Vec<Blocked> = self.blocked.extract_if(.., is_due).collect();
        for Blocked { mut task, delay, .. } in due {
            match self.with_llm(&mut *task, |task, llm| task.apply_again(llm)) {
                Progress::Blocked(reason) => {
                    self.block(task, (delay * 2).min(LONGEST_BUSY_DELAY), &reason);
                }
                progress => self.settle(task, progress),
            }
        }
    }

    /// A transaction of a job did not commit.
    pub(super) fn aborted(&mut self, job: &Job, aborted: &Aborted) {
        if aborted.may_pass {
            self.postpone(job, BUSY_DELAY, &aborted.message);
        } else {
            self.fail(job, &aborted.message);
        }
    }

    /// Keeps all jobs from asking the LLM of a job for a while, unless the settings change. Returns when a job is
    /// looked at again: it is the pause that holds jobs back, not their own times.
    pub(super) fn pause_llm(&mut self, job: &Job, retry_in: Option<Duration>) -> Duration {
        let asked = self.asked_by_job(job);
        self.llm_pauses.begin(asked, retry_in).min(LONGEST_PAUSE)
    }

    pub(super) fn postpone(&mut self, job: &Job, delay: Duration, reason: &str) {
        self.note_error(reason);
        self.give_back(|spi| queue::postpone(spi, job, delay, reason));
    }

    pub(super) fn fail(&mut self, job: &Job, reason: &str) {
        let failures = u32::try_from(job.attempts).unwrap_or(0) + 1;
        let jitter = f64::from(u16::from_le_bytes([
            uuid::Uuid::new_v4().as_bytes()[0],
            uuid::Uuid::new_v4().as_bytes()[0],
        ])) / f64::from(u16::MAX);
        self.fail_for(job, retry::back_off(failures, jitter), reason);
    }

    pub(super) fn fail_for(&mut self, job: &Job, delay: Duration, reason: &str) {
        self.note_error(reason);
        self.give_back(|spi| queue::fail(spi, job, delay, reason));
    }

    /// What cannot be stored, because another session has the row locked, say, is forgotten: the job is given
    /// back as one that was interrupted.
    fn give_back(&mut self, store: impl FnOnce(&Spi) -> PgResult<()>) {
        let stored = self.try_or_note(|_| transaction(|spi| store(spi)));
        if stored.is_none() {
            self.release = Some(Due::after(BUSY_DELAY));
        }
    }
}
