//! What a `reflect` job does where no reflection is wanted, for models that an episode as a whole is too
//! much for: the turns of the episodes that are due wait for an `extract` job, which asks what each of
//! them says.

use crate::jobs::exchange::{Progress, Taken};
use crate::jobs::prelude::*;
use crate::jobs::reflect::ReflectTask;
use crate::memory::texts::follow_ups;
use crate::settings::Effective;
use crate::store::rows::fact_scope::FactScope;
use crate::store::{facts::reflections, rows::sessions, schema};
use memory_agent_core::jobs::session_settings::ExtractionSettings;

impl ReflectTask {
    /// Hands the turns over to a job with the settings of an extraction, and finishes this one. Locks in the
    /// order of all writers of facts: session, job, episodes, turns.
    pub(super) fn hand_over(&self, extraction: &ExtractionSettings) -> Taken {
        let user = &self.key.user_id;
        let taken: Vec<Uuid> = self.episodes.iter().map(|episode| episode.id).collect();
        let progress = transaction(|spi| {
            if sessions::lock_existing(spi, &self.key)?.is_none() {
                return Ok(Progress::NoSession);
            }
            if queue::lock(spi, &self.job)? {
                let waiting = reflections::still_waiting(spi, user, &taken, true)?;
                let waiting: Vec<Uuid> = waiting.iter().map(|episode| episode.id).collect();
                let decisions = self.settings.assistant_decisions && schema::has_0_3();
                reflections::let_turns_wait(spi, user, &waiting, decisions)?;
                let scope = FactScope::of_session(&self.key);
                let payload = payloads::Extract::with(extraction);
                let server = Effective::current();
                follow_ups::enqueue(spi, JobKind::Extract, &scope, &payload, &server)?;
                queue::finish(spi, &self.job)?;
                self.queue_rest(spi)?;
            }
            Ok(Progress::Finished)
        })?;
        Ok(progress)
    }
}
