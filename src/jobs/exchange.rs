//! What every job that asks an LLM has in common: one request in flight at a time, its calls on
//! record, and what a failure means for the job. Between two answers nothing is held but the lease.

use crate::jobs::llm_connection::{CallId, LlmCalls, LostCall};
use crate::jobs::prelude::*;
use crate::memory::llm::{Asked, Question};
use crate::memory::quotas;
use crate::memory::scope::endpoints::Chosen;
use crate::models::Failure;
use crate::settings::LlmLimits;
use crate::store::llm::llm_calls::{self, Origin};
use memory_agent_core::facts::answers::estimated_tokens;
use memory_agent_model_server::protocol::{
    CallRecord, ChatAnswer, ChatFailure, ChatFailureKind, ChatOutcome, Endpoint,
};

/// The LLM that tasks may ask.
pub struct Llm<'a> {
    /// Where it is now.
    pub endpoint: Endpoint,
    /// The row of the endpoint; `None` for that of the settings.
    pub name: Option<String>,
    /// Most tokens a day, 0 for no limit, and what sets that.
    pub daily_tokens: (i64, String),
    /// Whose memory it is asked about.
    user_id: String,
    /// The requests in flight.
    pub calls: &'a mut LlmCalls,
}

/// A job that asks an LLM, step by step. It never waits itself.
pub trait LlmTask {
    /// The job that is being done.
    fn job(&self) -> &Job;

    /// Goes on with the outcome of the request in flight.
    fn proceed(&mut self, outcome: Result<ChatOutcome, LostCall>, llm: &mut Llm<'_>) -> Taken;

    /// Tries to store once more what was [blocked](Progress::Blocked).
    fn apply_again(&mut self, llm: &mut Llm<'_>) -> Taken;
}

/// How a task of a kind begins with a claimed job: it sends its first request, or has none to send.
pub trait Start: LlmTask + Sized {
    fn start(job: Job, llm: &mut Llm<'_>) -> (Self, Taken);
}

/// What is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The LLM: others who ask the same one would fare the same.
    Llm,
    /// The models: no text is embedded.
    Models,
    /// An answer to this one request. Others may get theirs.
    Answer,
}

/// What a task waits for, or how it ended.
pub enum Progress {
    Waiting(CallId),
    Finished,
    /// Temporarily unavailable through no fault of the job; try again later.
    Unavailable {
        retry_in: Option<Duration>,
        reason: String,
        what: Missing,
    },
    /// A failure that counts.
    Failed(String),
    /// A failure that is final: another attempt would ask the same.
    FailedForGood(String),
    /// A transaction did not commit.
    Aborted(Aborted),
    /// What was decided could not be stored yet, for this reason: try [`LlmTask::apply_again`].
    Blocked(String),
    /// The row of its session is not there.
    NoSession,
}

/// What a step of a task came to; `Err` where it ended before its end.
pub type Taken = Result<Progress, Progress>;

impl Progress {
    /// What was decided could not be stored: for now, if another transaction was in the way.
    pub fn blocked_by(aborted: Aborted) -> Self {
        if aborted.may_pass { Self::Blocked(aborted.message) } else { Self::Aborted(aborted) }
    }

    /// The answer about so many turns cannot be used, nor can its correction. The next attempt asks about half of
    /// them; of one turn it would ask the same again.
    pub fn unusable(turns: usize, reason: String) -> Self {
        if turns > 1 { Self::Failed(reason) } else { Self::FailedForGood(reason) }
    }
}

impl From<Aborted> for Progress {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(aborted)
    }
}

/// The models failed to embed what an answer said, or to count its tokens.
impl From<Failure> for Progress {
    fn from(failure: Failure) -> Self {
        let what = match (failure.may_pass, failure.may_be_own) {
            (false, _) => return Self::Failed(failure.message),
            (true, true) => Missing::Answer,
            (true, false) => Missing::Models,
        };
        Self::Unavailable { retry_in: None, reason: failure.message, what }
    }
}

/// What came of a request.
pub enum Received {
    /// An answer of the format that was asked for.
    Answer(ChatAnswer),
    /// A failure that counts as the job's own, for this reason.
    Failure(String),
    /// An answer of another format, and so was its correction: asking again would bring the same.
    BadAnswer(String),
}

/// Keeps what the payload of a job holds, so that a later attempt does not cost the same calls again. While
/// another transaction has its row locked, this attempt goes on without.
pub fn keep(job: &Job) -> Result<(), Aborted> {
    unless_passing(transaction(|spi| queue::save(spi, job))).map(drop)
}

/// Gives a job back after a step if another user waits for one of its kind; whether it was.
pub fn makes_room(job: &Job) -> Result<bool, Aborted> {
    transaction(|spi| {
        let is_waited_for = queue::do_others_wait(spi, job)?;
        if is_waited_for {
            queue::hand_over(spi, job)?;
        }
        Ok(is_waited_for)
    })
}

/// The LLM cannot be asked.
pub fn unavailable(reason: String) -> Progress {
    Progress::Unavailable { retry_in: None, reason, what: Missing::Llm }
}

/// The model server failed. It may have asked the LLM before.
fn lost(reason: LostCall, prompt_tokens: u32) -> ChatOutcome {
    let kind = ChatFailureKind::Unavailable;
    let failure = ChatFailure { kind, message: reason, retry_after_ms: None };
    ChatOutcome { result: Err(failure), calls: vec![CallRecord::abandoned(prompt_tokens)] }
}

impl<'a> Llm<'a> {
    /// The LLM at an endpoint of the one that was chosen.
    pub fn of(endpoint: Endpoint, chosen: &Chosen, job: &Job, calls: &'a mut LlmCalls) -> Self {
        let (name, daily_tokens) = (chosen.name().map(str::to_owned), chosen.daily_tokens());
        Self { endpoint, name, daily_tokens, user_id: job.user_id.clone(), calls }
    }

    /// Whether it may be asked now: a job may have many questions. The quota of its user holds up no other user's.
    fn may_be_asked(&self) -> Result<(), Progress> {
        let what = Missing::Answer;
        if let Some(reason) = self.used_up()? {
            return Err(Progress::Unavailable { retry_in: None, reason, what });
        }
        match transaction(|spi| quotas::tokens_problem(spi, &self.user_id, true))? {
            Some(reason) => {
                let retry_in = Some(quotas::until_tomorrow());
                Err(Progress::Unavailable { retry_in, reason, what })
            }
            None => Ok(()),
        }
    }

    /// Why no job may ask the LLM before tomorrow.
    fn used_up(&self) -> Result<Option<String>, Aborted> {
        let (limit, setting) = &self.daily_tokens;
        if *limit == 0 {
            return Ok(None);
        }
        let used = transaction(|spi| llm_calls::tokens_today(spi, self.name.as_deref()))?;
        Ok((used >= *limit).then(|| format!("{setting} is used up for today")))
    }
}

/// The requests of one job.
#[derive(Default)]
pub struct Exchange {
    /// What the request in flight asks, the model, and the row of its endpoint: an admin may choose another one
    /// meanwhile.
    asked: Asked,
    model: String,
    name: Option<String>,
}

impl Exchange {
    /// Asks a question; what comes of it comes to [`LlmTask::proceed`].
    pub fn ask(&mut self, question: Question, llm: &mut Llm<'_>) -> Taken {
        llm.may_be_asked()?;
        let tokens = estimated_tokens(&question.messages);
        let settings = LlmLimits::current();
        self.asked = Asked::of(&question.messages, tokens, &settings);
        (self.model, self.name) = (llm.endpoint.model.clone(), llm.name.clone());
        llm.calls
            .send(question.to(llm.endpoint.clone(), &settings))
            .map(Progress::Waiting)
            .map_err(unavailable)
    }

    /// Records the calls that a request led to in `llm_calls`, and says what came of it.
    pub fn receive(
        &mut self,
        outcome: Result<ChatOutcome, LostCall>,
        job: &Job,
        purpose: &'static str,
    ) -> Result<Received, Progress> {
        let outcome = outcome
            .map(|outcome| outcome.with_estimates(self.asked.estimated_tokens))
            .unwrap_or_else(|reason| lost(reason, self.asked.estimated_tokens));
        self.record(&outcome, job, purpose)?;
        let failure = match outcome.result {
            Ok(answer) => return Ok(Received::Answer(answer)),
            Err(failure) => failure,
        };
        match failure.kind {
            ChatFailureKind::Unavailable => Err(Progress::Unavailable {
                retry_in: failure.retry_after_ms.map(Duration::from_millis),
                reason: failure.message,
                what: Missing::Llm,
            }),
            ChatFailureKind::Failed | ChatFailureKind::Refused => {
                Ok(Received::Failure(failure.message))
            }
            ChatFailureKind::BadAnswer => Ok(Received::BadAnswer(failure.message)),
        }
    }

    fn record(
        &mut self,
        outcome: &ChatOutcome,
        job: &Job,
        purpose: &'static str,
    ) -> Result<(), Aborted> {
        let mut purpose = self.asked.purpose(purpose, &self.model, outcome);
        let endpoint = self.name.as_deref();
        let origin = Origin { user_id: &job.user_id, endpoint, job_id: Some(job.id) };
        let recorded = transaction(|spi| {
            if queue::lock(spi, job)? {
                llm_calls::record(spi, &origin, &purpose, &outcome.calls)?;
                return Ok(true);
            }
            Ok(false)
        });
        match recorded {
            Ok(true) => return Ok(()),
            Err(aborted) if !aborted.may_pass => return Err(aborted),
            // What it was about was erased meanwhile, or may be by who has the job locked: the cost is
            // recorded, no text.
            Ok(false) | Err(_) => purpose.bodies = None,
        }
        let calls: Vec<CallRecord> =
            outcome.calls.iter().map(|call| CallRecord { error: None, ..call.clone() }).collect();
        transaction(|spi| llm_calls::record(spi, &origin, &purpose, &calls))
    }
}
