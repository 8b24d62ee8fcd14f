//! Changing the embedding model while memory is in use. The next model's vectors are collected beside
//! the rows, as windows of the entries from the first one on; then the next model becomes the active
//! one, and recall compares with those windows; then the vectors move into the rows, and what is left
//! of other models is deleted. Each step is found from the rows themselves, so that it can be
//! interrupted and begun again anywhere.
//!
//! Rows in every state have their turn: `as_of` compares with inactive ones too. Rows without any
//! vector are left to `embed` jobs.

use crate::identity::SHARED_USER;
use crate::pg::prelude::*;
use crate::store::queue::jobs::{self, JobKind};
use crate::store::rows::fact_scope::FactScope;
use crate::store::{rows::entry_windows, schema};
use memory_agent_core::jobs::payloads::Reembed;

/// The place of a row in the order in which a change goes through them.
pub type Place = (String, Uuid);

/// Before every row.
pub fn start() -> Place {
    (String::new(), Uuid::from_bytes([0; 16]))
}

/// The agent of the job: none, so that it is in no scope whose jobs are cancelled or erased.
const NO_AGENT: &str = "*";

/// Queues the change to a model and cancels every other one. Returns the job.
pub fn queue(spi: &Spi, model: &str, max_attempts: i32) -> PgResult<Uuid> {
    spi.execute(
        "UPDATE memory_agent.jobs j \
            SET status = 'done', finished_at = now(), leased_by = NULL, leased_until = NULL, \
                payload = '{}', last_error = 'cancelled: another embedding model was asked for' \
          WHERE j.kind = 'reembed' AND j.status IN ('pending', 'running', 'dead')",
        &mut params![],
    )?;
    let payload = Reembed { model: model.to_owned(), ..Reembed::default() };
    let scope = FactScope { user_id: SHARED_USER, agent_id: NO_AGENT, session_id: None };
    jobs::enqueue(spi, JobKind::Reembed, &scope, &payload, max_attempts)
}

/// The change that is not done.
pub struct Change {
    pub job: Uuid,
    pub model: Option<String>,
    /// `pending`, `running` or `dead`.
    pub status: String,
    pub done: i64,
    pub of: i64,
}

record!(Change: job model status done of);

/// The change that is not done, if any.
pub fn current(spi: &Spi) -> PgResult<Option<Change>> {
    spi.row(
        "SELECT j.id, j.payload->>'model', j.status, coalesce(j.progress, 0), \
                coalesce(j.progress_of, 0) \
           FROM memory_agent.jobs j \
          WHERE j.user_id = $1 AND j.session_id IS NULL AND j.kind = 'reembed' \
            AND j.status <> 'done' \
          ORDER BY j.id DESC LIMIT 1",
        &mut params![SHARED_USER],
    )
}

/// How often a row is still to be touched: once to embed it, once to move its vector into it.
pub fn count_steps(spi: &Spi, model: &str) -> PgResult<i64> {
    let count = spi.row::<i64>(
        "SELECT 2 * count(*) - (SELECT count(*) FROM memory_agent.entry_windows w \
                                 WHERE w.embedding_model = $1 AND w.ordinal = $2) \
           FROM memory_agent.entries e WHERE e.embedding_model <> $1",
        &mut params![model, entry_windows::FIRST],
    )?;
    Ok(count.unwrap_or(0).max(0))
}

/// The next rows with another model's vector, at most `most` of them, and whether this model's is
/// beside it already.
pub fn others(spi: &Spi, model: &str, after: &Place, most: i64) -> PgResult<Vec<(Place, bool)>> {
    spi.rows(
        "SELECT e.user_id, e.id, \
                EXISTS (SELECT FROM memory_agent.entry_windows w \
                         WHERE w.user_id = e.user_id AND w.entry_id = e.id \
                           AND w.embedding_model = $1 AND w.ordinal = $2) \
           FROM memory_agent.entries e \
          WHERE (e.user_id, e.id) > ($3, $4) AND e.embedding_model <> $1 \
          ORDER BY e.user_id, e.id LIMIT $5",
        &mut params![model, entry_windows::FIRST, &after.0, after.1, most],
    )
}

/// What is to be embedded again.
pub struct Text {
    pub place: Place,
    pub content: String,
    pub content_hash: Option<Vec<u8>>,
    pub metadata: JsonbText,
}

record!(Text: place content content_hash metadata);

/// The texts of rows, in their order.
pub fn texts(spi: &Spi, places: &[Place]) -> PgResult<Vec<Text>> {
    let users: Vec<String> = places.iter().map(|(user_id, _)| user_id.clone()).collect();
    let ids: Vec<Uuid> = places.iter().map(|(_, id)| *id).collect();
    spi.rows(
        "SELECT e.user_id, e.id, e.content, e.content_hash, e.metadata \
           FROM unnest($1::text[], $2::uuid[]) place(user_id, id) \
           JOIN memory_agent.entries e ON e.user_id = place.user_id AND e.id = place.id \
          ORDER BY e.user_id, e.id",
        &mut params![users, ids],
    )
}

/// Puts a model's vectors beside a row, unless it was changed or deleted meanwhile; whether it was done.
pub fn put_beside(spi: &Spi, model: &str, text: &Text, vectors: &[Vec<f32>]) -> PgResult<bool> {
    let (user_id, id) = &text.place;
    // A transaction that deletes the row waits, and finds the windows then.
    let is_there = spi.exists(
        "SELECT true FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id = $2 AND e.content_hash IS NOT DISTINCT FROM $3 \
            AND e.embedding_model <> $4 FOR KEY SHARE SKIP LOCKED",
        &mut params![user_id, *id, text.content_hash.as_deref(), model],
    )?;
    if is_there {
        entry_windows::insert(spi, user_id, *id, model, entry_windows::FIRST, vectors)?;
    }
    Ok(is_there)
}

/// Moves a model's vectors into the next rows that have them beside, at most `most`, and deletes what
/// these have of other models. Rows that another transaction changes are left for later. Returns the places.
pub fn move_in(spi: &Spi, model: &str, after: &Place, most: i64) -> PgResult<Vec<Place>> {
    spi.rows(
        include_str!("../sql/move_vectors.sql"),
        &mut params![model, entry_windows::FIRST, &after.0, after.1, most],
    )
}

/// Deletes windows of other models, at most `most`, and returns how many.
pub fn delete_other_windows(spi: &Spi, model: &str, most: i64) -> PgResult<u64> {
    spi.execute(
        "DELETE FROM memory_agent.entry_windows w \
          WHERE w.ctid = ANY (ARRAY( \
                SELECT o.ctid FROM memory_agent.entry_windows o \
                 WHERE o.embedding_model <> $1 LIMIT $2 FOR UPDATE SKIP LOCKED))",
        &mut params![model, most],
    )
}

/// The embedders that are registered beside a model.
pub fn other_models(spi: &Spi, model: &str) -> PgResult<Vec<String>> {
    spi.rows(
        "SELECT m.name FROM memory_agent.models m WHERE m.kind = 'embedder' AND m.name <> $1 \
          ORDER BY m.name",
        &mut params![model],
    )
}

/// The active model, when there are rows with the vector of another model that was registered, and no
/// job about them: a transaction that began before the change committed after it. The names in the
/// rows are found by one look into the index each; 0.1.0 has neither index nor such changes.
pub fn left_behind(spi: &Spi) -> PgResult<Option<String>> {
    if !schema::has_0_2() {
        return Ok(None);
    }
    spi.row(
        "WITH RECURSIVE stored(model) AS ( \
            SELECT min(e.embedding_model) FROM memory_agent.entries e \
            UNION ALL \
            SELECT (SELECT min(e.embedding_model) FROM memory_agent.entries e \
                     WHERE e.embedding_model > stored.model) \
              FROM stored WHERE stored.model IS NOT NULL) \
         SELECT a.name FROM memory_agent.models a \
          WHERE a.kind = 'embedder' AND a.active \
            AND EXISTS (SELECT FROM stored JOIN memory_agent.models o ON o.name = stored.model \
                         WHERE o.kind = 'embedder' AND NOT o.active) \
            AND NOT EXISTS (SELECT FROM memory_agent.jobs j \
                             WHERE j.user_id = $1 AND j.session_id IS NULL AND j.kind = 'reembed' \
                               AND j.status IN ('pending', 'running', 'dead'))",
        &mut params![SHARED_USER],
    )
}
