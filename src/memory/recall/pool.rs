//! The pool: which of the rows that the arms found go on to reranking and ranking, and their fused
//! scores.

use crate::store::facts::stale::Replaced;
use crate::store::rows::scope::Layer;
use crate::store::search::{Found, FoundRow};
use memory_agent_core::rank::fuse::{self, ArmScores};
use memory_agent_core::rank::pipeline::RankSettings;
use memory_agent_core::rank::shares;
use pgrx::datum::Uuid;
use std::collections::HashSet;

/// A candidate that did not come into the pool.
pub struct LeftOut {
    pub id: Uuid,
    pub layer: Layer,
    /// What the arms say of the row itself.
    pub arms: ArmScores,
    /// The similarity with a share of the neighbours'.
    pub dense: Option<f64>,
    pub fused: f64,
}

/// A row of the pool.
#[derive(Clone, Copy)]
pub struct Member {
    pub id: Uuid,
    /// Unknown of a row that no arm found.
    pub layer: Option<Layer>,
    /// What the arms say of the row itself.
    pub arms: ArmScores,
    /// The similarity with a share of the neighbours'.
    pub dense: Option<f64>,
    pub fused: f64,
}

/// The pool in fused order.
pub struct Pool {
    /// Best first.
    pub members: Vec<Member>,
    /// Candidates that were not good enough.
    pub left_out: Vec<LeftOut>,
    /// Pairs of positions: a stale turn, and what holds instead, if that is in the scope.
    pub replaced: Vec<(usize, Option<usize>)>,
    /// The same of rows that perhaps no longer hold, and what was said later.
    pub doubted: Vec<(usize, Option<usize>)>,
    /// Stale turns that are not shown: what replaced them is ranked by their scores.
    pub hidden: HashSet<Uuid>,
}

impl Pool {
    pub fn ids(&self) -> Vec<Uuid> {
        self.members.iter().map(|member| member.id).collect()
    }

    fn position(&self, id: Uuid) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Ranks stale turns below what replaced them; a replacement that no arm found joins the pool.
    pub fn demote(&mut self, pairs: &[Replaced]) {
        let replaced = self.positions(pairs);
        self.replaced.extend(replaced);
    }

    /// Ranks what perhaps no longer holds below what was said later, likewise.
    pub fn doubt(&mut self, pairs: &[Replaced]) {
        let doubted = self.positions(pairs);
        self.doubted.extend(doubted);
    }

    /// The positions of rows that are in the pool, and of what they are to rank below.
    fn positions(&mut self, pairs: &[Replaced]) -> Vec<(usize, Option<usize>)> {
        let mut positions = Vec::new();
        for &(row, by) in pairs {
            let Some(at) = self.position(row) else { continue };
            let by = by.map(|by| self.position(by).unwrap_or_else(|| self.join(by)));
            positions.push((at, by));
        }
        positions
    }

    /// Takes in a row whatever the arms say of it.
    fn join(&mut self, id: Uuid) -> usize {
        let known = self.left_out.iter().position(|row| row.id == id);
        let layer = known.map(|at| self.left_out.remove(at).layer);
        let arms = ArmScores { similarity: None, lexical: None };
        self.members.push(Member { id, layer, arms, dense: None, fused: 0.0 });
        self.members.len() - 1
    }

    /// Leaves stale turns out, and gives their places to the best candidates that are not hidden. Of the turns that
    /// one row replaced, the best stays in the pool, hidden, until the row that replaced it is ranked.
    pub fn hide(&mut self, pairs: &[Replaced]) {
        self.hidden = pairs.iter().map(|(turn, _)| *turn).collect();
        let mut told = HashSet::new();
        let mut stand_ins = Vec::new();
        for member in &self.members {
            let of_member = pairs.iter().filter(|(turn, _)| *turn == member.id);
            let replacing = of_member.filter_map(|&(turn, by)| Some((turn, by?)));
            for (turn, by) in replacing.filter(|(_, by)| !self.hidden.contains(by)) {
                if told.insert(by) {
                    stand_ins.push((turn, Some(by)));
                }
            }
        }
        let places = self.members.len();
        let hidden = &self.hidden;
        self.members.retain(|member| {
            !hidden.contains(&member.id) || stand_ins.iter().any(|(turn, _)| *turn == member.id)
        });
        self.left_out.retain(|row| !hidden.contains(&row.id));
        let shown = self.members.iter().filter(|member| !hidden.contains(&member.id)).count();
        let joining = told.iter().filter(|by| self.position(**by).is_none()).count();
        let free = places.saturating_sub(shown + joining).min(self.left_out.len());
        self.members.extend(self.left_out.drain(..free).map(|row| Member {
            id: row.id,
            layer: Some(row.layer),
            arms: row.arms,
            dense: row.dense,
            fused: row.fused,
        }));
        self.demote(&stand_ins);
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
    let fused = fuse::fuse(&arms, settings.dense_weight);
    let mut order: Vec<usize> = (0..arms.len()).collect();
    // Ids break ties, so that the same question gives the same rows.
    order.sort_by(|&a, &b| fused[b].total_cmp(&fused[a]).then_with(|| rows[a].id.cmp(&rows[b].id)));
    let member = |row: usize| {
        let FoundRow { id, layer, similarity, dense, lexical } = rows[row];
        let arms = ArmScores { similarity, lexical };
        Member { id, layer: Some(layer), arms, dense, fused: fused[row] }
    };
    let layers: Vec<usize> = order.iter().map(|&row| rows[row].layer as usize).collect();
    let mut has_place = shares::fill(&layers, settings.max_candidates).into_iter();
    let mut left_out = Vec::new();
    order.retain(|&row| {
        let stays = has_place.next().unwrap_or(false) || included.contains(&rows[row].id);
        if !stays {
            let Member { id, arms, dense, fused, .. } = member(row);
            left_out.push(LeftOut { id, layer: rows[row].layer, arms, dense, fused });
        }
        stays
    });
    let members = order.into_iter().map(member).collect();
    Pool { members, left_out, replaced: Vec::new(), doubted: Vec::new(), hidden: HashSet::new() }
}

/// The best rows of each arm in each layer, and those that are to be included.
pub fn union_of_best(found: &Found, per_arm: usize, included: &HashSet<Uuid>) -> Vec<FoundRow> {
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
    // By id, not by place on disk, so that ties end the same way each time.
    chosen.sort_unstable_by_key(|&at| found.rows[at].id);
    chosen.dedup();
    chosen.into_iter().map(|at| found.rows[at]).collect()
}
