//! The learned blend: the probability that a row answers the question, from what a recall knows of both.
//!
//! Two logistic regressions say it. One is for rows that the cross-encoder has not read; it orders the
//! candidates and so decides which ones it reads first. The other one has its logit as well. Cosines differ
//! by embedder and logits by cross-encoder, so each embedder and each pair of both has weights of its own. All were
//! fitted to the same labels, so that a row that was read and one that was not can be compared, and the
//! probability means the same for every question. `models/blend.py` fits them; docs/ranking.md says on what, and
//! how good they are.

mod weights;

use serde::Serialize;
use weights::{FITTED, ReadWeights, UnreadWeights};

/// Characters from which on a query counts as long as can be.
const LONG_QUERY: f64 = 250.0;
/// Age in days at which recency has fallen to 1/e.
const RECENCY_DAYS: f64 = 30.0;
/// So many of the best rows are looked at for others of the same session.
const NEIGHBORHOOD: usize = 10;
/// So many of the best rows say which sessions the question may be about.
const SESSIONS_OF: usize = 20;
/// The weight of `asked_fresh`, set by hand. Both sets have few such questions and are indifferent between 0
/// and 1.6; a question for the latest should prefer it.
const ASKED_FRESH: f64 = 0.8;
/// The logit below which the cross-encoder makes no more difference.
const LOGIT_KNEE: f64 = -4.0;

/// The weights of a recall.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    unread: &'static UnreadWeights,
    read: Option<&'static ReadWeights>,
}

impl Weights {
    /// Those of an embedder and a cross-encoder by their names, without a cross-encoder if none is named.
    /// `None` if nothing was fitted to the logits of that cross-encoder, which mean something else then. An
    /// embedder that nothing was fitted to takes the weights of bge, whose cosines are spread as usual.
    #[must_use]
    pub fn of(embedder: &str, reranker: Option<&str>) -> Option<Self> {
        let fitted = FITTED.iter().find(|fitted| fitted.embedder == embedder).unwrap_or(&FITTED[0]);
        let read = match reranker {
            Some(name) => Some(fitted.read.iter().find(|read| read.reranker == name)?),
            None => None,
        };
        Some(Self { unread: &fitted.unread, read })
    }
}

/// What is known of a query.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Query {
    pub chars: usize,
    /// Whether it names a time.
    pub has_time: bool,
    /// Whether it asks for something recent.
    pub asks_for_fresh: bool,
    /// The BM25 score of a row that had every word of the query as often as can be; 0 without words.
    pub best_lexical: f64,
}

/// The user, the agent and the id of a session: one id can be that of several.
pub type Session<'a> = (&'a str, &'a str, &'a str);

/// What is known of a candidate before the cross-encoder reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row<'a> {
    /// Cosine similarity of the row itself.
    pub similarity: Option<f64>,
    /// The same with a share of its neighbours'.
    pub dense: Option<f64>,
    /// BM25 score.
    pub lexical: Option<f64>,
    /// At the time of the question.
    pub age_days: f64,
    /// Lexemes that are indexed of it, with repetitions.
    pub words: u32,
    pub session: Option<Session<'a>>,
    /// Whether the query has the speaker's name; `None` if the row has no speaker.
    pub speaker_is_named: Option<bool>,
    /// Whether it was created within a time that the query names.
    pub is_in_time: bool,
}

/// The numbers that the regressions weigh.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Features {
    /// Cosine similarity.
    pub similarity: f64,
    /// How far its dense score lies below the best one.
    pub gap: f64,
    /// BM25 score as a share of what the query could give.
    pub lexical_share: f64,
    /// BM25 score as a share of the best row's.
    pub lexical_relative: f64,
    /// 1 for now, falling towards 0 with age.
    pub recency: f64,
    /// Length of the query, 1 for long statements.
    pub query_size: f64,
    /// 1 if the query names a speaker of a row, and not this row's; 0 if it has none.
    pub other_speaker: f64,
    /// 1 if the row is of a time that the query names.
    pub in_time: f64,
    /// 1 if the query names times and the row is of none.
    pub out_of_time: f64,
    /// Share of the best ten rows that are other rows of the same session.
    pub session: f64,
    /// How well the rows of its session fit that are among the best ten: a sum of numbers from 0 to 1.
    pub session_fit: f64,
    /// 1 for the newest session that the question may be about, 1/2 for the one before, and so on.
    pub newest_session: f64,
    /// `recency` if the query asks for something recent, else 0.
    pub asked_fresh: f64,
    /// Logarithm of the row's length.
    pub length: f64,
}

/// The features of all candidates, which come best first by their fused scores.
#[must_use]
pub fn features(query: &Query, rows: &[Row<'_>]) -> Vec<Features> {
    let best = |of: fn(&Row<'_>) -> Option<f64>| rows.iter().filter_map(of).fold(0.0, f64::max);
    let (best_dense, best_lexical) = (best(|row| row.dense), best(|row| row.lexical));
    let lowest = |of: fn(&Row<'_>) -> Option<f64>| rows.iter().filter_map(of).reduce(f64::min);
    let lowest_similarity = lowest(|row| row.similarity).unwrap_or(0.0);
    let lowest_dense = lowest(|row| row.dense).unwrap_or(0.0);
    let gap = |row: &Row<'_>| best_dense - row.dense.unwrap_or(lowest_dense);
    let widest_gap = rows.iter().map(gap).fold(0.0, f64::max);
    let names_somebody = rows.iter().any(|row| row.speaker_is_named == Some(true));
    let flag = |condition: bool| f64::from(u8::from(condition));
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let fit = |row: &Row<'_>| {
        (1.0 - share(gap(row), widest_gap) + share(row.lexical.unwrap_or(0.0), best_lexical)) / 2.0
    };
    let newest = newest_sessions(rows);
    rows.iter()
        .enumerate()
        .map(|(place, row)| {
            let recency = (-row.age_days.max(0.0) / RECENCY_DAYS).exp();
            let of_session =
                |other: &&Row<'_>| row.session.is_some() && other.session == row.session;
            let in_session = rows.iter().take(NEIGHBORHOOD).filter(of_session).count();
            let others = in_session
                .saturating_sub(usize::from(place < NEIGHBORHOOD && row.session.is_some()));
            let lexical = row.lexical.unwrap_or(0.0);
            Features {
                // A row without an embedding is taken for the least similar one.
                similarity: row.similarity.unwrap_or(lowest_similarity),
                gap: gap(row),
                lexical_share: share(lexical, query.best_lexical),
                lexical_relative: share(lexical, best_lexical),
                recency,
                query_size: (query.chars as f64 / LONG_QUERY).min(1.0),
                other_speaker: flag(names_somebody && row.speaker_is_named == Some(false)),
                in_time: flag(query.has_time && row.is_in_time),
                out_of_time: flag(query.has_time && !row.is_in_time),
                session: others as f64 / NEIGHBORHOOD as f64,
                session_fit: rows.iter().take(NEIGHBORHOOD).filter(of_session).map(fit).sum(),
                newest_session: row
                    .session
                    .and_then(|session| newest.iter().position(|other| *other == session))
                    .map_or(0.0, |place| 1.0 / (1 + place) as f64),
                asked_fresh: if query.asks_for_fresh { recency } else { 0.0 },
                length: f64::from(row.words).ln_1p(),
            }
        })
        .collect()
}

/// The sessions of the best rows, the newest first. A session is as old as the newest of these rows; rows
/// whose age does not count have no place.
fn newest_sessions<'a>(rows: &[Row<'a>]) -> Vec<Session<'a>> {
    let mut ages: Vec<(Session<'a>, f64)> = Vec::new();
    for row in rows.iter().take(SESSIONS_OF).filter(|row| row.age_days.is_finite()) {
        let Some(session) = row.session else { continue };
        match ages.iter_mut().find(|(other, _)| *other == session) {
            Some((_, age)) => *age = age.min(row.age_days),
            None => ages.push((session, row.age_days)),
        }
    }
    ages.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    ages.into_iter().map(|(session, _)| session).collect()
}

impl Features {
    /// The probability of a row, with the logit that the cross-encoder gave it, if it has read it.
    #[must_use]
    pub fn probability(&self, logit: Option<f32>, weights: Weights) -> f64 {
        logistic(match (logit, weights.read) {
            (Some(logit), Some(read)) => self.read(f64::from(logit), read),
            _ => self.unread(weights.unread),
        })
    }

    fn unread(&self, w: &UnreadWeights) -> f64 {
        let size = self.query_size;
        w.intercept
            + w.similarity * self.similarity
            + w.gap * self.gap
            + w.lexical_share * self.lexical_share
            + (w.recency + w.recency_by_size * size) * self.recency
            + w.query_size * size
            + w.other_speaker * self.other_speaker
            + w.in_time * self.in_time
            + w.out_of_time * self.out_of_time
            + w.session * self.session
            + w.session_fit * self.session_fit
            + (w.newest_session + w.newest_session_by_size * size) * self.newest_session
            + ASKED_FRESH * self.asked_fresh
            + w.length * self.length
    }

    fn read(&self, logit: f64, w: &ReadWeights) -> f64 {
        let size = self.query_size;
        w.intercept
            + w.gap * self.gap
            + w.lexical_relative * self.lexical_relative
            + (w.recency + w.recency_by_size * size) * self.recency
            + w.query_size * size
            + w.other_speaker * self.other_speaker
            + w.in_time * self.in_time
            + w.session_fit * self.session_fit
            + (w.newest_session + w.newest_session_by_size * size) * self.newest_session
            + ASKED_FRESH * self.asked_fresh
            + w.length * self.length
            + (w.logit + w.logit_by_size * size) * logit
            + w.logit_above_knee * (logit - LOGIT_KNEE).max(0.0)
    }
}

fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SESSION: Session<'static> = ("u", "a", "s");

    fn row(similarity: f64, lexical: f64) -> Row<'static> {
        Row {
            similarity: Some(similarity),
            dense: Some(similarity),
            lexical: Some(lexical),
            age_days: 400.0,
            words: 12,
            ..Row::default()
        }
    }

    #[test]
    fn features_are_what_they_say() {
        let query = Query { chars: 50, has_time: true, asks_for_fresh: true, best_lexical: 10.0 };
        let rows = [
            Row {
                session: Some(SESSION),
                speaker_is_named: Some(true),
                age_days: 30.0,
                ..row(0.8, 4.0)
            },
            Row {
                session: Some(SESSION),
                speaker_is_named: Some(false),
                is_in_time: true,
                ..row(0.6, 2.0)
            },
            Row { session: None, lexical: None, similarity: None, dense: None, ..row(0.0, 0.0) },
        ];
        let found = features(&query, &rows);
        let first = Features {
            similarity: 0.8,
            gap: 0.0,
            lexical_share: 0.4,
            lexical_relative: 1.0,
            recency: (-1.0f64).exp(),
            query_size: 0.2,
            other_speaker: 0.0,
            in_time: 0.0,
            out_of_time: 1.0,
            session: 0.1,
            // This row, and the other: half as many words, and similar as the least similar one.
            session_fit: 1.25,
            newest_session: 1.0,
            asked_fresh: (-1.0f64).exp(),
            length: 13.0f64.ln(),
        };
        assert_eq!(found[0], first);
        assert_eq!(
            (found[1].other_speaker, found[1].in_time, found[1].out_of_time),
            (1.0, 1.0, 0.0)
        );
        assert!(
            (found[1].gap - 0.2).abs() < 1e-12 && (found[1].lexical_relative - 0.5).abs() < 1e-12
        );
        assert_eq!(
            (found[2].similarity, found[2].session, found[2].lexical_share),
            (0.6, 0.0, 0.0)
        );
        assert!((found[2].gap - 0.2).abs() < 1e-12, "as far as the farthest");
        assert_eq!((found[2].session_fit, found[2].newest_session), (0.0, 0.0));
        assert_eq!(found[2].other_speaker, 0.0, "nobody said it");
    }

    #[test]
    fn the_newest_session_comes_first() {
        let of = |id, age_days| Row { session: Some(("u", "a", id)), age_days, ..row(0.5, 1.0) };
        let places = |rows: &[Row<'_>]| -> Vec<f64> {
            features(&Query::default(), rows).iter().map(|row| row.newest_session).collect()
        };
        let rows = [of("old", 90.0), of("new", 40.0), of("old", 80.0), of("newest", 2.0)];
        assert_eq!(places(&rows), [1.0 / 3.0, 0.5, 1.0 / 3.0, 1.0]);
        // The caller weighs the age, so it is none of the regressions' business.
        assert_eq!(places(&[of("a", f64::INFINITY), of("b", f64::INFINITY)]), [0.0, 0.0]);
    }

    #[test]
    fn sessions_of_one_id_are_those_of_their_agents_and_users() {
        let of = |user, agent| Row { session: Some((user, agent, "s")), ..row(0.5, 1.0) };
        let rows = [of("u", "a"), of("u", "b"), of("*", "a"), of("u", "a")];
        let others: Vec<f64> =
            features(&Query::default(), &rows).iter().map(|row| row.session).collect();
        assert_eq!(others, [0.1, 0.0, 0.0, 0.1]);
    }

    #[test]
    fn a_row_that_fits_is_likely_and_one_that_does_not_is_not() {
        let query = Query { chars: 40, best_lexical: 10.0, ..Query::default() };
        let found = features(&query, &[row(0.75, 7.0), row(0.55, 0.0)]);
        for weights in all_weights() {
            let of = |row: usize, logit| found[row].probability(logit, weights);
            assert!(of(0, None) > 0.2 && of(1, None) < 0.02, "{weights:?} {found:?}");
            let is_read = weights.read.is_some();
            assert!(!is_read || (of(0, Some(8.0)) > 0.4 && of(0, Some(-8.0)) < 0.2), "{weights:?}");
        }
    }

    /// Those of every embedder, without a cross-encoder and with each.
    fn all_weights() -> impl Iterator<Item = Weights> {
        FITTED.iter().flat_map(|fitted| {
            let read = fitted.read.iter().map(Some).chain([None]);
            read.map(|read| Weights { unread: &fitted.unread, read })
        })
    }

    #[test]
    fn weights_belong_to_the_cosines_of_an_embedder_and_the_logits_of_a_reranker() {
        for fitted in &FITTED {
            for read in fitted.read {
                let found = Weights::of(fitted.embedder, Some(read.reranker)).unwrap();
                assert!(std::ptr::eq(found.unread, &fitted.unread));
                assert!(std::ptr::eq(found.read.unwrap(), read));
            }
            assert!(Weights::of(fitted.embedder, None).is_some_and(|found| found.read.is_none()));
            assert!(Weights::of(fitted.embedder, Some("another")).is_none());
        }
        let another = Weights::of("another", None).unwrap();
        assert!(std::ptr::eq(another.unread, &FITTED[0].unread));
    }

    #[test]
    fn no_candidates_have_no_features() {
        assert_eq!(features(&Query::default(), &[]), []);
    }

    proptest! {
        #[test]
        fn probabilities_are_between_zero_and_one(
            chars in 0..10_000usize, has_time in any::<bool>(), best_lexical in 0.0..1e3f64,
            rows in prop::collection::vec(
                (prop::option::of(-1.0..1.0f64), prop::option::of(0.0..1e3f64), -1e6..1e6f64, any::<u32>(), any::<bool>()),
                0..20,
            ),
            logit in -30.0..30.0f32,
        ) {
            let rows: Vec<Row> = rows
                .into_iter()
                .map(|(similarity, lexical, age_days, words, flag)| Row {
                    similarity, dense: similarity, lexical, age_days, words,
                    session: flag.then_some(SESSION), speaker_is_named: Some(flag), is_in_time: flag,
                })
                .collect();
            let query = Query { chars, has_time, asks_for_fresh: has_time, best_lexical };
            for features in features(&query, &rows) {
                for weights in all_weights() {
                    prop_assert!((0.0..=1.0).contains(&features.probability(None, weights)), "{features:?}");
                    let of = |logit| features.probability(Some(logit), weights);
                    let (low, high) = (of(logit), of(logit + 5.0));
                    prop_assert!((0.0..=1.0).contains(&low), "{features:?}");
                    prop_assert!(low <= high + 1e-9 || features.query_size > 0.5);
                }
            }
        }
    }
}
