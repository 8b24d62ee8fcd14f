//! Properties of the ranking pipeline over random candidates and settings.

use proptest::prelude::*;

use super::tests::{of, rank, selected, settings};
use super::*;

fn any_candidate() -> impl Strategy<Value = Candidate> {
    (
        (prop::option::of(-1.0..1.0f64), prop::option::of(0.0..30.0f64)),
        (-5.0..500.0f64, prop::option::of(0.0..=1.0f64)),
        prop::option::of(prop::collection::vec(-1.0..1.0f32, 3)),
        prop::sample::select(vec!["", "goal", "constraint", "custom:x"]),
        prop_oneof![
            1 => Just(Vec::new()),
            1 => prop::collection::vec(0..12usize, 1..4),
        ],
    )
        .prop_map(
            |((similarity, lexical), (age_days, probability), embedding, marker, demoted_below)| {
                Candidate {
                    similarity,
                    lexical,
                    age_days,
                    markers: vec![marker.to_owned()],
                    embedding,
                    token_count: 1,
                    demoted_below,
                    is_hidden: false,
                    probability,
                }
            },
        )
}

fn any_settings() -> impl Strategy<Value = RankSettings> {
    (
        any::<bool>(),
        (0.0..=1.0f64, 0.0..=1.0f64, 0.0..=1.0f64),
        0..15usize,
        (prop::option::of(0.0..=1.0f64), 0..8usize),
        prop::option::of(0..15usize),
    )
        .prop_map(|(threshold_is_explicit, weights, max_candidates, threshold, top_k)| {
            let (score_threshold, threshold_keeps) = threshold;
            let (dense_weight, recency_weight, mmr_lambda) = weights;
            RankSettings {
                dense_weight,
                max_candidates,
                score_threshold,
                threshold_is_explicit,
                threshold_keeps,
                recency_weight,
                mmr_lambda,
                top_k,
                ..settings()
            }
        })
}

fn any_case() -> impl Strategy<Value = (Vec<Candidate>, Option<Vec<f32>>, RankSettings)> {
    (
        prop::collection::vec(any_candidate(), 0..12),
        prop::option::of(prop::collection::vec(
            prop_oneof![9 => -12.0..12.0f32, 1 => any::<f32>()],
            12,
        )),
        any_settings(),
    )
}

proptest! {
    #[test]
    fn every_candidate_is_accounted_for((candidates, logits, settings) in any_case()) {
        let ranking = rank(&candidates, logits.as_deref(), &settings);
        let mut indexes: Vec<usize> = ranking.scored.iter().map(|row| row.index).collect();
        indexes.sort_unstable();
        prop_assert_eq!(indexes, (0..candidates.len()).collect::<Vec<_>>());
        // Selected and dropped are opposites.
        for (position, row) in ranking.scored.iter().enumerate() {
            prop_assert_eq!(row.dropped.is_none(), ranking.selected.contains(&position));
        }
    }

    #[test]
    fn all_score_parts_are_finite_and_in_range((candidates, logits, settings) in any_case()) {
        for row in rank(&candidates, logits.as_deref(), &settings).scored {
            prop_assert!(row.fused.is_finite() && row.score.is_finite());
            prop_assert!((0.0..=1.0).contains(&row.relevance), "{row:?}");
            prop_assert!((0.0..=1.0).contains(&row.recency));
            prop_assert!((0.0..=0.04 + 1e-12).contains(&row.marker_boost));
            prop_assert!(row.score <= 1.04 + 1e-9);
        }
    }

    #[test]
    fn limits_are_kept((candidates, logits, settings) in any_case()) {
        let ranking = rank(&candidates, logits.as_deref(), &settings);
        let in_pool = ranking.scored.iter().filter(|row| row.dropped != Some(DroppedAt::Pool));
        prop_assert_eq!(in_pool.count(), candidates.len().min(settings.max_candidates));
        let passed = ranking.scored.iter().filter(|row| {
            !matches!(row.dropped, Some(DroppedAt::Pool | DroppedAt::Threshold))
        });
        let wanted = settings.top_k.unwrap_or(usize::MAX);
        prop_assert_eq!(ranking.selected.len(), passed.count().min(wanted));
    }

    #[test]
    fn stale_rows_never_come_before_any_replacement((candidates, logits, settings) in any_case()) {
        let replacements = Replacements::of(&candidates);
        let ranking = rank(&candidates, logits.as_deref(), &settings);
        let order = selected(&ranking);
        for (place, row) in order.iter().enumerate() {
            for replacement in replacements.successors(*row) {
                prop_assert!(order[..place].contains(&replacement), "{order:?}");
                prop_assert!(of(&ranking, *row).score < of(&ranking, replacement).score);
            }
        }
    }

    /// Whatever the pool is: that of a longer list may lack some replacements.
    #[test]
    fn no_stale_row_comes_before_a_replacement_in_any_pool(
        (mut candidates, logits, settings) in any_case(),
        pooled in prop::collection::vec(prop::bool::weighted(0.8), 12),
    ) {
        // Without circles no link is cut, and all given ones count.
        for (row, candidate) in candidates.iter_mut().enumerate() {
            candidate.demoted_below.retain(|replacement| *replacement > row);
        }
        let place = |order: &[usize], row: usize| order.iter().position(|other| *other == row);
        let mut pool = pool(&candidates, &settings);
        let whole: Vec<usize> = pool.iter().map(|row| row.0).collect();
        pool.retain(|(index, _)| pooled[*index]);
        let ranking = finish(&candidates, &pool, logits.as_deref(), &settings);
        let order = selected(&ranking);

        for (stale, candidate) in candidates.iter().enumerate() {
            let known = candidate.demoted_below.iter().filter(|by| **by < candidates.len());
            for replacement in known.copied() {
                if let Some(stale) = place(&whole, stale) {
                    prop_assert!(place(&whole, replacement).is_some_and(|first| first < stale));
                }
                let both_in_pool = [stale, replacement]
                    .iter()
                    .all(|row| of(&ranking, *row).dropped != Some(DroppedAt::Pool));
                if !both_in_pool {
                    continue;
                }
                prop_assert!(of(&ranking, stale).score < of(&ranking, replacement).score);
                if let Some(stale) = place(&order, stale) {
                    prop_assert!(place(&order, replacement).is_some_and(|first| first < stale));
                }
            }
        }
    }

    #[test]
    fn a_default_threshold_leaves_enough_rows((candidates, logits, settings) in any_case()) {
        let settings = RankSettings { threshold_is_explicit: false, ..settings };
        let ranking = rank(&candidates, logits.as_deref(), &settings);
        let in_pool = candidates.len().min(settings.max_candidates);
        let wanted = settings.threshold_keeps.min(settings.top_k.unwrap_or(usize::MAX));
        prop_assert!(ranking.selected.len() >= in_pool.min(wanted), "{ranking:?}");
    }

    #[test]
    fn an_explicit_threshold_is_strict((candidates, logits, settings) in any_case()) {
        let settings = RankSettings { threshold_is_explicit: true, ..settings };
        let ranking = rank(&candidates, logits.as_deref(), &settings);
        for row in ranking.selected.iter().map(|position| &ranking.scored[*position]) {
            let probability = candidates[row.index].probability;
            let tested = probability.or(row.logit.map(sigmoid)).unwrap_or(row.relevance);
            prop_assert!(settings.score_threshold.is_none_or(|threshold| tested >= threshold));
        }
    }

    #[test]
    fn replacements_that_no_arm_found_are_not_below_what_they_replaced(
        (mut candidates, logits, settings) in any_case(),
        stale in 0..12usize,
        replacements in 1..4usize,
    ) {
        prop_assume!(candidates.len() > replacements);
        let found = candidates.len() - replacements;
        let stale = stale % found;
        for candidate in &mut candidates {
            candidate.demoted_below.clear();
        }
        let alone = rank(&candidates[..found], None, &settings);
        for replacement in found..candidates.len() {
            candidates[stale].demoted_below.push(replacement);
            candidates[replacement].similarity = None;
            candidates[replacement].lexical = None;
        }

        let ranking = rank(&candidates, logits.as_deref(), &settings);
        let row = of(&ranking, stale);
        if row.dropped.is_none() {
            for replacement in found..candidates.len() {
                let fresh = of(&ranking, replacement);
                prop_assert!(fresh.score > row.score && fresh.dropped.is_none());
            }
        }
        // The replacements do not change the scale of the others.
        if settings.max_candidates >= candidates.len() {
            let ranking = rank(&candidates, None, &settings);
            for row in &alone.scored {
                prop_assert_eq!(row.relevance, of(&ranking, row.index).relevance);
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_ranking((candidates, logits, settings) in any_case()) {
        prop_assert_eq!(
            rank(&candidates, logits.as_deref(), &settings),
            rank(&candidates, logits.as_deref(), &settings)
        );
    }

    #[test]
    fn lambda_one_is_score_order((candidates, logits, settings) in any_case()) {
        let by_score = RankSettings { mmr_lambda: 1.0, ..settings };
        let ranking = rank(&candidates, logits.as_deref(), &by_score);
        let scores: Vec<f64> = ranking.selected.iter().map(|row| ranking.scored[*row].score).collect();
        prop_assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    }

    #[test]
    fn a_smaller_top_k_is_a_prefix((candidates, logits, settings) in any_case()) {
        let all = rank(&candidates, logits.as_deref(), &RankSettings { top_k: None, ..settings.clone() });
        let some = rank(&candidates, logits.as_deref(), &settings);
        prop_assert_eq!(&some.selected[..], &all.selected[..some.selected.len()]);
    }

    /// The order in which the database returned the rows does not matter, as long
    /// as no two scores are equal (ties go by that order).
    #[test]
    fn the_order_of_candidates_does_not_matter(
        rows in prop::collection::vec(
            (-1.0..1.0f64, 0.0..30.0f64, 0.0..500.0f64, prop::collection::vec(-1.0..1.0f32, 3)),
            0..12,
        ),
        random_settings in any_settings(),
        mmr_lambda in 0.1..=1.0f64,
        shift in 0..12usize,
    ) {
        let settings = RankSettings {
            // With even weights, two rows that each lead one arm would be equal.
            dense_weight: 0.613,
            recency_weight: 0.5,
            mmr_lambda,
            ..random_settings
        };
        let candidates: Vec<Candidate> = rows
            .into_iter()
            .map(|(similarity, lexical, age_days, embedding)| Candidate {
                similarity: Some(similarity),
                lexical: Some(lexical),
                age_days,
                embedding: Some(embedding),
                ..Candidate::default()
            })
            .collect();
        let moved_from: Vec<usize> = (0..candidates.len())
            .map(|index| (index + shift) % candidates.len())
            .rev()
            .collect();
        let moved: Vec<Candidate> =
            moved_from.iter().map(|index| candidates[*index].clone()).collect();

        let expected = selected(&rank(&candidates, None, &settings));
        let found: Vec<usize> = selected(&rank(&moved, None, &settings))
            .into_iter()
            .map(|index| moved_from[index])
            .collect();
        prop_assert_eq!(found, expected);
    }
}
