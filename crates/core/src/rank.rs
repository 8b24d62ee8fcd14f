//! The ranking of one recall, from candidates to the rows in the order shown:
//! fusion, pool, rerank, threshold, recency, markers, MMR.
//!
//! The caller runs it in two halves with the reranker between them: [`pool`]
//! says which candidates the reranker sees, [`finish`] takes its logits. Both
//! `memory_recall` and `memory_explain` use them, so what is explained is what
//! happened. The token budget comes after, in [`crate::budget`].

use crate::fuse::{ArmScores, FusionMethod, FusionSettings, fuse, min_max};
use crate::mmr;
use crate::score::{
    RecencyDecay, ScoreNormalization, blend_relevance, combine, marker_boost, recency, sigmoid,
};

/// How far a stale row is placed below the row that replaced it. Small against
/// any real difference, large enough to survive the cast to `real`.
const DEMOTION_STEP: f64 = 1e-6;

/// A row that at least one arm found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// Cosine similarity to the query, if the dense arm found the row.
    pub similarity: Option<f64>,
    /// BM25 score, if the lexical arm found the row.
    pub lexical: Option<f64>,
    /// Age at the time of the question, in days.
    pub age_days: f64,
    /// Documents and global memory, which age at half speed under a half-life.
    pub half_speed: bool,
    pub markers: Vec<String>,
    /// The stored embedding; a row without one is never similar to another.
    pub embedding: Option<Vec<f32>>,
    pub token_count: u32,
    /// Index of the candidate that replaced what this one says: a turn whose
    /// extracted fact was superseded never ranks before the new fact.
    pub demoted_below: Option<usize>,
}

/// Everything about the ranking that a user can set.
#[derive(Debug, Clone, PartialEq)]
pub struct RankSettings {
    pub fusion: FusionSettings,
    /// Rows that go to the reranker, at most.
    pub max_candidates: usize,
    pub score_normalization: ScoreNormalization,
    /// Share of the reranker in the relevance, 0 to 1.
    pub rerank_weight: f64,
    /// Lowest accepted `sigmoid(logit)`, tested before blending.
    pub score_threshold: Option<f64>,
    /// Whether the caller gave the threshold with the query. Only then is it
    /// tested on rows without a logit, on their relevance.
    pub threshold_is_explicit: bool,
    pub recency_decay: RecencyDecay,
    /// Time constant of the decay in days; 0 or less means the form's default.
    pub recency_days: f64,
    /// Share of recency in the score, 0 to 1.
    pub recency_weight: f64,
    /// Factor on the marker boosts.
    pub marker_weight: f64,
    /// 1 is pure score order, 0 pure diversity.
    pub mmr_lambda: f64,
    /// Rows wanted; `None` keeps them all, in MMR order.
    pub top_k: Option<usize>,
}

/// The step that dropped a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DroppedAt {
    /// Not among the `max_candidates` best of the fusion.
    Pool,
    /// Below the score threshold.
    Threshold,
    /// Not among the `top_k` rows of MMR.
    Mmr,
    /// Too long for the token budget. Set by the caller, who applies the budget.
    Budget,
}

impl DroppedAt {
    /// The name shown by `memory_explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Threshold => "threshold",
            Self::Mmr => "mmr",
            Self::Budget => "budget",
        }
    }
}

/// A candidate with all parts of its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Index into the candidates.
    pub index: usize,
    /// Score of the fusion, in its own scale.
    pub fused: f64,
    /// The reranker's answer; `None` if it did not see the row.
    pub logit: Option<f32>,
    /// 0 to 1.
    pub relevance: f64,
    /// 0 to 1.
    pub recency: f64,
    /// Already multiplied by the marker weight.
    pub marker_boost: f64,
    /// The score before MMR; after it, for a stale row, was lowered below its
    /// replacement.
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
/// never gets into the pool without its replacement.
pub fn pool(candidates: &[Candidate], settings: &RankSettings) -> Vec<(usize, f64)> {
    let mut pool = fused_order(candidates, settings);
    pool.truncate(settings.max_candidates);
    pool
}

/// Scores the pool and selects the rows to show.
///
/// `pool` is the answer of [`pool()`] for the same candidates. `logits` holds one
/// value per row of the pool, in its order; `None` if nothing was reranked. A
/// logit that is missing or not finite leaves its row unreranked.
///
/// # Panics
/// If an index in `pool` is not one of a candidate.
pub fn finish(
    candidates: &[Candidate],
    pool: &[(usize, f64)],
    logits: Option<&[f32]>,
    settings: &RankSettings,
) -> Ranking {
    let fused: Vec<f64> = pool.iter().map(|(_, fused)| *fused).collect();
    let normalise = FusedScale::of(&fused, settings.fusion.method);
    let logits: Vec<Option<f32>> = (0..pool.len())
        .map(|position| logits.and_then(|logits| logits.get(position)).copied())
        .map(|logit| logit.filter(|logit| logit.is_finite()))
        .collect();
    let reranked = normalised_logits(&logits, settings.score_normalization);

    let mut in_pool = vec![false; candidates.len()];
    let mut scored: Vec<Scored> = Vec::with_capacity(candidates.len());
    for (position, (index, fused)) in pool.iter().enumerate() {
        in_pool[*index] = true;
        let fused_relevance = normalise.apply(*fused);
        let relevance = match reranked[position] {
            Some(reranked) => blend_relevance(reranked, fused_relevance, settings.rerank_weight),
            None => fused_relevance,
        };
        let mut row = score_row(candidates, *index, *fused, relevance, settings);
        row.logit = logits[position];
        row.dropped = below_threshold(&row, settings).then_some(DroppedAt::Threshold);
        scored.push(row);
    }

    let mut ranking = Ranking {
        selected: Vec::new(),
        scored,
    };
    let after = demote(candidates, pool, &mut ranking.scored);
    select(candidates, &after, &mut ranking, settings);

    for (index, fused) in fused_order(candidates, settings) {
        if !in_pool[index] {
            let relevance = normalise.apply(fused);
            let mut row = score_row(candidates, index, fused, relevance, settings);
            row.dropped = Some(DroppedAt::Pool);
            ranking.scored.push(row);
        }
    }
    ranking
}

/// All candidates by fused score, replacements before what they replaced.
fn fused_order(candidates: &[Candidate], settings: &RankSettings) -> Vec<(usize, f64)> {
    let arms: Vec<ArmScores> = candidates
        .iter()
        .map(|candidate| ArmScores {
            similarity: candidate.similarity,
            lexical: candidate.lexical,
        })
        .collect();
    let fused = fuse(&arms, &settings.fusion);
    let replaced_by = replacements(candidates);

    // The best fused score among a row and all rows it replaced, and how many
    // replacements stand between the row and the current truth.
    let mut priority = fused.clone();
    let mut depth = vec![0usize; candidates.len()];
    for row in 0..candidates.len() {
        let mut next = replaced_by[row];
        while let Some(replacement) = next {
            priority[replacement] = priority[replacement].max(fused[row]);
            depth[row] += 1;
            next = replaced_by[replacement];
        }
    }
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| {
        priority[*b]
            .total_cmp(&priority[*a])
            .then(depth[*a].cmp(&depth[*b]))
            .then(a.cmp(b))
    });
    order.into_iter().map(|row| (row, fused[row])).collect()
}

/// `demoted_below` of every candidate, without indexes out of range and without
/// the links that would close a circle.
fn replacements(candidates: &[Candidate]) -> Vec<Option<usize>> {
    let mut replaced_by: Vec<Option<usize>> = vec![None; candidates.len()];
    for (row, candidate) in candidates.iter().enumerate() {
        let Some(replacement) = candidate.demoted_below else {
            continue;
        };
        if replacement >= candidates.len() {
            continue;
        }
        let mut last = replacement;
        while last != row
            && let Some(next) = replaced_by[last]
        {
            last = next;
        }
        if last != row {
            replaced_by[row] = Some(replacement);
        }
    }
    replaced_by
}

/// Maps fused scores to 0..=1: weighted ones are already there, RRF values are
/// scaled by the smallest and the largest of the pool.
struct FusedScale {
    bounds: Option<(f64, f64)>,
}

impl FusedScale {
    fn of(fused: &[f64], method: FusionMethod) -> Self {
        Self {
            bounds: (method == FusionMethod::Rrf).then(|| {
                let lowest = fused.iter().copied().fold(f64::INFINITY, f64::min);
                let highest = fused.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (lowest, highest)
            }),
        }
    }

    fn apply(&self, fused: f64) -> f64 {
        match self.bounds {
            None => fused.clamp(0.0, 1.0),
            Some((lowest, highest)) if highest > lowest => {
                ((fused - lowest) / (highest - lowest)).clamp(0.0, 1.0)
            }
            Some((lowest, _)) => f64::from(u8::from(fused >= lowest)),
        }
    }
}

fn normalised_logits(
    logits: &[Option<f32>],
    normalization: ScoreNormalization,
) -> Vec<Option<f64>> {
    match normalization {
        ScoreNormalization::Sigmoid => logits.iter().map(|logit| logit.map(sigmoid)).collect(),
        ScoreNormalization::MinMax => {
            let logits: Vec<_> = logits.iter().map(|logit| logit.map(f64::from)).collect();
            min_max(&logits)
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
    let recency = recency(
        settings.recency_decay,
        settings.recency_days,
        candidate.age_days,
        candidate.half_speed,
    );
    let marker_boost = marker_boost(&candidate.markers, settings.marker_weight);
    Scored {
        index,
        fused,
        logit: None,
        relevance,
        recency,
        marker_boost,
        score: combine(relevance, recency, settings.recency_weight, marker_boost),
        dropped: None,
    }
}

fn below_threshold(row: &Scored, settings: &RankSettings) -> bool {
    let Some(threshold) = settings.score_threshold else {
        return false;
    };
    match row.logit {
        Some(logit) => sigmoid(logit) < threshold,
        None => settings.threshold_is_explicit && row.relevance < threshold,
    }
}

/// Lowers every stale row of the pool below its replacement, drops it if the
/// replacement is dropped, and returns, per position of the pool, the position
/// of the row it has to wait for.
fn demote(
    candidates: &[Candidate],
    pool: &[(usize, f64)],
    scored: &mut [Scored],
) -> Vec<Option<usize>> {
    let replaced_by = replacements(candidates);
    let mut position_of = vec![None; candidates.len()];
    for (position, (index, _)) in pool.iter().enumerate() {
        position_of[*index] = Some(position);
    }
    // The replacements of a row, nearest first, as far as they are in the pool.
    let chain = |position: usize| {
        std::iter::successors(replaced_by[pool[position].0], |row| replaced_by[*row])
            .filter_map(|row| position_of[row])
    };
    let after: Vec<Option<usize>> = (0..pool.len())
        .map(|position| chain(position).next())
        .collect();

    // Current truth first, so that a chain of replacements is lowered in turn.
    let mut by_depth: Vec<usize> = (0..pool.len()).collect();
    by_depth.sort_by_key(|position| chain(*position).count());
    for position in by_depth {
        if let Some(replacement) = after[position] {
            let limit = scored[replacement].score - DEMOTION_STEP;
            let dropped = scored[replacement].dropped;
            let row = &mut scored[position];
            row.score = row.score.min(limit);
            row.dropped = row.dropped.or(dropped);
        }
    }
    after
}

/// Runs MMR over the rows that are left and marks the others.
fn select(
    candidates: &[Candidate],
    after: &[Option<usize>],
    ranking: &mut Ranking,
    settings: &RankSettings,
) {
    let left: Vec<usize> = (0..ranking.scored.len())
        .filter(|position| ranking.scored[*position].dropped.is_none())
        .collect();
    let scores: Vec<f64> = left
        .iter()
        .map(|position| ranking.scored[*position].score)
        .collect();
    // `left` is sorted, and the replacement of a row that is left is left too.
    let after: Vec<Option<usize>> = left
        .iter()
        .map(|position| after[*position].and_then(|first| left.binary_search(&first).ok()))
        .collect();
    let embedding = |row: usize| {
        candidates[ranking.scored[left[row]].index]
            .embedding
            .as_deref()
    };
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
#[path = "rank_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rank_properties.rs"]
mod properties;
