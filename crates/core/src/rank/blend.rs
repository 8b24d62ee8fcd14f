//! The learned blend: the probability that a row answers the question, from what a recall knows of both.
//!
//! Three steps say it, each a sum of a few weighted numbers. The first tells what a row has before others of its
//! list, and takes the best row for the measure. The second adds how near the row is to the question whatever else
//! there is, and how many rows it was chosen from: so a probability means the same in a memory of three rows and in
//! one of thousands, and all are low where nothing fits. The third, for rows that a cross-encoder read, has the logit
//! as well, and how far it lies behind the best one. A row without an embedding has a sum of its own, by words.
//! Cosines differ by embedder and logits by cross-encoder, so each has weights of its own. `models/blend.py` fits
//! them; docs/ranking.md says on what, and how good they are.

mod weights;

use serde::Serialize;
use weights::{ANY_EMBEDDER, EMBEDDERS, RERANKERS, ReadWeights, RowWeights, WORDS, WordWeights};

/// Characters from which on a query counts as long as can be.
const LONG_QUERY: f64 = 250.0;
/// Tokens from which on a row counts as long.
const LONG_ROW: f64 = 200.0;
/// Age in days at which recency has fallen to 1/e.
const RECENCY_DAYS: f64 = 30.0;
/// So many of the best rows are looked at for others of the same session.
const NEIGHBORHOOD: usize = 10;
/// So many of the best rows say which sessions the question may be about.
const SESSIONS_OF: usize = 20;
/// The weight of `asked_fresh`, set by hand. The sets have few such questions and are indifferent between 0
/// and 1.6; a question for the latest should prefer it.
const ASKED_FRESH: f64 = 0.8;

/// The weights of a recall.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    row: &'static RowWeights,
    words: &'static WordWeights,
    read: Option<&'static ReadWeights>,
}

impl Weights {
    /// Those of an embedder and a cross-encoder by their names, without a cross-encoder if none is named.
    /// `None` if nothing was fitted to the logits of that cross-encoder, which mean something else then. An
    /// embedder that nothing was fitted to has weights that do not depend on how its cosines are spread.
    #[must_use]
    pub fn of(embedder: &str, reranker: Option<&str>) -> Option<Self> {
        let of_embedder = EMBEDDERS.iter().find(|(name, _)| *name == embedder);
        let row = of_embedder.map_or(&ANY_EMBEDDER, |(_, row)| row);
        let read = match reranker {
            Some(name) => Some(&RERANKERS.iter().find(|(fitted, _)| *fitted == name)?.1),
            None => None,
        };
        Some(Self { row, words: &WORDS, read })
    }

    /// The log odds of all candidates before a cross-encoder reads any, in their order.
    #[must_use]
    pub fn log_odds(self, rows: &[Features]) -> Vec<f64> {
        let w = self.row;
        let advantages: Vec<Option<f64>> =
            rows.iter().map(|row| row.similarity.map(|_| row.advantage(w))).collect();
        let best = advantages.iter().flatten().copied().reduce(f64::max).unwrap_or(0.0);
        let with_embedding = |row: &Features, similarity: f64, advantage: f64| {
            w.intercept + advantage - best
                + w.similarity * similarity
                + w.lexical_share * row.lexical_share
                + w.scope_size * row.scope_size
        };
        let of_rows = rows.iter().zip(advantages);
        of_rows
            .map(|(row, advantage)| match (row.similarity, advantage) {
                (Some(similarity), Some(advantage)) => with_embedding(row, similarity, advantage),
                _ => row.by_words(self.words),
            })
            .collect()
    }

    /// The probabilities of all candidates from their log odds, in their order. `logits` are those that the
    /// cross-encoder gave to the rows that it read, not finite for the others.
    #[must_use]
    pub fn probabilities(
        self,
        rows: &[Features],
        log_odds: &[f64],
        logits: Option<&[f32]>,
    ) -> Vec<f64> {
        let logits = logits.unwrap_or_default();
        let read = |place: usize| logits.get(place).copied().filter(|logit| logit.is_finite());
        let best = (0..rows.len()).filter_map(read).fold(f32::NEG_INFINITY, f32::max);
        let of_row = |place: usize, row: &Features, log_odds: f64| match (read(place), self.read) {
            (Some(logit), Some(w)) => row.read(log_odds, logit.into(), (best - logit).into(), w),
            _ => log_odds,
        };
        let of_rows = rows.iter().zip(log_odds).enumerate();
        of_rows.map(|(place, (row, &odds))| logistic(of_row(place, row, odds))).collect()
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
    /// Rows that it was asked of.
    pub rows: u64,
}

/// The user, the agent and the id of a session: one id can be that of several.
pub type Session<'a> = (&'a str, &'a str, &'a str);

/// What is known of a candidate before the cross-encoder reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row<'a> {
    /// Cosine similarity of the row itself; `None` without an embedding.
    pub similarity: Option<f64>,
    /// The same with a share of its neighbours'.
    pub dense: Option<f64>,
    /// BM25 score.
    pub lexical: Option<f64>,
    /// At the time of the question.
    pub age_days: f64,
    /// Of its text.
    pub tokens: u32,
    /// Whether an assistant said it.
    pub is_assistants: bool,
    pub session: Option<Session<'a>>,
    /// Whether the query has the speaker's name; `None` if the row has no speaker.
    pub speaker_is_named: Option<bool>,
    /// Whether it was created within a time that the query names.
    pub is_in_time: bool,
}

/// The numbers that are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Features {
    /// How far its dense score lies below the best one.
    pub gap: f64,
    /// The same as a share of the widest gap.
    pub gap_share: f64,
    /// BM25 score as a share of the best row's.
    pub lexical_relative: f64,
    /// How well the rows of its session fit that are among the best ten: a sum of numbers from 0 to 1. A row without
    /// a session is one of its own.
    pub session_fit: f64,
    /// How much longer than [`LONG_ROW`] tokens it is, the logarithm of how many times, multiplied by the share of
    /// candidates that are long turns of an assistant. In a chat with an assistant most long rows are its answers,
    /// and what the user said is short; among other rows a long one is as good as any.
    pub long: f64,
    /// 1 if the query names a speaker of a row, and not this row's; 0 if it has none.
    pub other_speaker: f64,
    /// 1 if the query names times and the row is of none.
    pub out_of_time: f64,
    /// 1 for the newest session that the question may be about, 1/2 for the one before, and so on.
    pub newest_session: f64,
    /// `recency` if the query asks for something recent, else 0.
    pub asked_fresh: f64,
    /// Cosine similarity.
    pub similarity: Option<f64>,
    /// BM25 score as a share of what the query could give.
    pub lexical_share: f64,
    /// Logarithm of the number of rows that the query was asked of.
    pub scope_size: f64,
    /// Length of the query, 1 for long statements.
    pub query_size: f64,
}

/// The features of all candidates, which come best first by their fused scores.
#[must_use]
pub fn features(query: &Query, rows: &[Row<'_>]) -> Vec<Features> {
    let best = |of: fn(&Row<'_>) -> Option<f64>| rows.iter().filter_map(of).fold(0.0, f64::max);
    let (best_dense, best_lexical) = (best(|row| row.dense), best(|row| row.lexical));
    let lowest = rows.iter().filter_map(|row| row.dense).reduce(f64::min).unwrap_or(0.0);
    let gap = |row: &Row<'_>| best_dense - row.dense.unwrap_or(lowest);
    let widest_gap = rows.iter().map(gap).fold(0.0, f64::max);
    let names_somebody = rows.iter().any(|row| row.speaker_is_named == Some(true));
    let flag = |condition: bool| f64::from(u8::from(condition));
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let fit = |row: &Row<'_>| {
        (1.0 - share(gap(row), widest_gap) + share(row.lexical.unwrap_or(0.0), best_lexical)) / 2.0
    };
    let newest = newest_sessions(rows);
    let times_long = |row: &Row<'_>| (f64::from(row.tokens) / LONG_ROW).max(1.0).ln();
    let answers = rows.iter().filter(|row| row.is_assistants && times_long(row) > 0.0).count();
    let answers = share(answers as f64, rows.len() as f64);
    rows.iter()
        .enumerate()
        .map(|(place, row)| {
            let recency = (-row.age_days.max(0.0) / RECENCY_DAYS).exp();
            let neighborhood = rows.iter().take(NEIGHBORHOOD).enumerate();
            let of_session = neighborhood.filter(|(other_place, other)| match row.session {
                Some(session) => other.session == Some(session),
                None => *other_place == place,
            });
            let lexical = row.lexical.unwrap_or(0.0);
            Features {
                gap: gap(row),
                gap_share: share(gap(row), widest_gap),
                lexical_relative: share(lexical, best_lexical),
                session_fit: of_session.map(|(_, other)| fit(other)).sum(),
                long: times_long(row) * answers,
                other_speaker: flag(names_somebody && row.speaker_is_named == Some(false)),
                out_of_time: flag(query.has_time && !row.is_in_time),
                newest_session: row
                    .session
                    .and_then(|session| newest.iter().position(|other| *other == session))
                    .map_or(0.0, |place| 1.0 / (1 + place) as f64),
                asked_fresh: if query.asks_for_fresh { recency } else { 0.0 },
                similarity: row.similarity,
                lexical_share: share(lexical, query.best_lexical),
                scope_size: (query.rows.max(1) as f64).ln(),
                query_size: (query.chars as f64 / LONG_QUERY).min(1.0),
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
    /// What the row has before others of its list; only differences mean something.
    fn advantage(&self, w: &RowWeights) -> f64 {
        w.gap * self.gap
            + w.gap_share * self.gap_share
            + w.lexical_relative * self.lexical_relative
            + w.session_fit * self.session_fit
            + w.long * self.long
            + w.other_speaker * self.other_speaker
            + w.out_of_time * self.out_of_time
            + w.newest_session_by_size * self.newest_session * self.query_size
            + ASKED_FRESH * self.asked_fresh
    }

    /// The log odds of a row without an embedding.
    fn by_words(&self, w: &WordWeights) -> f64 {
        w.intercept
            + w.lexical_relative * self.lexical_relative
            + w.lexical_share * self.lexical_share
            + w.long * self.long
            + w.other_speaker * self.other_speaker
            + w.out_of_time * self.out_of_time
            + w.scope_size * self.scope_size
            + w.query_size * self.query_size
            + ASKED_FRESH * self.asked_fresh
    }

    fn read(&self, log_odds: f64, logit: f64, behind: f64, w: &ReadWeights) -> f64 {
        w.intercept
            + w.log_odds * log_odds
            + w.logit * logit
            + (w.behind + w.behind_by_size * self.query_size) * behind
            + w.scope_size * self.scope_size
    }
}

fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

#[cfg(test)]
mod tests;
