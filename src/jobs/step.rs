//! What kinds of jobs have in common that are done step by step, one step a turn of the loop, and ask no
//! LLM.

use crate::jobs::pace::Pace;
use crate::jobs::prelude::*;

/// When a job is tried again for which the models took too long while they were well.
pub const SLOW_DELAY: Duration = Duration::from_secs(10);

/// What became of one step.
pub enum Step {
    /// There may be more.
    Continue,
    /// It is done, or no longer wanted.
    Finished,
    /// The models are unavailable at present, for this reason.
    Outage(String),
    /// It is tried after so long, for this reason.
    Busy(Duration, String),
    /// A failure that counts.
    Failed(String),
}

/// A job that is done step by step.
pub trait StepTask {
    /// Whether its steps ask the models: while those are out of reach, none is begun, and a step that went
    /// well says that they are back.
    fn asks_models(&self) -> bool {
        true
    }

    /// Whether another user who waits has their turn after a step.
    fn makes_room(&self) -> bool {
        true
    }

    /// The job that is being done.
    fn job(&self) -> &Job;

    /// Does the next step.
    ///
    /// # Errors
    /// Why a transaction was aborted.
    fn step(&mut self, pace: &mut Pace) -> Result<Step, Aborted>;

    /// Keeps in the job how far it has come.
    fn note_place(&mut self) {}
}
