//! What becomes of one entry by hand: it is replaced, forgotten, or brought back. Callers hold the lock
//! of its session, or of the user's global facts, and keep the session's counters.

use crate::pg::spi::{Record, Row};
use crate::store::prelude::*;
use crate::store::rows::history;
use serde_json::Value;

/// Versions of one memory that are followed.
const MAX_VERSIONS: i32 = 10_000;

/// An entry as it is stored.
pub struct Stored {
    pub id: Uuid,
    pub agent_id: String,
    pub session_id: Option<String>,
    pub kind: String,
    pub role: String,
    pub content: String,
    pub token_count: i32,
    pub markers: Vec<String>,
    /// Without what the job noted that made a fact: no job makes a new version.
    pub metadata: JsonbText,
    pub state: String,
    pub state_reason: Option<String>,
    /// Its time is over, whether the sweep has been there or not.
    pub is_expired: bool,
    /// A text of memory_add that was never a memory of its own: facts are made of it.
    pub is_source: bool,
    pub created_at: TimestampWithTimeZone,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub episode_id: Option<Uuid>,
    pub source_ids: Vec<Uuid>,
    pub fact_key: Option<String>,
    pub replaced_by: Option<Uuid>,
    /// The table whose row it is.
    pub source_relation: Option<String>,
    pub extraction: Extraction,
    pub lacks_embedding: bool,
}

record!(Stored:
    id agent_id session_id kind role content token_count markers metadata state state_reason is_expired
    is_source created_at expires_at episode_id source_ids fact_key replaced_by source_relation extraction
    lacks_embedding);

/// How far a turn is on its way to becoming facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// It waits for an extract job.
    Waits,
    /// It waits for the reflection on its episode, which still goes on.
    InEpisode,
    /// Its episode is over, reflected on or not.
    AfterEpisode,
    /// No extraction was queued.
    Skipped,
    Done,
}

impl Record for Extraction {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        Ok(match String::read(row, column)?.as_str() {
            "waits" => Self::Waits,
            "skipped" => Self::Skipped,
            "done" => Self::Done,
            "in episode" => Self::InEpisode,
            _ => Self::AfterEpisode,
        })
    }
}

impl Stored {
    /// Whether recall may return it.
    pub fn holds(&self) -> bool {
        self.state != "inactive" && !self.is_expired
    }

    pub fn is_turn(&self) -> bool {
        self.kind == "turn"
    }

    pub fn is_fact(&self) -> bool {
        self.kind == "fact"
    }

    /// The document that it is a chunk of.
    pub fn document(&self) -> Option<Uuid> {
        let metadata: Value = serde_json::from_str(&self.metadata.0).ok()?;
        let id = metadata.get("parent_id").filter(|_| self.kind == "document")?;
        let id = uuid::Uuid::parse_str(id.as_str()?).ok()?;
        Some(Uuid::from_bytes(id.into_bytes()))
    }

    /// Whether it counts among the entries of its session's window.
    pub fn is_counted(&self) -> bool {
        self.state == "active" && self.can_be_counted()
    }

    /// Whether it would, if it were active.
    pub fn can_be_counted(&self) -> bool {
        self.session_id.is_some() && self.kind != "document" && self.source_relation.is_none()
    }

    /// The conversation that it belongs to; global memory belongs to none.
    pub fn session(&self, user_id: &str) -> Option<SessionKey> {
        self.session_id.as_ref().map(|session| SessionKey::new(user_id, &self.agent_id, session))
    }
}

/// An entry of a user in whatever state; `None` when there is none. With `lock`, it stays as it is until
/// the end of the transaction.
pub fn find(spi: &Spi, user_id: &str, id: Uuid, lock: bool) -> PgResult<Option<Stored>> {
    let lock = if lock { "FOR UPDATE" } else { "" };
    spi.row(
        &format!(
            "SELECT e.id, e.agent_id, e.session_id, e.kind, e.role, e.content, e.token_count, e.markers, \
                    CASE WHEN e.kind = 'fact' AND e.source_ids IS NOT NULL THEN e.metadata - 'job_id' \
                         ELSE e.metadata END, e.state, e.state_reason, coalesce(e.expires_at <= now(), false), \
                    e.kind = 'turn' AND e.state = 'inactive' AND e.episode_id IS NULL \
                        AND e.valid_to = e.created_at AND e.replaced_by IS NULL AND e.source_relation IS NULL, \
                    e.created_at, e.expires_at, e.episode_id, coalesce(e.source_ids, '{{}}'), e.fact_key, e.replaced_by, \
                    e.source_relation, \
                    CASE WHEN e.extracted_at IS NULL THEN 'waits' \
                         WHEN e.extracted_at = '-infinity' THEN 'skipped' \
                         WHEN e.extracted_at <> 'infinity' THEN 'done' \
                         WHEN EXISTS (SELECT FROM memory_agent.episodes p \
                                       WHERE p.user_id = $1 AND p.id = e.episode_id AND p.status = 'open') \
                         THEN 'in episode' ELSE 'after episode' END, \
                    e.embedding IS NULL \
               FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2 {lock}"
        ),
        &mut params![user_id, id],
    )
}

/// An id that sorts right behind another one and was never given to an entry of this user. Turns of one
/// moment are in the order of their ids: a new version of one takes its place. The step is random, as the last
/// bits of an id are: two users who imported the same entry get different ids for their new versions of it.
pub fn id_behind(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Uuid> {
    let mut number = u128::from_be_bytes(*id.as_bytes());
    loop {
        let [.., high, low] = uuid::Uuid::new_v4().into_bytes();
        number = number.wrapping_add(1 + u128::from(u16::from_be_bytes([high, low])));
        let next = Uuid::from_bytes(number.to_be_bytes());
        let is_taken: bool = spi.one(
            "SELECT EXISTS (SELECT FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2) \
                 OR EXISTS (SELECT FROM memory_agent.history h WHERE h.user_id = $1 AND h.entry_id = $2)",
            &mut params![user_id, next],
        )?;
        if !is_taken {
            return Ok(next);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Ends an entry that a new version takes the place of.
pub fn supersede(spi: &Spi, user_id: &str, old: Uuid, new: Uuid) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e \
            SET state = 'inactive', state_reason = 'superseded', state_at = now(), valid_to = now(), \
                replaced_by = $3, updated_at = now() \
          WHERE e.user_id = $1 AND e.id = $2",
        &mut params![user_id, old, new],
    )
}

/// Forgets an entry. What is only a source never held; it is not extracted from any more.
pub fn forget(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e \
            SET state = 'inactive', state_reason = 'deleted', updated_at = now(), \
                valid_to = CASE WHEN e.state = 'inactive' THEN e.valid_to ELSE now() END, \
                state_at = CASE WHEN e.state = 'inactive' THEN e.state_at ELSE now() END \
          WHERE e.user_id = $1 AND e.id = $2",
        &mut params![user_id, id],
    )
}

/// Lets a source that was forgotten wait for extraction again, unless facts were made of it before.
pub fn restore_source(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e \
            SET state_reason = NULL, updated_at = now(), \
                expires_at = CASE WHEN e.expires_at > now() THEN e.expires_at END \
          WHERE e.user_id = $1 AND e.id = $2",
        &mut params![user_id, id],
    )
}

/// Brings an entry back into the window: it holds as if nothing had happened, and for good if its time
/// was over. An embedding by another model than `model`, if there is one, is dropped. `may_wait` says
/// whether a turn whose episode is over may wait for an extraction of its own.
pub fn restore(
    spi: &Spi,
    user_id: &str,
    id: Uuid,
    model: Option<&str>,
    may_wait: bool,
) -> PgResult<()> {
    spi.run(include_str!("../sql/restore_entry.sql"), &mut params![user_id, id, model, may_wait])
}

/// What replaced `e` is a version of the same memory, not another one that says otherwise: turns are
/// replaced by versions only, facts also by what was learned later. That it came by an import changed nothing.
fn has_version() -> String {
    format!(
        "(e.kind = 'turn' \
          OR (SELECT {op} FROM memory_agent.history h \
               WHERE h.user_id = $1 AND h.entry_id = e.id AND {op} <> 'import' \
               ORDER BY {} DESC LIMIT 1) = 'update')",
        history::order("h"),
        op = history::op("h")
    )
}

/// The versions that took the place of an entry one after the other, each with whether it is still there.
pub fn later_versions(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Vec<(Uuid, bool)>> {
    let has_version = has_version();
    spi.rows(
        &format!(
            "WITH RECURSIVE chain AS ( \
                SELECT e.kind, e.replaced_by AS id, 1 AS step FROM memory_agent.entries e \
                 WHERE e.user_id = $1 AND e.id = $2 AND {has_version} \
                UNION ALL \
                SELECT e.kind, e.replaced_by, c.step + 1 FROM chain c \
                  JOIN memory_agent.entries e ON e.user_id = $1 AND e.id = c.id AND e.kind = c.kind \
                 WHERE e.state = 'inactive' AND {has_version} AND c.step < {MAX_VERSIONS}) \
             SELECT n.id, n.state <> 'inactive' FROM chain c \
               JOIN memory_agent.entries n ON n.user_id = $1 AND n.id = c.id AND n.kind = c.kind \
              ORDER BY c.step"
        ),
        &mut params![user_id, id],
    )
}

/// Undoes later versions of an entry that comes back: it held all the time, so they never did. It takes the
/// place of the last of them, and of all of them for what they had replaced.
pub fn undo(spi: &Spi, user_id: &str, later: &[Uuid], restored: Uuid) -> PgResult<()> {
    spi.execute(
        "UPDATE memory_agent.entries e \
            SET valid_to = e.created_at, updated_at = now(), \
                replaced_by = CASE WHEN e.id = $3 THEN $4 ELSE e.replaced_by END \
          WHERE e.user_id = $1 AND e.id = ANY ($2)",
        &mut params![user_id, later, later.last().copied(), restored],
    )?;
    spi.run(
        "UPDATE memory_agent.entries e SET replaced_by = $3, updated_at = now() \
          WHERE e.user_id = $1 AND e.replaced_by = ANY ($2) AND e.id <> ALL ($2) AND e.id <> $3",
        &mut params![user_id, later, restored],
    )
}

/// The entry that stands for the same row of an attached table.
pub fn holder_of_row(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<Uuid>> {
    spi.row(
        "SELECT o.id FROM memory_agent.entries e \
           JOIN memory_agent.entries o ON o.user_id = $1 AND o.source_relation = e.source_relation \
                AND o.source_key = e.source_key AND o.state <> 'inactive' AND o.id <> e.id \
          WHERE e.user_id = $1 AND e.id = $2",
        &mut params![user_id, id],
    )
}
