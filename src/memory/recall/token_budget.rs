//! Which of the ranked rows are shown when a token budget is given.

use crate::memory::recall::request::Request;
use crate::store::search::candidate_details::Detail;
use memory_agent_core::rank::budget::{self, BudgetRow};
use memory_agent_core::rank::pipeline::{DroppedAt, Ranking};
use pgrx::datum::Uuid;

/// Step 5: the positions that fit the budget. The newest turns of the open episode enter first, up
/// to their share; then the ranked rows, best first. Shown in MMR order; turns that MMR did not
/// choose follow by score.
pub fn within_budget(
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
            (0..ranking.scored.len()).find(|&at| {
                let row = &ranking.scored[at];
                details[row.index].id == *turn && row.dropped != Some(DroppedAt::Stale)
            })
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
        budget::CURRENT_EPISODE_SHARE,
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
    // An explicit top_k bounds the turns of the episode too; they enter first.
    while request.settings.top_k.is_some_and(|top_k| shown.len() > top_k) {
        let is_turn = |position: &usize| turns.contains(position);
        let worst = (0..shown.len())
            .min_by(|&a, &b| {
                is_turn(&shown[a])
                    .cmp(&is_turn(&shown[b]))
                    .then(ranking.scored[shown[a]].score.total_cmp(&ranking.scored[shown[b]].score))
            })
            .unwrap_or(0);
        ranking.scored[shown.remove(worst)].dropped = Some(DroppedAt::Mmr);
    }
    for &position in &ranking.selected {
        if !shown.contains(&position) {
            ranking.scored[position].dropped = Some(DroppedAt::Budget);
        }
    }
    shown
}
