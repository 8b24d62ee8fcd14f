//! The five steps of a recall, in order: candidates, rerank, recency, MMR, token budget. SQL is in
//! `store::search`, arithmetic in `core::rank`; here they are put together. Nothing is written: it
//! works in a read-only transaction and on a standby.

pub mod echo;
mod inference;
mod learned_features;
mod pool;
pub mod request;
pub mod stale;
mod token_budget;

use crate::memory::prelude::*;
use crate::memory::recall::echo::Untold;
use crate::memory::recall::inference::Asked;
use crate::memory::recall::pool::{LeftOut, Member, Pool, fuse_pool};
use crate::memory::recall::request::{Arguments, Request};
use crate::memory::scope::active_model;
use crate::models::Failure;
use crate::settings::RankingForm;
use crate::store::facts::stale::Replaced;
use crate::store::models::Kind;
use crate::store::rows::entries;
use crate::store::search::candidate_details::{self, Detail};
use crate::store::search::{self, Found, Query};
use memory_agent_core::rank::blend::{Features, Weights};
use memory_agent_core::rank::budget::CURRENT_EPISODE_SHARE;
use memory_agent_core::rank::pipeline::{self, Candidate, Ranking};
use memory_agent_model_server::protocol::ModelRef;
use pgrx::datum::datetime_support::now;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// What happened, for `memory_explain`.
#[derive(Default)]
pub struct Trace {
    pub times: Times,
    pub embedding: Asked,
    pub reranking: Asked,
    /// Rows that were reranked.
    pub reranked: usize,
    pub search_mode: &'static str,
    pub ranking: &'static str,
    pub documents: u64,
    pub lexical_matches: usize,
    pub dense_rows: usize,
    pub pool: usize,
    pub recency_weight: f64,
    /// Candidates that did not come into the pool.
    pub left_out: Vec<LeftOut>,
    /// What the call went on without.
    failures: Vec<Failure>,
}

/// A ranked recall before its texts are read.
pub struct Recalled {
    pub details: Vec<Detail>,
    /// Per detail: what the search says of it.
    pub members: Vec<Member>,
    /// Per detail: what the learned ranking weighs, if it ranks.
    pub features: Option<Vec<Features>>,
    pub ranking: Ranking,
    /// Positions in `ranking.scored`, in the order shown.
    pub shown: Vec<usize>,
    /// Stale turns, each with what holds instead, if that is in the scope.
    pub replaced: Vec<Replaced>,
    /// What perhaps no longer holds, each with what was said later, likewise.
    pub doubted: Vec<Replaced>,
    /// What stands in the request, or is said by another row.
    pub untold: Vec<Untold>,
    pub trace: Trace,
}

/// One row of the answer, its columns in their order.
pub struct RecallRow {
    pub id: Uuid,
    pub kind: String,
    pub role: String,
    pub content: String,
    pub score: f32,
    pub relevance: f32,
    pub similarity: Option<f32>,
    pub lexical: Option<f32>,
    pub recency: f32,
    pub markers: Vec<String>,
    pub token_count: i32,
    pub session_id: Option<String>,
    pub episode_id: Option<Uuid>,
    pub metadata: JsonbText,
    pub created_at: TimestampWithTimeZone,
}

/// Steps 1 to 5. `None` when no rows are wanted.
pub fn run(request: &Request) -> PgResult<Option<Recalled>> {
    if request.wants_nothing {
        return Ok(None);
    }
    let mut trace = Trace::default();
    let (embedder, reranker) = roles::read_as_owner(|spi| {
        let embedder = active_model::active(spi, Kind::Embedder)?;
        if let (Some(model), Some(given)) = (&embedder, &request.query_embedding) {
            search::check_dimension(spi, &model.name, given.0.len())?;
        }
        let reranker =
            if request.rerank { active_model::active(spi, Kind::Reranker)? } else { None };
        Ok((embedder, reranker))
    })?;

    let started = Instant::now();
    let embeddings = inference::query_embeddings(request, embedder.as_ref(), &mut trace);
    trace.times.embed = milliseconds(started);

    let started = Instant::now();
    let query = Query {
        text: &request.query,
        rewrites: &request.rewrites,
        embeddings,
        embedding_model: embedder.as_ref().map(|model| model.name.as_str()),
        limit: request.candidates_per_arm,
        included: &[],
    };
    let mut settings = request.settings_of(false);
    let (pool, echoes, details, episode, lexical_bound) = roles::read_as_owner(|spi| {
        let episode = open_episode_turns(spi, request)?;
        let query = Query { included: &episode, ..query };
        let mut found = search::candidates(spi, &request.scope, &query)?;
        note_search(&mut trace, &found);
        let echoes = echo::leave_out(spi, request, &mut found, &settings)?;
        let mut pool = fuse_pool(&found, request.candidates_per_arm, &episode, &settings);
        stale::settle(spi, request, &mut pool, &echoes.hidden)?;
        let users = request.scope.caller.visible();
        let (ids, model) = (pool.ids(), query.embedding_model);
        let as_of = request.scope.as_of;
        let details = candidate_details::read(spi, &users, &ids, model, as_of)?;
        let details = in_order(details, &ids);
        Ok((pool, echoes, details, episode, found.lexical_bound))
    })?;
    let repeated = echoes.repeated(&pool.ids());
    let Pool { members, left_out, replaced, doubted, hidden } = pool;
    trace.pool = members.len();
    trace.left_out = left_out;
    trace.times.search = milliseconds(started);

    let started = Instant::now();
    let name = |model: &Option<ModelRef>| model.as_ref().map(|model| model.name.clone());
    // Without an embedder all rows are ranked by words, whose weights belong to no model.
    let weights = Weights::of(&name(&embedder).unwrap_or_default(), name(&reranker).as_deref());
    let learned = match (request.chosen.ranking, weights) {
        (RankingForm::Learned, Some(weights)) => {
            let features = learned_features::features(
                request,
                &details,
                &members,
                trace.documents,
                lexical_bound,
            );
            let log_odds = weights.log_odds(&features);
            Some((features, log_odds, weights))
        }
        _ => None,
    };
    if learned.is_some() {
        settings = request.settings_of(true);
    }
    // Of rows with one text, the best will be told; only the ranking knows which that is.
    settings.top_k = settings.top_k.map(|top_k| top_k + repeated);
    settings.threshold_keeps += repeated;
    trace.ranking = if learned.is_some() { "learned" } else { "weighted" };
    trace.recency_weight = settings.recency_weight;
    // The most promising rows are read first.
    let mut order: Vec<usize> = (0..details.len()).collect();
    if let Some((_, log_odds, _)) = &learned {
        order.sort_by(|&a, &b| log_odds[b].total_cmp(&log_odds[a]));
    }
    let logits = inference::rerank(request, reranker.as_ref(), &details, &order, &mut trace)?;
    trace.times.rerank = milliseconds(started);
    if let Some(first) = trace.failures.first() {
        let without = match (trace.embedding.has_failed(), logits.is_none() && request.rerank) {
            (true, true) => "recall goes on with words only, without reranking",
            (true, false) => "recall goes on with words only",
            (false, _) => "recall goes on without reranking",
        };
        first.warn(without);
    }

    let started = Instant::now();
    let of_details = details.iter().zip(&members);
    let mut candidates: Vec<Candidate> =
        of_details.map(|(detail, member)| candidate(detail, member, &hidden)).collect();
    if let Some((features, log_odds, weights)) = &learned {
        let probabilities = weights.probabilities(features, log_odds, logits.as_deref());
        for (candidate, probability) in candidates.iter_mut().zip(probabilities) {
            candidate.probability = Some(probability);
        }
    }
    for &(stale, replacement) in replaced.iter().chain(&doubted) {
        candidates[stale].demoted_below.extend(replacement);
    }
    let fused: Vec<(usize, f64)> = members.iter().map(|member| member.fused).enumerate().collect();
    let mut ranking = pipeline::finish(&candidates, &fused, logits.as_deref(), &settings);
    let shown = token_budget::within_budget(request, &details, &episode, &mut ranking);
    trace.times.rank = milliseconds(started);
    LAST.set(Some((now(), trace.times)));
    debug1!(
        "memory_agent: recall user={} rows={} pool={} embed={:.1}ms search={:.1}ms rerank={:.1}ms rank={:.1}ms",
        request.scope.caller.user_id,
        shown.len(),
        trace.pool,
        trace.times.embed,
        trace.times.search,
        trace.times.rerank,
        trace.times.rank
    );
    let of_ids = |pairs: Vec<(usize, Option<usize>)>| {
        let id = |at: usize| details[at].id;
        pairs.into_iter().map(|(stale, by)| (id(stale), by.map(id))).collect()
    };
    let (replaced, doubted) = (of_ids(replaced), of_ids(doubted));
    let features = learned.map(|(features, ..)| features);
    let untold = echoes.untold;
    Ok(Some(Recalled {
        details,
        members,
        features,
        ranking,
        shown,
        replaced,
        doubted,
        untold,
        trace,
    }))
}

thread_local! {
    /// When the transaction began that the last recall of this process was in, and what that took.
    static LAST: Cell<Option<(TimestampWithTimeZone, Times)>> = const { Cell::new(None) };
}

/// How long the parts of a recall took, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub embed: f64,
    pub search: f64,
    pub rerank: f64,
    pub rank: f64,
}

/// What the last recall of this transaction took, if there was one. What another user of the same session, from
/// a pool perhaps, did before stays private.
pub fn last_times() -> Option<Times> {
    LAST.get().filter(|(at, _)| *at == now()).map(|(_, times)| times)
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn note_search(trace: &mut Trace, found: &Found) {
    trace.search_mode = found.mode.as_str();
    trace.documents = found.documents;
    trace.lexical_matches = found.lexical_matches;
    trace.dense_rows = found.rows.iter().filter(|row| row.similarity.is_some()).count();
}

/// Details in the order of `ids`. All are there: one snapshot served both statements.
fn in_order(details: Vec<Detail>, ids: &[Uuid]) -> Vec<Detail> {
    let place: HashMap<Uuid, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut details = details;
    details.sort_by_key(|detail| place.get(&detail.id).copied().unwrap_or(usize::MAX));
    details
}

/// The newest turns of the session's open episode that a token budget has room for.
fn open_episode_turns(spi: &Spi, request: &Request) -> PgResult<Vec<Uuid>> {
    let scope = &request.scope;
    let (Some(session_id), Some(budget), None) =
        (&scope.session_id, request.token_budget, scope.as_of)
    else {
        return Ok(Vec::new());
    };
    let key = SessionKey::of(&scope.caller, session_id.clone());
    let Some(episode) = sessions::open_episode(spi, &key)? else { return Ok(Vec::new()) };
    let share = (f64::from(budget) * CURRENT_EPISODE_SHARE) as u32;
    let turns = entries::episode_turns(spi, &key.user_id, episode, share)?;
    Ok(turns.into_iter().map(|(id, _)| id).collect())
}

fn candidate(detail: &Detail, member: &Member, hidden: &HashSet<Uuid>) -> Candidate {
    Candidate {
        similarity: member.arms.similarity,
        lexical: member.arms.lexical,
        age_days: detail.age_days,
        markers: detail.markers.clone(),
        embedding: detail.embedding.as_ref().map(|vector| vector.0.clone()),
        token_count: detail.token_count.max(0) as u32,
        demoted_below: Vec::new(),
        is_hidden: hidden.contains(&detail.id),
        probability: None,
    }
}

/// The rows of a recall, with the settings of the agent and the session that are asked about.
pub fn answer(arguments: Arguments, caller: Caller) -> PgResult<Vec<RecallRow>> {
    arguments.with_settings(caller, |request| match run(&request)? {
        Some(recalled) => rows(&request, recalled),
        None => Ok(Vec::new()),
    })
}

/// The rows of the answer, with their full texts.
pub fn rows(request: &Request, recalled: Recalled) -> PgResult<Vec<RecallRow>> {
    let Recalled { details, members, ranking, shown, replaced, doubted, .. } = recalled;
    let ids: Vec<Uuid> = shown.iter().map(|&at| details[ranking.scored[at].index].id).collect();
    let mut contents: HashMap<Uuid, entries::Content> =
        roles::read_as_owner(|spi| entries::contents(spi, &request.scope.caller.visible(), &ids))?
            .into_iter()
            .collect();
    let mut details: Vec<Option<Detail>> = details.into_iter().map(Some).collect();
    let mut rows = Vec::with_capacity(shown.len());
    for position in shown {
        let scored = &ranking.scored[position];
        let (Some(detail), arms) = (details[scored.index].take(), members[scored.index].arms)
        else {
            continue;
        };
        let Some(content) = contents.remove(&detail.id) else { continue };
        let metadata = [(stale::SUPERSEDED_BY, &replaced), (stale::DOUBTED_BY, &doubted)]
            .into_iter()
            .fold(content.metadata, |metadata, (key, pairs)| {
                stale::labelled(metadata, key, detail.id, pairs)
            });
        rows.push(RecallRow {
            id: detail.id,
            kind: detail.kind,
            role: detail.role,
            content: content.content,
            score: scored.score as f32,
            relevance: scored.relevance as f32,
            similarity: arms.similarity.map(|similarity| similarity as f32),
            lexical: arms.lexical.map(|lexical| lexical as f32),
            recency: scored.recency as f32,
            markers: detail.markers,
            token_count: detail.token_count,
            session_id: detail.session_id,
            episode_id: detail.episode_id,
            metadata,
            created_at: detail.created_at,
        });
    }
    Ok(rows)
}
