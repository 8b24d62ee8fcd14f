//! What mem0's routes ask of memory: one statement each. The database makes the JSON that goes to the client.

use super::Call;
use super::page_ends;
use super::request::Scope;
use crate::db::memory::{MemoryError, Param, column};
use crate::db::place::{AT, Place};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Longest wait of a client.
const PATIENCE: Duration = Duration::from_secs(30);
/// Memories that are forgotten in one transaction.
const BATCH: i32 = 500;
/// Memories that one statement looks at.
const MOST_LISTED: i64 = 1_000;
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

/// The next facts `e` of the user, newest first, at most $7 of the agent $2 and the session $3 after the place
/// that $8 and $9 say; `fits` says whether they are of the whole scope, which is $1 to $6.
const NEXT: &str = "SELECT e.*, ($4::jsonb IS NULL OR e.entry_metadata @> $4) \
                           AND ($5::text IS NULL OR e.created_at >= $5::timestamptz) \
                           AND ($6::text IS NULL OR e.created_at < $6::timestamptz) AS fits \
                      FROM memory_list(kind => 'fact', user_id => $1, own_only => true, agent_id => $2, \
                                       session_id => $3, \"limit\" => $7::int4, \
                                       from_at => $8::timestamp AT TIME ZONE 'UTC', from_id => $9) e";

/// The user's fact `e` with the id $2, or what has become of that.
const OF_ID: &str = "FROM memory_list(user_id => $1, own_only => true, id => \
             coalesce((SELECT (h.entry ->> 'id')::uuid \
                         FROM memory_history($2, user_id => $1) WITH ORDINALITY \
                              h(at, op, actor, reason, content, entry, job_id, seq, n) \
                        WHERE h.entry IS NOT NULL ORDER BY h.n DESC LIMIT 1), $2)) e \
      WHERE e.kind = 'fact' AND coalesce(e.expires_at > now(), true)";

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

    /// What `sql` says of the next facts `e` of the scope, which is one row: whether there may be more, where
    /// they go on, and what it asks besides.
    async fn next(
        &self,
        call: &Call,
        (sql, more): (&str, &[Param<'_>]),
        most: i32,
        after: Option<&Place>,
    ) -> Result<(Row, Option<Place>), MemoryError> {
        let sql = format!(
            "WITH e AS MATERIALIZED ({NEXT}), \
                  last AS (SELECT {AT} AS at, e.id FROM e ORDER BY e.created_at, e.id LIMIT 1) \
             SELECT (SELECT count(*) FROM e) = $7, (SELECT l.at FROM last l), (SELECT l.id FROM last l), {sql}"
        );
        let (at, id) = (after.map(|place| &place.at), after.map(|place| place.id));
        let mut params = self.params(&call.person.user_id).to_vec();
        let from: [Param<'_>; 3] = [(&most, Type::INT4), (&at, Type::TEXT), (&id, Type::UUID)];
        params.extend(from);
        params.extend_from_slice(more);
        let row = call.rows(&sql, &params).await?.into_iter().next();
        let row = row.ok_or(MemoryError::Unexpected)?;
        let is_full: bool = column(&row, 0)?;
        let last = Place::of(&row, 1)?.filter(|_| is_full);
        Ok((row, last))
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

/// A page. It goes on where the one before it ended; where that is not known, it is found by going through all
/// before it. How many memories there are is known on the last one.
pub async fn list(call: &Call, scope: &Scope, page: Page) -> Result<String, MemoryError> {
    let shown = format!(
        "(SELECT count(*) FROM e WHERE e.fits), p.results, p.at, p.id \
           FROM (SELECT coalesce(array_agg({}::text ORDER BY e.created_at DESC, e.id DESC), '{{}}') AS results, \
                        (array_agg({AT} ORDER BY e.created_at, e.id))[1] AS at, \
                        (array_agg(e.id ORDER BY e.created_at, e.id))[1] AS id \
                   FROM (SELECT e.* FROM e WHERE e.fits ORDER BY e.created_at DESC, e.id DESC \
                          LIMIT $11 OFFSET $10) e) p",
        memory("")
    );
    let user_id = &call.person.user_id;
    let asked = json!([scope.to_filter(), page.size]).to_string();
    let (ends, now) = (&call.gateway.page_ends, Instant::now());
    let before = (page.number - 1).saturating_mul(page.size);
    let mut after = ends.before(user_id, page_ends::Page::of(&asked, page.number), now);
    let mut seen = if after.is_some() { before } else { 0 };
    let (mut results, mut last, mut is_first) = (Vec::<String>::new(), None, true);
    let has_more = loop {
        let wanted = page.size - results.len() as i64;
        let skipped = (before - seen).max(0);
        // One more shows whether there is another page. Where not all fit, many are looked at.
        let most = if is_first { skipped + wanted + 1 } else { MOST_LISTED };
        let most = most.min(MOST_LISTED) as i32;
        let more: [Param<'_>; 2] = [(&skipped, Type::INT8), (&wanted, Type::INT8)];
        let (row, next) = scope.next(call, (&shown, &more), most, after.as_ref()).await?;
        results.append(&mut column(&row, 4)?);
        last = Place::of(&row, 5)?.or(last);
        seen += column::<i64>(&row, 3)?;
        (after, is_first) = (next, false);
        if seen > before.saturating_add(page.size) || after.is_none() {
            break seen > before.saturating_add(page.size);
        }
    };
    if let Some(last) = last.filter(|_| has_more) {
        ends.remember(user_id, page_ends::Page::of(&asked, page.number + 1), last, now);
    }
    let link = |number: i64| format!("/v3/memories/?page={number}&page_size={}", page.size);
    let (count, next) = ((!has_more).then_some(seen), has_more.then(|| link(page.number + 1)));
    let previous = (page.number > 1).then(|| link(page.number - 1));
    // The memories as the database says them: it keeps numbers that are invalid here.
    Ok(format!(
        "{{\"count\":{},\"next\":{},\"previous\":{},\"results\":[{}]}}",
        json!(count),
        json!(next),
        json!(previous),
        results.join(",")
    ))
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
           FROM memory_recall($2, user_id => $1, top_k => $3::int4, kinds => '{{fact}}', filter => $4, \
                              score_threshold => $5::float4, rerank => $6) WITH ORDINALITY \
                r(id, kind, role, content, score, relevance, similarity, lexical, recency, markers, \
                  token_count, session_id, episode_id, metadata, created_at, n) \
          CROSS JOIN LATERAL memory_list(id => r.id, user_id => $1) e",
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
    let forgotten = "(SELECT count(*) FILTER (WHERE memory_forget(e.id, $10, user_id => $1)) FROM e WHERE e.fits)";
    let more: [Param<'_>; 1] = [(&REASON, Type::TEXT)];
    let mut after = None;
    loop {
        after = scope.next(call, (forgotten, &more), BATCH, after.as_ref()).await?.1;
        if after.is_none() {
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
