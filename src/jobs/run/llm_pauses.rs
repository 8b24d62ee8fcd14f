//! Until when LLMs are not asked that were unavailable. Each model at each endpoint has a pause of its own: a
//! summary model that is unavailable does not hold up the extraction of facts. The model server says how long
//! a pause is, and its circuit breaker finds out with one call whether that was long enough; nothing here tries.

use crate::jobs::prelude::*;
use crate::jobs::registry;
use crate::jobs::run::pause::Pause;
use crate::memory::scope::endpoints::Chosen;
use memory_agent_model_server::protocol::Endpoint;

/// The endpoint that a job asks; `None` where there is no endpoint to ask.
pub type Asked = Option<Endpoint>;

/// The endpoint that jobs of a kind ask by the settings.
pub fn of_settings(kind: JobKind) -> Asked {
    registry::asked(kind, &Chosen::of_settings()).ok()
}

/// The kinds of jobs that ask an LLM.
pub const KINDS: [JobKind; 3] = [JobKind::Extract, JobKind::Compress, JobKind::Summarize];

/// The endpoints that jobs of each kind ask by the settings.
pub type LlmsOfSettings = [Asked; 3];

pub fn all_of_settings() -> LlmsOfSettings {
    KINDS.map(of_settings)
}

/// The pauses of one worker.
#[derive(Default)]
pub struct LlmPauses {
    /// By endpoint.
    pauses: Vec<(Asked, Pause)>,
    /// Whether agents have endpoints of their own, beside that of the settings.
    pub has_rows: bool,
}

impl LlmPauses {
    /// Starts a pause of the endpoint that a job calls.
    ///
    /// * `retry_in`: as the model server says; `None` where it could not be asked, or the settings make no call
    ///   possible.
    pub fn begin(&mut self, asked: Asked, retry_in: Option<Duration>) -> Duration {
        self.forget_others();
        let known = self.pauses.iter().position(|(known, _)| *known == asked);
        let position = known.unwrap_or_else(|| {
            self.pauses.push((asked, Pause::default()));
            self.pauses.len() - 1
        });
        self.pauses[position].1.begin(retry_in)
    }

    /// Ends the pause of the endpoint that a job calls: it answers.
    pub fn end(&mut self, asked: &Asked) {
        self.pauses.retain(|(known, _)| known != asked);
    }

    /// Whether any pause is known, over or not.
    pub fn is_any_known(&self) -> bool {
        !self.pauses.is_empty()
    }

    /// Whether they may be asked now.
    pub fn may_ask(&mut self, asked: &Asked) -> bool {
        self.forget_others();
        self.pauses.iter().all(|(known, pause)| known != asked || pause.is_over())
    }

    /// Whether an endpoint is not asked now.
    pub fn is_any_waiting(&self) -> bool {
        self.pauses.iter().any(|(_, pause)| !pause.is_over())
    }

    /// What is left of each pause.
    pub fn left(&self) -> impl Iterator<Item = Duration> {
        self.pauses.iter().filter_map(|(_, pause)| pause.left())
    }

    /// Forgets endpoints that the settings no longer name, and rows when their pauses are over.
    fn forget_others(&mut self) {
        if !self.pauses.is_empty() {
            let named = [of_settings(JobKind::Extract), of_settings(JobKind::Summarize)];
            let has_rows = self.has_rows;
            self.pauses
                .retain(|(known, pause)| named.contains(known) || (has_rows && !pause.is_over()));
        }
    }
}
