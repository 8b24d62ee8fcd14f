//! The pool: which of the rows that the arms found go on to reranking and ranking, and their fused
//! scores.

use crate::store::search::{Found, FoundRow};
use memory_agent_core::fuse::{self, ArmScores};
use memory_agent_core::rank::RankSettings;
use pgrx::datum::Uuid;

/// The pool in fused order, as positions with their fused scores; and, by position, the arms and ids.
pub type Pool = (Vec<(usize, f64)>, Vec<ArmScores>, Vec<Uuid>);

/// Fuses the best rows of each arm and keeps the best of them. A row that only one arm ranked high
/// is fused with what the other arm truly says of it. The rest of the scope takes no part: its
/// least similar row, an outlier, would set the scale of min-max.
///
/// Rows that are to be included are kept whatever their score.
pub fn fuse_pool(
    found: &Found,
    per_arm: usize,
    included: &[Uuid],
    settings: &RankSettings,
) -> Pool {
    let rows = union_of_best(found, per_arm, included);
    let arms: Vec<ArmScores> =
        rows.iter().map(|row| ArmScores { similarity: row.dense, lexical: row.lexical }).collect();
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
    // By id, not by place on disk: reciprocal rank fusion breaks ties by this order.
    chosen.sort_unstable_by_key(|&at| found.rows[at].id);
    chosen.dedup();
    chosen.into_iter().map(|at| found.rows[at]).collect()
}
