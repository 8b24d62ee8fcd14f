//! `memory_recall`: its arguments, and the rows of its answer.

use crate::api::prelude::*;
use crate::memory::recall::request::Arguments;
use crate::memory::recall::{RecallRow, rows, run};

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
) -> Rows<(
    Uuid,
    String,
    String,
    String,
    f32,
    f32,
    Option<f32>,
    Option<f32>,
    f32,
    Vec<String>,
    i32,
    Option<String>,
    Option<Uuid>,
    JsonbText,
    TimestampWithTimeZone,
)> {
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
