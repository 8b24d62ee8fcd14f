//! From a request to the sequences that have to be run, and from their rows back to the answer.
//! What a cache knows is not run again. Everything here is computation in the calling thread.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::cl100k;
use crate::engine::model::Model;
use crate::engine::tokenizer::TokenSequence;
use crate::error::{Failure, InferenceError};
use crate::protocol::{
    ChatRequest, Conversation, Endpoint, ErrorCode, ModelKind, ModelRef, Purpose, RemoteEmbedder,
    Response,
};
use crate::work::cache::{Caches, Generation, Key, key};
use crate::work::reranks::Place;

/// What has to be done for a request.
#[derive(Debug)]
pub enum Plan {
    /// Nothing: this is the answer.
    Answered(Response),
    /// Run `sequences`, then make the answer of the rows.
    Run {
        model: Arc<Model>,
        sequences: Vec<TokenSequence>,
        finish: Finish,
        /// Of a rerank.
        place: Option<Place>,
    },
    /// Have `texts` embedded elsewhere, tell `finish` how many windows each got, then make the
    /// answer of the rows.
    Embed { remote: Box<RemoteEmbedder>, purpose: Purpose, texts: Vec<String>, finish: Finish },
    /// Find out what a remote model is.
    DescribeRemote { name: String, remote: Box<RemoteEmbedder> },
    /// Ask an LLM.
    Chat(Box<ChatRequest>),
    /// Pass a conversation on.
    Converse(Box<Conversation>),
}

/// How the rows of a plan become the answer.
#[derive(Debug)]
pub enum Finish {
    Embeddings { texts: Vec<TextPlan>, generation: Generation, token_counts: Vec<u32> },
    Logits { pairs: Vec<PairPlan>, generation: Generation },
}

/// Where the embedding of one text comes from.
#[derive(Debug)]
pub enum TextPlan {
    Cached(Vec<f32>),
    /// From that many of the plan's sequences; a question's vector goes to the cache.
    Windows {
        count: usize,
        remember: Option<Key>,
    },
}

/// Where the score of one pair comes from.
#[derive(Debug)]
pub enum PairPlan {
    Cached(f32),
    Run { remember: Key },
}

/// Plans [`Request::Prepare`](crate::protocol::Request::Prepare).
pub fn prepare(
    engine: Result<Arc<Engine>, InferenceError>,
    caches: &Caches,
    model: Option<&ModelRef>,
    purpose: Purpose,
    texts: &[String],
    token_texts: &[String],
) -> Result<Plan, Failure> {
    // Counting needs no model, so it works without ONNX Runtime too.
    let token_counts = token_texts.iter().map(|text| cl100k::count(text)).collect();
    if texts.is_empty() {
        return Ok(Plan::Answered(Response::Prepared { embeddings: Vec::new(), token_counts }));
    }
    let reference = model.ok_or_else(|| {
        Failure::new(ErrorCode::InvalidRequest, "texts to embed were sent without a model")
    })?;
    if let Some(remote) = &reference.remote {
        let identity = remote_identity(remote);
        // Only the endpoint knows how long a window may be.
        let uncut = |text: &str| Ok(vec![text.to_owned()]);
        let (texts, finish) = look_up(caches, &identity, purpose, texts, token_counts, uncut)?;
        return Ok(Plan::Embed { remote: remote.clone(), purpose, texts, finish });
    }
    let model = engine?.model(reference)?;
    model.expect_kind(ModelKind::Embedder)?;
    let cut = |text: &str| model.windows(text, purpose);
    let (sequences, finish) = look_up(caches, model.identity(), purpose, texts, token_counts, cut)?;
    Ok(Plan::Run { model, sequences, finish, place: None })
}

/// Finds out which texts have to be embedded.
///
/// * `identity`: names the model in the cache.
/// * `cut`: the windows of a text, as the model takes them.
fn look_up<W>(
    caches: &Caches,
    identity: &str,
    purpose: Purpose,
    texts: &[String],
    token_counts: Vec<u32>,
    cut: impl Fn(&str) -> Result<Vec<W>, InferenceError>,
) -> Result<(Vec<W>, Finish), Failure> {
    // Documents are embedded once and stored; only questions come again.
    let keys: Vec<Key> = match purpose {
        Purpose::Query => texts.iter().map(|text| key(identity, &[text.as_str()])).collect(),
        Purpose::Document => Vec::new(),
    };
    let (cached, generation) = caches.queries.get_all(&keys);
    let mut cached = cached.into_iter();
    let mut keys = keys.into_iter();
    let mut inputs = Vec::new();
    let mut plans = Vec::with_capacity(texts.len());
    for text in texts {
        let remember = keys.next();
        plans.push(match cached.next().flatten() {
            Some(embedding) => TextPlan::Cached(embedding),
            None => {
                let windows = cut(text)?;
                let count = windows.len();
                inputs.extend(windows);
                TextPlan::Windows { count, remember }
            }
        });
    }
    Ok((inputs, Finish::Embeddings { texts: plans, generation, token_counts }))
}

/// What makes the embeddings of a remote model its own. The key does not, and must not be here.
fn remote_identity(remote: &RemoteEmbedder) -> String {
    let Endpoint { provider, base_url, model, api_version, .. } = &remote.endpoint;
    format!("{provider:?}\n{base_url}\n{model}\n{api_version}\n{:?}", remote.dimension)
}

/// Plans [`Request::Rerank`](crate::protocol::Request::Rerank).
pub fn rerank(
    engine: Result<Arc<Engine>, InferenceError>,
    caches: &Caches,
    reference: &ModelRef,
    query: &str,
    documents: &[String],
    place: Place,
) -> Result<Plan, Failure> {
    if documents.is_empty() {
        return Ok(Plan::Answered(Response::Logits(Some(Vec::new()))));
    }
    let model = engine?.model(reference)?;
    model.expect_kind(ModelKind::Reranker)?;
    let keys: Vec<Key> = documents
        .iter()
        .map(|document| key(model.identity(), &[query, document.as_str()]))
        .collect();
    let (cached, generation) = caches.pairs.get_all(&keys);
    let mut sequences = Vec::new();
    let mut pairs = Vec::with_capacity(documents.len());
    let known = cached.into_iter().zip(keys);
    for (sequence, (score, remember)) in
        model.pairs(query, documents.iter().map(String::as_str))?.zip(known)
    {
        let sequence = sequence?;
        pairs.push(match score {
            Some(score) => PairPlan::Cached(score),
            None => {
                sequences.push(sequence);
                PairPlan::Run { remember }
            }
        });
    }
    let finish = Finish::Logits { pairs, generation };
    Ok(Plan::Run { model, sequences, finish, place: Some(place) })
}

impl Finish {
    /// Corrects the number of windows of each text that had to be embedded, in their order.
    #[must_use]
    pub fn with_windows(mut self, counts: impl IntoIterator<Item = usize>) -> Self {
        if let Self::Embeddings { texts, .. } = &mut self {
            let planned = texts.iter_mut().filter_map(|text| match text {
                TextPlan::Windows { count, .. } => Some(count),
                TextPlan::Cached(_) => None,
            });
            for (count, actual) in planned.zip(counts) {
                *count = actual;
            }
        }
        self
    }

    /// Makes the answer of the rows of the plan's sequences, and fills the cache.
    pub fn answer(self, caches: &Caches, rows: Vec<Vec<f32>>) -> Response {
        let mut rows = rows.into_iter();
        match self {
            Self::Embeddings { texts, generation, token_counts } => {
                let mut fresh = Vec::new();
                let embeddings = texts
                    .into_iter()
                    .map(|text| match text {
                        TextPlan::Cached(embedding) => vec![embedding],
                        TextPlan::Windows { count, remember } => {
                            let windows: Vec<Vec<f32>> = rows.by_ref().take(count).collect();
                            if let (Some(key), Some(first)) = (remember, windows.first()) {
                                fresh.push((key, first.clone()));
                            }
                            windows
                        }
                    })
                    .collect();
                caches.queries.insert(generation, fresh);
                Response::Prepared { embeddings, token_counts }
            }
            Self::Logits { pairs, generation } => {
                let mut fresh = Vec::new();
                let mut scores = rows.flatten();
                let logits = pairs
                    .into_iter()
                    .filter_map(|pair| match pair {
                        PairPlan::Cached(score) => Some(score),
                        PairPlan::Run { remember } => {
                            let score = scores.next()?;
                            fresh.push((remember, score));
                            Some(score)
                        }
                    })
                    .collect();
                caches.pairs.insert(generation, fresh);
                Response::Logits(Some(logits))
            }
        }
    }
}
