//! `memory_recall`: its arguments, and the rows of its answer.

use crate::api::arguments::WithinLimits;
use crate::identity::grants::Level;
use crate::identity::{self, Caller};
use crate::memory::recall::request::Arguments;
use crate::memory::recall::{RecallRow, rows, run};
use crate::pg::error::{ErrorReport, PgResult};
use crate::pg::sql_types::{JsonbText, Vector};
use pgrx::datum::Uuid;
use pgrx::prelude::*;

#[pg_extern(sql = false)]
fn memory_recall(
    _limits: WithinLimits,
    query: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    top_k: Option<i32>,
    token_budget: Option<i32>,
    kinds: Option<Vec<Option<String>>>,
    filter: Option<JsonbText>,
    as_of: Option<TimestampWithTimeZone>,
    score_threshold: Option<f32>,
    recency_weight: Option<f32>,
    mmr_lambda: Option<f32>,
    rerank: Option<bool>,
    query_embedding: Option<Vector>,
    rewrites: Option<Vec<Option<String>>>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(id, Uuid),
            name!(kind, String),
            name!(role, String),
            name!(content, String),
            name!(score, f32),
            name!(relevance, f32),
            name!(similarity, Option<f32>),
            name!(lexical, Option<f32>),
            name!(recency, f32),
            name!(markers, Vec<String>),
            name!(token_count, i32),
            name!(session_id, Option<String>),
            name!(episode_id, Option<Uuid>),
            name!(metadata, JsonbText),
            name!(created_at, TimestampWithTimeZone),
        ),
    >,
    ErrorReport,
> {
    let arguments = Arguments {
        query,
        session_id,
        top_k,
        token_budget,
        kinds,
        filter,
        as_of,
        score_threshold,
        recency_weight,
        mmr_lambda,
        rerank,
        query_embedding,
        rewrites,
        ..Arguments::default()
    };
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    Ok(TableIterator::new(answer(arguments, caller)?))
}

fn answer(arguments: Arguments, caller: Caller) -> PgResult<Vec<RecallRow>> {
    arguments.with_settings(caller, |request| match run(&request)? {
        Some(recalled) => rows(&request, recalled),
        None => Ok(Vec::new()),
    })
}
