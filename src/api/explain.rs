//! `memory_explain`: the same recall as `memory_recall`, told as one jsonb document: how long each
//! step took, how large the pools were, and for every candidate all parts of its score and the step
//! that dropped it. `memory_recall_times` tells the times alone, of a recall that was made by another call.

use crate::api::prelude::*;
use crate::api::recall::recalling;
use crate::memory::recall::request::Arguments;
use crate::memory::recall::stale;
use crate::memory::recall::{self, Recalled, last_times};
use crate::store::rows::scope::Layer;
use memory_agent_core::rank::pipeline::DroppedAt;
use serde_json::{Value, json};

recalling!(memory_explain(; agent_id;) -> PgResult<JsonbText>: explained);
recalling!(memory_explain_reading(rerank_rows;; agent_id) -> PgResult<JsonbText>: explained);

fn explained(arguments: Arguments, caller: Caller) -> PgResult<JsonbText> {
    let document = arguments.with_settings(caller, |request| {
        Ok(match recall::run(&request)? {
            Some(recalled) => document(&recalled),
            None => json!({"mode": "nothing wanted", "candidates": []}),
        })
    })?;
    Ok(JsonbText(document.to_string()))
}

#[pg_extern(sql = false)]
fn memory_recall_times(_limits: WithinLimits) -> PgResult<Rows<(f64, f64, f64, f64)>> {
    identity::require(Level::Reader)?;
    let times = last_times().map(|times| (times.embed, times.search, times.rerank, times.rank));
    Ok(Rows::new(times))
}

fn document(recalled: &Recalled) -> Value {
    let trace = &recalled.trace;
    json!({
        "mode": trace.search_mode,
        "embedding": trace.embedding.to_string(),
        "reranking": trace.reranking.to_string(),
        "ranking": trace.ranking,
        "recency_weight": trace.recency_weight,
        "milliseconds": {
            "embed": rounded(trace.times.embed),
            "search": rounded(trace.times.search),
            "rerank": rounded(trace.times.rerank),
            "rank": rounded(trace.times.rank),
        },
        "rows": {
            "scope": trace.documents,
            "dense": trace.dense_rows,
            "lexical": trace.lexical_matches,
            "pool": trace.pool,
            "reranked": trace.reranked,
            "returned": recalled.shown.len(),
        },
        "candidates": candidates(recalled),
    })
}

/// All candidates: the returned ones in their order, then the others by score, last those that did
/// not come into the pool.
fn candidates(recalled: &Recalled) -> Vec<Value> {
    let scored = &recalled.ranking.scored;
    let mut order: Vec<usize> =
        (0..scored.len()).filter(|position| !recalled.shown.contains(position)).collect();
    order.sort_by(|&a, &b| scored[b].score.total_cmp(&scored[a].score));
    recalled
        .shown
        .iter()
        .copied()
        .chain(order)
        .enumerate()
        .map(|(place, position)| {
            let row = &scored[position];
            let detail = &recalled.details[row.index];
            let member = &recalled.members[row.index];
            let mut told = json!({
                "id": detail.id.to_string(),
                "scope": member.layer.map(Layer::as_str),
                "rank": (place < recalled.shown.len()).then_some(place + 1),
                "kind": detail.kind,
                "role": detail.role,
                "similarity": member.arms.similarity,
                "lexical": member.arms.lexical,
                "fused": row.fused,
                "logit": row.logit,
                "relevance": row.relevance,
                "recency": row.recency,
                "age_days": detail.age_days,
                "marker_boost": row.marker_boost,
                "score": row.score,
                "token_count": detail.token_count,
                "unverified": detail.unverified,
                "features": recalled.features.as_ref().map(|all| &all[row.index]),
                "dropped": row.dropped.map(|step| step.as_str()),
            });
            // What it stands below, under the keys that metadata has.
            for (key, pairs) in
                [(stale::SUPERSEDED_BY, &recalled.replaced), (stale::DOUBTED_BY, &recalled.doubted)]
            {
                if let Some(by) = stale::of_row(detail.id, pairs) {
                    told[key] = json!(by.map(|by| by.to_string()));
                }
            }
            told
        })
        .chain(recalled.trace.left_out.iter().map(|row| {
            json!({
                "id": row.id.to_string(),
                "scope": row.layer.as_str(),
                "rank": null,
                "similarity": row.arms.similarity,
                "lexical": row.arms.lexical,
                "fused": row.fused,
                "dropped": DroppedAt::Pool.as_str(),
            })
        }))
        .collect()
}

fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1000.0).round() / 1000.0
}
