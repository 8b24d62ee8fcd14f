//! The ranking of one recall, from candidates to the rows in the order shown:
//! fusion, pool, rerank, threshold, recency, markers, MMR.
//!
//! The caller runs it in two halves with the reranker between them: [`pool`]
//! says which candidates the reranker sees, [`finish`] takes its logits. Both
//! `memory_recall` and `memory_explain` use them, so what is explained is what
//! happened. The token budget comes after, in [`crate::rank::budget`].

use crate::rank::fuse::{ArmScores, fuse};
use crate::rank::mmr;
use crate::rank::replacements::{PoolReplacements, Replacements};
use crate::rank::score::{
    blend_relevance, combine, marker_boost, probability_boost, recency, sigmoid,
};
use crate::words;

/// A row that an arm found, or that replaced one which an arm found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// Cosine similarity to the query, if the dense arm found the row.
    pub similarity: Option<f64>,
    /// BM25 score, if the lexical arm found the row.
    pub lexical: Option<f64>,
    /// Age at the time of the question, in days.
    pub age_days: f64,
    pub markers: Vec<String>,
    /// The stored embedding; a row without one is never similar to another.
    pub embedding: Option<Vec<f32>>,
    pub token_count: u32,
    /// Indexes of the candidates that replaced what this one says: a turn whose
    /// extracted facts were superseded ranks before none of the new facts.
    pub demoted_below: Vec<usize>,
    /// It is not shown: it only lends its score to what replaced it.
    pub is_hidden: bool,
    /// The learned probability that the row answers the question ([`crate::rank::blend`]), which is its relevance
    /// then. `None` weighs the logit and the fused score instead.
    pub probability: Option<f64>,
}

impl Candidate {
    pub(crate) fn arms(&self) -> ArmScores {
        ArmScores { similarity: self.similarity, lexical: self.lexical }
    }

    /// Whether an arm found the row.
    pub(crate) fn is_found(&self) -> bool {
        self.arms().is_found()
    }
}

/// Everything about the ranking that a user can set.
#[derive(Debug, Clone, PartialEq)]
pub struct RankSettings {
    /// Share of the dense arm in the fused score, 0 to 1.
    pub dense_weight: f64,
    /// Rows that go to the reranker, at most.
    pub max_candidates: usize,
    /// Lowest accepted probability, or `sigmoid(logit)` before blending where there is none.
    pub score_threshold: Option<f64>,
    /// Whether the caller gave the threshold with the query. Then it is strict:
    /// no row below it is shown, however few are left, and rows without a logit
    /// are tested on their relevance. A default threshold leaves those alone.
    pub threshold_is_explicit: bool,
    /// How many reranked rows a default threshold has to leave, usually the
    /// number of rows wanted; if it would leave fewer, it drops none.
    ///
    /// No one value fits all questions: a cross-encoder trained on web search
    /// gives low logits to good memories. As a hard limit, the default of 0.35
    /// costs .04 to .22 of recall at 5 on four labelled sets (docs/ranking.md).
    pub threshold_keeps: usize,
    /// Share of recency in the score, 0 to 1.
    pub recency_weight: f64,
    /// Factor on the marker boosts.
    pub marker_weight: f64,
    /// 1 is pure score order, 0 pure diversity.
    pub mmr_lambda: f64,
    /// Rows wanted; `None` keeps them all, in MMR order.
    pub top_k: Option<usize>,
}

words! {
    /// The step that dropped a row.
    pub enum DroppedAt {
        /// Not among the `max_candidates` best of the fusion.
        Pool = "pool",
        /// Nothing that it says holds any more.
        Stale = "stale",
        /// Below the score threshold.
        Threshold = "threshold",
        /// Not among the `top_k` rows of MMR.
        Mmr = "mmr",
        /// Too long for the token budget. Set by the caller, who applies the budget.
        Budget = "budget",
    }
}

/// A candidate with all parts of its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Index into the candidates.
    pub index: usize,
    /// Score of the fusion, in its own scale; 0 if no arm found the row.
    pub fused: f64,
    /// The reranker's answer; `None` if it did not see the row.
    pub logit: Option<f32>,
    /// 0 to 1.
    pub relevance: f64,
    /// 0 to 1.
    pub recency: f64,
    /// What the markers add to the score.
    pub marker_boost: f64,
    /// The score before MMR. A stale row's was lowered below all its replacements,
    /// after each of them that no arm found was lifted to the stale row's.
    pub score: f64,
    /// `None` for the selected rows.
    pub dropped: Option<DroppedAt>,
}

/// Result of [`finish`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// Positions in `scored`, in MMR order.
    pub selected: Vec<usize>,
    /// Every candidate once: first the pool in its order, then the rows cut
    /// before it, with the score they would have had without a reranker.
    pub scored: Vec<Scored>,
}

/// The candidates that go to the reranker, as (index, fused score), best first.
///
/// At most `max_candidates`; equal scores go by index. A row that replaced
/// another candidate is placed at least as high as that one, so that a stale row
/// never gets into the pool without all its replacements.
pub fn pool(candidates: &[Candidate], settings: &RankSettings) -> Vec<(usize, f64)> {
    let mut pool = fused_order(candidates, &Replacements::of(candidates), settings);
    pool.truncate(settings.max_candidates);
    pool
}

/// Scores the pool and selects the rows to show.
///
/// `pool` is the answer of [`pool()`] for the same candidates, or has the same
/// form with fused scores of a longer list. `logits` holds one value per row of
/// the pool, in its order; `None` if nothing was reranked. A logit that is
/// missing or not finite leaves its row unreranked; it then counts as the lowest
/// of the others.
///
/// # Panics
/// If an index in `pool` is not one of a candidate.
pub fn finish(
    candidates: &[Candidate],
    pool: &[(usize, f64)],
    logits: Option<&[f32]>,
    settings: &RankSettings,
) -> Ranking {
    let replacements = Replacements::of(candidates);
    let order = fused_order(candidates, &replacements, settings);
    let mut fused = vec![0.0; candidates.len()];
    // The scores in the pool count, which may come from a longer list.
    for (index, score) in order.iter().chain(pool) {
        fused[*index] = *score;
    }
    let inherited = replacements.inherited(candidates, &fused);
    let scale = FusedScale::of(pool.iter().map(|(index, _)| inherited[*index]));
    let fused_relevance = |index: usize| scale.apply(inherited[index]);

    let logits: Vec<Option<f32>> = (0..pool.len())
        .map(|position| logits.and_then(|logits| logits.get(position)).copied())
        .map(|logit| logit.filter(|logit| logit.is_finite()))
        .collect();
    let mut reranked: Vec<Option<f64>> = logits.iter().map(|logit| logit.map(sigmoid)).collect();
    // What the reranker did not read is taken for as good as the worst that it did: it had the more
    // promising ones first.
    let worst = reranked.iter().flatten().copied().min_by(f64::total_cmp);
    reranked.iter_mut().for_each(|row| *row = row.or(worst));

    let mut in_pool = vec![false; candidates.len()];
    let mut scored: Vec<Scored> = Vec::with_capacity(candidates.len());
    for (position, (index, _)) in pool.iter().enumerate() {
        in_pool[*index] = true;
        let fused_relevance = fused_relevance(*index);
        let relevance = match (candidates[*index].probability, reranked[position]) {
            (Some(probability), _) => probability,
            (None, Some(reranked)) => blend_relevance(reranked, fused_relevance),
            (None, None) => fused_relevance,
        };
        let mut row = score_row(candidates, *index, fused[*index], relevance, settings);
        row.logit = logits[position];
        scored.push(row);
    }

    let in_pool_replacements = replacements.within(pool);
    apply_threshold(candidates, &in_pool_replacements, &mut scored, settings);
    in_pool_replacements.settle(candidates, &mut scored);
    for row in scored.iter_mut().filter(|row| candidates[row.index].is_hidden) {
        row.dropped = Some(DroppedAt::Stale);
    }
    let mut ranking = Ranking { selected: Vec::new(), scored };
    select(candidates, in_pool_replacements.by_position(), &mut ranking, settings);

    for (index, _) in order {
        if !in_pool[index] {
            let relevance = fused_relevance(index);
            let mut row = score_row(candidates, index, fused[index], relevance, settings);
            row.dropped = Some(DroppedAt::Pool);
            ranking.scored.push(row);
        }
    }
    ranking
}

/// All candidates by fused score, replacements before what they replaced.
fn fused_order(
    candidates: &[Candidate],
    replacements: &Replacements,
    settings: &RankSettings,
) -> Vec<(usize, f64)> {
    let arms: Vec<ArmScores> = candidates.iter().map(Candidate::arms).collect();
    let fused = fuse(&arms, settings.dense_weight);

    // The best fused score among a row and all rows it replaced, and how many
    // rows came after it: always more than came after its replacements.
    let mut priority = fused.clone();
    let mut depth = vec![0usize; candidates.len()];
    for row in 0..candidates.len() {
        let successors = replacements.successors(row);
        depth[row] = successors.len();
        for successor in successors {
            priority[successor] = priority[successor].max(fused[row]);
        }
    }
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| {
        priority[*b].total_cmp(&priority[*a]).then(depth[*a].cmp(&depth[*b])).then(a.cmp(b))
    });
    order.into_iter().map(|row| (row, fused[row])).collect()
}

/// Maps fused scores to 0..=1 by the smallest and the largest of the pool. A pool of one row, or of equal ones, is all 1.
///
/// Recency is added to the result, so it has to use the whole range: fused
/// scores of one pool often lie close together, and a recency weight of 0.2 on
/// them cost .037 of recall at 5 on a labelled set, against .015 after min-max.
struct FusedScale {
    lowest: f64,
    highest: f64,
}

impl FusedScale {
    fn of(fused: impl Iterator<Item = f64> + Clone) -> Self {
        Self {
            lowest: fused.clone().fold(f64::INFINITY, f64::min),
            highest: fused.fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// A row from outside the pool can lie beyond its bounds.
    fn apply(&self, fused: f64) -> f64 {
        if self.highest > self.lowest {
            ((fused - self.lowest) / (self.highest - self.lowest)).clamp(0.0, 1.0)
        } else {
            f64::from(u8::from(fused >= self.lowest))
        }
    }
}

/// A row with its score parts, not reranked and not dropped.
fn score_row(
    candidates: &[Candidate],
    index: usize,
    fused: f64,
    relevance: f64,
    settings: &RankSettings,
) -> Scored {
    let candidate = &candidates[index];
    let recency = recency(candidate.age_days);
    let without = combine(relevance, recency, settings.recency_weight, 0.0);
    let boost = marker_boost(&candidate.markers, settings.marker_weight);
    let marker_boost = match candidate.probability {
        Some(_) => probability_boost(without, boost),
        None => boost,
    };
    Scored {
        index,
        fused,
        logit: None,
        relevance,
        recency,
        marker_boost,
        score: without + marker_boost,
        dropped: None,
    }
}

/// Drops what is below the threshold, and a stale row together with any of its
/// replacements; a default threshold only if it leaves enough.
fn apply_threshold(
    candidates: &[Candidate],
    replacements: &PoolReplacements,
    scored: &mut [Scored],
    settings: &RankSettings,
) {
    let Some(threshold) = settings.score_threshold else {
        return;
    };
    let probability = |row: &Scored| candidates[row.index].probability;
    let is_below = |row: &Scored| match (probability(row), row.logit) {
        (Some(probability), _) => probability < threshold,
        (None, Some(logit)) => sigmoid(logit) < threshold,
        (None, None) => settings.threshold_is_explicit && row.relevance < threshold,
    };
    let mut below: Vec<bool> = scored.iter().map(is_below).collect();
    replacements.spread_to_stale(&mut below);
    let is_tested = |row: &Scored| {
        !candidates[row.index].is_hidden && (row.logit.is_some() || probability(row).is_some())
    };
    let rows_left = scored.iter().zip(&below).filter(|(row, below)| is_tested(row) && !**below);
    if !settings.threshold_is_explicit && rows_left.count() < settings.threshold_keeps {
        return;
    }
    for (row, below) in scored.iter_mut().zip(below) {
        row.dropped = below.then_some(DroppedAt::Threshold);
    }
}

/// Runs MMR over the rows that are left and marks the others.
fn select(
    candidates: &[Candidate],
    after: &[Vec<usize>],
    ranking: &mut Ranking,
    settings: &RankSettings,
) {
    let left: Vec<usize> = (0..ranking.scored.len())
        .filter(|position| ranking.scored[*position].dropped.is_none())
        .collect();
    let scores: Vec<f64> = left.iter().map(|position| ranking.scored[*position].score).collect();
    // `left` is sorted, and the replacements of a row that is left are left too.
    let after: Vec<Vec<usize>> = left
        .iter()
        .map(|position| {
            after[*position].iter().filter_map(|first| left.binary_search(first).ok()).collect()
        })
        .collect();
    let embedding = |row: usize| candidates[ranking.scored[left[row]].index].embedding.as_deref();
    let cosine = |a: usize, b: usize| match (embedding(a), embedding(b)) {
        (Some(a), Some(b)) => mmr::cosine(a, b),
        _ => 0.0,
    };
    let top_k = settings.top_k.unwrap_or(left.len());
    let chosen = mmr::select_in_order(&scores, &after, cosine, settings.mmr_lambda, top_k);

    ranking.selected = chosen.into_iter().map(|row| left[row]).collect();
    for position in left {
        ranking.scored[position].dropped = Some(DroppedAt::Mmr);
    }
    for position in &ranking.selected {
        ranking.scored[*position].dropped = None;
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "pipeline_properties.rs"]
mod properties;
