//! The pool: which of the rows that the arms found go on to reranking and ranking, and their fused
//! scores.

use crate::store::scope::Layer;
use crate::store::search::{Found, FoundRow};
use memory_agent_core::fuse::{self, ArmScores};
use memory_agent_core::rank::RankSettings;
use memory_agent_core::shares;
use pgrx::datum::Uuid;
use std::collections::HashSet;

/// A candidate that did not come into the pool.
pub struct LeftOut {
    pub id: Uuid,
    pub layer: Layer,
    /// What the arms say of the row itself.
    pub arms: ArmScores,
    pub fused: f64,
}

/// The pool in fused order.
pub struct Pool {
    /// Positions with their fused scores, best first.
    pub fused: Vec<(usize, f64)>,
    /// By position: what the arms say of the row itself.
    pub arms: Vec<ArmScores>,
    /// By position: the similarity with a share of the neighbours'.
    pub dense: Vec<Option<f64>>,
    /// By position.
    pub ids: Vec<Uuid>,
    /// By position; unknown of a row that no arm found.
    pub layers: Vec<Option<Layer>>,
    /// Candidates that were not good enough.
    pub left_out: Vec<LeftOut>,
    /// Pairs of positions: a stale turn, and the fact that replaced what it says.
    pub replaced: Vec<(usize, usize)>,
}

impl Pool {
    /// Ranks stale turns below what replaced them; a replacement that no arm found joins the pool.
    pub fn demote(&mut self, pairs: &[(Uuid, Uuid)]) {
        for (turn, by) in pairs {
            let Some(stale) = self.ids.iter().position(|id| id == turn) else { continue };
            let replacement = self.ids.iter().position(|id| id == by).unwrap_or_else(|| {
                self.ids.push(*by);
                self.arms.push(ArmScores { similarity: None, lexical: None });
                self.dense.push(None);
                let known = self.left_out.iter().position(|row| row.id == *by);
                self.layers.push(known.map(|at| self.left_out.remove(at).layer));
                self.fused.push((self.ids.len() - 1, 0.0));
                self.ids.len() - 1
            });
            self.replaced.push((stale, replacement));
        }
    }

    /// Leaves stale turns out.
    pub fn hide(&mut self, pairs: &[(Uuid, Uuid)]) {
        let is_stale = |id: &Uuid| pairs.iter().any(|(turn, _)| turn == id);
        let kept: Vec<usize> =
            (0..self.ids.len()).filter(|&position| !is_stale(&self.ids[position])).collect();
        self.fused = kept
            .iter()
            .enumerate()
            .filter_map(|(new, &old)| {
                let (_, score) = self.fused.iter().find(|(position, _)| *position == old)?;
                Some((new, *score))
            })
            .collect();
        self.arms = kept.iter().map(|&old| self.arms[old]).collect();
        self.dense = kept.iter().map(|&old| self.dense[old]).collect();
        self.layers = kept.iter().map(|&old| self.layers[old]).collect();
        self.ids = kept.iter().map(|&old| self.ids[old]).collect();
    }
}

/// Fuses the best rows of each arm and layer and keeps the best of them, of each layer its share. A row that
/// only one arm ranked high is fused with what the other arm truly says of it. The rest of the scope takes
/// no part: its least similar row, an outlier, would set the scale of min-max.
///
/// Rows that are to be included are kept whatever their score.
pub fn fuse_pool(
    found: &Found,
    per_arm: usize,
    included: &[Uuid],
    settings: &RankSettings,
) -> Pool {
    let included: HashSet<Uuid> = included.iter().copied().collect();
    let rows = union_of_best(found, per_arm, &included);
    let arms: Vec<ArmScores> =
        rows.iter().map(|row| ArmScores { similarity: row.dense, lexical: row.lexical }).collect();
    let fused = fuse::fuse(&arms, &settings.fusion);
    let mut order: Vec<usize> = (0..arms.len()).collect();
    // Ids break ties, so that the same question gives the same rows.
    order.sort_by(|&a, &b| fused[b].total_cmp(&fused[a]).then_with(|| rows[a].id.cmp(&rows[b].id)));
    let own =
        |row: usize| ArmScores { similarity: rows[row].similarity, lexical: rows[row].lexical };
    let layers: Vec<usize> = order.iter().map(|&row| rows[row].layer as usize).collect();
    let mut has_place = shares::fill(&layers, settings.max_candidates).into_iter();
    let mut left_out = Vec::new();
    order.retain(|&row| {
        let stays = has_place.next().unwrap_or(false) || included.contains(&rows[row].id);
        if !stays {
            let FoundRow { id, layer, .. } = rows[row];
            left_out.push(LeftOut { id, layer, arms: own(row), fused: fused[row] });
        }
        stays
    });
    Pool {
        fused: order.iter().enumerate().map(|(position, &row)| (position, fused[row])).collect(),
        arms: order.iter().map(|&row| own(row)).collect(),
        dense: order.iter().map(|&row| rows[row].dense).collect(),
        ids: order.iter().map(|&row| rows[row].id).collect(),
        layers: order.iter().map(|&row| Some(rows[row].layer)).collect(),
        left_out,
        replaced: Vec::new(),
    }
}

/// The best rows of each arm in each layer, and those that are to be included.
fn union_of_best(found: &Found, per_arm: usize, included: &HashSet<Uuid>) -> Vec<FoundRow> {
    let mut chosen: Vec<usize> = Vec::with_capacity((2 * per_arm).min(found.rows.len()));
    if !included.is_empty() {
        chosen.extend((0..found.rows.len()).filter(|&at| included.contains(&found.rows[at].id)));
    }
    for arm in [|row: &FoundRow| row.dense, |row: &FoundRow| row.lexical] {
        let mut by_layer: [Vec<(f64, usize)>; Layer::COUNT] = Default::default();
        for (at, row) in found.rows.iter().enumerate() {
            if let Some(score) = arm(row) {
                by_layer[row.layer as usize].push((score, at));
            }
        }
        let best_first = |a: &(f64, usize), b: &(f64, usize)| {
            b.0.total_cmp(&a.0).then_with(|| found.rows[a.1].id.cmp(&found.rows[b.1].id))
        };
        for mut ranked in by_layer {
            if ranked.len() > per_arm {
                ranked.select_nth_unstable_by(per_arm - 1, best_first);
                ranked.truncate(per_arm);
            }
            chosen.extend(ranked.into_iter().map(|(_, at)| at));
        }
    }
    // By id, not by place on disk: reciprocal rank fusion breaks ties by this order.
    chosen.sort_unstable_by_key(|&at| found.rows[at].id);
    chosen.dedup();
    chosen.into_iter().map(|at| found.rows[at]).collect()
}
