//! What the views read from memory: entries, what happened to them, and the statements for both. Each
//! row comes as one JSON document, with times in UTC. The views of the database show a superuser the rows
//! of all users, so every statement says whose rows it wants.

use super::request::{Asked, Trouble};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// A turn, a fact, or a chunk of a document.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entry {
    pub id: String,
    pub kind: String,
    pub role: String,
    pub content: String,
    pub created_at: String,
    pub session_id: Option<String>,
    #[serde(default)]
    pub agent_id: String,
    /// Whether it belongs to all users.
    #[serde(default)]
    pub is_shared: bool,
    #[serde(default)]
    pub is_active: bool,
    pub fact_key: Option<String>,
    pub confidence: Option<f64>,
    pub source_ids: Option<Vec<String>>,
    pub markers: Option<Vec<String>>,
    pub expires_at: Option<String>,
    pub metadata: Option<Value>,
}

/// What happened to a memory.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// The memory whose history was asked for: another version of it, perhaps.
    pub of: String,
    pub at: String,
    pub op: String,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub content: Option<String>,
    pub job_id: Option<String>,
    pub seq: Option<i64>,
    /// The version that this is about; `None` for a turn that came, and for what was erased.
    pub id: Option<String>,
    pub kind: Option<String>,
    pub role: Option<String>,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    pub created_at: Option<String>,
    pub state: Option<String>,
    pub valid_to: Option<String>,
    pub fact_key: Option<String>,
    pub confidence: Option<f64>,
    pub source_ids: Option<Vec<String>>,
    pub replaced_by: Option<String>,
}

/// The columns of an [`Entry`], of `memory_list(..) e` and of the view `memory_entries e`.
pub const COLUMNS: &str = "e.id, e.kind, e.role, e.content, e.created_at AT TIME ZONE 'UTC' AS created_at, \
     e.session_id, e.agent_id, e.user_id = '*' AS is_shared, e.is_active, e.fact_key, e.confidence, \
     e.source_ids, e.markers, e.expires_at AT TIME ZONE 'UTC' AS expires_at, e.entry_metadata AS metadata";

/// Reads the JSON document that each row is.
///
/// # Errors
/// That it is another one than this program knows.
pub fn read<T: DeserializeOwned>(rows: &[Row]) -> Result<Vec<T>, Trouble> {
    let unexpected = || {
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        Trouble::new(status, "The database answered something unexpected.")
    };
    rows.iter()
        .map(|row| {
            let document: Value = row.try_get(0).map_err(|_| unexpected())?;
            serde_json::from_value(document).map_err(|_| unexpected())
        })
        .collect()
}

impl Asked {
    /// Those of these entries that memory holds.
    ///
    /// # Errors
    /// What memory says.
    pub async fn entries(&self, ids: &[Uuid]) -> Result<Vec<Entry>, Trouble> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT to_jsonb(f) FROM (SELECT {COLUMNS} FROM unnest($2) i (id), \
                    LATERAL memory_list(id => i.id, user_id => $1) e) f"
        );
        let user = self.user_id();
        read(&self.rows(&sql, &[(&user, Type::TEXT), (&ids, Type::UUID_ARRAY)]).await?)
    }

    /// What happened to these memories, one after the other, oldest first.
    ///
    /// # Errors
    /// What memory says.
    pub async fn events(&self, ids: &[Uuid]) -> Result<Vec<Event>, Trouble> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT jsonb_build_object( \
                       'of', i.id, 'at', h.at AT TIME ZONE 'UTC', 'op', h.op, 'actor', h.actor, \
                       'reason', h.reason, 'content', h.content, 'job_id', h.job_id, 'seq', h.seq, \
                       'id', h.entry ->> 'id', 'kind', h.entry ->> 'kind', 'role', h.entry ->> 'role', \
                       'session_id', h.entry ->> 'session_id', 'agent_id', h.entry ->> 'agent_id', \
                       'created_at', (h.entry ->> 'created_at')::timestamptz AT TIME ZONE 'UTC', \
                       'valid_to', (h.entry ->> 'valid_to')::timestamptz AT TIME ZONE 'UTC', \
                       'state', h.entry ->> 'state', 'fact_key', h.entry ->> 'fact_key', \
                       'confidence', h.entry -> 'confidence', 'source_ids', h.entry -> 'source_ids', \
                       'replaced_by', h.entry ->> 'replaced_by') \
                     FROM unnest($1) WITH ORDINALITY i(id, place), \
                          LATERAL ROWS FROM (memory_history(i.id)) WITH ORDINALITY \
                          h(at, op, actor, reason, content, entry, job_id, seq, place) \
                    ORDER BY i.place, h.place";
        read(&self.rows(sql, &[(&ids, Type::UUID_ARRAY)]).await?)
    }
}

/// The ids among texts that should be some.
pub fn ids<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<Uuid> {
    texts.into_iter().filter_map(|text| Uuid::parse_str(text).ok()).collect()
}
