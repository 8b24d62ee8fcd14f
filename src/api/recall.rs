//! `memory_recall`: its arguments, and the rows of its answer.

use crate::api::prelude::*;
use crate::memory::recall::request::Arguments;
use crate::memory::recall::{RecallRow, answer};

/// Declares a function with the arguments of `memory_recall`, which gives them and the caller to another one: the
/// number of rows to read after the query, if there is one, and the agent at its place or at the end.
macro_rules! recalling {
    ($function:ident($($rows:ident)?; $($agent:ident)?; $($last:ident)?) -> $returned:ty: $answer:ident) => {
        #[pg_extern(sql = false)]
        fn $function(
            _limits: WithinLimits,
            query: Option<String>,
            $($rows: Option<Whole>,)?
            session_id: Option<String>,
            user_id: Option<String>,
            $($agent: Option<String>,)?
            top_k: Option<Whole>,
            token_budget: Option<Whole>,
            kinds: Option<Vec<Option<String>>>,
            filter: Option<JsonbText>,
            as_of: Option<TimestampWithTimeZone>,
            score_threshold: Option<Fraction>,
            recency_weight: Option<Fraction>,
            mmr_lambda: Option<Fraction>,
            rerank: Option<bool>,
            query_embedding: Option<Vector>,
            rewrites: Option<Vec<Option<String>>>,
            $($last: Option<String>,)?
        ) -> $returned {
            let arguments = Arguments {
                query,
                $($rows: $rows.map(|rows| rows.0),)?
                session_id,
                top_k: top_k.map(|rows| rows.0),
                token_budget: token_budget.map(|tokens| tokens.0),
                kinds,
                filter,
                as_of,
                score_threshold: score_threshold.map(|score| score.0),
                recency_weight: recency_weight.map(|weight| weight.0),
                mmr_lambda: mmr_lambda.map(|lambda| lambda.0),
                rerank,
                query_embedding,
                rewrites,
                ..Arguments::default()
            };
            let agent_id = $($agent)? $($last)?;
            let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
            $answer(arguments, caller)
        }
    };
}
pub(super) use recalling;

/// A [`RecallRow`] as pgrx returns it.
type Columns = (
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
);

recalling!(memory_recall(; agent_id;) -> PgResult<Rows<Columns>>: recalled);
// Functions of their own: with an argument more, `memory_recall` would be another function, on which views of
// 0.2.0 do not depend.
recalling!(memory_recall_reading(rerank_rows;; agent_id) -> PgResult<Rows<Columns>>: recalled);

fn recalled(arguments: Arguments, caller: Caller) -> PgResult<Rows<Columns>> {
    let rows = answer(arguments, caller)?;
    Ok(Rows::new(rows.into_iter().map(columns)))
}

fn columns(row: RecallRow) -> Columns {
    (
        row.id,
        row.kind,
        row.role,
        row.content,
        row.score,
        row.relevance,
        row.similarity,
        row.lexical,
        row.recency,
        row.markers,
        row.token_count,
        row.session_id,
        row.episode_id,
        row.metadata,
        row.created_at,
    )
}
