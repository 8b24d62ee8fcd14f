//! `memory_recall`: the five steps of a recall, in order: candidates, rerank, recency, MMR, token
//! budget. SQL is in `store::search`, arithmetic in the ranking crate; here they are put together.
//! Nothing is written: it works in a read-only transaction and on a standby.

use crate::error::{Error, PgResult};
use crate::guc;
use crate::identity;
use crate::models::{self, Failure};
use crate::sql_types::{JsonbText, Vector};
use crate::store::entries;
use crate::store::grants::Level;
use crate::store::models::{self as model_store, Kind};
use crate::store::scope::Scope;
use crate::store::details::{self, Detail};
use crate::store::search::{self, Found, FoundRow, Query};
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::Session as Spi;
use memory_agent_core::budget::{self, BudgetRow};
use memory_agent_core::filter::Filter;
use memory_agent_core::freshness;
use memory_agent_core::fuse::{self, ArmScores, FusionSettings};
use memory_agent_core::rank::{self, Candidate, DroppedAt, RankSettings, Ranking};
use memory_agent_core::score;
use memory_agent_core::text;
use memory_agent_model_server::protocol::{ModelRef, Purpose};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::datum::Uuid;
use pgrx::prelude::*;
use std::collections::HashMap;
use std::time::Instant;

/// At least so many rows go on to ranking when the scope has them, whatever top_k is.
const LEAST_CANDIDATES: usize = 30;
/// Longest query, in bytes.
const MAX_QUERY_BYTES: usize = 1_048_576;
/// Most rows of one recall.
const MAX_TOP_K: i32 = 1000;
/// Most rewrites of a query.
const MAX_REWRITES: usize = 4;

/// The arguments as SQL gives them; NULL means the setting's value.
#[derive(Default)]
pub struct Arguments {
    pub query: Option<String>,
    pub session_id: Option<String>,
    pub user_id: Option<String>,
    pub agent_id: Option<String>,
    pub top_k: Option<i32>,
    pub token_budget: Option<i32>,
    pub kinds: Option<Vec<Option<String>>>,
    pub filter: Option<JsonbText>,
    pub as_of: Option<TimestampWithTimeZone>,
    pub score_threshold: Option<f32>,
    pub recency_weight: Option<f32>,
    pub mmr_lambda: Option<f32>,
    pub rerank: Option<bool>,
    pub query_embedding: Option<Vector>,
    pub rewrites: Option<Vec<Option<String>>>,
}

/// A checked request.
pub struct Request {
    pub scope: Scope,
    query: String,
    rewrites: Vec<String>,
    query_embedding: Option<Vector>,
    rerank: bool,
    token_budget: Option<u32>,
    candidates_per_arm: usize,
    settings: RankSettings,
    pub wants_nothing: bool,
}

/// What happened, for `memory_explain`.
#[derive(Default)]
pub struct Trace {
    pub embed_ms: f64,
    pub search_ms: f64,
    pub rerank_ms: f64,
    pub rank_ms: f64,
    pub embedding: String,
    pub reranking: String,
    pub search_mode: &'static str,
    pub documents: u64,
    pub lexical_matches: usize,
    pub dense_rows: usize,
    pub pool: usize,
    pub recency_weight: f64,
    /// What the call went on without.
    failures: Vec<Failure>,
}

/// A ranked recall before its texts are read.
pub struct Recalled {
    pub details: Vec<Detail>,
    /// Per detail: similarity and BM25 score.
    pub arms: Vec<ArmScores>,
    pub ranking: Ranking,
    /// Positions in `ranking.scored`, in the order shown.
    pub shown: Vec<usize>,
    pub trace: Trace,
}

/// One row of the answer.
pub type RecallRow = (
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

#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn memory_recall(
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
        user_id,
        agent_id,
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
    };
    let request = arguments.check()?;
    let rows = match run(&request)? {
        Some(recalled) => rows(&request, recalled)?,
        None => Vec::new(),
    };
    Ok(TableIterator::new(rows))
}

impl Arguments {
    /// Checks everything that can be checked without touching a table.
    pub fn check(self) -> PgResult<Request> {
        let caller = identity::resolve(self.user_id.as_deref(), self.agent_id.as_deref(), Level::Reader)?;
        if let Some(session_id) = &self.session_id {
            text::validate_session_id(session_id).map_err(Error::from)?;
        }
        let query = self.query.unwrap_or_default();
        if query.trim().is_empty() && self.query_embedding.is_none() {
            return Err(Error::invalid("query is empty", "Pass the question, or a query_embedding.").into());
        }
        if query.len() > MAX_QUERY_BYTES {
            return Err(Error::invalid(
                format!("query has {} bytes, the limit is {MAX_QUERY_BYTES}", query.len()),
                "Ask a shorter question.",
            )
            .into());
        }
        let rewrites = strings(self.rewrites)?.unwrap_or_default();
        if rewrites.len() > MAX_REWRITES || rewrites.iter().any(|rewrite| rewrite.trim().is_empty()) {
            return Err(Error::invalid(
                format!("rewrites must be at most {MAX_REWRITES} texts that are not empty"),
                "Pass the best few wordings of the question.",
            )
            .into());
        }
        if let Some(Vector(values)) = &self.query_embedding
            && (values.is_empty() || values.iter().any(|value| !value.is_finite()))
        {
            return Err(Error::invalid("query_embedding has no finite values", "Use memory_embed().").into());
        }
        let kinds = strings(self.kinds)?;
        if let Some(unknown) = kinds.iter().flatten().find(|kind| !text::KINDS.contains(&kind.as_str())) {
            return Err(Error::invalid(
                format!("unknown kind \"{unknown}\""),
                format!("Kinds are {}.", text::KINDS.join(", ")),
            )
            .into());
        }
        let (filter, filter_metadata) = parse_filter(self.filter)?;
        let as_of = self.as_of.map(|at| entries::finite("as_of", at)).transpose()?;
        let threshold = unit("score_threshold", self.score_threshold)?;
        let base_weight = unit("recency_weight", self.recency_weight)?.unwrap_or_else(guc::recency_weight);
        let mmr_lambda = unit("mmr_lambda", self.mmr_lambda)?.unwrap_or_else(guc::mmr_lambda);
        let asks_for_fresh = guc::freshness_boost() && freshness::asks_for_fresh(&query);
        let token_budget = match self.token_budget {
            Some(budget) if budget < 0 => {
                return Err(Error::invalid("token_budget is negative", "Leave it out for no budget.").into());
            }
            budget => budget.map(|budget| budget as u32),
        };
        if self.top_k.is_some_and(|top_k| top_k > MAX_TOP_K) {
            return Err(Error::invalid(
                format!("top_k must be at most {MAX_TOP_K}"),
                "Read memory_entries to see everything.",
            )
            .into());
        }
        // With a budget and no top_k, the budget alone cuts the ranked candidates.
        let top_k = match (self.top_k, token_budget) {
            (Some(top_k), _) => Some(top_k),
            (None, Some(_)) => None,
            (None, None) => Some(guc::default_top_k()),
        };
        let wanted = top_k.unwrap_or_else(guc::default_top_k).max(0) as usize;
        // More rows than max_candidates can only be had by asking for them.
        let max_candidates = (guc::max_candidates().max(1) as usize).max(top_k.unwrap_or(0).max(0) as usize);
        let candidates_per_arm = wanted
            .saturating_mul(guc::candidate_multiplier().max(1) as usize)
            .max(LEAST_CANDIDATES);
        Ok(Request {
            settings: RankSettings {
                fusion: FusionSettings {
                    method: guc::fusion_method(),
                    dense_weight: guc::dense_weight(),
                    ..FusionSettings::default()
                },
                max_candidates,
                score_normalization: guc::normalization(),
                rerank_weight: guc::rerank_weight(),
                score_threshold: Some(threshold.unwrap_or_else(guc::score_threshold)),
                threshold_is_explicit: threshold.is_some(),
                threshold_keeps: wanted,
                recency_decay: guc::decay(),
                recency_days: guc::recency_days(),
                recency_weight: score::raise_recency_weight(base_weight, asks_for_fresh),
                marker_weight: guc::marker_weight(),
                mmr_lambda,
                top_k: top_k.map(|top_k| top_k.max(0) as usize),
            },
            wants_nothing: top_k.is_some_and(|top_k| top_k <= 0),
            rerank: self.rerank.unwrap_or_else(guc::rerank),
            scope: Scope { caller, session_id: self.session_id, kinds, filter, filter_metadata, as_of },
            query,
            rewrites,
            query_embedding: self.query_embedding,
            token_budget,
            candidates_per_arm,
        })
    }
}

fn strings(values: Option<Vec<Option<String>>>) -> PgResult<Option<Vec<String>>> {
    values.map(super::ingest::without_nulls).transpose()
}

/// A weight between 0 and 1; NaN is refused.
fn unit(name: &str, value: Option<f32>) -> PgResult<Option<f64>> {
    match value {
        Some(value) if !(0.0..=1.0).contains(&value) => Err(Error::invalid(
            format!("{name} must be between 0 and 1, not {value}"),
            "Leave it out for the setting's value.",
        )
        .into()),
        value => Ok(value.map(f64::from)),
    }
}

fn parse_filter(filter: Option<JsonbText>) -> PgResult<(Filter, Option<JsonbText>)> {
    let Some(filter) = filter else { return Ok((Filter::default(), None)) };
    let value: serde_json::Value = serde_json::from_str(&filter.0).map_err(|error| {
        Error::invalid(format!("filter cannot be read: {error}"), "Use numbers in the range of a double.")
    })?;
    let parsed = Filter::parse(&value).map_err(Error::from)?;
    // The object as it was written: a double would drop digits that jsonb keeps.
    let metadata = match &parsed.metadata {
        Some(_) => serde_json::from_str::<RawFilter<'_>>(&filter.0)
            .ok()
            .and_then(|raw| raw.metadata)
            .map(|metadata| JsonbText(metadata.get().to_owned())),
        None => None,
    };
    Ok((parsed, metadata))
}

/// The part of a filter that PostgreSQL compares itself.
#[derive(serde::Deserialize)]
struct RawFilter<'a> {
    #[serde(borrow)]
    metadata: Option<&'a serde_json::value::RawValue>,
}

/// Steps 1 to 5. `None` when no rows are wanted.
pub fn run(request: &Request) -> PgResult<Option<Recalled>> {
    if request.wants_nothing {
        return Ok(None);
    }
    let mut trace = Trace { recency_weight: request.settings.recency_weight, ..Trace::default() };
    let (embedder, reranker) = identity::as_owner(|| {
        let spi = Spi::read_only()?;
        let embedder = model_store::active(&spi, Kind::Embedder)?;
        if let (Some(model), Some(given)) = (&embedder, &request.query_embedding) {
            search::check_dimension(&spi, &model.name, given.0.len())?;
        }
        let reranker = if request.rerank { model_store::active(&spi, Kind::Reranker)? } else { None };
        Ok((embedder, reranker))
    })?;

    let started = Instant::now();
    let embeddings = query_embeddings(request, embedder.as_ref(), &mut trace);
    trace.embed_ms = milliseconds(started);

    let started = Instant::now();
    let query = Query {
        text: &request.query,
        rewrites: &request.rewrites,
        embeddings,
        embedding_model: embedder.as_ref().map(|model| model.name.as_str()),
        limit: request.candidates_per_arm,
        included: &[],
    };
    let (pool, arms, details, episode) = identity::as_owner(|| {
        let spi = Spi::read_only()?;
        let episode = open_episode_turns(&spi, request)?;
        let query = Query { included: &episode, ..query };
        let found = search::candidates(&spi, &request.scope, &query)?;
        note_search(&mut trace, &found);
        let (pool, arms, ids) =
            fuse_pool(&found, request.candidates_per_arm, &episode, &request.settings);
        let users = request.scope.caller.visible();
        let details = details::read(&spi, &users, &ids, query.embedding_model, request.scope.as_of)?;
        let details = in_order(details, &ids);
        Ok((pool, arms, details, episode))
    })?;
    trace.pool = pool.len();
    trace.search_ms = milliseconds(started);

    let started = Instant::now();
    let logits = rerank(request, reranker.as_ref(), &details, &mut trace)?;
    trace.rerank_ms = milliseconds(started);
    if let Some(first) = trace.failures.first() {
        let without = match (trace.embedding.starts_with("failed"), logits.is_none() && request.rerank) {
            (true, true) => "recall goes on with words only, without reranking",
            (true, false) => "recall goes on with words only",
            (false, _) => "recall goes on without reranking",
        };
        first.warn(without);
    }

    let started = Instant::now();
    let candidates: Vec<Candidate> =
        details.iter().zip(&arms).map(|(detail, arms)| candidate(detail, arms)).collect();
    let mut ranking = rank::finish(&candidates, &pool, logits.as_deref(), &request.settings);
    let shown = within_budget(request, &details, &episode, &mut ranking);
    trace.rank_ms = milliseconds(started);
    debug1!(
        "memory_agent: recall user={} rows={} pool={} embed={:.1}ms search={:.1}ms rerank={:.1}ms rank={:.1}ms",
        request.scope.caller.user_id,
        shown.len(),
        trace.pool,
        trace.embed_ms,
        trace.search_ms,
        trace.rerank_ms,
        trace.rank_ms
    );
    Ok(Some(Recalled { details, arms, ranking, shown, trace }))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// The query's embeddings: the given one, or computed; empty when that fails.
fn query_embeddings(request: &Request, model: Option<&ModelRef>, trace: &mut Trace) -> Vec<Vector> {
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
            embeddings.extend(prepared.embeddings.into_iter().filter_map(|windows| {
                windows.into_iter().next().map(Vector)
            }));
            trace.embedding = model.name.clone();
        }
        Err(failure) => {
            trace.embedding = format!("failed: {}", failure.message);
            trace.failures.push(failure);
        }
    }
    embeddings
}

fn note_search(trace: &mut Trace, found: &Found) {
    trace.search_mode = found.mode.as_str();
    trace.documents = found.documents;
    trace.lexical_matches = found.lexical_matches;
    trace.dense_rows = found.rows.iter().filter(|row| row.similarity.is_some()).count();
}

/// The pool in fused order, as positions with their fused scores; and, by position, the arms and ids.
type Pool = (Vec<(usize, f64)>, Vec<ArmScores>, Vec<Uuid>);

/// Fuses the best rows of each arm and keeps the best of them. A row that only one arm ranked high
/// is fused with what the other arm truly says of it. The rest of the scope takes no part: its
/// least similar row, an outlier, would set the scale of min-max.
///
/// Rows that are to be included are kept whatever their score.
fn fuse_pool(found: &Found, per_arm: usize, included: &[Uuid], settings: &RankSettings) -> Pool {
    let rows = union_of_best(found, per_arm, included);
    let arms: Vec<ArmScores> = rows
        .iter()
        .map(|row| ArmScores { similarity: row.dense, lexical: row.lexical })
        .collect();
    let fused = fuse::fuse(&arms, &settings.fusion);
    let mut order: Vec<usize> = (0..arms.len()).collect();
    // Ids break ties, so that the same question gives the same rows.
    order.sort_by(|&a, &b| fused[b].total_cmp(&fused[a]).then_with(|| rows[a].id.cmp(&rows[b].id)));
    let mut place = 0;
    order.retain(|&row| {
        place += 1;
        place <= settings.max_candidates || is_included(included, &rows[row])
    });
    let pool = order.iter().enumerate().map(|(position, &row)| (position, fused[row])).collect();
    let ids = order.iter().map(|&row| Uuid::from_bytes(rows[row].id)).collect();
    let shown = order
        .iter()
        .map(|&row| ArmScores { similarity: rows[row].similarity, lexical: rows[row].lexical })
        .collect();
    (pool, shown, ids)
}

fn is_included(included: &[Uuid], row: &FoundRow) -> bool {
    included.iter().any(|id| *id.as_bytes() == row.id)
}

fn union_of_best(found: &Found, per_arm: usize, included: &[Uuid]) -> Vec<FoundRow> {
    let mut chosen = Vec::with_capacity((2 * per_arm).min(found.rows.len()));
    if !included.is_empty() {
        chosen.extend((0..found.rows.len()).filter(|&at| is_included(included, &found.rows[at])));
    }
    for arm in [|row: &FoundRow| row.dense, |row: &FoundRow| row.lexical] {
        let mut ranked: Vec<(f64, usize)> = found
            .rows
            .iter()
            .enumerate()
            .filter_map(|(at, row)| arm(row).map(|score| (score, at)))
            .collect();
        let best_first = |a: &(f64, usize), b: &(f64, usize)| {
            b.0.total_cmp(&a.0).then_with(|| found.rows[a.1].id.cmp(&found.rows[b.1].id))
        };
        if ranked.len() > per_arm {
            ranked.select_nth_unstable_by(per_arm - 1, best_first);
            ranked.truncate(per_arm);
        }
        chosen.extend(ranked.into_iter().map(|(_, at)| at));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|at| found.rows[at]).collect()
}

/// Details in the order of `ids`. All are there: one snapshot served both statements.
fn in_order(details: Vec<Detail>, ids: &[Uuid]) -> Vec<Detail> {
    let place: HashMap<[u8; 16], usize> =
        ids.iter().enumerate().map(|(at, id)| (*id.as_bytes(), at)).collect();
    let mut details = details;
    details.sort_by_key(|detail| place.get(detail.id.as_bytes()).copied().unwrap_or(usize::MAX));
    details
}

/// The newest turns of the session's open episode that a token budget has room for.
fn open_episode_turns(spi: &Spi, request: &Request) -> PgResult<Vec<Uuid>> {
    let scope = &request.scope;
    let (Some(session_id), Some(budget), None) = (&scope.session_id, request.token_budget, scope.as_of) else {
        return Ok(Vec::new());
    };
    let key = SessionKey {
        user_id: scope.caller.user_id.clone(),
        agent_id: scope.caller.agent().to_owned(),
        session_id: session_id.clone(),
    };
    let Some(episode) = sessions::open_episode(spi, &key)? else { return Ok(Vec::new()) };
    let share = (f64::from(budget) * guc::current_episode_share()) as u32;
    let turns = entries::episode_turns(spi, &key.user_id, episode, share)?;
    Ok(turns.into_iter().map(|(id, _)| id).collect())
}

/// Step 2: the logits of the pool, or `None` with the reason in the trace.
fn rerank(
    request: &Request,
    model: Option<&ModelRef>,
    details: &[Detail],
    trace: &mut Trace,
) -> PgResult<Option<Vec<f32>>> {
    let Some(model) = model else {
        trace.reranking = if request.rerank { "no rerank model" } else { "off" }.into();
        return Ok(None);
    };
    let longest = guc::rerank_max_query_chars();
    if request.query.trim().is_empty() {
        trace.reranking = "skipped: no query text".into();
        return Ok(None);
    }
    if longest > 0 && request.query.chars().count() > longest as usize {
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
    let documents = details.iter().map(|detail| detail.text.clone()).collect();
    match models::current().rerank(model, &request.query, documents) {
        Ok(logits) if logits.len() == details.len() => {
            trace.reranking = model.name.clone();
            Ok(Some(logits))
        }
        Ok(_) => Err(Error::internal("the reranker gave another number of scores than asked for").into()),
        Err(failure) => {
            trace.reranking = format!("failed: {}", failure.message);
            trace.failures.push(failure);
            Ok(None)
        }
    }
}

fn candidate(detail: &Detail, arms: &ArmScores) -> Candidate {
    Candidate {
        similarity: arms.similarity,
        lexical: arms.lexical,
        age_days: detail.age_days,
        half_speed: detail.kind == "document" || detail.session_id.is_none(),
        markers: detail.markers.clone(),
        embedding: detail.embedding.clone(),
        token_count: detail.token_count.max(0) as u32,
        demoted_below: None,
    }
}

/// Step 5: the positions that fit the budget. The newest turns of the open episode enter first, up
/// to their share; then the ranked rows, best first. Shown in MMR order; turns that MMR did not
/// choose follow by score.
fn within_budget(
    request: &Request,
    details: &[Detail],
    episode: &[Uuid],
    ranking: &mut Ranking,
) -> Vec<usize> {
    let Some(token_budget) = request.token_budget else { return ranking.selected.clone() };
    let row = |position: &usize| BudgetRow {
        token_count: details[ranking.scored[*position].index].token_count.max(0) as u32,
        score: ranking.scored[*position].score,
    };
    // Newest first, as they were read.
    let turns: Vec<usize> = episode
        .iter()
        .filter_map(|turn| {
            (0..ranking.scored.len()).find(|&at| details[ranking.scored[at].index].id == *turn)
        })
        .collect();
    let ranked: Vec<BudgetRow> = ranking.selected.iter().map(row).collect();
    let turn_tokens: Vec<u32> = turns.iter().map(|position| row(position).token_count).collect();
    let overlap: Vec<Option<usize>> = turns
        .iter()
        .map(|turn| ranking.selected.iter().position(|selected| selected == turn))
        .collect();
    let fit = budget::fit_with_episode(
        &turn_tokens,
        &ranked,
        &overlap,
        token_budget,
        guc::current_episode_share(),
    );
    let entered: Vec<usize> = fit.episode.iter().map(|&turn| turns[turn]).collect();
    let ranked: Vec<usize> = fit.ranked.iter().map(|&at| ranking.selected[at]).collect();
    let mut shown: Vec<usize> = ranking
        .selected
        .iter()
        .copied()
        .filter(|position| ranked.contains(position) || entered.contains(position))
        .collect();
    let mut further: Vec<usize> =
        entered.into_iter().filter(|position| !shown.contains(position)).collect();
    further.sort_by(|&a, &b| ranking.scored[b].score.total_cmp(&ranking.scored[a].score));
    for &position in &further {
        ranking.scored[position].dropped = None;
    }
    shown.extend(further);
    for &position in &ranking.selected {
        if !shown.contains(&position) {
            ranking.scored[position].dropped = Some(DroppedAt::Budget);
        }
    }
    shown
}

/// The rows of the answer, with their full texts.
pub fn rows(request: &Request, recalled: Recalled) -> PgResult<Vec<RecallRow>> {
    let Recalled { details, arms, ranking, shown, .. } = recalled;
    let ids: Vec<Uuid> = shown.iter().map(|&at| details[ranking.scored[at].index].id).collect();
    let mut contents: HashMap<[u8; 16], entries::Content> = identity::as_owner(|| {
        let spi = Spi::read_only()?;
        entries::contents(&spi, &request.scope.caller.visible(), &ids)
    })?
    .into_iter()
    .collect();
    let mut details: Vec<Option<Detail>> = details.into_iter().map(Some).collect();
    let mut rows = Vec::with_capacity(shown.len());
    for position in shown {
        let scored = &ranking.scored[position];
        let (Some(detail), arms) = (details[scored.index].take(), &arms[scored.index]) else { continue };
        let Some(content) = contents.remove(detail.id.as_bytes()) else { continue };
        rows.push((
            detail.id,
            detail.kind,
            detail.role,
            content.content,
            scored.score as f32,
            scored.relevance as f32,
            arms.similarity.map(|similarity| similarity as f32),
            arms.lexical.map(|lexical| lexical as f32),
            scored.recency as f32,
            detail.markers,
            detail.token_count,
            detail.session_id,
            detail.episode_id,
            content.metadata,
            detail.created_at,
        ));
    }
    Ok(rows)
}
