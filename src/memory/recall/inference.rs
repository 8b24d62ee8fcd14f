//! What a recall asks the models. Without an answer it goes on with less, and its trace says why.

use crate::memory::recall::Trace;
use crate::memory::recall::request::Request;
use crate::models;
use crate::pg::prelude::*;
use crate::pg::roles;
use crate::store::search::candidate_details::{self, Detail};
use memory_agent_core::rank::rerank_passage::passage;
use memory_agent_model_server::protocol::{ModelRef, Purpose};
use std::collections::HashMap;
use std::fmt;

/// The outcome of a question to a model. Its text is what `memory_explain` shows.
#[derive(Debug, Default)]
pub enum Asked {
    /// No answer was wanted.
    #[default]
    Off,
    /// The caller gave what the model would have said.
    Given,
    /// There is no model of this kind.
    NoModel(&'static str),
    /// It was not asked, for a reason that is no failure.
    Skipped(String),
    /// It answered, by name.
    Answered(String),
    /// It did not answer, or another question before went unanswered.
    Failed(String),
}

impl Asked {
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => to.write_str("off"),
            Self::Given => to.write_str("given"),
            Self::NoModel(kind) => write!(to, "no {kind} model"),
            Self::Skipped(reason) => write!(to, "skipped: {reason}"),
            Self::Answered(model) => to.write_str(model),
            Self::Failed(message) => write!(to, "failed: {message}"),
        }
    }
}

/// The query's embeddings: the given one, or computed; empty when that fails.
pub fn query_embeddings(
    request: &Request,
    model: Option<&ModelRef>,
    trace: &mut Trace,
) -> Vec<Vector> {
    let Some(model) = model else {
        trace.embedding = Asked::NoModel("embedding");
        return Vec::new();
    };
    let mut embeddings: Vec<Vector> = request.query_embedding.iter().cloned().collect();
    let mut texts: Vec<String> = request.rewrites.clone();
    if embeddings.is_empty() {
        texts.insert(0, request.query.clone());
    }
    if texts.is_empty() {
        trace.embedding = Asked::Given;
        return embeddings;
    }
    match models::current().prepare(Some(model), Purpose::Query, texts, Vec::new()) {
        Ok(prepared) => {
            embeddings.extend(prepared.first_windows());
            trace.embedding = Asked::Answered(model.name.clone());
        }
        Err(failure) => {
            trace.embedding = Asked::Failed(failure.message.clone());
            trace.failures.push(failure);
        }
    }
    embeddings
}

/// Most characters of a question that is reranked: for long statements, cross-encoders order rows worse than the first
/// stage does (docs/ranking.md).
const LONGEST_RERANKED_QUERY: usize = 250;

/// Step 2: the logits of the rows that are read, and NaN of the others, or `None` with the reason in the trace: either
/// all of them are read, or none is. `order`: the places of the details, those first that are to be read first.
pub fn rerank(
    request: &Request,
    model: Option<&ModelRef>,
    details: &[Detail],
    order: &[usize],
    trace: &mut Trace,
) -> PgResult<Option<Vec<f32>>> {
    let Some(model) = model else {
        trace.reranking = if request.rerank { Asked::NoModel("rerank") } else { Asked::Off };
        return Ok(None);
    };
    let order = &order[..order.len().min(request.chosen.rerank_rows)];
    let skipped = if request.query.trim().is_empty() {
        Some(Asked::Skipped("no query text".to_owned()))
    } else if request.query.chars().count() > LONGEST_RERANKED_QUERY {
        Some(Asked::Skipped(format!("query longer than {LONGEST_RERANKED_QUERY} characters")))
    } else if details.is_empty() {
        Some(Asked::Skipped("no candidates".to_owned()))
    } else {
        let outage = trace.failures.iter().find(|failure| failure.is_outage);
        outage.map(|outage| Asked::Failed(outage.message.clone()))
    };
    if let Some(reason) = skipped {
        trace.reranking = reason;
        return Ok(None);
    }
    let read = passages(request, details, order)?;
    let (places, documents): (Vec<usize>, Vec<String>) = read.into_iter().unzip();
    match models::current().rerank(model, &request.query, documents, false) {
        Ok(Some(logits)) => {
            trace.reranking = Asked::Answered(model.name.clone());
            trace.reranked = logits.len();
            let mut of_details = vec![f32::NAN; details.len()];
            for (place, logit) in places.into_iter().zip(logits) {
                of_details[place] = logit;
            }
            Ok(Some(of_details))
        }
        // Under load that is how it should be: no message of each call.
        Ok(None) => {
            trace.reranking = Asked::Skipped("the reranker is busy".to_owned());
            Ok(None)
        }
        Err(failure) => {
            trace.reranking = Asked::Failed(failure.message.clone());
            trace.failures.push(failure);
            Ok(None)
        }
    }
}

/// What is read of these details, each with its place. One whose row has gone meanwhile is left out.
fn passages(
    request: &Request,
    details: &[Detail],
    places: &[usize],
) -> PgResult<Vec<(usize, String)>> {
    let ids: Vec<Uuid> = places.iter().map(|&place| details[place].id).collect();
    let users = request.scope.caller.visible();
    let texts: HashMap<Uuid, String> =
        roles::read_as_owner(|spi| candidate_details::beginnings(spi, &users, &ids))?
            .into_iter()
            .collect();
    let sought = request.sought();
    let of = |&place: &usize| {
        let detail = &details[place];
        let text = texts.get(&detail.id)?;
        Some((place, passage(detail.speaker.as_deref(), text, &sought)))
    };
    Ok(places.iter().filter_map(of).collect())
}
