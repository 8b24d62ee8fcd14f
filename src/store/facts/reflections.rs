//! Episodes that are over and wait until facts are made of them: which ones, what was said in them,
//! which facts they may concern, and what is noted when it is done. Until then their user turns have
//! `extracted_at` 'infinity'.

use crate::store::facts::{self, NearFact};
use crate::store::prelude::*;
use crate::store::rows::fact_scope::{Among, FactScope};
use serde_json::{Value, json};

/// An episode that is over.
#[derive(Clone, Debug)]
pub struct WaitingEpisode {
    pub id: Uuid,
    pub turn_count: i32,
    /// When its newest turn was said or recorded, whichever is later.
    pub quiet_since: TimestampWithTimeZone,
}

record!(WaitingEpisode: id turn_count quiet_since);

/// `p` is an episode that is over and that facts are to be made of.
const WAITS: &str = "p.status = 'closed' AND p.wants_reflection";

/// When the newest turn of `p` was said or recorded. The time of the recording tells an import of old
/// turns that still goes on from a conversation that is over.
const QUIET_SINCE: &str = "greatest(p.ended_at, (SELECT max(e.recorded_at) FROM memory_agent.entries e \
    WHERE e.user_id = p.user_id AND e.episode_id = p.id))";

/// `p` belongs to a reflect job other than `job`, also a dead one: no other job takes it.
fn is_taken(job: &str) -> String {
    // One condition for each of the partial indexes jobs_open_idx and jobs_dead_idx.
    let by = |states: &str| {
        format!(
            "EXISTS (SELECT FROM memory_agent.jobs o \
                      WHERE o.user_id = p.user_id AND coalesce(o.session_id, '') = p.session_id \
                        AND o.kind = 'reflect' AND o.agent_id = p.agent_id AND o.id <> {job} \
                        AND o.status {states} AND o.payload->'episodes' ? p.id::text)"
        )
    };
    format!("({} OR {})", by("IN ('pending', 'running')"), by("= 'dead'"))
}

/// The oldest episodes of a session that wait and that no other job has taken, in order.
pub fn waiting(spi: &Spi, key: &SessionKey, job: Uuid, most: i64) -> PgResult<Vec<WaitingEpisode>> {
    spi.rows(
        &format!(
            "SELECT p.id, p.turn_count, {QUIET_SINCE} FROM memory_agent.episodes p \
              WHERE p.user_id = $1 AND p.agent_id = $2 AND p.session_id = $3 AND {WAITS} \
                AND NOT {} ORDER BY p.id LIMIT $5",
            is_taken("$4")
        ),
        &mut params![&key.user_id, &key.agent_id, &key.session_id, job, most],
    )
}

/// Those of the given episodes that still wait, in order. With `lock`, they stay as they are until
/// the end of the transaction.
pub fn still_waiting(
    spi: &Spi,
    user_id: &str,
    ids: &[Uuid],
    lock: bool,
) -> PgResult<Vec<WaitingEpisode>> {
    let lock = if lock { "FOR NO KEY UPDATE" } else { "" };
    spi.rows(
        &format!(
            "SELECT p.id, p.turn_count, {QUIET_SINCE} FROM memory_agent.episodes p \
              WHERE p.user_id = $1 AND p.id = ANY ($2) AND {WAITS} ORDER BY p.id {lock}"
        ),
        &mut params![user_id, ids],
    )
}

/// Sessions that a reflect job has something to do for and that have none: those whose waiting
/// episodes have `min_turns` together, and those without an open episode in which it has been quiet
/// for longer than `patience`.
pub fn due(spi: &Spi, min_turns: i32, patience: Duration, most: i64) -> PgResult<Vec<SessionKey>> {
    spi.rows(
        &format!(
            "SELECT p.user_id, p.agent_id, p.session_id FROM memory_agent.episodes p \
               JOIN memory_agent.sessions s \
                 ON s.user_id = p.user_id AND s.agent_id = p.agent_id AND s.session_id = p.session_id \
              WHERE {WAITS} AND NOT {taken} \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o \
                                 WHERE o.user_id = p.user_id \
                                   AND coalesce(o.session_id, '') = p.session_id \
                                   AND o.kind = 'reflect' AND o.agent_id = p.agent_id \
                                   AND o.status IN ('pending', 'running')) \
              GROUP BY 1, 2, 3, s.open_episode_id \
             HAVING sum(p.turn_count) >= $1 \
                 OR (s.open_episode_id IS NULL \
                     AND max({QUIET_SINCE}) < now() - make_interval(secs => $2)) \
              LIMIT $3",
            taken = is_taken("'00000000-0000-0000-0000-000000000000'")
        ),
        &mut params![min_turns, patience.as_secs_f64(), most],
    )
}

/// A turn of an episode.
#[derive(Clone)]
pub struct EpisodeTurn {
    pub id: Uuid,
    pub role: String,
    pub content: String,
    /// The speaker's name, if the turn has one.
    pub speaker: Option<String>,
    pub created_at: TimestampWithTimeZone,
    /// The day it was said, as ISO 8601 date in UTC.
    pub said_at: String,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub markers: Vec<String>,
}

record!(EpisodeTurn: id role content speaker created_at said_at expires_at markers);

/// What was said in episodes, oldest first: turns of every role, in the window or not, but none that
/// was deleted or has expired. `after` is the turn to go on behind.
pub fn turns(
    spi: &Spi,
    user_id: &str,
    episodes: &[Uuid],
    after: Option<Uuid>,
    most: i64,
) -> PgResult<Vec<EpisodeTurn>> {
    spi.rows(
        "SELECT e.id, e.role, e.content, \
                CASE WHEN jsonb_typeof(e.metadata->'name') = 'string' THEN nullif(e.metadata->>'name', '') END, \
                e.created_at, to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), e.expires_at, e.markers \
           FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.kind = 'turn' AND e.state <> 'inactive' \
            AND (e.expires_at IS NULL OR e.expires_at > now()) \
            AND coalesce((e.created_at, e.id) > (SELECT a.created_at, a.id FROM memory_agent.entries a \
                                                  WHERE a.user_id = $1 AND a.id = $3), true) \
          ORDER BY e.created_at, e.id LIMIT $4",
        &mut params![user_id, episodes, after, most],
    )
}

/// Which of the given turns still hold; they stay as they are until the end of the transaction.
pub fn lock_turns(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<Vec<Uuid>> {
    spi.rows(
        "SELECT e.id FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.state <> 'inactive' \
            AND (e.expires_at IS NULL OR e.expires_at > now()) \
          ORDER BY e.created_at, e.id FOR NO KEY UPDATE",
        &mut params![user_id, ids],
    )
}

/// What is asked of the facts of a scope.
pub struct Concerned<'a> {
    /// The model whose embeddings are compared.
    pub model: Option<&'a str>,
    pub turns: &'a [Uuid],
    /// Least cosine to a turn, or to the mean of all turns.
    pub similarity: f64,
    /// Facts that are asked for whatever their similarity.
    pub also: &'a [Uuid],
    pub most: i32,
}

/// The active facts among those of the scope or others that turns may concern, nearest first. A fact that cannot be compared, because it
/// or all turns lack an embedding of the model, may concern anything; it comes last.
pub fn concerned(
    spi: &Spi,
    scope: &FactScope<'_>,
    among: Among,
    asked: &Concerned<'_>,
) -> PgResult<Vec<NearFact>> {
    let vector = catalog::vector_type()?;
    spi.rows(
        &format!(
            "WITH turns AS MATERIALIZED ( \
                SELECT t.embedding FROM memory_agent.entries t \
                 WHERE t.user_id = $1 AND t.id = ANY ($5) AND t.embedding_model = $4), \
             said AS MATERIALIZED ( \
                SELECT t.embedding FROM turns t \
                UNION ALL SELECT {schema}.avg(t.embedding) FROM turns t HAVING count(*) > 1) \
             SELECT {columns}, coalesce(near.similarity, 0) \
               FROM memory_agent.entries e \
               LEFT JOIN LATERAL (SELECT max(1 - (e.embedding {distance} s.embedding)) AS similarity \
                                    FROM said s WHERE e.embedding_model = $4) near ON true \
              WHERE {holds} \
                AND (near.similarity IS NULL OR near.similarity >= $6 OR e.id = ANY ($7)) \
              ORDER BY e.id = ANY ($7) DESC, near.similarity DESC NULLS LAST, e.created_at DESC, e.id \
              LIMIT $8",
            schema = vector.schema,
            columns = facts::NEAR_COLUMNS,
            distance = vector.cosine_distance(),
            holds = scope.compared(among),
        ),
        &mut params![scope;
            asked.model, asked.turns.to_vec(), asked.similarity, asked.also.to_vec(), asked.most,
        ],
    )
}

/// The active facts of a scope for a trace: how many there are, and the newest as
/// `[{id, content}, ...]`, at most `most`.
pub fn known(spi: &Spi, scope: &FactScope<'_>, most: i32) -> PgResult<(i64, Value)> {
    let mut count = 0;
    let newest = spi.all(
        &format!(
            "SELECT e.id, e.content, count(*) OVER () FROM memory_agent.entries e \
              WHERE {} ORDER BY e.created_at DESC, e.id DESC LIMIT $4",
            scope.holds()
        ),
        &mut params![scope; most],
        |row| {
            count = row.required(3)?;
            Ok(json!({
                "id": row.required::<Uuid>(1)?.to_string(),
                "content": row.required::<String>(2)?,
            }))
        },
    )?;
    Ok((count, Value::from(newest)))
}

/// Notes that facts were made of these turns. One that was forgotten meanwhile waits again when it comes
/// back.
pub fn mark_turns(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e SET extracted_at = now() \
          WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.extracted_at = 'infinity' \
            AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// Notes that these episodes were reflected on together; all but the last were carried into it.
pub fn mark_reflected(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<()> {
    end_waiting(spi, user_id, ids)?;
    spi.run(
        "UPDATE memory_agent.entries e SET extracted_at = now() \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.extracted_at = 'infinity' \
            AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// Lets the turns of these episodes wait for extraction instead of a reflection: the user's, and with
/// `decisions` those in which an assistant decided something. One that was forgotten waits when it comes
/// back.
pub fn let_turns_wait(spi: &Spi, user_id: &str, ids: &[Uuid], decisions: bool) -> PgResult<()> {
    end_waiting(spi, user_id, ids)?;
    spi.execute(
        "UPDATE memory_agent.entries e SET extracted_at = NULL \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.kind = 'turn' AND e.role = 'user' \
            AND e.extracted_at = 'infinity' AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )?;
    if !decisions {
        return Ok(());
    }
    spi.run(
        "UPDATE memory_agent.entries e SET extracted_at = 'infinity' \
          WHERE e.user_id = $1 AND e.episode_id = ANY ($2) AND e.kind = 'turn' AND e.role = 'assistant' \
            AND e.extracted_at IS NULL AND 'decision' = ANY (e.markers) AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// Notes that nothing has to wait for these episodes any more, which go together.
fn end_waiting(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<()> {
    let Some(last) = ids.last() else { return Ok(()) };
    spi.run(
        "UPDATE memory_agent.episodes p \
            SET status = 'reflected', carried_into = CASE WHEN p.id <> $3 THEN $3 END \
          WHERE p.user_id = $1 AND p.id = ANY ($2) AND p.status = 'closed'",
        &mut params![user_id, ids, *last],
    )
}
