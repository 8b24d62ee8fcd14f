//! What a chat asks of memory: what is remembered for its message, and turns on their way in and out.

use crate::chat::extras::Extras;
use crate::chat::turn::{Stored, Turn};
use crate::db::lending::Borrower;
use crate::db::memory::{End, LAST_MOMENT, Memory, MemoryError, Param, WHO, WHO_STORES, column};
use serde::Deserialize;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// What is remembered for a message.
#[derive(Clone, Debug)]
pub struct Recalled {
    /// What goes before the user's text; `None` when no memories are wanted.
    pub block: Option<String>,
    /// The memories, as JSON.
    pub hits: Value,
    /// The session whose summary is before it.
    pub summary_of: Option<String>,
    /// What [`Memory::state`] says as long as all that holds.
    pub state: String,
}

/// What `memory_augment_block` returns.
#[derive(Deserialize)]
struct Told {
    block: Option<String>,
    has_summary: bool,
    memory_hits: Value,
}

impl Memory {
    /// What is remembered for the last of these messages. `looking` is used when it is settled what the recall
    /// sees: what is stored from then on is not part of it.
    ///
    /// # Errors
    /// [`MemoryError`]; [`MemoryError::Late`] when patience ends.
    pub async fn augment(
        &self,
        user_id: &str,
        messages: &Value,
        extras: &Extras,
        looking: oneshot::Sender<()>,
    ) -> Result<Recalled, MemoryError> {
        let started = Instant::now();
        let augment = "SELECT t.told, memory_state(t.told -> 'memory_hits', \
                                      CASE WHEN (t.told -> 'has_summary')::boolean THEN $2 END, user_id => $3) \
                         FROM (SELECT memory_augment_block($1, $2, user_id => $3, top_k => $4::int4, \
                                                           recency_weight => $5::float4, \
                                                           score_threshold => $6::float4) OFFSET 0) AS t (told)";
        let params: [Param<'_>; 6] = [
            (messages, Type::JSONB),
            (&extras.session_id, Type::TEXT),
            (&user_id, Type::TEXT),
            (&extras.top_k, Type::INT4),
            (&extras.recency_weight, Type::FLOAT4),
            (&extras.score_threshold, Type::FLOAT4),
        ];
        let times = "SELECT embed, search, rerank, rank FROM memory_recall_times()";
        let statements: [(&str, &[Param<'_>]); 2] = [(augment, &params), (times, &[])];
        let looking = Some(looking);
        let who = (WHO, Borrower::of(user_id));
        let mut answers = self.run(who, self.patience, &statements, End::Commit, looking).await?;
        self.metrics.recalls.add(started.elapsed());
        let times = answers.pop().unwrap_or_default();
        if let Some(row) = times.first() {
            for (place, part) in self.metrics.recall_parts.iter().enumerate() {
                let milliseconds: f64 = column(row, place)?;
                part.add(Duration::from_secs_f64(milliseconds.max(0.0) / 1000.0));
            }
        }
        let rows = answers.pop().unwrap_or_default();
        let row = rows.first().ok_or(MemoryError::Unexpected)?;
        let told: Told =
            serde_json::from_value(column(row, 0)?).map_err(|_| MemoryError::Unexpected)?;
        let Told { block, has_summary, memory_hits: hits } = told;
        let summary_of = has_summary.then(|| extras.session_id.clone());
        Ok(Recalled { block, hits, summary_of, state: column(row, 1)? })
    }

    /// Whether what was remembered still holds: it does as long as this stays the same.
    ///
    /// # Errors
    /// [`MemoryError`]; [`MemoryError::Late`] when patience ends.
    pub async fn state(&self, user_id: &str, recalled: &Recalled) -> Result<String, MemoryError> {
        let sql = "SELECT memory_state($1, $2, user_id => $3)";
        let params: [Param<'_>; 3] = [
            (&recalled.hits, Type::JSONB),
            (&recalled.summary_of, Type::TEXT),
            (&user_id, Type::TEXT),
        ];
        let rows = self.call(user_id, self.patience, sql, &params).await?;
        column(rows.first().ok_or(MemoryError::Unexpected)?, 0)
    }

    /// Stores a turn unless it is stored. It goes on when the caller stops waiting, for a while.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn store(&self, turn: &Turn) -> Result<Stored, MemoryError> {
        let started = Instant::now();
        let (store, stored) = turn.statement();
        let (who, statements) = ((WHO_STORES, Borrower::of(&turn.user_id)), [(store, &stored[..])]);
        let mut answers = self.run(who, LAST_MOMENT, &statements, End::Commit, None).await?;
        self.metrics.stores.add(started.elapsed());
        let stored = Stored::read(&answers.pop().unwrap_or_default())?;
        if stored.is_new {
            self.metrics.stored.add(turn.role, 1);
        }
        Ok(stored)
    }

    /// Stores a turn in the place of another, which is forgotten; both or neither happens.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn replace(&self, old: Uuid, turn: &Turn) -> Result<Stored, MemoryError> {
        let forget = "SELECT memory_forget($1, 'the request was answered again', user_id => $2)";
        let forgotten: [Param<'_>; 2] = [(&old, Type::UUID), (&turn.user_id, Type::TEXT)];
        let (store, stored) = turn.statement();
        let who = (WHO_STORES, Borrower::of(&turn.user_id));
        let statements = [(forget, &forgotten[..]), (store, &stored[..])];
        let mut answers = self.run(who, LAST_MOMENT, &statements, End::Commit, None).await?;
        Stored::read(&answers.pop().unwrap_or_default())
    }

    /// Forgets a turn that was stored, and brings back what it took the place of.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn undo(&self, stored: &Stored, user_id: &str, why: &str) -> Result<(), MemoryError> {
        let forget = "SELECT memory_forget($1, $2, user_id => $3)";
        let forgotten: [Param<'_>; 3] =
            [(&stored.id, Type::UUID), (&why, Type::TEXT), (&user_id, Type::TEXT)];
        let restore = "SELECT memory_restore(r.id, user_id => $2) FROM unnest($1) r (id)";
        let restored: [Param<'_>; 2] =
            [(&stored.replaced, Type::UUID_ARRAY), (&user_id, Type::TEXT)];
        let statements = [(forget, &forgotten[..]), (restore, &restored[..])];
        let who = (WHO, Borrower::of(user_id));
        self.run(who, LAST_MOMENT, &statements, End::Commit, None).await.map(drop)
    }
}
