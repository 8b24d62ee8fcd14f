//! The learned ranking: what its sums need, from what a recall knows.

use crate::memory::recall::pool::Member;
use crate::memory::recall::request::Request;
use crate::memory::texts::language::Phrases;
use crate::store::search::candidate_details::Detail;
use chrono::{DateTime, TimeDelta, Utc};
use memory_agent_core::rank::blend::{self, Features, Query, Row};
use pgrx::pg_sys;

/// So long after a time that a question names, what happened then is still talked about.
const AFTERWARDS: TimeDelta = TimeDelta::days(3);

/// The features of all candidates, in their order.
///
/// * `documents`: how many rows were searched.
/// * `lexical_bound`: the BM25 score of a row that had every word as often as can be.
pub fn features(
    request: &Request,
    details: &[Detail],
    members: &[Member],
    documents: u64,
    lexical_bound: f64,
) -> Vec<Features> {
    let asked_at = asked_at(request);
    let phrases = Phrases::of(&request.scope.search.text_search_config);
    let spans = phrases.times(&request.query, asked_at);
    let words = words_of(&request.query);
    let query = Query {
        chars: request.query.chars().count(),
        has_time: !spans.is_empty(),
        asks_for_fresh: request.asks_for_fresh,
        best_lexical: lexical_bound,
        rows: documents,
    };
    let rows: Vec<Row<'_>> = details
        .iter()
        .zip(members)
        .map(|(detail, Member { arms, dense, .. })| {
            let created_at = before(asked_at, detail.age_days);
            Row {
                similarity: arms.similarity,
                dense: *dense,
                lexical: arms.lexical,
                age_days: if request.recency_is_learned { detail.age_days } else { f64::INFINITY },
                tokens: detail.token_count.max(0) as u32,
                is_assistants: detail.role == "assistant",
                session: detail.session(),
                speaker_is_named: detail
                    .speaker
                    .as_deref()
                    .map(|name| words_of(name).iter().any(|word| words.contains(word))),
                is_in_time: spans
                    .iter()
                    .any(|span| span.from <= created_at && created_at < span.to + AFTERWARDS),
            }
        })
        .collect();
    blend::features(&query, &rows)
}

/// The moment of the question.
#[allow(unsafe_code)]
fn asked_at(request: &Request) -> DateTime<Utc> {
    // SAFETY: there is a transaction.
    let now = || unsafe { pg_sys::GetCurrentTransactionStartTimestamp() };
    let micros = request.scope.as_of.map_or_else(now, Into::into);
    // PostgreSQL counts from 2000 on.
    DateTime::from_timestamp_micros(micros.saturating_add(946_684_800_000_000)).unwrap_or_default()
}

fn before(moment: DateTime<Utc>, days: f64) -> DateTime<Utc> {
    TimeDelta::try_milliseconds((days * 86_400_000.0) as i64)
        .and_then(|age| moment.checked_sub_signed(age))
        .unwrap_or_default()
}

/// Lower case. A letter alone is no name.
fn words_of(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.chars().nth(1).is_some())
        .map(str::to_lowercase)
        .collect()
}
