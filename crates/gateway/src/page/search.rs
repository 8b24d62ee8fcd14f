//! Search: what a recall returns for a question and what it left out, with every part of each score, as
//! `memory_explain` tells it.

use super::facts::time_range;
use super::frame::Here;
use super::parts::{self, bar, beginning, memory_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, Entry};
use crate::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use tokio_postgres::types::Type;

/// Memories that a search returns by default.
const TOP_K: i32 = 10;
/// The most that a visitor may ask for.
const MOST: i32 = 100;
/// Letters of a memory in the list.
const SHOWN: usize = 300;

/// What `memory_explain` says.
#[derive(Debug, Deserialize)]
struct Explained {
    mode: String,
    #[serde(default)]
    reranking: Option<String>,
    #[serde(default)]
    ranking: Option<String>,
    #[serde(default)]
    milliseconds: Map<String, Value>,
    #[serde(default)]
    rows: Map<String, Value>,
    candidates: Vec<Candidate>,
}

/// A memory that was considered, with the parts of its score.
#[derive(Debug, Deserialize)]
struct Candidate {
    id: String,
    rank: Option<u32>,
    similarity: Option<f64>,
    lexical: Option<f64>,
    fused: Option<f64>,
    logit: Option<f64>,
    relevance: Option<f64>,
    recency: Option<f64>,
    age_days: Option<f64>,
    marker_boost: Option<f64>,
    score: Option<f64>,
    features: Option<Map<String, Value>>,
    dropped: Option<String>,
}

/// `GET /ui/search`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let question = asked.query.get("q");
    let session = asked.query.get("session");
    let as_of = asked.query.get("as_of").map(|at| {
        parts::moment(at)
            .ok_or_else(|| Trouble::invalid("This is not a time: write 2026-01-31T10:00."))
    });
    let as_of = as_of.transpose()?;
    let top_k = asked.query.get("top").and_then(|top| top.parse().ok());
    let top_k: i32 = top_k.unwrap_or(TOP_K).clamp(1, MOST);
    let range = time_range(&asked).await?;
    let found = match question.filter(|question| !question.trim().is_empty()) {
        Some(question) => Some(explain(&asked, question, session, as_of, top_k).await?),
        None => None,
    };
    let body = html! {
        h1 { "Search" }
        form.search method="get" action="/ui/search" role="search" data-live="#found" {
            div.field.wide {
                label for="q" { "Question" }
                input #q type="search" name="q" required value=[question] autocomplete="off";
            }
            div.actions { button type="submit" { "Search" } }
            div.field.session {
                label for="session" { "In session" }
                input #session type="text" name="session" value=[session] placeholder="all" autocomplete="off";
            }
            div.field.small {
                label for="top" { "Most" }
                input #top type="number" name="top" min="1" max=(MOST) value=(top_k);
            }
            (time_field(&range, as_of))
        }
        div #found aria-live="polite" {
            @match &found {
                Some((explained, texts)) => (results(explained, texts)),
                None => p.muted { "Ask as you would ask a person. The table shows why each memory was found, and what was left out." }
            }
        }
    };
    Ok(Answer::Page(Here::Search, "Search".to_owned(), body))
}

async fn explain(
    asked: &Asked,
    question: &str,
    session: Option<&str>,
    as_of: Option<&str>,
    top_k: i32,
) -> Result<(Explained, HashMap<String, Entry>), Trouble> {
    let sql = "SELECT memory_explain($1, session_id => $2, top_k => $3::int4, \
                                     as_of => $4::timestamp AT TIME ZONE 'UTC')";
    let params: [Param<'_>; 4] = [
        (&question, Type::TEXT),
        (&session, Type::TEXT),
        (&top_k, Type::INT4),
        (&as_of, Type::TEXT),
    ];
    let explained: Vec<Explained> = rows::read(&asked.rows(sql, &params).await?)?;
    let explained = explained.into_iter().next().ok_or_else(Trouble::nothing_here)?;
    let ids = rows::ids(explained.candidates.iter().map(|candidate| &candidate.id));
    let texts = asked.texts(&ids).await?;
    Ok((explained, texts))
}

/// The field of a time, and the slider that the script puts beside it.
pub fn time_field(range: &Option<(String, String)>, as_of: Option<&str>) -> Markup {
    let value = as_of.map(parts::for_field);
    html! {
        div.field.time {
            label for="as_of" { "As of " span.muted { "(UTC)" } }
            input #as_of type="datetime-local" name="as_of" value=[value];
            @if let Some((first, last)) = range {
                input type="range" data-slider="as_of" data-first=(first) data-last=(last)
                    aria-label="Time" step="any" min="0" max="1" hidden;
            }
        }
    }
}

fn results(explained: &Explained, texts: &HashMap<String, Entry>) -> Markup {
    let (returned, dropped): (Vec<&Candidate>, Vec<&Candidate>) =
        explained.candidates.iter().partition(|candidate| candidate.rank.is_some());
    let best_words =
        explained.candidates.iter().filter_map(|one| one.lexical).fold(f64::MIN_POSITIVE, f64::max);
    html! {
        (told(explained, returned.len()))
        @if returned.is_empty() {
            (parts::empty("Nothing was found.", "Ask with other words, of another time, or in all sessions."))
        } @else {
            (table("Found", &returned, texts, best_words))
        }
        @if !dropped.is_empty() {
            details.dropped open[returned.is_empty()] {
                summary { h2 { "Left out " span.count { (dropped.len()) } } }
                p.muted {
                    "Considered, and dropped: " b { "pool" } " is not among the best of both searches, "
                    b { "threshold" } " is too improbable, " b { "mmr" } " is below the number asked for, "
                    b { "budget" } " is too long for the budget of tokens."
                }
                (table("Left out", &dropped, texts, best_words))
            }
        }
    }
}

/// How the search went, in a sentence.
fn told(explained: &Explained, returned: usize) -> Markup {
    let rows = |name: &str| explained.rows.get(name).and_then(Value::as_u64).unwrap_or(0);
    let time: f64 = explained.milliseconds.values().filter_map(Value::as_f64).sum();
    html! {
        p.told {
            b { (returned) } " of " (rows("scope")) " memories, "
            (rows("reranked")) " read closely, in " (format!("{time:.0}")) " ms. "
            span.muted {
                "Search " (explained.mode)
                @if let Some(ranking) = &explained.ranking { ", ranking " (ranking) }
                @if let Some(reranking) = &explained.reranking { ", reranker " (reranking) }
                "."
            }
        }
    }
}

fn table(
    caption: &str,
    candidates: &[&Candidate],
    texts: &HashMap<String, Entry>,
    best_words: f64,
) -> Markup {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.scores {
                caption.hidden { (caption) }
                thead {
                    tr {
                        th scope="col" { abbr title="Rank" { "#" } }
                        th scope="col" { "Memory" }
                        th scope="col" title="The score that decides the order" { "Score" }
                        th scope="col" title="How probable it is that it answers the question" { "Relevance" }
                        th scope="col" title="Likeness of meaning (cosine)" { "Meaning" }
                        th scope="col" title="Words in common (BM25), beside the best" { "Words" }
                        th scope="col" title="1 is now" { "Recency" }
                        th scope="col" title="What markers add" { "Markers" }
                    }
                }
                tbody {
                    @for candidate in candidates {
                        tr {
                            td.rank {
                                @match (candidate.rank, &candidate.dropped) {
                                    (Some(rank), _) => (rank),
                                    (None, Some(step)) => span.tag { (step) },
                                    (None, None) => "–",
                                }
                            }
                            th.memory scope="row" { (memory(candidate, texts.get(&candidate.id))) }
                            td { (bar(candidate.score, "score", &number(candidate.score))) }
                            td { (bar(candidate.relevance, "relevance", &number(candidate.relevance))) }
                            td { (bar(candidate.similarity, "meaning", &number(candidate.similarity))) }
                            td { (bar(candidate.lexical.map(|words| words / best_words), "words", &number(candidate.lexical))) }
                            td { (bar(candidate.recency, "recency", &number(candidate.recency))) }
                            td { (bar(candidate.marker_boost, "markers", &number(candidate.marker_boost))) }
                        }
                    }
                }
            }
        }
    }
}

fn memory(candidate: &Candidate, entry: Option<&Entry>) -> Markup {
    html! {
        @match entry {
            Some(entry) => {
                a href=(memory_path(&entry.id)) { (beginning(&entry.content, SHOWN)) }
                span.meta {
                    span { (parts::speaker(entry)) }
                    span { (parts::on(&entry.created_at)) }
                    @if let Some(session) = &entry.session_id { span { (session) } }
                    @if entry.is_shared { span.tag { "shared" } }
                }
            }
            None => a href=(memory_path(&candidate.id)) { "This memory" },
        }
        (numbers(candidate))
    }
}

/// Everything else that is known of a candidate.
fn numbers(candidate: &Candidate) -> Markup {
    let own = [
        ("fused", candidate.fused),
        ("logit", candidate.logit),
        ("age in days", candidate.age_days),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let features = candidate.features.iter().flatten();
    let features =
        features.filter_map(|(name, value)| Some((name.replace('_', " "), value.as_f64()?)));
    let all: Vec<(String, f64)> = own.chain(features).collect();
    html! {
        @if !all.is_empty() {
            details.numbers {
                summary { "All numbers" }
                dl {
                    @for (name, value) in &all {
                        div { dt { (name) } dd { (format!("{value:.3}")) } }
                    }
                }
            }
        }
    }
}
