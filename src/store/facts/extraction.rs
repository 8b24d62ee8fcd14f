//! Turns on their way to becoming facts: which wait for extraction, and what is noted when they are
//! done. `entries.extracted_at` is NULL while a turn waits.

use crate::store::prelude::*;
use crate::store::rows::fact_scope::FactScope;
use memory_agent_core::facts::earlier::MAX_CHARS;

/// A turn that waits for extraction.
#[derive(Clone)]
pub struct WaitingTurn {
    pub id: Uuid,
    pub content: String,
    /// The speaker's name, if the turn has one.
    pub speaker: Option<String>,
    pub created_at: TimestampWithTimeZone,
    /// The day it was said, as ISO 8601 date in UTC.
    pub said_at: String,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub markers: Vec<String>,
    /// Whether the assistant said it.
    pub is_assistants: bool,
    /// Whether it is a row of an attached table.
    pub is_attached: bool,
    pub episode_id: Option<Uuid>,
}

record!(WaitingTurn:
    id content speaker created_at said_at expires_at markers is_assistants is_attached episode_id);

/// `e` is a turn of the user's that was not extracted from yet, or one in which the assistant decided
/// something. Each kind has its index.
const UNEXTRACTED: &str = "(e.kind = 'turn' AND e.role = 'user' AND e.extracted_at IS NULL \
    OR e.kind = 'turn' AND e.role = 'assistant' AND e.extracted_at = 'infinity')";

/// `e` is a turn that may be extracted from: also one that is in no window because memory_add stored
/// it only as a source, but none that was deleted or has expired.
const STILL_THERE: &str = "(e.state <> 'inactive' OR e.state_reason IS NULL) \
    AND (e.expires_at IS NULL OR e.expires_at > now())";

const COLUMNS: &str = "e.id, e.content, \
    CASE WHEN jsonb_typeof(e.metadata->'name') = 'string' THEN nullif(e.metadata->>'name', '') END, \
    e.created_at, to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), e.expires_at, e.markers, \
    e.role = 'assistant', e.source_relation IS NOT NULL, e.episode_id";

/// Bytes of a message of the user's before a turn that is read: what was typed may stand at the end of it.
const LONGEST_BEFORE: usize = 100_000;

/// `o` is an extract job of this scope: the columns of jobs_open_idx and jobs_dead_idx.
fn jobs_of(user: &str, agent: &str, session: &str) -> String {
    format!(
        "o.user_id = {user} AND coalesce(o.session_id, '') = coalesce({session}, '') \
         AND o.kind = 'extract' AND o.agent_id = {agent}"
    )
}

/// The oldest waiting turns of a scope, as many as fit into `turns` and `chars` (at least one). Turns
/// that another job has taken, also a dead one, belong to that job.
pub fn waiting(
    spi: &Spi,
    scope: &FactScope<'_>,
    job: Uuid,
    turns: usize,
    chars: usize,
) -> PgResult<Vec<WaitingTurn>> {
    let mut found: Vec<WaitingTurn> = Vec::new();
    let mut sum = 0;
    spi.scan(
        &format!(
            "SELECT {COLUMNS} FROM memory_agent.entries e \
              WHERE {} AND {UNEXTRACTED} AND {STILL_THERE} \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o WHERE {} AND o.id <> $4 \
                                   AND o.status IN ('pending', 'running') \
                                   AND o.payload->'entries' ? e.id::text) \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o WHERE {} AND o.id <> $4 \
                                   AND o.status = 'dead' AND o.payload->'entries' ? e.id::text) \
              ORDER BY e.created_at, e.id",
            scope.condition(),
            jobs_of("$1", "$2", "$3::text"),
            jobs_of("$1", "$2", "$3::text"),
        ),
        &mut scope.params().with(job),
        turns.max(1),
        |row| {
            let turn: WaitingTurn = row.record()?;
            let length = turn.content.chars().count();
            if !found.is_empty() && sum + length > chars {
                return Ok(ControlFlow::Break(()));
            }
            sum += length;
            found.push(turn);
            Ok(if found.len() < turns { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        },
    )?;
    Ok(found)
}

/// Those of the given turns that still wait, oldest first. With `lock`, they stay as they are until
/// the end of the transaction.
pub fn still_waiting(
    spi: &Spi,
    user_id: &str,
    ids: &[Uuid],
    lock: bool,
) -> PgResult<Vec<WaitingTurn>> {
    let lock = if lock { "FOR NO KEY UPDATE" } else { "" };
    spi.rows(
        &format!(
            "SELECT {COLUMNS} FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.id = ANY ($2) AND {UNEXTRACTED} AND {STILL_THERE} \
              ORDER BY e.created_at, e.id {lock}"
        ),
        &mut params![user_id, ids],
    )
}

/// A message of the user's or the assistant's before a turn.
pub struct MessageBefore {
    pub id: Uuid,
    pub role: String,
    /// The day it was said, as ISO 8601 date in UTC.
    pub said_at: String,
    /// Of the assistant's the end.
    pub content: String,
    /// Whether the LLM may read it, and for as long as the turn; not a very long one of the user's. Until 0.2.0 that was not noted of the assistant's.
    pub is_shown: bool,
}

record!(MessageBefore: id role said_at content is_shown);

/// What the user and the assistant said in the session before a turn, the newest first. Earlier versions of
/// messages are left out, and so is what is no part of the conversation.
pub fn said_before(
    spi: &Spi,
    user_id: &str,
    turn: Uuid,
    most: i64,
) -> PgResult<Vec<MessageBefore>> {
    let is_short = format!("(e.role = 'assistant' OR octet_length(e.content) <= {LONGEST_BEFORE})");
    spi.rows(
        &format!(
            "SELECT e.id, e.role, to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), \
                    CASE WHEN e.role = 'assistant' THEN right(e.content, {MAX_CHARS}) \
                         WHEN {is_short} THEN e.content ELSE '' END, \
                    {STILL_THERE} AND {is_short} AND e.extracted_at IS DISTINCT FROM '-infinity' \
                        AND (e.expires_at IS NULL OR coalesce(e.expires_at >= t.expires_at, false)) \
               FROM memory_agent.entries t JOIN memory_agent.entries e \
                 ON e.user_id = t.user_id AND e.agent_id = t.agent_id AND e.session_id = t.session_id \
                    AND (e.created_at, e.id) < (t.created_at, t.id) \
              WHERE t.user_id = $1 AND t.id = $2 AND e.kind = 'turn' AND e.role IN ('user', 'assistant') \
                AND e.episode_id IS NOT NULL AND e.source_relation IS NULL \
                AND e.state_reason IS DISTINCT FROM 'superseded' \
              ORDER BY e.created_at DESC, e.id DESC LIMIT $3"
        ),
        &mut params![user_id, turn, most],
    )
}

/// Whether turns of a scope wait that no unfinished job has taken.
pub fn any_waiting(spi: &Spi, scope: &FactScope<'_>, job: Uuid) -> PgResult<bool> {
    Ok(!waiting(spi, scope, job, 1, 0)?.is_empty())
}

/// Notes that facts were extracted from these turns. One that was forgotten meanwhile waits again when it
/// comes back.
pub fn mark_done(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<()> {
    spi.run(
        &format!(
            "UPDATE memory_agent.entries e SET extracted_at = now() \
              WHERE e.user_id = $1 AND e.id = ANY ($2) AND {UNEXTRACTED} \
                AND (e.state <> 'inactive' OR e.state_reason IS NULL)"
        ),
        &mut params![user_id, ids],
    )
}

/// Scopes with waiting turns that no unfinished or dead job knows of, for example after a data-only
/// restore without the jobs. While a dump is restored, a session without its row does not count yet; sessions of
/// attached tables have none. OFFSET 0: it is looked up by its key, not in a hash of all sessions.
pub fn forgotten(spi: &Spi, most: i64) -> PgResult<Vec<(String, String, Option<String>)>> {
    spi.rows(
        &format!(
            "SELECT DISTINCT e.user_id, e.agent_id, e.session_id FROM memory_agent.entries e \
              WHERE {UNEXTRACTED} AND {STILL_THERE} \
                AND (e.session_id IS NULL OR e.source_relation IS NOT NULL \
                     OR EXISTS (SELECT FROM memory_agent.sessions s \
                                 WHERE s.user_id = e.user_id AND s.agent_id = e.agent_id \
                                   AND s.session_id = e.session_id OFFSET 0)) \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o \
                                 WHERE {jobs} AND o.status IN ('pending', 'running')) \
                AND NOT EXISTS (SELECT FROM memory_agent.jobs o \
                                 WHERE {jobs} AND o.status = 'dead' AND o.payload->'entries' ? e.id::text) \
              LIMIT $1",
            jobs = jobs_of("e.user_id", "e.agent_id", "e.session_id")
        ),
        &mut params![most],
    )
}
