//! What a job worker does between two waits: takes answers, claims jobs, embeds a batch, sweeps. It
//! never waits itself; `worker_process` does.

mod outcomes;
mod rotation;
mod starting;

use crate::jobs::attach::AttachTask;
use crate::jobs::embed::EmbedTask;
use crate::jobs::exchange::{self, Llm, LlmTask, Missing, Progress};
use crate::jobs::llm_connection::{CallId, LlmCalls};
use crate::jobs::pace::Pace;
use crate::jobs::reembed::ReembedTask;
use crate::jobs::run::jobs_loop::outcomes::BUSY_DELAY;
use crate::jobs::run::jobs_loop::rotation::Turns;
use crate::jobs::run::llm_pauses::LlmPauses;
use crate::jobs::run::pause::Pause;
use crate::jobs::run::slots::{IDLE, RESTING};
use crate::jobs::run::worker_process::{Body, Next};
use crate::jobs::seal::Sealer;
use crate::jobs::step::{Step, StepTask};
use crate::jobs::sweep::Sweeper;
use crate::pg::background_transaction::{self, Aborted, transaction};
use crate::pg::spi::Session as Spi;
use crate::pg::{locked_file, wake_at_commit};
use crate::settings::{Workers, endpoint};
use crate::store::queue::{self, Job};
use crate::store::restores::{self, Restore};
use memory_agent_core::jobs::JobKind;
use std::time::{Duration, Instant};

/// Leases are renewed this often.
const RENEW_EVERY: Duration = Duration::from_secs(60);
/// How often the worker looks for history that is not sealed: as often as it looks for jobs.
const SEAL_EVERY: Duration = Duration::from_secs(10);
/// How often the worker looks whether pg_restore is at work.
const LOOK_FOR_RESTORE_EVERY: Duration = Duration::from_millis(500);

/// A task that waits for another transaction to end.
struct Blocked {
    try_at: Instant,
    delay: Duration,
    task: Box<dyn LlmTask>,
}

/// The jobs of one worker.
pub struct JobsLoop {
    slot: u32,
    llm: LlmCalls,
    /// Tasks that wait for an answer.
    asking: Vec<(CallId, Box<dyn LlmTask>)>,
    /// Tasks whose result could not be stored because another transaction has their session locked.
    blocked: Vec<Blocked>,
    embedding: Option<EmbedTask>,
    /// Embedding again, by another model: it and the other have turns.
    reembedding: Option<ReembedTask>,
    attaching: Option<AttachTask>,
    /// Whose turn it is.
    turns: Turns,
    /// How much is asked of the models at once.
    pace: Pace,
    /// Whether it was the new model's turn.
    has_reembedded: bool,
    llm_pauses: LlmPauses,
    models_pause: Pause,
    sweeper: Sweeper,
    sweep_at: Instant,
    sealer: Sealer,
    seal_at: Instant,
    renew_at: Instant,
    restore_looked_at: Option<Instant>,
    restoring: Option<Restore>,
    rows_looked_for_at: Option<Instant>,
    tokens_counted_at: Option<Instant>,
    over_daily_limit: bool,
    /// When the worker looks for jobs that the slot has leased and no task works at: first when it starts.
    release_at: Option<Instant>,
    last_error: Option<(String, u64)>,
    /// Nothing new is begun.
    is_closing: bool,
    /// Whether there may be more to claim at once.
    has_more: bool,
}

impl JobsLoop {
    pub fn new(slot: u32) -> Self {
        let now = Instant::now();
        Self {
            slot,
            llm: LlmCalls::default(),
            asking: Vec::new(),
            blocked: Vec::new(),
            embedding: None,
            reembedding: None,
            attaching: None,
            turns: Turns::default(),
            pace: Pace::default(),
            has_reembedded: false,
            llm_pauses: LlmPauses::default(),
            models_pause: Pause::default(),
            sweeper: Sweeper::default(),
            sweep_at: now,
            sealer: Sealer::default(),
            seal_at: now,
            renew_at: now + RENEW_EVERY,
            restore_looked_at: None,
            restoring: None,
            rows_looked_for_at: None,
            tokens_counted_at: None,
            over_daily_limit: false,
            release_at: Some(now),
            last_error: None,
            is_closing: false,
            has_more: false,
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
            let progress = match self.llm_of(task.job()) {
                Ok((endpoint, name)) => {
                    task.proceed(outcome, &mut Llm { endpoint, name, calls: &mut self.llm })
                }
                Err(reason) => exchange::unavailable(reason),
            };
            if !matches!(progress, Progress::Unavailable { what: Missing::Llm, .. })
                && self.llm_pauses.is_any_known()
            {
                let asked = self.asked_by_job(task.job());
                self.llm_pauses.end(&asked);
            }
            self.settle(task, progress);
        }
    }

    fn embed_some(&mut self) {
        self.embedding = self.embedding.take().and_then(|task| self.go_on(task));
    }

    /// The next step of a model change. While an entry waits for its embedding, they take turns.
    fn reembed_some(&mut self) {
        self.has_reembedded = !self.has_reembedded || self.embedding.is_none();
        if self.has_reembedded {
            self.reembedding = self.reembedding.take().and_then(|task| self.go_on(task));
        }
    }

    /// Takes in the next stretch of an attached table.
    fn attach_stretch(&mut self) {
        self.attaching = self.attaching.take().and_then(|task| self.go_on(task));
    }

    /// Does the next step of a task, which is given back if there may be more.
    fn go_on<T: StepTask>(&mut self, mut task: T) -> Option<T> {
        let step = task.step(&mut self.pace);
        if T::ASKS_MODELS && matches!(step, Ok(Step::Continue | Step::Finished)) {
            self.models_pause.end();
        }
        match step {
            Ok(Step::Continue) => {
                task.note_place();
                return (!T::MAKES_ROOM || self.keeps(task.job())).then_some(task);
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
        if self.restore_looked_at.is_none_or(|at| at.elapsed() >= LOOK_FOR_RESTORE_EVERY) {
            self.restore_looked_at = Some(Instant::now());
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
        self.sweep_at = if more == Some(true) { Instant::now() } else { Instant::now() + interval };
    }

    /// Seals history; one that cannot be sealed now, for want of its key say, is looked at again later.
    fn seal(&mut self) {
        let more = self.try_or_note(|jobs| jobs.sealer.run());
        self.seal_at =
            Instant::now() + if more == Some(true) { Duration::ZERO } else { SEAL_EVERY };
    }

    /// The jobs that tasks work at.
    fn held(&self) -> Vec<&Job> {
        (self.asking.iter().map(|(_, task)| task.job()))
            .chain(self.blocked.iter().map(|blocked| blocked.task.job()))
            .chain(self.embedding.iter().map(StepTask::job))
            .chain(self.reembedding.iter().map(StepTask::job))
            .chain(self.attaching.iter().map(StepTask::job))
            .collect()
    }

    fn renew(&mut self) {
        self.renew_at = Instant::now() + RENEW_EVERY;
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
        self.release_at = (!is_done).then(|| Instant::now() + BUSY_DELAY);
    }

    /// When there will be something to do, if nothing happens before.
    fn due_within(&mut self) -> Option<Duration> {
        let mut due = Vec::new();
        let has_more = self.has_more
            || self.embedding.is_some()
            || self.reembedding.is_some()
            || self.attaching.is_some();
        if has_more || self.llm.has_finished() {
            due.push(Duration::ZERO);
        }
        if self.llm.is_sending() {
            due.push(Duration::from_millis(10));
        }
        due.extend(self.release_at.map(|at| at.saturating_duration_since(Instant::now())));
        due.extend(
            self.blocked
                .iter()
                .map(|blocked| blocked.try_at.saturating_duration_since(Instant::now())),
        );
        if self.restoring.is_some() {
            due.push(LOOK_FOR_RESTORE_EVERY);
        } else if self.slot == 0 && !self.is_closing {
            let first = self.sweep_at.min(self.seal_at);
            due.push(first.saturating_duration_since(Instant::now()));
        }
        if !self.is_idle() {
            due.push(self.renew_at.saturating_duration_since(Instant::now()));
        }
        let pauses = self.llm_pauses.left().chain(self.models_pause.left());
        due.extend(pauses.filter(|left| !left.is_zero()));
        let next_job =
            self.try_or_note(|_| transaction(|spi| queue::next_due(spi, &JobKind::ALL))).flatten();
        due.extend(next_job);
        due.into_iter().min()
    }
}

impl Body for JobsLoop {
    fn turn(&mut self) -> Next {
        if self.release_at.is_some_and(|at| at <= Instant::now()) {
            self.release();
        }
        self.take_answers();
        self.try_blocked();
        self.embed_some();
        self.reembed_some();
        if !self.is_closing {
            self.attach_stretch();
        }
        if !self.is_being_restored() {
            self.claim_jobs();
            if self.slot == 0 && self.sweep_at <= Instant::now() && !self.is_closing {
                self.sweep();
            }
            if self.slot == 0 && self.seal_at <= Instant::now() && !self.is_closing {
                self.seal();
            }
        }
        if self.renew_at <= Instant::now() {
            self.renew();
        }
        let within =
            if wake_at_commit::queued_here() { Some(Duration::ZERO) } else { self.due_within() };
        Next { wait_until: within, socket: self.llm.descriptor() }
    }

    fn is_idle(&self) -> bool {
        self.release_at.is_none()
            && self.asking.is_empty()
            && self.blocked.is_empty()
            && self.embedding.is_none()
            && self.reembedding.is_none()
            && self.attaching.is_none()
    }

    fn activity(&self) -> String {
        if let (Some(Restore { pid, role, since }), true) = (&self.restoring, self.is_idle()) {
            return format!(
                "{IDLE}, {RESTING}: session {pid} of role \"{role}\", connected since {since} UTC, is pg_restore"
            );
        }
        let waiting =
            if self.over_daily_limit && !self.llm_pauses.has_rows && endpoint::daily_tokens() > 0 {
                ", memory_agent.llm_daily_tokens is used up"
            } else if self.llm_pauses.is_any_waiting() {
                ", waiting for the LLM's endpoint"
            } else if !self.models_pause.is_over() {
                ", waiting for the models"
            } else {
                ""
            };
        match (self.asking.len(), self.embedding.is_some() || self.reembedding.is_some()) {
            (0, false) => format!("idle{waiting}"),
            (calls, false) => format!("{calls} LLM calls{waiting}"),
            (0, true) => format!("embedding{waiting}"),
            (calls, true) => format!("embedding, {calls} LLM calls{waiting}"),
        }
    }

    fn last_error(&self) -> Option<(String, u64)> {
        self.last_error.clone()
    }

    fn wind_down(&mut self) {
        self.is_closing = true;
        for Blocked { task, delay, .. } in std::mem::take(&mut self.blocked) {
            self.postpone(task.job(), delay, "the worker was stopped");
        }
        // It may take hours, and goes on where it was.
        if let Some(task) = self.reembedding.take() {
            self.postpone(task.job(), Duration::ZERO, "the worker was stopped");
        }
        if let Some(task) = self.attaching.take() {
            self.postpone(task.job(), Duration::ZERO, "the worker was stopped");
        }
        // No worker may come after it for long, where databases share few places.
        if self.slot == 0 && self.restoring.is_none() {
            self.seal();
        }
    }
}
