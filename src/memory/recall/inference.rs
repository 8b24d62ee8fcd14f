//! What a recall asks the models. Without an answer it goes on with less, and its trace says why.

use crate::memory::recall::Trace;
use crate::memory::recall::request::Request;
use crate::models;
use crate::pg::prelude::*;
use crate::store::candidate_details::Detail;
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
            embeddings.extend(
                prepared
                    .embeddings
                    .into_iter()
                    .filter_map(|windows| windows.into_iter().next().map(Vector)),
            );
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
) -> PgResult<Option<Vec<f32>>> {
    let Some(model) = model else {
        trace.reranking = if request.rerank { "no rerank model" } else { "off" }.into();
        return Ok(None);
    };
    let longest = request.chosen.rerank_max_query_chars;
    if request.query.trim().is_empty() {
        trace.reranking = "skipped: no query text".into();
        return Ok(None);
    }
    if longest > 0 && request.query.chars().count() > longest {
        trace.reranking = "skipped: query longer than rerank_max_query_chars".into();
        return Ok(None);
    }
    if details.is_empty() {
        trace.reranking = "skipped: no candidates".into();
        return Ok(None);
    }
    if let Some(outage) = trace.failures.iter().find(|failure| failure.is_outage) {
        trace.reranking = format!("failed: {}", outage.message);
        return Ok(None);
    }
    let documents = order.iter().map(|&place| details[place].text.clone()).collect();
    let budget = request.chosen.rerank_budget_ms;
    match models::current().rerank(model, &request.query, documents, budget) {
        Ok(Scores { logits, shortened }) => {
            trace.reranking = model.name.clone();
            trace.reranked = logits.iter().flatten().count();
            trace.shortened = shortened;
            let mut of_details = vec![f32::NAN; details.len()];
            for (&place, logit) in order.iter().zip(logits) {
                of_details[place] = logit.unwrap_or(f32::NAN);
            }
            Ok(Some(of_details))
        }
        Err(failure) => {
            trace.reranking = format!("failed: {}", failure.message);
            trace.failures.push(failure);
            Ok(None)
        }
    }
}
