//! Turns on their way to becoming facts: which wait for extraction, and what is noted when they are
//! done. `entries.extracted_at` is NULL while a turn waits.

use crate::store::facts::FactScope;
use crate::store::prelude::*;

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
}

record!(WaitingTurn: id content speaker created_at said_at expires_at markers is_assistants);

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
    e.role = 'assistant'";

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

/// What the user and the assistant said in the session just before each of the given turns: the turn's id, then id,
/// role and text of at most `most` messages, oldest first. A turn that was stored without extraction is left out, and
/// so is what the assistant answered to it: their text is not for the LLM.
pub fn said_before(
    spi: &Spi,
    user_id: &str,
    ids: &[Uuid],
    most: i64,
) -> PgResult<Vec<(Uuid, Uuid, String, String)>> {
    let is_shown = "extracted_at IS DISTINCT FROM '-infinity'";
    let of_session = |row: &str, next: &str| {
        format!(
            "{row}.user_id = {next}.user_id AND {row}.agent_id = {next}.agent_id \
             AND {row}.session_id = {next}.session_id AND {row}.kind = 'turn' \
             AND ({row}.created_at, {row}.id) < ({next}.created_at, {next}.id)"
        )
    };
    spi.rows(
        &format!(
            "SELECT t.id, b.id, b.role, b.content FROM memory_agent.entries t \
              CROSS JOIN LATERAL (\
                 SELECT e.id, e.role, e.content, e.created_at FROM memory_agent.entries e \
                  WHERE {} AND e.role IN ('user', 'assistant') AND {STILL_THERE} \
                    AND CASE e.role WHEN 'user' THEN e.{is_shown} ELSE \
                        (SELECT u.{is_shown} FROM memory_agent.entries u \
                          WHERE {} AND u.role = 'user' \
                          ORDER BY u.created_at DESC, u.id DESC LIMIT 1) IS NOT FALSE END \
                  ORDER BY e.created_at DESC, e.id DESC LIMIT $3) b \
              WHERE t.user_id = $1 AND t.id = ANY ($2) \
              ORDER BY t.created_at, t.id, b.created_at, b.id",
            of_session("e", "t"),
            of_session("u", "e"),
        ),
        &mut params![user_id, ids, most],
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
/// restore without the jobs. While a dump is restored, a session without its row does not count yet.
pub fn forgotten(spi: &Spi, most: i64) -> PgResult<Vec<(String, String, Option<String>)>> {
    spi.rows(
        &format!(
            "SELECT DISTINCT e.user_id, e.agent_id, e.session_id FROM memory_agent.entries e \
              WHERE {UNEXTRACTED} AND {STILL_THERE} \
                AND (e.session_id IS NULL \
                     OR EXISTS (SELECT FROM memory_agent.sessions s \
                                 WHERE s.user_id = e.user_id AND s.agent_id = e.agent_id \
                                   AND s.session_id = e.session_id)) \
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
