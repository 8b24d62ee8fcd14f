//! Pauses of the LLMs that jobs ask. Each model at each endpoint has one of its own: a summary model
//! that is not to be had does not hold up the extraction of facts.

use crate::jobs::registry::asked_by;
use crate::jobs::run::pause::Pause;
use crate::store::jobs::JobKind;
use memory_agent_model_server::protocol::Endpoint;
use std::time::Duration;

/// What jobs of a kind may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Ask.
    Ask,
    /// Ask one at a time: a pause has just ended, and one job finds out whether it was long enough.
    Probe,
    /// Wait.
    Wait,
}

/// The pauses of one worker.
#[derive(Default)]
pub struct LlmPauses {
    /// By whom is asked.
    pauses: Vec<(Option<Endpoint>, Pause)>,
}

impl LlmPauses {
    /// Begins a pause of whom jobs of this kind ask.
    pub fn begin(&mut self, kind: JobKind, retry_in: Option<Duration>) -> Duration {
        self.forget_others();
        let asked = asked_by(kind);
        match self.pauses.iter_mut().find(|(known, _)| *known == asked) {
            Some((_, pause)) => pause.begin(retry_in),
            None => {
                let mut pause = Pause::default();
                let length = pause.begin(retry_in);
                self.pauses.push((asked, pause));
                length
            }
        }
    }

    /// Ends the pause of whom jobs of this kind ask: they answer.
    pub fn end(&mut self, kind: JobKind) {
        if !self.pauses.is_empty() {
            let asked = asked_by(kind);
            self.pauses.retain(|(known, _)| *known != asked);
        }
    }

    /// Whether jobs of this kind may ask now.
    pub fn permission(&mut self, kind: JobKind) -> Permission {
        self.forget_others();
        if self.pauses.is_empty() {
            return Permission::Ask;
        }
        let asked = asked_by(kind);
        match self.pauses.iter().find(|(known, _)| *known == asked) {
            None => Permission::Ask,
            Some((_, pause)) if pause.is_over() => Permission::Probe,
            Some(_) => Permission::Wait,
        }
    }

    /// Whether two kinds of jobs ask the same.
    pub fn is_shared(left: JobKind, right: JobKind) -> bool {
        left == right || asked_by(left) == asked_by(right)
    }

    /// Whether anybody is not asked now.
    pub fn is_any_waiting(&self) -> bool {
        self.pauses.iter().any(|(_, pause)| !pause.is_over())
    }

    /// What is left of each pause.
    pub fn left(&self) -> impl Iterator<Item = Duration> {
        self.pauses.iter().filter_map(|(_, pause)| pause.left())
    }

    /// Forgets whom the settings no longer name.
    fn forget_others(&mut self) {
        if !self.pauses.is_empty() {
            let named = [asked_by(JobKind::Extract), asked_by(JobKind::Summarize)];
            self.pauses.retain(|(known, _)| named.contains(known));
        }
    }
}
