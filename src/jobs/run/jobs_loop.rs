//! What a job worker does between two waits: takes answers, claims jobs, embeds a batch, sweeps. It
//! never waits itself; `worker_process` does.

mod outcomes;
mod starting;

use crate::jobs::exchange::{self, Llm, LlmTask, Missing, Progress, Taken};
use crate::jobs::llm_connection::{CallId, LlmCalls};
use crate::jobs::pace::Pace;
use crate::jobs::prelude::*;
use crate::jobs::run::jobs_loop::outcomes::BUSY_DELAY;
use crate::jobs::run::llm_pauses::{self, LlmPauses, LlmsOfSettings};
use crate::jobs::run::pause::Pause;
use crate::jobs::run::slots::{IDLE, RESTING};
use crate::jobs::seal::Sealer;
use crate::jobs::step::{Step, StepTask};
use crate::jobs::sweep::Sweeper;
use crate::pg::background_transaction;
use crate::pg::{locked_file, wake_at_commit};
use crate::settings::{Workers, providers};
use crate::store::queue::queue_upkeep;
use crate::store::transfer::restores::{self, Restore};
use std::collections::HashMap;
use std::os::fd::RawFd;

/// Leases are renewed this often.
const RENEW_EVERY: Duration = Duration::from_secs(60);
/// How often the worker looks for history that is not sealed: as often as it looks for jobs.
const SEAL_EVERY: Duration = Duration::from_secs(10);
/// How often the worker looks whether pg_restore is at work.
const LOOK_FOR_RESTORE_EVERY: Duration = Duration::from_millis(500);
/// Why a task is given back that was begun.
const STOPPED: &str = "the worker was stopped";

/// When a worker wants its next turn; it also gets one whenever jobs are queued, and every ten seconds.
/// Most jobs that are run earlier at once, when the LLM is another one.
const MOST_POSTPONED: i64 = 10_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Next {
    /// After so long; zero is at once.
    pub wait_until: Option<Duration>,
    /// When this descriptor can be read.
    pub socket: Option<RawFd>,
}

/// When something is due: at once by default.
#[derive(Clone, Copy, Default)]
struct Due(Option<Instant>);

impl Due {
    fn after(delay: Duration) -> Self {
        Self(Some(Instant::now() + delay))
    }

    fn left(self) -> Duration {
        self.0.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn is_now(self) -> bool {
        self.left().is_zero()
    }
}

/// A task that waits for another transaction to end.
struct Blocked {
    due: Due,
    delay: Duration,
    task: Box<dyn LlmTask>,
}

/// The jobs of one worker.
#[derive(Default)]
pub struct JobsLoop {
    slot: u32,
    llm: LlmCalls,
    /// Tasks that wait for an answer.
    asking: Vec<(CallId, Box<dyn LlmTask>)>,
    /// Tasks whose result could not be stored because another transaction has their session locked.
    blocked: Vec<Blocked>,
    /// Tasks that are done step by step, at most one of a kind.
    stepping: Vec<Box<dyn StepTask>>,
    /// The user who was served last, for each kind of job: all have their turns.
    last_served: HashMap<JobKind, String>,
    /// How much is asked of the models at once.
    pace: Pace,
    /// Whether it was the new model's turn.
    has_reembedded: bool,
    llm_pauses: LlmPauses,
    /// The endpoints that jobs ask by the settings, as of the last look.
    llms_of_settings: LlmsOfSettings,
    models_pause: Pause,
    sweeper: Sweeper,
    sweep: Due,
    sealer: Sealer,
    seal: Due,
    renewal: Due,
    look_for_restore: Due,
    restoring: Option<Restore>,
    look_for_rows: Due,
    count_tokens: Due,
    over_daily_limit: bool,
    /// When the worker looks for jobs that the slot has leased and no task works at: first when it starts.
    release: Option<Due>,
    last_error: Option<(String, u64)>,
    /// Nothing new is begun.
    is_closing: bool,
    /// Whether there may be more to claim at once.
    has_more: bool,
}

impl JobsLoop {
    pub fn new(slot: u32) -> Self {
        let llms_of_settings = llm_pauses::all_of_settings();
        Self { slot, release: Some(Due::default()), llms_of_settings, ..Self::default() }
    }

    /// Looks at once for what a new setting makes possible: what waits for an LLM waits no longer for the next
    /// sweep, nor for the end of the pause of another one.
    pub fn settings_changed(&mut self) {
        let now = llm_pauses::all_of_settings();
        if now == self.llms_of_settings {
            return;
        }
        self.llms_of_settings = now;
        self.sweep = Due::default();
        self.try_or_note(|_| {
            transaction(|spi| queue_upkeep::run_postponed(spi, &llm_pauses::KINDS, MOST_POSTPONED))
        });
    }

    /// Does what can be done without waiting, and says when there may be more. The extension is there, and no
    /// transaction is open.
    pub fn turn(&mut self) -> Next {
        if self.release.is_some_and(Due::is_now) {
            self.release();
        }
        self.take_answers();
        self.try_blocked();
        self.take_steps();
        if !self.is_being_restored() {
            self.claim_jobs();
            let is_first = self.slot == 0 && !self.is_closing;
            if is_first && self.sweep.is_now() {
                self.sweep();
            }
            if is_first && self.seal.is_now() {
                self.seal();
            }
        }
        if self.renewal.is_now() {
            self.renew();
        }
        let within =
            if wake_at_commit::queued_here() { Some(Duration::ZERO) } else { self.due_within() };
        Next { wait_until: within, socket: self.llm.descriptor() }
    }

    /// Whether the last turn found nothing to do and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.release.is_none()
            && self.asking.is_empty()
            && self.blocked.is_empty()
            && self.stepping.is_empty()
    }

    /// Whether the last turn claimed nothing because the database is being restored.
    pub fn is_resting(&self) -> bool {
        self.restoring.is_some()
    }

    /// What is under way, for the people who watch.
    pub fn activity(&self) -> String {
        if let (Some(Restore { pid, role, since }), true) = (&self.restoring, self.is_idle()) {
            return format!(
                "{IDLE}, {RESTING}: session {pid} of role \"{role}\", connected since {since} UTC, is pg_restore"
            );
        }
        let waiting = if self.over_daily_limit
            && !self.llm_pauses.has_rows
            && providers::daily_tokens() > 0
        {
            ", memory_agent.llm_daily_tokens is used up"
        } else if self.llm_pauses.is_any_waiting() {
            ", waiting for the LLM's endpoint"
        } else if !self.models_pause.is_over() {
            ", waiting for the models"
        } else {
            ""
        };
        match (self.asking.len(), self.stepping.iter().any(|task| task.asks_models())) {
            (0, false) => format!("idle{waiting}"),
            (calls, false) => format!("{calls} LLM calls{waiting}"),
            (0, true) => format!("embedding{waiting}"),
            (calls, true) => format!("embedding, {calls} LLM calls{waiting}"),
        }
    }

    /// The last error and when it happened, in seconds since 1970.
    pub fn last_error(&self) -> Option<(String, u64)> {
        self.last_error.clone()
    }

    /// Begins nothing new from now on: the worker leaves as soon as it [is idle](Self::is_idle).
    pub fn wind_down(&mut self) {
        self.is_closing = true;
        for Blocked { task, delay, .. } in std::mem::take(&mut self.blocked) {
            self.postpone(task.job(), delay, STOPPED);
        }
        // These may take hours, and go on where they were.
        let is_long = |task: &mut Box<dyn StepTask>| task.job().kind != JobKind::Embed;
        for task in self.stepping.extract_if(.., is_long).collect::<Vec<_>>() {
            self.postpone(task.job(), Duration::ZERO, STOPPED);
        }
        // No worker may come after it for long, where databases share few places.
        if self.slot == 0 && self.restoring.is_none() {
            self.seal();
        }
    }

    fn note_error(&mut self, reason: &str) {
        self.last_error = Some((reason.to_owned(), locked_file::unix_time()));
    }

    /// Runs something that may abort, and remembers why it did.
    fn try_or_note<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, Aborted>) -> Option<T> {
        match body(self) {
            Ok(value) => Some(value),
            Err(aborted) => {
                self.note_error(&aborted.message);
                None
            }
        }
    }

    fn take_answers(&mut self) {
        for (call, outcome) in self.llm.poll() {
            let Some(position) = self.asking.iter().position(|(id, _)| *id == call) else {
                continue;
            };
            let (_, mut task) = self.asking.swap_remove(position);
            let progress = self.with_llm(&mut *task, |task, llm| task.proceed(outcome, llm));
            if !matches!(progress, Progress::Unavailable { what: Missing::Llm, .. })
                && self.llm_pauses.is_any_known()
            {
                let asked = self.asked_by_job(task.job());
                self.llm_pauses.end(&asked);
            }
            self.settle(task, progress);
        }
    }

    /// Has a task go on with the LLM that it asks.
    fn with_llm(
        &mut self,
        task: &mut dyn LlmTask,
        step: impl FnOnce(&mut dyn LlmTask, &mut Llm<'_>) -> Taken,
    ) -> Progress {
        match self.llm_of(task.job()) {
            Ok((endpoint, chosen)) => {
                let mut llm = Llm::of(endpoint, &chosen, task.job(), &mut self.llm);
                step(task, &mut llm).unwrap_or_else(|ended| ended)
            }
            Err(reason) => exchange::unavailable(reason),
        }
    }

    /// Does the next step of each task. While an entry waits for its embedding, a model change has every other
    /// turn.
    fn take_steps(&mut self) {
        self.has_reembedded = !self.has_reembedded || !self.is_stepping(JobKind::Embed);
        for task in std::mem::take(&mut self.stepping) {
            let has_turn = self.has_reembedded || task.job().kind != JobKind::Reembed;
            let task = if has_turn { self.go_on(task) } else { Some(task) };
            self.stepping.extend(task);
        }
    }

    /// Whether a job of this kind is being done step by step.
    fn is_stepping(&self, kind: JobKind) -> bool {
        self.stepping.iter().any(|task| task.job().kind == kind)
    }

    /// Does the next step of a task, which is given back if there may be more.
    fn go_on(&mut self, mut task: Box<dyn StepTask>) -> Option<Box<dyn StepTask>> {
        let step = task.step(&mut self.pace);
        if task.asks_models() && matches!(step, Ok(Step::Continue | Step::Finished)) {
            self.models_pause.end();
        }
        match step {
            Ok(Step::Continue) => {
                task.note_place();
                return (!task.makes_room() || self.keeps(task.job())).then_some(task);
            }
            Ok(Step::Finished) => {}
            Ok(Step::Outage(reason)) => {
                let delay = self.models_pause.begin(None);
                self.postpone(task.job(), delay, &reason);
            }
            Ok(Step::Busy(delay, reason)) => self.postpone(task.job(), delay, &reason),
            Ok(Step::Failed(reason)) => self.fail(task.job(), &reason),
            Err(aborted) => self.aborted(task.job(), &aborted),
        }
        None
    }

    /// Whether a job goes on that has done a step. It is given back when another user waits.
    fn keeps(&mut self, job: &Job) -> bool {
        self.try_or_note(|_| exchange::makes_room(job)) != Some(true)
    }

    /// Whether the database is being restored: nothing new is begun then. The worker's own role sees the
    /// names of all sessions.
    fn is_being_restored(&mut self) -> bool {
        if self.look_for_restore.is_now() {
            self.look_for_restore = Due::after(LOOK_FOR_RESTORE_EVERY);
            self.restoring = self
                .try_or_note(|_| {
                    background_transaction::try_transaction(|| {
                        restores::running(&Spi::read_write()?)
                    })
                })
                .flatten();
        }
        self.restoring.is_some()
    }

    fn sweep(&mut self) {
        let more = self.try_or_note(|jobs| jobs.sweeper.run());
        let interval = Workers::current().sweep_interval;
        self.sweep = if more == Some(true) { Due::default() } else { Due::after(interval) };
    }

    /// Seals history; one that cannot be sealed now, for want of its key say, is looked at again later.
    fn seal(&mut self) {
        let more = self.try_or_note(|jobs| jobs.sealer.run());
        self.seal = if more == Some(true) { Due::default() } else { Due::after(SEAL_EVERY) };
    }

    /// The jobs that tasks work at.
    fn held(&self) -> Vec<&Job> {
        (self.asking.iter().map(|(_, task)| task.job()))
            .chain(self.blocked.iter().map(|blocked| blocked.task.job()))
            .chain(self.stepping.iter().map(|task| task.job()))
            .collect()
    }

    fn renew(&mut self) {
        self.renewal = Due::after(RENEW_EVERY);
        let held = self.held();
        if !held.is_empty() {
            let renewed = transaction(|spi| queue::renew(spi, &held));
            self.try_or_note(|_| renewed);
        }
    }

    /// Gives back what the slot has leased and no task works at; again soon, if that did not succeed.
    fn release(&mut self) {
        let (slot, held) = (self.slot, self.held());
        let released = transaction(|spi| queue::release_slot(spi, slot, &held));
        let is_done = self.try_or_note(|_| released) == Some(false);
        self.release = (!is_done).then(|| Due::after(BUSY_DELAY));
    }

    /// When there will be something to do, if nothing happens before.
    fn due_within(&mut self) -> Option<Duration> {
        let mut due = Vec::new();
        if self.has_more || !self.stepping.is_empty() || self.llm.has_finished() {
            due.push(Duration::ZERO);
        }
        if self.llm.is_sending() {
            due.push(Duration::from_millis(10));
        }
        due.extend(self.release.map(Due::left));
        due.extend(self.blocked.iter().map(|blocked| blocked.due.left()));
        if self.restoring.is_some() {
            due.push(LOOK_FOR_RESTORE_EVERY);
        } else if self.slot == 0 && !self.is_closing {
            due.push(self.sweep.left().min(self.seal.left()));
        }
        if !self.is_idle() {
            due.push(self.renewal.left());
        }
        let pauses = self.llm_pauses.left().chain(self.models_pause.left());
        due.extend(pauses.filter(|left| !left.is_zero()));
        let next_job =
            self.try_or_note(|_| transaction(|spi| queue::next_due(spi, JobKind::ALL))).flatten();
        due.extend(next_job);
        due.into_iter().min()
    }
}
