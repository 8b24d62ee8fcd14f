//! Worked examples of the ranking pipeline.

use super::*;

pub(crate) fn settings() -> RankSettings {
    RankSettings {
        dense_weight: 0.5,
        max_candidates: 50,
        score_threshold: None,
        threshold_is_explicit: false,
        threshold_keeps: 1,
        recency_weight: 0.0,
        marker_weight: 0.1,
        mmr_lambda: 1.0,
        top_k: None,
    }
}

/// A candidate that only the dense arm found.
pub(crate) fn dense(similarity: f64) -> Candidate {
    Candidate { similarity: Some(similarity), ..Candidate::default() }
}

pub(crate) fn rank(
    candidates: &[Candidate],
    logits: Option<&[f32]>,
    settings: &RankSettings,
) -> Ranking {
    finish(candidates, &pool(candidates, settings), logits, settings)
}

/// Candidate indexes of the selected rows, in order.
pub(crate) fn selected(ranking: &Ranking) -> Vec<usize> {
    let position = |position: &usize| ranking.scored[*position].index;
    ranking.selected.iter().map(position).collect()
}

pub(crate) fn of(ranking: &Ranking, index: usize) -> &Scored {
    ranking.scored.iter().find(|row| row.index == index).unwrap()
}

pub(crate) fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
}

#[test]
fn the_pool_holds_the_best_fused_rows_in_order() {
    let candidates = [dense(0.2), dense(0.9), dense(0.5), dense(0.5)];
    let cut = RankSettings { max_candidates: 3, ..settings() };
    let indexes: Vec<usize> = pool(&candidates, &cut).iter().map(|row| row.0).collect();
    assert_eq!(indexes, [1, 2, 3]);
    let ranking = rank(&candidates, None, &cut);
    assert_eq!(selected(&ranking), [1, 2, 3]);
    assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Pool));
    assert_eq!(ranking.scored.len(), 4);
}

#[test]
fn nothing_in_nothing_out() {
    assert_eq!(rank(&[], None, &settings()), Ranking::default());
    assert_eq!(rank(&[], Some(&[]), &settings()), Ranking::default());
    let empty_pool = RankSettings { max_candidates: 0, ..settings() };
    assert!(rank(&[dense(0.5)], None, &empty_pool).selected.is_empty());
}

#[test]
fn without_a_reranker_relevance_is_the_normalised_fused_score() {
    let candidates = [dense(0.2), dense(0.6), dense(1.0)];
    let weighted = rank(&candidates, None, &settings());
    assert_close(of(&weighted, 1).relevance, 0.5);
    assert_eq!(of(&weighted, 1).logit, None);
    assert_close(of(&weighted, 2).relevance, 1.0);
    assert_close(of(&weighted, 0).relevance, 0.0);
    // One row, or equal ones, are the best of their pool.
    assert_close(of(&rank(&candidates[..1], None, &settings()), 0).relevance, 1.0);
}

#[test]
fn the_fused_score_is_scaled_by_the_pool_before_recency_is_added() {
    // Cosines of one model lie close together; in the pool they use the whole range.
    let old = Candidate { age_days: 30.0, ..dense(0.82) };
    let candidates = [old, dense(0.81), dense(0.80), dense(0.1)];
    let both_arms: Vec<Candidate> = candidates
        .iter()
        .map(|candidate| Candidate { lexical: Some(1.0), ..candidate.clone() })
        .collect();
    let cut = RankSettings { max_candidates: 3, recency_weight: 0.2, ..settings() };
    for candidates in [&candidates[..], &both_arms] {
        let ranking = rank(candidates, None, &cut);
        assert_close(of(&ranking, 0).relevance, 1.0);
        assert_close(of(&ranking, 2).relevance, 0.0);
        assert_close(of(&ranking, 0).score, 0.8 + 0.2 * (-1.0f64).exp());
        // A row from outside the pool does not go below it.
        assert_close(of(&ranking, 3).relevance, 0.0);
        assert_eq!(selected(&ranking), [0, 1, 2]);
    }
    // Equal rows are all the best of their pool.
    let ranking = rank(&[dense(0.3), dense(0.3)], None, &cut);
    assert!(ranking.scored.iter().all(|row| row.relevance == 1.0));
}

#[test]
fn the_reranker_changes_the_order_and_is_blended() {
    let candidates = [dense(0.2), dense(0.6), dense(1.0)];
    // The pool is 2, 1, 0; the reranker sees it the other way round.
    let ranking = rank(&candidates, Some(&[-2.0, 3.0, 2.0]), &settings());
    assert_eq!(selected(&ranking), [1, 2, 0]);
    assert_close(of(&ranking, 0).relevance, 0.5 * sigmoid(2.0));
    assert_close(of(&ranking, 1).relevance, 0.5 * sigmoid(3.0) + 0.25);
    assert_close(of(&ranking, 2).relevance, 0.5 * sigmoid(-2.0) + 0.5);
    assert_eq!(of(&ranking, 2).logit, Some(-2.0));
}

#[test]
fn a_missing_or_broken_logit_leaves_its_row_unreranked() {
    let candidates = [dense(1.0), dense(0.9), dense(0.2)];
    let ranking = rank(&candidates, Some(&[1.0, f32::NAN]), &settings());
    assert_eq!(of(&ranking, 0).logit, Some(1.0));
    for index in [1, 2] {
        let row = of(&ranking, index);
        assert_eq!(row.logit, None);
        // As good as the worst that was read.
        assert_close(row.relevance, 0.5 * crate::rank::score::sigmoid(1.0) + 0.5 * row.fused);
    }
}

#[test]
fn the_threshold_is_tested_on_the_reranker_before_blending() {
    let candidates = [dense(1.0), dense(0.2)];
    let threshold = RankSettings { score_threshold: Some(0.35), ..settings() };
    // The first row would pass after blending: 0.5 * 0.27 + 0.5 * 1.
    let ranking = rank(&candidates, Some(&[-1.0, 1.0]), &threshold);
    assert_eq!(selected(&ranking), [1]);
    assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Threshold));
    assert!(of(&ranking, 0).relevance > 0.35);
    // sigmoid(0) is exactly the limit, and stays.
    let at_limit = RankSettings { score_threshold: Some(0.5), ..settings() };
    assert_eq!(selected(&rank(&candidates, Some(&[0.0, 0.0]), &at_limit)), [0, 1]);
}

#[test]
fn without_a_reranker_only_an_explicit_threshold_counts() {
    let candidates = [dense(1.0), dense(0.2)];
    let by_default = RankSettings { score_threshold: Some(0.35), ..settings() };
    assert_eq!(selected(&rank(&candidates, None, &by_default)), [0, 1]);
    let explicit = RankSettings { threshold_is_explicit: true, ..by_default };
    let ranking = rank(&candidates, None, &explicit);
    assert_eq!(selected(&ranking), [0]);
    assert_eq!(of(&ranking, 1).dropped, Some(DroppedAt::Threshold));
}

#[test]
fn a_default_threshold_drops_rows_only_while_enough_remain() {
    let candidates = [dense(1.0), dense(0.8), dense(0.6), dense(0.2)];
    let logits = [3.0, -3.0, 2.0, -4.0];
    let kept = |threshold_keeps, threshold_is_explicit| {
        let settings = RankSettings {
            score_threshold: Some(0.35),
            threshold_keeps,
            threshold_is_explicit,
            ..settings()
        };
        selected(&rank(&candidates, Some(&logits), &settings))
    };
    // Two rows pass.
    assert_eq!(kept(0, false), [0, 2]);
    assert_eq!(kept(2, false), [0, 2]);
    assert_eq!(kept(3, false), [0, 2, 1, 3]);
    assert_eq!(kept(3, true), [0, 2]);

    // Rows that were not reranked neither pass nor fall.
    let settings = RankSettings { score_threshold: Some(0.35), threshold_keeps: 2, ..settings() };
    let ranking = rank(&candidates, Some(&[3.0, -3.0]), &settings);
    assert_eq!(selected(&ranking), [0, 1, 2, 3]);
    let one = RankSettings { threshold_keeps: 1, ..settings };
    let ranking = rank(&candidates, Some(&[3.0, -3.0]), &one);
    assert_eq!(selected(&ranking), [0, 2, 3]);
}

#[test]
fn a_stale_row_does_not_count_as_kept_when_its_replacement_falls() {
    let stale = Candidate { demoted_below: vec![1], ..dense(1.0) };
    let candidates = [stale, dense(0.5)];
    let settings = RankSettings { score_threshold: Some(0.35), ..settings() };
    // The pool is 1, 0: only the stale row passes, and it cannot be shown alone.
    let ranking = rank(&candidates, Some(&[-3.0, 3.0]), &settings);
    assert_eq!(selected(&ranking), [1, 0]);
    let strict = RankSettings { threshold_is_explicit: true, ..settings };
    assert!(rank(&candidates, Some(&[-3.0, 3.0]), &strict).selected.is_empty());
}

#[test]
fn markers_decide_between_probabilities_that_are_nearly_equal() {
    let likely = |probability, markers: &[&str]| Candidate {
        probability: Some(probability),
        markers: markers.iter().map(|&marker| marker.to_owned()).collect(),
        ..dense(0.5)
    };
    let first = |marked| selected(&rank(&[likely(0.1, &[]), marked], None, &settings()))[0];
    assert_eq!(first(likely(0.09, &["constraint"])), 1);
    assert_eq!(first(likely(0.08, &["constraint"])), 0);
}

#[test]
fn recency_and_markers_enter_the_score() {
    let old = Candidate { age_days: 30.0, ..dense(1.0) };
    let marked = Candidate { markers: vec!["constraint".to_owned()], ..dense(0.2) };
    let weighted = RankSettings { recency_weight: 0.2, ..settings() };
    let ranking = rank(&[old, marked], None, &weighted);
    assert_close(of(&ranking, 0).recency, (-1.0f64).exp());
    assert_close(of(&ranking, 0).score, 0.8 + 0.2 * (-1.0f64).exp());
    assert_close(of(&ranking, 1).marker_boost, 0.04);
    assert_close(of(&ranking, 1).score, 0.2 + 0.04);
}

#[test]
fn mmr_drops_repetitions_beyond_top_k() {
    let with_embedding = |similarity, embedding: [f32; 2]| Candidate {
        embedding: Some(embedding.to_vec()),
        ..dense(similarity)
    };
    let candidates = [
        with_embedding(1.0, [1.0, 0.0]),
        with_embedding(0.9, [1.0, 0.0]),
        with_embedding(0.5, [0.0, 1.0]),
        with_embedding(0.1, [0.7, 0.7]),
    ];
    let diverse = RankSettings { mmr_lambda: 0.6, top_k: Some(2), ..settings() };
    let ranking = rank(&candidates, None, &diverse);
    assert_eq!(selected(&ranking), [0, 2]);
    assert_eq!(of(&ranking, 1).dropped, Some(DroppedAt::Mmr));
    assert_eq!(of(&ranking, 2).dropped, None);
}

#[test]
fn a_stale_row_comes_right_below_its_replacement() {
    let stale = Candidate { demoted_below: vec![1], ..dense(1.0) };
    let candidates = [stale, dense(0.6), dense(0.5), dense(0.2)];
    let ranking = rank(&candidates, None, &settings());
    assert_eq!(selected(&ranking), [1, 0, 2, 3]);
    let (stale, fresh) = (of(&ranking, 0).score, of(&ranking, 1).score);
    assert!(stale < fresh && (stale as f32) < fresh as f32 && fresh - stale < 1e-5);
}

#[test]
fn a_stale_row_below_its_replacement_keeps_its_score() {
    let stale = Candidate { demoted_below: vec![0], ..dense(0.6) };
    let ranking = rank(&[dense(1.0), stale, dense(0.2)], None, &settings());
    assert_close(of(&ranking, 1).score, 0.5);
}

#[test]
fn a_replacement_that_no_arm_found_takes_the_place_of_the_stale_row() {
    let stale = Candidate { demoted_below: vec![1], ..dense(1.0) };
    let candidates = [stale, Candidate::default(), dense(0.6), dense(0.2)];
    let ranking = rank(&candidates, None, &settings());
    assert_eq!(selected(&ranking), [1, 0, 2, 3]);
    assert_close(of(&ranking, 1).score, 1.0);
    assert_eq!(of(&ranking, 1).fused, 0.0);
    assert!((0.0..1e-5).contains(&(1.0 - of(&ranking, 0).score)));
    // The row without a score of its own does not stretch the scale.
    assert_close(of(&ranking, 2).relevance, 0.5);
    assert_close(of(&ranking, 3).relevance, 0.0);

    // Nor does what the reranker says of it pull both down.
    let ranking = rank(&candidates, Some(&[-3.0, 3.0, 0.0, 0.0]), &settings());
    assert_eq!(selected(&ranking), [1, 0, 2, 3]);
    assert_close(of(&ranking, 1).score, 0.5 * sigmoid(3.0) + 0.5);

    // A cosine to a zero vector is not found.
    let mut broken = candidates.clone();
    broken[1].similarity = Some(f64::NAN);
    assert_eq!(selected(&rank(&broken, None, &settings())), [1, 0, 2, 3]);
}

#[test]
fn a_lift_goes_through_a_chain_up_to_a_row_that_was_found() {
    let replaced =
        |similarity, by| Candidate { similarity, demoted_below: vec![by], ..Candidate::default() };
    let lost = [replaced(Some(1.0), 1), replaced(None, 2), Candidate::default(), dense(0.9)];
    assert_eq!(selected(&rank(&lost, None, &settings())), [2, 1, 0, 3]);
    // Row 1 was found and holds row 0 down; row 2 takes the place of row 1 only.
    let found = [
        replaced(Some(1.0), 1),
        replaced(Some(0.5), 2),
        Candidate::default(),
        dense(0.9),
        dense(0.2),
    ];
    assert_eq!(selected(&rank(&found, None, &settings())), [3, 2, 1, 0, 4]);
}

#[test]
fn a_stale_row_below_the_threshold_lifts_nothing() {
    let stale = Candidate { demoted_below: vec![1], ..dense(1.0) };
    let candidates = [stale, Candidate::default(), dense(0.9), dense(0.2)];
    let threshold = RankSettings { score_threshold: Some(0.35), ..settings() };
    // The pool is 1, 0, 2, 3.
    let ranking = rank(&candidates, Some(&[0.0, -3.0, 3.0, -3.0]), &threshold);
    assert_eq!(selected(&ranking), [2, 1]);
    assert_close(of(&ranking, 1).score, 0.5 * 0.5 + 0.5);
}

#[test]
fn a_stale_row_does_not_show_without_its_replacement() {
    let stale = Candidate { demoted_below: vec![1], ..dense(1.0) };
    let candidates = [stale, dense(0.2), dense(0.6)];
    // Cut by top_k: the two others are better than the replacement.
    let top_one = RankSettings { top_k: Some(1), ..settings() };
    let ranking = rank(&candidates, None, &top_one);
    assert_eq!(selected(&ranking), [2]);
    assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Mmr));
    // Cut by the threshold, which the stale row alone would pass.
    let threshold = RankSettings { score_threshold: Some(0.5), ..settings() };
    let positions = pool(&candidates, &threshold);
    let logits: Vec<f32> =
        positions.iter().map(|(index, _)| if *index == 1 { -3.0 } else { 3.0 }).collect();
    let ranking = finish(&candidates, &positions, Some(&logits), &threshold);
    assert_eq!(selected(&ranking), [2]);
    assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Threshold));
}

#[test]
fn the_replacement_enters_the_pool_before_the_stale_row() {
    let stale = Candidate { demoted_below: vec![3], ..dense(1.0) };
    let candidates = [stale, dense(0.9), dense(0.8), dense(0.1)];
    let order = |max_candidates| {
        let cut = RankSettings { max_candidates, ..settings() };
        let pool = pool(&candidates, &cut);
        pool.iter().map(|row| row.0).collect::<Vec<_>>()
    };
    assert_eq!(order(1), [3]);
    assert_eq!(order(2), [3, 0]);
    assert_eq!(order(4), [3, 0, 1, 2]);
}

#[test]
fn diversity_does_not_bring_a_stale_row_forward() {
    let with_embedding = |similarity, embedding: [f32; 2], demoted_below| Candidate {
        embedding: Some(embedding.to_vec()),
        demoted_below,
        ..dense(similarity)
    };
    // Rows 0 and 1 say the same; the stale row 2 is the only one that differs.
    let candidates = [
        with_embedding(1.0, [1.0, 0.0], vec![]),
        with_embedding(0.9, [1.0, 0.0], vec![]),
        with_embedding(0.8, [0.0, 1.0], vec![1]),
    ];
    let diverse = RankSettings { mmr_lambda: 0.1, ..settings() };
    assert_eq!(selected(&rank(&candidates, None, &diverse)), [0, 1, 2]);
}

#[test]
fn chains_of_replacements_keep_their_order_and_circles_are_cut() {
    let replaced = |similarity, by| Candidate { demoted_below: vec![by], ..dense(similarity) };
    let chain = [replaced(1.0, 1), replaced(0.9, 2), dense(0.1), dense(0.05)];
    assert_eq!(selected(&rank(&chain, None, &settings())), [2, 1, 0, 3]);
    let circle = [replaced(1.0, 1), replaced(0.5, 0), replaced(0.7, 2)];
    assert_eq!(selected(&rank(&circle, None, &settings())).len(), 3);
    let dangling = [replaced(1.0, 99), dense(0.5)];
    assert_eq!(selected(&rank(&dangling, None, &settings())), [0, 1]);
}

#[test]
fn a_hidden_row_lends_its_score_and_takes_no_place() {
    let hidden = Candidate { demoted_below: vec![1], is_hidden: true, ..dense(1.0) };
    let candidates = [hidden, Candidate::default(), dense(0.6), dense(0.2)];
    let ranking = rank(&candidates, None, &RankSettings { top_k: Some(2), ..settings() });
    assert_eq!(selected(&ranking), [1, 2]);
    assert_close(of(&ranking, 1).score, 1.0);
    assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Stale));
}
