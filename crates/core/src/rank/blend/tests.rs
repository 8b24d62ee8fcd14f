use proptest::prelude::*;

use super::*;

const SESSION: Session<'static> = ("u", "a", "s");

fn row(similarity: f64, lexical: f64) -> Row<'static> {
    Row {
        similarity: Some(similarity),
        dense: Some(similarity),
        lexical: Some(lexical),
        age_days: 400.0,
        tokens: 12,
        ..Row::default()
    }
}

fn query() -> Query {
    Query { chars: 40, best_lexical: 10.0, rows: 100, ..Query::default() }
}

#[test]
fn features_are_what_they_say() {
    let query = Query { chars: 50, has_time: true, asks_for_fresh: true, ..query() };
    let rows = [
        Row {
            session: Some(SESSION),
            speaker_is_named: Some(true),
            age_days: 30.0,
            tokens: 400,
            is_assistants: true,
            ..row(0.8, 4.0)
        },
        Row {
            session: Some(SESSION),
            speaker_is_named: Some(false),
            is_in_time: true,
            ..row(0.6, 2.0)
        },
        Row { lexical: None, similarity: None, dense: None, ..row(0.0, 0.0) },
    ];
    let found = features(&query, &rows);
    let first = Features {
        gap: 0.0,
        gap_share: 0.0,
        lexical_relative: 1.0,
        // This row, and the other: half as many words, and similar as the least similar one.
        session_fit: 1.25,
        // Twice as long, and one of three rows is a long one of an assistant.
        long: 2.0f64.ln() / 3.0,
        other_speaker: 0.0,
        out_of_time: 1.0,
        newest_session: 1.0,
        asked_fresh: (-1.0f64).exp(),
        similarity: Some(0.8),
        lexical_share: 0.4,
        scope_size: 100.0f64.ln(),
        query_size: 0.2,
    };
    assert_eq!(found[0], first);
    assert_eq!((found[1].other_speaker, found[1].out_of_time), (1.0, 0.0));
    assert!((found[1].gap - 0.2).abs() < 1e-12 && (found[1].lexical_relative - 0.5).abs() < 1e-12);
    assert_eq!((found[1].gap_share, found[1].long), (1.0, 0.0));
    assert_eq!(
        (found[2].similarity, found[2].session_fit, found[2].newest_session),
        (None, 0.0, 0.0)
    );
    assert_eq!(found[2].other_speaker, 0.0, "it has no speaker");
}

#[test]
fn a_row_without_a_session_is_one_of_its_own() {
    let fits = |session| {
        let rows = [row(0.8, 4.0), row(0.7, 4.0)].map(|row| Row { session, ..row });
        features(&query(), &rows).iter().map(|row| row.session_fit).collect::<Vec<f64>>()
    };
    assert_eq!((fits(None), fits(Some(SESSION))), (vec![1.0, 0.5], vec![1.5, 1.5]));
}

#[test]
fn the_newest_session_comes_first() {
    let of = |id, age_days| Row { session: Some(("u", "a", id)), age_days, ..row(0.5, 1.0) };
    let places = |rows: &[Row<'_>]| -> Vec<f64> {
        features(&Query::default(), rows).iter().map(|row| row.newest_session).collect()
    };
    let rows = [of("old", 90.0), of("new", 40.0), of("old", 80.0), of("newest", 2.0)];
    assert_eq!(places(&rows), [1.0 / 3.0, 0.5, 1.0 / 3.0, 1.0]);
    // The caller weighs the age, so the ranking does not.
    assert_eq!(places(&[of("a", f64::INFINITY), of("b", f64::INFINITY)]), [0.0, 0.0]);
}

#[test]
fn sessions_of_one_id_are_those_of_their_agents_and_users() {
    let of = |user, agent| Row { session: Some((user, agent, "s")), ..row(0.5, 1.0) };
    let rows = [of("u", "a"), of("u", "b"), of("*", "a"), of("u", "a")];
    let fits: Vec<f64> = features(&query(), &rows).iter().map(|row| row.session_fit).collect();
    assert_eq!(fits, [2.0, 1.0, 1.0, 2.0]);
}

/// The probabilities of these rows, all with this logit or none.
fn probabilities(
    query: &Query,
    rows: &[Row<'_>],
    logit: Option<f32>,
    weights: Weights,
) -> Vec<f64> {
    let features = features(query, rows);
    let log_odds = weights.log_odds(&features);
    let logits = logit.map(|logit| vec![logit; rows.len()]);
    weights.probabilities(&features, &log_odds, logits.as_deref())
}

/// A logit counts for itself and against the best one of the list; a row that was not read keeps its log odds.
#[test]
fn logits_move_the_rows_that_were_read() {
    let features = features(&query(), &[row(0.75, 7.0), row(0.70, 6.0), row(0.65, 5.0)]);
    for weights in all_weights().filter(|weights| weights.read.is_some()) {
        let log_odds = weights.log_odds(&features);
        let of = |logits: [f32; 3]| weights.probabilities(&features, &log_odds, Some(&logits));
        let (one, other) = (of([4.0, -4.0, f32::NAN]), of([-4.0, 4.0, f32::NAN]));
        assert!(one[0] > one[1] && other[1] > other[0], "{one:?} {other:?}");
        let unread = weights.probabilities(&features, &log_odds, None);
        assert_eq!((one[2], other[2]), (unread[2], unread[2]));
        assert_eq!(of([f32::NAN; 3]), unread);
        assert!(of([2.0, 2.0, f32::NAN])[1] > of([5.0, 2.0, f32::NAN])[1], "{weights:?}");
    }
}

#[test]
fn a_row_that_fits_is_likely_and_one_that_does_not_is_not() {
    for weights in all_weights() {
        let of = |row: usize, logit| {
            let rows = [self::row(0.75, 7.0), self::row(0.45, 0.0)];
            probabilities(&query(), &rows, logit, weights)[row]
        };
        assert!(
            of(0, None) > 0.3 && of(1, None) < 0.1,
            "{weights:?} {} {}",
            of(0, None),
            of(1, None)
        );
        if weights.read.is_some() {
            let (high, low) = (of(0, Some(8.0)), of(0, Some(-8.0)));
            assert!(high > 0.5 && low < high - 0.1, "{weights:?} {high} {low}");
        }
    }
}

/// The best of nothing that fits is not likely, whatever it has before the others.
#[test]
fn the_best_of_nothing_that_fits_is_unlikely() {
    let rows = [row(0.4, 0.0), row(0.2, 0.0), row(0.1, 0.0)];
    let weights = Weights::of("memory-embed-small", None).unwrap();
    let found = probabilities(&query(), &rows, None, weights);
    assert!(found[0] < 0.1 && found[1] < found[0] && found[2] < found[1], "{found:?}");
}

/// The more rows, the more of them look as if they answered.
#[test]
fn among_more_rows_a_row_is_less_likely() {
    for weights in all_weights() {
        let of =
            |rows| probabilities(&Query { rows, ..query() }, &[row(0.7, 5.0)], None, weights)[0];
        assert!(of(3) > of(300) && of(300) > of(30_000), "{weights:?}");
    }
}

/// A row that waits for its embedding is ranked by its words, among rows that have theirs.
#[test]
fn a_row_without_an_embedding_is_on_the_same_scale() {
    let waiting = |lexical| Row { similarity: None, dense: None, ..row(0.0, lexical) };
    for weights in all_weights() {
        let rows = [row(0.75, 7.0), waiting(7.0), waiting(1.0), row(0.35, 0.0)];
        let found = probabilities(&query(), &rows, None, weights);
        assert!(found[1] > 0.2 && found[1] > found[3] && found[2] < found[1], "{found:?}");
        let alone = probabilities(&query(), &rows[1..3], None, weights);
        assert_eq!(alone, found[1..3], "nothing but its words count");
    }
}

/// Those of every embedder, without a cross-encoder and with each.
fn all_weights() -> impl Iterator<Item = Weights> {
    let embedders = EMBEDDERS.iter().map(|(name, _)| *name).chain(["another"]);
    embedders.flat_map(|embedder| {
        let read = RERANKERS.iter().map(|(name, _)| Some(*name)).chain([None]);
        read.filter_map(move |reranker| Weights::of(embedder, reranker))
    })
}

#[test]
fn weights_belong_to_the_cosines_of_an_embedder_and_the_logits_of_a_reranker() {
    for (embedder, row) in &EMBEDDERS {
        for (reranker, read) in &RERANKERS {
            let found = Weights::of(embedder, Some(reranker)).unwrap();
            assert!(std::ptr::eq(found.row, row) && std::ptr::eq(found.read.unwrap(), read));
        }
        assert!(Weights::of(embedder, None).is_some_and(|found| found.read.is_none()));
        assert!(Weights::of(embedder, Some("another")).is_none());
    }
    let another = Weights::of("another", None).unwrap();
    assert!(std::ptr::eq(another.row, &ANY_EMBEDDER));
    // Cosines of an unknown embedder may lie anywhere.
    assert_eq!((ANY_EMBEDDER.gap, ANY_EMBEDDER.similarity), (0.0, 0.0));
}

#[test]
fn no_candidates_have_no_features() {
    assert_eq!(features(&Query::default(), &[]), []);
    assert!(Weights::of("another", None).unwrap().log_odds(&[]).is_empty());
}

proptest! {
    #[test]
    fn probabilities_are_between_zero_and_one(
        chars in 0..10_000usize, has_time in any::<bool>(), best_lexical in 0.0..1e3f64, of in any::<u64>(),
        rows in prop::collection::vec(
            (prop::option::of(-1.0..1.0f64), prop::option::of(0.0..1e3f64), -1e6..1e6f64, any::<u32>(), any::<bool>()),
            0..20,
        ),
        logit in -30.0..30.0f32,
    ) {
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(similarity, lexical, age_days, tokens, flag)| Row {
                similarity, dense: similarity, lexical, age_days, tokens, is_assistants: flag,
                session: flag.then_some(SESSION), speaker_is_named: Some(flag), is_in_time: flag,
            })
            .collect();
        let query = Query { chars, has_time, asks_for_fresh: has_time, best_lexical, rows: of };
        for weights in all_weights() {
            let low = probabilities(&query, &rows, Some(logit), weights);
            let high = probabilities(&query, &rows, Some(logit + 5.0), weights);
            for (low, high) in low.into_iter().zip(high) {
                prop_assert!((0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high));
                prop_assert!(low <= high + 1e-9 || chars > 100);
            }
        }
    }
}
