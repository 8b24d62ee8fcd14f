//! What mem0's routes ask of memory: one statement each. The database makes the JSON that goes to the client.

use super::Call;
use super::asked::Scope;
use crate::memory::{MemoryError, Param, column};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// Longest wait of a client.
const PATIENCE: Duration = Duration::from_secs(30);
/// Memories that are forgotten in one transaction.
const BATCH: i64 = 500;
/// Why memories are forgotten, in their history.
const REASON: &str = "deleted by a client of mem0";

/// A page of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub number: i64,
    pub size: i64,
}

/// An entry `e` as mem0 shows a memory, and what is added to that. What has no agent of its own belongs to the
/// agent `default`.
fn memory(more: &str) -> String {
    format!(
        "jsonb_build_object('id', e.id, 'memory', e.content, 'user_id', e.user_id, \
                            'agent_id', nullif(e.agent_id, 'default'), 'run_id', e.session_id, \
                            'metadata', e.entry_metadata, 'categories', '[]'::jsonb, \
                            'created_at', e.created_at, 'updated_at', e.updated_at, \
                            'expiration_date', ((e.expires_at - interval '1 us') AT TIME ZONE 'UTC')::date{more})"
    )
}

/// The user's facts `e` of a scope; its parameters are $1 to $6.
const IN_SCOPE: &str = "FROM memory_entries e \
      WHERE e.user_id = $1 AND e.kind = 'fact' AND coalesce(e.expires_at > now(), true) \
        AND ($2::text IS NULL OR e.agent_id = $2) AND ($3::text IS NULL OR e.session_id = $3) \
        AND ($4::jsonb IS NULL OR e.entry_metadata @> $4) \
        AND ($5::text IS NULL OR e.created_at >= $5::timestamptz) \
        AND ($6::text IS NULL OR e.created_at < $6::timestamptz)";

/// The user's fact `e` with the id $2, or what has become of that.
const OF_ID: &str = "FROM memory_entries e \
      WHERE e.user_id = $1 AND e.kind = 'fact' AND coalesce(e.expires_at > now(), true) \
        AND e.id = coalesce((SELECT (h.entry ->> 'id')::uuid \
                               FROM memory_history($2, user_id => $1) WITH ORDINALITY \
                                    h(at, op, actor, reason, content, entry, job_id, seq, n) \
                              WHERE h.entry IS NOT NULL ORDER BY h.n DESC LIMIT 1), $2)";

impl Scope {
    fn params<'a>(&'a self, user_id: &'a String) -> [Param<'a>; 6] {
        [
            (user_id, Type::TEXT),
            (&self.agent_id, Type::TEXT),
            (&self.run_id, Type::TEXT),
            (&self.metadata, Type::JSONB),
            (&self.created_after, Type::TEXT),
            (&self.created_before, Type::TEXT),
        ]
    }
}

impl Call {
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, MemoryError> {
        self.gateway.memory.call(&self.person.user_id, PATIENCE, sql, params).await
    }

    /// The text in the first column of the only row.
    async fn text(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<String>, MemoryError> {
        self.rows(sql, params).await?.first().map(|row| column(row, 0)).transpose()
    }

    /// The same about the memory with this id.
    async fn about(
        &self,
        id: Uuid,
        sql: &str,
        more: &[Param<'_>],
    ) -> Result<Option<String>, MemoryError> {
        let mut params: Vec<Param<'_>> =
            vec![(&self.person.user_id, Type::TEXT), (&id, Type::UUID)];
        params.extend_from_slice(more);
        self.text(sql, &params).await
    }
}

pub async fn add(
    call: &Call,
    scope: &Scope,
    texts: &[String],
    infers: bool,
    at: Option<f64>,
    expires: Option<&str>,
) -> Result<String, MemoryError> {
    let shown = match infers {
        true => {
            "jsonb_build_object('message', 'Facts are inferred in the background', 'status', 'PENDING', \
                                'event_id', min(a.id::text), 'results', '[]'::jsonb)"
        }
        false => {
            "jsonb_build_object('results', jsonb_agg(jsonb_build_object( \
                 'id', a.id, 'memory', a.content, 'event', 'ADD') ORDER BY a.n))"
        }
    };
    // A day of expiry is the last one.
    let sql = format!(
        "SELECT {shown}::text FROM ( \
             SELECT t.n, t.content, memory_add( \
                        t.content, session_id => $3, user_id => $1, agent_id => $2, \
                        metadata => coalesce($4::jsonb, '{{}}'), created_at => to_timestamp($6), \
                        ttl => ($7::text::date + 1)::timestamp AT TIME ZONE 'UTC' - now(), \
                        infer => $8) AS id \
               FROM jsonb_array_elements_text($5) WITH ORDINALITY t(content, n) ORDER BY t.n) a"
    );
    let texts = json!(texts);
    let params: [Param<'_>; 8] = [
        (&call.person.user_id, Type::TEXT),
        (&scope.agent_id, Type::TEXT),
        (&scope.run_id, Type::TEXT),
        (&scope.metadata, Type::JSONB),
        (&texts, Type::JSONB),
        (&at, Type::FLOAT8),
        (&expires, Type::TEXT),
        (&infers, Type::BOOL),
    ];
    call.text(&sql, &params).await?.ok_or(MemoryError::Unexpected)
}

pub async fn list(call: &Call, scope: &Scope, page: Page) -> Result<String, MemoryError> {
    let sql = format!(
        "WITH found AS MATERIALIZED (SELECT e.id, e.created_at {IN_SCOPE}), \
              total AS (SELECT count(*) AS n FROM found), \
              page AS (SELECT f.id FROM found f ORDER BY f.created_at DESC, f.id DESC LIMIT $7 OFFSET $8) \
         SELECT jsonb_build_object( \
                    'count', t.n, \
                    'next', CASE WHEN t.n > $7 + $8 THEN \
                                format('/v3/memories/?page=%s&page_size=%s', $8 / $7 + 2, $7) END, \
                    'previous', CASE WHEN $8 > 0 THEN \
                                format('/v3/memories/?page=%s&page_size=%s', $8 / $7, $7) END, \
                    'results', coalesce((SELECT jsonb_agg({} ORDER BY e.created_at DESC, e.id DESC) \
                                           FROM page p JOIN memory_entries e \
                                             ON e.user_id = $1 AND e.id = p.id), '[]'))::text \
           FROM total t",
        memory("")
    );
    let offset = (page.number - 1).saturating_mul(page.size);
    let mut params = scope.params(&call.person.user_id).to_vec();
    params.extend([(&page.size as &(dyn ToSql + Sync), Type::INT8), (&offset, Type::INT8)]);
    call.text(&sql, &params).await?.ok_or(MemoryError::Unexpected)
}

pub async fn search(
    call: &Call,
    scope: &Scope,
    query: &str,
    top_k: i64,
    threshold: Option<f64>,
    rerank: Option<bool>,
) -> Result<String, MemoryError> {
    // Facts that all users share are found too.
    let sql = format!(
        "SELECT jsonb_build_object('results', coalesce(jsonb_agg({} ORDER BY r.n), '[]'))::text \
           FROM memory_recall($2, user_id => $1, top_k => $3, kinds => '{{fact}}', filter => $4, \
                              score_threshold => $5, rerank => $6) WITH ORDINALITY \
                r(id, kind, role, content, score, relevance, similarity, lexical, recency, markers, \
                  token_count, session_id, episode_id, metadata, created_at, n) \
           JOIN memory_entries e ON e.user_id IN ($1, '*') AND e.id = r.id",
        memory(", 'score', r.score")
    );
    let top_k = i32::try_from(top_k).unwrap_or(i32::MAX);
    let threshold = threshold.map(|threshold| threshold as f32);
    let filter = scope.to_filter();
    let params: [Param<'_>; 6] = [
        (&call.person.user_id, Type::TEXT),
        (&query, Type::TEXT),
        (&top_k, Type::INT4),
        (&filter, Type::JSONB),
        (&threshold, Type::FLOAT4),
        (&rerank, Type::BOOL),
    ];
    call.text(&sql, &params).await?.ok_or(MemoryError::Unexpected)
}

pub async fn one(call: &Call, id: Uuid) -> Result<Option<String>, MemoryError> {
    call.about(id, &format!("SELECT {}::text {OF_ID}", memory("")), &[]).await
}

pub async fn update(call: &Call, id: Uuid, text: &str) -> Result<Option<String>, MemoryError> {
    let sql = format!(
        "WITH e AS MATERIALIZED (SELECT e.id {OF_ID}) \
         SELECT jsonb_build_object('message', 'Memory updated successfully!', 'memory', $3::text, \
                                   'id', memory_update(e.id, $3, user_id => $1))::text FROM e"
    );
    call.about(id, &sql, &[(&text, Type::TEXT)]).await
}

/// Whether there was one.
pub async fn forget(call: &Call, id: Uuid) -> Result<bool, MemoryError> {
    let sql = format!(
        "WITH e AS MATERIALIZED (SELECT e.id {OF_ID}) \
         SELECT memory_forget(e.id, $3, user_id => $1)::text FROM e"
    );
    Ok(call.about(id, &sql, &[(&REASON, Type::TEXT)]).await?.as_deref() == Some("true"))
}

pub async fn forget_all(call: &Call, scope: &Scope) -> Result<(), MemoryError> {
    let sql = format!(
        "WITH e AS MATERIALIZED (SELECT e.id {IN_SCOPE} LIMIT $7) \
         SELECT count(*) FILTER (WHERE memory_forget(e.id, $8, user_id => $1)) FROM e"
    );
    let mut params = scope.params(&call.person.user_id).to_vec();
    params.extend([(&BATCH as &(dyn ToSql + Sync), Type::INT8), (&REASON, Type::TEXT)]);
    loop {
        let rows = call.rows(&sql, &params).await?;
        let forgotten: i64 = column(rows.first().ok_or(MemoryError::Unexpected)?, 0)?;
        if forgotten == 0 {
            return Ok(());
        }
    }
}

/// The events, oldest first: `op`, `at`, `content`.
pub async fn history(call: &Call, id: Uuid) -> Result<Vec<Value>, MemoryError> {
    let sql = "SELECT jsonb_build_object('op', h.op, 'at', h.at, 'content', h.content) \
                 FROM memory_history($2, user_id => $1) h";
    let params: [Param<'_>; 2] = [(&call.person.user_id, Type::TEXT), (&id, Type::UUID)];
    call.rows(sql, &params).await?.iter().map(|row| column(row, 0)).collect()
}
