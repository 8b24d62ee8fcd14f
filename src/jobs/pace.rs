//! How much is asked of the models in one step of a job: little enough that all other users wait for a
//! moment only. A request that takes too long is halved; only what cannot be halved any more counts against
//! its own job. The work of others is not put off, unless the models are out of reach.

use crate::models::counting::EMBEDDED_BYTES;
use crate::models::{self, Failure, client};
use crate::settings::{Inference, Models};
use memory_agent_model_server::protocol::{ModelRef, Purpose};

/// Entries in one step.
pub const ROWS: usize = 64;

/// The size of the next step.
pub struct Pace {
    bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes: EMBEDDED_BYTES }
    }
}

/// What follows from a failure of the models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be due to the size of the step, or to one of its texts: fewer are tried next.
    Halve,
    /// It is due to the one text.
    Own,
    /// The models are well and have much to do for others: this job is tried later.
    Busy,
    /// They answer no request now.
    Outage,
}

impl Pace {
    /// Bytes of texts in the next step.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A step succeeded.
    pub fn quicken(&mut self) {
        self.bytes = (self.bytes * 2).min(EMBEDDED_BYTES);
    }

    /// A step over texts of these lengths failed.
    pub fn judge(
        &mut self,
        failure: &Failure,
        model: Option<&ModelRef>,
        lengths: &[usize],
    ) -> Verdict {
        if failure.may_pass && !failure.may_be_own {
            return Verdict::Outage;
        }
        if lengths.len() > 1 {
            self.bytes = (lengths.iter().sum::<usize>() / 2).max(1);
            return Verdict::Halve;
        }
        if !failure.may_pass {
            return Verdict::Own;
        }
        // A word that no cache knows: documents are not cached.
        let word = || vec!["memory".to_owned()];
        let texts = if model.is_some() { word() } else { Vec::new() };
        if models::current().prepare(model, Purpose::Document, texts, word()).is_err() {
            return Verdict::Outage;
        }
        let is_busy = Models::current().inference == Inference::Server
            && client::status().is_ok_and(|status| status.queue_items > 0);
        if is_busy { Verdict::Busy } else { Verdict::Own }
    }
}
