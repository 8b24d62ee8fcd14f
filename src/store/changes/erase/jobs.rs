//! The jobs that an erasure takes along: those about what is erased, and answers that others keep.

use super::Erasure;
use crate::pg::error::PgResult;
use crate::store::queue::jobs::JobKind;
use memory_agent_core::jobs::Subject;

/// A job that is still to work on the rows of all users: it keeps no texts, and others wait for it. Rows of
/// an attached table that were refused are those of one user.
const FOR_ALL: &str = "(t.status <> 'done' AND (t.kind IN ('reembed', 'reindex') OR t.kind = 'attach' AND NOT t.payload ? 'keys'))";

impl Erasure<'_> {
    /// Deletes the jobs of the user.
    pub(super) fn delete_all_jobs(&mut self) -> PgResult<()> {
        let jobs =
            format!("DELETE FROM memory_agent.jobs t WHERE t.user_id = $1 AND NOT {FOR_ALL}");
        self.run("jobs", &jobs, self.params())?;
        Ok(())
    }

    /// Deletes the jobs of a session, or of the memory of an agent that belongs to none. Turns that wait
    /// are found again by the next sweep.
    pub(super) fn delete_jobs(
        &mut self,
        agent_id: &str,
        session_id: Option<&str>,
        with_embedding: bool,
    ) -> PgResult<()> {
        let subjects: &[Subject] = match with_embedding {
            true => &[Subject::Conversation, Subject::Embeddings],
            false => &[Subject::Conversation],
        };
        let delete = "DELETE FROM memory_agent.jobs t WHERE t.id IN ( \
                SELECT t.id FROM memory_agent.jobs t \
                 WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id IS NOT DISTINCT FROM $3 \
                   AND t.kind = ANY ($4) \
                 ORDER BY t.id FOR UPDATE)";
        let params = self
            .params()
            .with(agent_id.to_owned())
            .with(session_id.map(str::to_owned))
            .with(JobKind::about(subjects));
        self.run("jobs", delete, params)?;
        Ok(())
    }

    /// Takes away what an LLM answered in other sessions of the user, where it may have been shown some of
    /// what is erased. Jobs that run there go if the user has facts at all; those that wait for another attempt, or have none left, lose the answers that they kept: they ask again.
    pub(super) fn delete_answers(&mut self) -> PgResult<()> {
        let running = "DELETE FROM memory_agent.jobs t WHERE t.id IN ( \
                SELECT t.id FROM memory_agent.jobs t \
                 WHERE t.user_id = $1 AND t.status = 'running' AND t.kind IN ('extract', 'reflect') \
                   AND EXISTS (SELECT FROM memory_agent.entries e WHERE e.user_id = $1 AND e.kind = 'fact') \
                 ORDER BY t.id FOR UPDATE)";
        self.run("jobs", running, self.params())?;
        let waiting = "UPDATE memory_agent.jobs j \
                SET payload = j.payload - '{answer,answers,facts}'::text[], last_error = NULL \
              WHERE j.id IN ( \
                SELECT t.id FROM memory_agent.jobs t \
                 WHERE t.user_id = $1 AND t.status IN ('pending', 'dead') \
                   AND t.payload ?| '{answer,answers,facts}'::text[] \
                 ORDER BY t.id FOR UPDATE)";
        self.run("jobs", waiting, self.params())?;
        Ok(())
    }
}
