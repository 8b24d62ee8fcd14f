//! Jobs of attached tables: embeddings of their rows, the intake of what a table holds, rows to look at
//! again, and rows that were refused.

use crate::pg::prelude::*;
use crate::pg::wake_at_commit;
use crate::store::attach::attachments::Source;
use crate::store::rows::entries::new_id;
use memory_agent_core::jobs::payloads::{Attach, Payload, Phase};
use std::collections::BTreeMap;

/// Whose memory rows are that say nothing about it. With `of_nobody` that is not known: the user is only
/// who is told.
pub struct Whose<'a> {
    pub user_id: &'a str,
    pub of_nobody: bool,
}

/// What an intake job is to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All rows, and then all entries.
    All,
    /// The entries: those of rows that are gone end.
    Entries,
}

/// Queues a job that brings the entries of a table in line with its rows. One that waits already is let
/// wait. Returns its id. `max_attempts`: the failures after which it is given up.
pub fn queue_intake(
    spi: &Spi,
    source_id: Uuid,
    user_id: &str,
    agent_id: &str,
    extent: Extent,
    max_attempts: i32,
) -> PgResult<Uuid> {
    let payload = Attach {
        attachment: Some(source_id.to_string()),
        phase: (extent == Extent::Entries).then_some(Phase::Gone),
        ..Attach::default()
    };
    let id = spi.one(
        "INSERT INTO memory_agent.jobs AS j (id, kind, user_id, agent_id, entry_id, payload, max_attempts) \
         VALUES ($1, 'attach', $2, $3, $4, $5, $6) \
         ON CONFLICT (kind, coalesce(user_id, ''), coalesce(agent_id, ''), coalesce(session_id, ''), \
                      coalesce(entry_id, '00000000-0000-0000-0000-000000000000')) \
            WHERE status = 'pending' AND leased_by IS NULL \
         DO UPDATE SET run_after = least(j.run_after, excluded.run_after), \
                       payload = CASE WHEN excluded.payload ? 'phase' THEN j.payload ELSE excluded.payload END \
         RETURNING j.id",
        &mut params![
            new_id(), user_id, agent_id, source_id, JsonbText(payload.text()), max_attempts,
        ],
    )?;
    wake_at_commit::job_queued();
    Ok(id)
}

/// About rows with these keys.
fn of_keys<'a>(source: &Source, keys: impl IntoIterator<Item = &'a JsonbText>) -> Attach {
    let keys = keys.into_iter().map(|key| key.0.clone()).collect();
    Attach { attachment: Some(source.id.to_string()), keys: Some(keys), ..Attach::default() }
}

/// The queue, for jobs about rows of one table.
pub struct RowJobs<'a> {
    pub spi: &'a Spi,
    pub source: &'a Source,
    /// Failures of a job after which it is given up.
    pub max_attempts: i32,
}

impl RowJobs<'_> {
    /// Queues the embedding of new entries: one job for each scope, beside the jobs that wait there. To
    /// touch a job that waits, as others do, would make all who write rows of one user wait for each other
    /// until they commit. The worker [folds](crate::store::queue::fold) such jobs together.
    pub fn embedding(&self, scopes: &BTreeMap<(String, Option<String>), Uuid>) -> PgResult<()> {
        self.spi.execute(
            "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, entry_id, max_attempts) \
             SELECT n.id, 'embed', n.user_id, $1, n.session_id, n.entry_id, $2 \
               FROM unnest($3::uuid[], $4::text[], $5::text[], $6::uuid[]) n(id, user_id, session_id, entry_id)",
            &mut params![
                &self.source.definition.agent_id, self.max_attempts,
                scopes.iter().map(|_| new_id()).collect::<Vec<_>>(),
                scopes.keys().map(|(user_id, _)| user_id.clone()).collect::<Vec<_>>(),
                scopes.keys().map(|(_, session)| session.clone()).collect::<Vec<_>>(),
                scopes.values().copied().collect::<Vec<_>>(),
            ],
        )?;
        wake_at_commit::job_queued();
        Ok(())
    }

    /// Queues the intake of a table that pg_restore fills, unless one waits. Its entries may be on their way
    /// in another of pg_restore's sessions, and the jobs of the dump too: the new job has a scope of its own.
    /// The worker waits until pg_restore is gone.
    pub fn restored(&self, whose: &Whose<'_>) -> PgResult<()> {
        let attachment = Some(self.source.id.to_string());
        let payload = Attach { attachment, of_nobody: whose.of_nobody, ..Attach::default() };
        let is_queued = self.spi.exists(
            "SELECT true FROM memory_agent.jobs j \
              WHERE j.kind = 'attach' AND j.status = 'pending' AND j.leased_by IS NULL AND j.payload = $1 LIMIT 1",
            &mut params![JsonbText(payload.text())],
        )?;
        if is_queued { Ok(()) } else { self.queue(whose.user_id, &payload) }
    }

    /// Queues a job that takes in the rows with these keys, once this transaction has committed. `is_new`:
    /// they were not there before.
    pub fn written(&self, whose: &Whose<'_>, is_new: bool, keys: &[JsonbText]) -> PgResult<()> {
        let of_nobody = whose.of_nobody;
        let payload = Attach { of_nobody, is_new, ..of_keys(self.source, keys) };
        if keys.is_empty() { Ok(()) } else { self.queue(whose.user_id, &payload) }
    }

    /// Queues a job that ends the entries with these keys, once this transaction has committed: those whose
    /// rows are gone by then.
    pub fn gone(&self, writer: &str, keys: &[JsonbText]) -> PgResult<()> {
        let payload = Attach { only_gone: true, ..of_keys(self.source, keys) };
        if keys.is_empty() { Ok(()) } else { self.queue(writer, &payload) }
    }

    /// Queues a job with a scope of its own.
    fn queue(&self, user_id: &str, payload: &Attach) -> PgResult<()> {
        let (agent_id, payload) = (&self.source.definition.agent_id, JsonbText(payload.text()));
        self.spi.execute(
            "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, entry_id, payload, max_attempts) \
             VALUES ($1, 'attach', $2, $3, $1, $4, $5)",
            &mut params![new_id(), user_id, agent_id, payload, self.max_attempts],
        )?;
        wake_at_commit::job_queued();
        Ok(())
    }

    /// Keeps rows that were refused as a dead job: it says why, and `memory_retry` reads them again.
    pub fn refused(&self, whose: &Whose<'_>, keys: &[&JsonbText], reason: &str) -> PgResult<()> {
        let of_keys = of_keys(self.source, keys.iter().copied());
        let payload = JsonbText(Attach { of_nobody: whose.of_nobody, ..of_keys }.text());
        let agent_id = &self.source.definition.agent_id;
        self.spi.run(
            "INSERT INTO memory_agent.jobs \
                (id, kind, user_id, agent_id, entry_id, payload, status, attempts, max_attempts, last_error, finished_at) \
             VALUES ($1, 'attach', $2, $3, $1, $4, 'dead', 1, 1, $5, now())",
            &mut params![new_id(), whose.user_id, agent_id, payload, reason],
        )
    }
}
