//! A turn of a conversation on its way into memory, and where it is then.

use crate::db::memory::{MemoryError, Param, column};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// A turn to be stored.
#[derive(Clone, Debug)]
pub struct Turn {
    pub user_id: String,
    pub session_id: String,
    pub role: &'static str,
    pub content: String,
    /// The key of the request it came with.
    pub key: Option<String>,
    pub metadata: Value,
    /// What was said before it, as the client sends that: memory sees what the client took back.
    pub history: Option<Value>,
    /// Earlier answers that this one takes the place of.
    pub replaces: Vec<Uuid>,
}

impl Turn {
    /// What stores it.
    pub fn statement(&self) -> (&'static str, [Param<'_>; 8]) {
        let sql = "SELECT id, is_new, replaced, answers \
                     FROM memory_ingest_once($1, $2, $3, request_key => $4, user_id => $5, metadata => $6, \
                                             history => $7, replaces => $8)";
        let params: [Param<'_>; 8] = [
            (&self.session_id, Type::TEXT),
            (&self.role, Type::TEXT),
            (&self.content, Type::TEXT),
            (&self.key, Type::TEXT),
            (&self.user_id, Type::TEXT),
            (&self.metadata, Type::JSONB),
            (&self.history, Type::JSONB),
            (&self.replaces, Type::UUID_ARRAY),
        ];
        (sql, params)
    }
}

/// Where a turn is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub id: Uuid,
    /// Whether it was not there before.
    pub is_new: bool,
    /// What it took the place of.
    pub replaced: Vec<Uuid>,
    /// The answers that it had before.
    pub answers: Vec<Uuid>,
}

impl Stored {
    /// Reads what [`Turn::statement`] returns.
    ///
    /// # Errors
    /// [`MemoryError::Unexpected`].
    pub fn read(rows: &[Row]) -> Result<Self, MemoryError> {
        let row = rows.first().ok_or(MemoryError::Unexpected)?;
        Ok(Self {
            id: column(row, 0)?,
            is_new: column(row, 1)?,
            replaced: column(row, 2)?,
            answers: column(row, 3)?,
        })
    }
}
