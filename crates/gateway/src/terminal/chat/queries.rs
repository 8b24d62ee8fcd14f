//! What a conversation in the terminal asks of memory besides its chats, each in one statement.

use super::super::plain;
use super::Conversation;
use crate::db::memory::{End, MemoryError, Param, column};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Facts that are shown.
const FACTS: i32 = 20;
/// Candidates of which reasons are asked: more than a prompt has.
const CANDIDATES: i32 = 50;

/// A memory in a list.
pub struct Listed {
    pub id: Uuid,
    pub role: String,
    pub day: String,
    pub content: String,
    /// Of a recall.
    pub score: Option<f32>,
}

impl Conversation {
    async fn ask(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, String> {
        let rows = self.memory.ask(&self.user, sql, params, End::Commit).await;
        rows.map_err(|error| plain(&error))
    }

    /// The only row of an answer.
    async fn ask_one(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, String> {
        let row = self.ask(sql, params).await?.into_iter().next();
        row.ok_or_else(|| "memory says nothing".to_owned())
    }

    /// The role and the text of what the session's prompt has of the conversation.
    pub(super) async fn loaded(&self) -> Result<Vec<(String, String)>, String> {
        let sql = "SELECT l.role, l.content FROM memory_load($1, user_id => $2) l \
                    WHERE l.role IN ('user', 'assistant')";
        let params: [Param<'_>; 2] = [(&self.session, Type::TEXT), (&self.user, Type::TEXT)];
        let rows = self.ask(sql, &params).await?;
        rows.iter().map(|row| Ok((read(row, 0)?, read(row, 1)?))).collect()
    }

    /// Counts of all the user's memory, and of the session's.
    pub(super) async fn counts(&self) -> Result<(Value, Value), String> {
        let sql = "SELECT memory_stats(user_id => $1), memory_stats($2, user_id => $1)";
        let params: [Param<'_>; 2] = [(&self.user, Type::TEXT), (&self.session, Type::TEXT)];
        let row = self.ask_one(sql, &params).await?;
        Ok((read(&row, 0)?, read(&row, 1)?))
    }

    pub(super) async fn recalled(&self, query: &str) -> Result<Vec<Listed>, String> {
        let sql = "SELECT r.id, r.role, r.created_at::date::text, r.content, r.score \
                     FROM memory_recall($1, session_id => $2, user_id => $3) r";
        let params: [Param<'_>; 3] =
            [(&query, Type::TEXT), (&self.session, Type::TEXT), (&self.user, Type::TEXT)];
        listed(&self.ask(sql, &params).await?)
    }

    pub(super) async fn latest_facts(&self) -> Result<Vec<Listed>, String> {
        let sql = "SELECT e.id, e.role, e.created_at::date::text, e.content, NULL::float4 \
                     FROM memory_list(kind => 'fact', user_id => $1, \"limit\" => $2::int4) e \
                    ORDER BY e.created_at DESC, e.id DESC";
        let params: [Param<'_>; 2] = [(&self.user, Type::TEXT), (&FACTS, Type::INT4)];
        listed(&self.ask(sql, &params).await?)
    }

    /// Closes the running episode, if there is one.
    pub(super) async fn closed_episode(&self) -> Result<Option<Uuid>, String> {
        let sql = "SELECT memory_close_episode($1, user_id => $2)";
        let params: [Param<'_>; 2] = [(&self.session, Type::TEXT), (&self.user, Type::TEXT)];
        read(&self.ask_one(sql, &params).await?, 0)
    }

    pub(super) async fn context_for(&self, query: &str) -> Result<Value, String> {
        let sql = "SELECT memory_context($1, $2, user_id => $3)";
        let params: [Param<'_>; 3] =
            [(&self.session, Type::TEXT), (&query, Type::TEXT), (&self.user, Type::TEXT)];
        read(&self.ask_one(sql, &params).await?, 0)
    }

    /// Whether there was such a memory to forget.
    pub(super) async fn forgotten(&self, id: Uuid) -> Result<bool, String> {
        let sql = "SELECT memory_forget($1, 'in the terminal', user_id => $2)";
        let params: [Param<'_>; 2] = [(&id, Type::UUID), (&self.user, Type::TEXT)];
        read(&self.ask_one(sql, &params).await?, 0)
    }

    /// The candidates of a recall with the parts of their scores, and what its steps take.
    pub(super) async fn explained(
        &self,
        question: &str,
    ) -> Result<(Option<Value>, Option<Value>), String> {
        let sql = "WITH told AS MATERIALIZED ( \
                       SELECT memory_explain($1, session_id => $2, user_id => $3, top_k => $4::int4) AS told) \
                   SELECT (SELECT jsonb_agg(jsonb_build_object('content', e.content, 'parts', c)) \
                             FROM told, jsonb_array_elements(told.told -> 'candidates') c, \
                                  LATERAL memory_list(id => (c ->> 'id')::uuid, user_id => $3) e), \
                          told.told -> 'milliseconds' FROM told";
        let params: [Param<'_>; 4] = [
            (&question, Type::TEXT),
            (&self.session, Type::TEXT),
            (&self.user, Type::TEXT),
            (&CANDIDATES, Type::INT4),
        ];
        let row = self.ask_one(sql, &params).await?;
        Ok((read(&row, 0)?, read(&row, 1)?))
    }
}

fn listed(rows: &[Row]) -> Result<Vec<Listed>, String> {
    let listed = |row: &Row| {
        Ok(Listed {
            id: read(row, 0)?,
            role: read(row, 1)?,
            day: read(row, 2)?,
            content: read(row, 3)?,
            score: read(row, 4)?,
        })
    };
    rows.iter().map(listed).collect()
}

/// A column, for the person.
fn read<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, String> {
    column(row, at).map_err(|error: MemoryError| plain(&error))
}
