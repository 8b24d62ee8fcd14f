//! What a recall asks the models. Without an answer it goes on with less, and its trace says why.

use crate::memory::recall::Trace;
use crate::memory::recall::request::Request;
use crate::models;
use crate::pg::prelude::*;
use crate::store::candidate_details::Detail;
use crate::store::scope::Archives;
use memory_agent_model_server::protocol::{ModelRef, Purpose, Scores};

/// The query's embeddings: the given one, or computed; empty when that fails.
pub fn query_embeddings(
    request: &Request,
    model: Option<&ModelRef>,
    trace: &mut Trace,
) -> Vec<Vector> {
    let Some(model) = model else {
        trace.embedding = "no embedding model".into();
        return Vec::new();
    };
    let mut embeddings: Vec<Vector> = request.query_embedding.iter().cloned().collect();
    let mut texts: Vec<String> = request.rewrites.clone();
    if embeddings.is_empty() {
        texts.insert(0, request.query.clone());
    }
    if texts.is_empty() {
        trace.embedding = "given".into();
        return embeddings;
    }
    match models::current().prepare(Some(model), Purpose::Query, texts, Vec::new()) {
        Ok(prepared) => {
            embeddings.extend(prepared.first_windows());
            trace.embedding = model.name.clone();
        }
        Err(failure) => {
            trace.embedding = format!("failed: {}", failure.message);
            trace.failures.push(failure);
        }
    }
    embeddings
}

/// Step 2: the logits of the pool, as far as the budget goes and NaN beyond, or `None` with the reason in the
/// trace. `order`: the places of the details, those first that are to be read first.
pub fn rerank(
    request: &Request,
    model: Option<&ModelRef>,
    details: &[Detail],
    order: &[usize],
    trace: &mut Trace,
) -> Option<Vec<f32>> {
    let Some(model) = model else {
        trace.reranking = if request.rerank { "no rerank model" } else { "off" }.into();
        return None;
    };
    let longest = request.chosen.rerank_max_query_chars;
    let skipped = if request.query.trim().is_empty() {
        Some("skipped: no query text".to_owned())
    } else if longest > 0 && request.query.chars().count() > longest {
        Some("skipped: query longer than rerank_max_query_chars".to_owned())
    } else if details.is_empty() {
        Some("skipped: no candidates".to_owned())
    } else {
        let outage = trace.failures.iter().find(|failure| failure.is_outage);
        outage.map(|outage| format!("failed: {}", outage.message))
    };
    if let Some(reason) = skipped {
        trace.reranking = reason;
        return None;
    }
    let documents = order.iter().map(|&place| details[place].text.clone()).collect();
    let budget = request.chosen.rerank_budget_ms;
    // Whether an archived conversation has to do with the query is decided by its logit.
    let needs_first = request.scope.archives != Archives::Without;
    match models::current().rerank(model, &request.query, documents, budget, needs_first) {
        Ok(Scores { logits, shortened }) => {
            trace.reranking = model.name.clone();
            trace.reranked = logits.iter().flatten().count();
            trace.shortened = shortened;
            let mut of_details = vec![f32::NAN; details.len()];
            for (&place, logit) in order.iter().zip(logits) {
                of_details[place] = logit.unwrap_or(f32::NAN);
            }
            Some(of_details)
        }
        Err(failure) => {
            trace.reranking = format!("failed: {}", failure.message);
            trace.failures.push(failure);
            None
        }
    }
}
