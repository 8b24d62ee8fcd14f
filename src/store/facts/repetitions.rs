//! Turns that say a fact without being its source: an assistant's turn repeats it. That is kept as a row of kind
//! `fact` that never held and has no text of its own: `source_ids` are the turns, `replaced_by` is the fact. `stale`
//! reads it when that fact is out of date. Rows of 0.2.0 with the reason `superseded` name turns that say what the
//! fact took the place of: they are out of date since it holds.

use crate::pg::prelude::*;
use crate::store::rows::entries::new_id;

/// A fact that ended.
pub struct Ended {
    pub content: String,
    /// What holds in its place, if that is a fact.
    pub by: Option<String>,
    /// Where it was said: its session, and those of its sources.
    pub sessions: Vec<String>,
}

record!(Ended: content by sessions);

/// Reads a fact; `None` if it has not ended, or its text is gone.
pub fn ended(spi: &Spi, user_id: &str, fact: Uuid) -> PgResult<Option<Ended>> {
    spi.row(
        "SELECT f.content, by.content, \
                ARRAY(SELECT f.session_id WHERE f.session_id IS NOT NULL \
                      UNION SELECT s.session_id FROM memory_agent.entries s \
                             WHERE s.user_id = $1 AND s.id = ANY (f.source_ids) AND s.session_id IS NOT NULL) \
           FROM memory_agent.entries f \
           LEFT JOIN memory_agent.entries by \
             ON by.user_id = $1 AND by.id = f.replaced_by AND by.kind = 'fact' \
          WHERE f.user_id = $1 AND f.id = $2 AND f.state = 'inactive' AND f.content <> ''",
        &mut params![user_id, fact],
    )
}

/// Turns of assistants that are looked at, the newest first: a session may have any number.
const NEWEST: i32 = 1000;

/// A turn of an assistant.
pub struct Answer {
    pub id: Uuid,
    pub content: String,
    /// Cosine similarity to the fact; `None` when the two cannot be compared.
    pub similarity: Option<f64>,
}

record!(Answer: id content similarity);

/// What assistants said last in these sessions before a fact ended: the turns most similar to it, and the
/// newest of those that cannot be compared with it; of both at most `most`. Turns in every state are among
/// them, for `as_of` shows them all.
pub fn answers(
    spi: &Spi,
    user_id: &str,
    fact: Uuid,
    sessions: &[String],
    most: i32,
) -> PgResult<Vec<Answer>> {
    let distance = catalog::vector_type()?.cosine_distance();
    spi.rows(
        &format!(
            "SELECT said.id, t.content, said.similarity \
               FROM (SELECT a.id, a.similarity, \
                            row_number() OVER (PARTITION BY a.similarity IS NULL \
                                               ORDER BY a.similarity DESC, a.created_at DESC, a.id DESC) AS place \
                       FROM (SELECT t.id, t.created_at, \
                                    CASE WHEN t.embedding_model = f.embedding_model \
                                         THEN 1 - (t.embedding {distance} f.embedding) END AS similarity \
                               FROM memory_agent.entries f \
                               JOIN memory_agent.entries t ON t.user_id = $1 AND t.agent_id = f.agent_id \
                                    AND t.session_id = ANY ($3) AND t.created_at < f.valid_to \
                              WHERE f.user_id = $1 AND f.id = $2 AND t.kind = 'turn' \
                                AND t.role = 'assistant' AND t.content <> '' \
                                AND NOT coalesce(f.source_ids, '{{}}') @> ARRAY[t.id] \
                              ORDER BY t.created_at DESC, t.id DESC LIMIT {NEWEST}) a) said \
               JOIN memory_agent.entries t ON t.user_id = $1 AND t.id = said.id \
              WHERE said.place <= $4 ORDER BY said.place, said.id"
        ),
        &mut params![user_id, fact, sessions.to_vec(), most],
    )
}

/// Keeps that turns say the same as a fact that was not made from them: they are out of date as soon as it is.
pub fn keep(
    spi: &Spi,
    user_id: &str,
    fact: Uuid,
    turns: &[Uuid],
    job: Option<Uuid>,
) -> PgResult<()> {
    if turns.is_empty() {
        return Ok(());
    }
    spi.run(
        "INSERT INTO memory_agent.entries \
            (id, user_id, agent_id, session_id, kind, role, content, token_count, doc_len, lexemes, \
             lexeme_config, metadata, source_ids, created_at, valid_to, state, state_at, replaced_by) \
         SELECT $3, f.user_id, f.agent_id, f.session_id, 'fact', f.role, '', 0, 0, '', f.lexeme_config, \
                jsonb_strip_nulls(jsonb_build_object('job_id', $5::text)), $4, f.created_at, f.created_at, \
                'inactive', now(), f.id \
           FROM memory_agent.entries f WHERE f.user_id = $1 AND f.id = $2",
        &mut params![user_id, fact, new_id(), turns, job.map(|job| job.to_string())],
    )
}
