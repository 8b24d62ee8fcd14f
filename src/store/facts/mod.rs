//! Facts among `memory_agent.entries`: finding those that say the same or something near, and ending
//! the validity of one.

pub mod doubts;
pub mod embeddings;
pub mod extraction;
pub mod reflections;
pub mod repetitions;
pub mod shared_facts;
pub mod stale;

use crate::pg::locks::{Lock, keep_erasures_out};
use crate::store::prelude::*;
use crate::store::rows::fact_scope::{Among, FactScope};
use crate::store::rows::forms;

/// Where a fact is at home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    pub agent_id: String,
    /// `None` is the user's global memory.
    pub session_id: Option<String>,
}

record!(Home: agent_id session_id);

impl Home {
    /// Its session, if it is one.
    pub fn key(&self, user_id: &str) -> Option<SessionKey> {
        let session_id = schema::home_of(self.session_id.as_deref())?;
        Some(SessionKey::new(user_id, &self.agent_id, session_id))
    }
}

/// Where these facts are at home.
pub fn homes(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<Vec<Home>> {
    spi.rows(
        "SELECT DISTINCT e.agent_id, e.session_id FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id = ANY ($2)",
        &mut params![user_id, ids],
    )
}

/// The fact that holds a key.
pub struct KeyHolder {
    pub id: Uuid,
    pub content_hash: Option<Vec<u8>>,
    /// It still holds the key, but is not recalled any more.
    pub is_expired: bool,
}

record!(KeyHolder: id content_hash is_expired);

/// Serialises writers of one agent's global facts of a user until the end of the transaction. Facts
/// of a session are serialised by the lock on the session's row, which comes first.
pub fn lock_global(user_id: &str, agent_id: &str) {
    keep_erasures_out(user_id);
    Lock::global_facts(user_id, agent_id).hold();
}

/// Serialises who compares facts of a user across sessions and agents; between the locks of sessions and those of
/// global facts.
pub fn lock_comparison(user_id: &str) {
    keep_erasures_out(user_id);
    Lock::comparison(user_id).hold();
}

/// The active fact that holds a key in this scope. In global memory there may be a second one, of a session
/// called `global`.
pub fn holder_of_key(spi: &Spi, scope: &FactScope<'_>, key: &str) -> PgResult<Option<KeyHolder>> {
    spi.row(
        &format!(
            "SELECT e.id, e.content_hash, coalesce(e.expires_at <= now(), false) \
               FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND {} AND e.kind = 'fact' AND e.state <> 'inactive' \
                AND e.fact_key = $4 \
              ORDER BY e.session_id NULLS FIRST LIMIT 1",
            scope.contains()
        ),
        &mut params![scope; key],
    )
}

/// An active fact of the scope that says this.
pub fn that_says(spi: &Spi, scope: &FactScope<'_>, text: &str) -> PgResult<Option<Uuid>> {
    let holds = scope.holds();
    spi.row(
        &format!(
            "SELECT e.id FROM memory_agent.entries e WHERE {holds} AND e.content_hash = ANY ($4) LIMIT 1"
        ),
        &mut params![scope; forms::content_hashes(text)],
    )
}

/// Whether a fact that says this is kept in the scope as unverified.
pub fn is_unverified(spi: &Spi, scope: &FactScope<'_>, text: &str) -> PgResult<bool> {
    spi.exists(
        &format!(
            "SELECT true FROM memory_agent.entries e WHERE {} AND e.kind = 'fact' \
                AND e.state_reason = 'unverified' AND e.content_hash = ANY ($4) LIMIT 1",
            scope.condition()
        ),
        &mut params![scope; forms::content_hashes(text)],
    )
}

/// A fact near to another one.
#[derive(Clone)]
pub struct NearFact {
    pub id: Uuid,
    pub content: String,
    pub content_hash: Option<Vec<u8>>,
    /// When it was said last, in whichever session.
    pub said_last_at: TimestampWithTimeZone,
    /// The day it was said first, as ISO 8601 date in UTC.
    pub said_at: String,
    /// Cosine similarity; 0 without embeddings.
    pub similarity: f64,
    /// Whether it was added without being compared with the others.
    pub unreconciled: bool,
    pub fact_key: Option<String>,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub home: Home,
    /// Whether it is [`Among::Others`].
    pub is_others: bool,
}

impl NearFact {
    /// Whether it is the same fact, and was not said again since.
    pub fn is_as(&self, earlier: &Self) -> bool {
        self.id == earlier.id && self.said_last_at == earlier.said_last_at
    }

    /// The same, found among these.
    pub fn found(self, among: Among) -> Self {
        Self { is_others: among == Among::Others, ..self }
    }
}

/// The columns of a [`NearFact`] but for the last one, the similarity.
pub const NEAR_COLUMNS: &str = "e.id, e.content, e.content_hash, \
    greatest(e.created_at, (SELECT max(s.created_at) FROM memory_agent.entries s \
                             WHERE s.user_id = e.user_id AND s.id = ANY (e.source_ids))), \
    to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), e.metadata ? 'unreconciled', e.fact_key, \
    e.expires_at, e.agent_id, e.session_id";
record!(NearFact:
    id content content_hash said_last_at said_at unreconciled fact_key expires_at home similarity; is_others);

/// The active facts among those of the scope or others that are nearest to an embedding, nearest first.
pub fn neighbors(
    spi: &Spi,
    scope: &FactScope<'_>,
    among: Among,
    model: &str,
    embedding: &Vector,
    most: i32,
) -> PgResult<Vec<NearFact>> {
    let vector = catalog::vector_type()?;
    let distance = format!("(e.embedding {} $5)", vector.cosine_distance());
    let holds = scope.compared(among);
    spi.rows(
        &format!(
            "SELECT {NEAR_COLUMNS}, 1 - {distance} FROM memory_agent.entries e \
              WHERE {holds} AND e.embedding_model = $4 ORDER BY {distance}, e.id LIMIT $6"
        ),
        &mut params![scope; model, embedding.clone(), most],
    )
}

/// The active facts, likewise, that cannot be compared by embedding and share the most words with a text, most
/// first.
pub fn neighbors_by_words(
    spi: &Spi,
    scope: &FactScope<'_>,
    among: Among,
    (configuration, text): (&str, &str),
    model: Option<&str>,
    most: i32,
) -> PgResult<Vec<NearFact>> {
    let holds = scope.compared(among);
    spi.rows(
        &format!(
            "SELECT {NEAR_COLUMNS}, 0::float8 \
               FROM memory_agent.entries e, \
                    LATERAL (SELECT count(*) AS words FROM unnest(e.lexemes) word \
                              WHERE word.lexeme = ANY (tsvector_to_array(to_tsvector($4::regconfig, $5)))) shared \
              WHERE {holds} AND e.embedding_model IS DISTINCT FROM $6 AND shared.words > 0 \
              ORDER BY shared.words DESC, e.created_at DESC, e.id LIMIT $7"
        ),
        &mut params![scope; configuration, forms::both(text).as_ref(), model, most],
    )
}

/// An active fact, likewise, that says this, as a neighbour.
pub fn same_text(
    spi: &Spi,
    scope: &FactScope<'_>,
    among: Among,
    text: &str,
) -> PgResult<Option<NearFact>> {
    let holds = scope.compared(among);
    spi.row(
        &format!(
            "SELECT {NEAR_COLUMNS}, 1::float8 FROM memory_agent.entries e \
              WHERE {holds} AND e.content_hash = ANY ($4) LIMIT 1"
        ),
        &mut params![scope; forms::content_hashes(text)],
    )
}

/// How many of these facts still hold.
pub fn count_holding(spi: &Spi, user_id: &str, ids: &[Uuid]) -> PgResult<u64> {
    spi.one(
        "SELECT count(*) FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.state <> 'inactive'",
        &mut params![user_id, ids],
    )
}

/// A fact that was added without being compared with the others.
pub struct Unreconciled {
    pub id: Uuid,
    pub content: String,
    pub created_at: TimestampWithTimeZone,
    pub said_at: String,
    pub source_ids: Vec<Uuid>,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub embedding: Option<Vector>,
}

record!(Unreconciled: id content created_at said_at source_ids expires_at embedding);

/// The oldest active facts of the scope that were added without being compared with the others.
pub fn unreconciled(
    spi: &Spi,
    scope: &FactScope<'_>,
    model: Option<&str>,
    most: i32,
) -> PgResult<Vec<Unreconciled>> {
    let holds = scope.holds();
    spi.rows(
        &format!(
            "SELECT e.id, e.content, e.created_at, to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), \
                    coalesce(e.source_ids, '{{}}'), e.expires_at, CASE WHEN e.embedding_model = $4 THEN e.embedding END \
               FROM memory_agent.entries e WHERE {holds} AND e.metadata ? 'unreconciled' \
              ORDER BY e.created_at, e.id LIMIT $5"
        ),
        &mut params![scope; model, most],
    )
}

/// Notes that a fact was compared with the others.
pub fn mark_reconciled(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e SET metadata = e.metadata - 'unreconciled', updated_at = now() \
          WHERE e.user_id = $1 AND e.id = $2 AND e.state <> 'inactive'",
        &mut params![user_id, id],
    )
}

/// Gives a fact the key of one that it replaced, unless it has one itself or another fact holds that.
pub fn inherit_key(spi: &Spi, user_id: &str, id: Uuid, key: &str) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.entries e SET fact_key = $3, updated_at = now() \
          WHERE e.user_id = $1 AND e.id = $2 AND e.state <> 'inactive' AND e.fact_key IS NULL \
            AND NOT EXISTS (SELECT FROM memory_agent.entries h \
                             WHERE h.user_id = $1 AND h.agent_id = e.agent_id \
                               AND coalesce(h.session_id, '') = coalesce(e.session_id, '') \
                               AND h.fact_key = $3 AND h.state <> 'inactive')",
        &mut params![user_id, id, key],
    )
}

/// Notes that a fact was said again: in these turns, and to be remembered until then (`None`: for
/// good). It is remembered as long as the longest of its sources asks for, and comes back into the
/// window if it had left it.
pub fn said_again(
    spi: &Spi,
    user_id: &str,
    id: Uuid,
    sources: &[Uuid],
    expires_at: Option<TimestampWithTimeZone>,
) -> PgResult<()> {
    spi.run(
        include_str!("../sql/say_fact_again.sql"),
        &mut params![user_id, id, sources, expires_at],
    )
}

/// Why a fact no longer holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A newer fact says it better or differently.
    Superseded,
    /// What was said later says the opposite.
    Contradicted,
}

/// Ends a fact's validity: it stays for audit and for questions about the past. `new` is what replaced
/// it, or the turn that says that it no longer holds, and `at` the event time of that. False when it had
/// ended before.
pub fn supersede(
    spi: &Spi,
    user_id: &str,
    old: Uuid,
    new: Uuid,
    at: TimestampWithTimeZone,
    ending: Ending,
) -> PgResult<bool> {
    let reason = match ending {
        Ending::Superseded => "superseded",
        Ending::Contradicted => "contradicted",
    };
    spi.changes(
        "WITH ended AS ( \
            UPDATE memory_agent.entries e \
               SET state = 'inactive', state_reason = $5, state_at = now(), valid_to = $4, \
                   replaced_by = $3, updated_at = now() \
              FROM (SELECT o.user_id, o.id, o.state = 'active' AS in_window FROM memory_agent.entries o \
                     WHERE o.user_id = $1 AND o.id = $2 AND o.state <> 'inactive' FOR UPDATE) old \
             WHERE e.user_id = old.user_id AND e.id = old.id \
            RETURNING e.agent_id, e.session_id, old.in_window), \
         shrunk AS ( \
            UPDATE memory_agent.sessions s SET active_entries = s.active_entries - 1 \
              FROM ended \
             WHERE s.user_id = $1 AND s.agent_id = ended.agent_id AND s.session_id = ended.session_id \
               AND ended.in_window) \
         SELECT FROM ended",
        &mut params![user_id, old, new, at, reason],
    )
}
