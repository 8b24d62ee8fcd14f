//! Search: what a recall returns for a question and what it left out, each with a verdict, and with all parts of its
//! score for who asks why, as `memory_explain` tells them.

use super::facts::time_pill;
use super::frame::Here;
use super::known::time_range;
use super::opening::{Openings, name_of};
use super::parts::{self, bar, beginning, count, memory_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, Entry};
use super::verdict::{Verdict, normal, percent, quoted, shared_words};
use crate::db::memory::Param;
use crate::db::place::moment;
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
const SHOWN: usize = 400;
/// Words in common that are named.
const WORDS: usize = 5;

/// What `memory_explain` says.
#[derive(Debug, Deserialize)]
struct Explained {
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
        moment(at).ok_or_else(|| Trouble::invalid("This is not a time: write 2026-01-31T10:00."))
    });
    let as_of = as_of.transpose()?;
    let top_k = asked.query.get("top").and_then(|top| top.parse().ok());
    let top_k: i32 = top_k.unwrap_or(TOP_K).clamp(1, MOST);
    let range = time_range(&asked).await?;
    let found = match question.filter(|question| !question.trim().is_empty()) {
        Some(question) => Some(explain(&asked, question, session, as_of, top_k).await?),
        None => None,
    };
    let is_narrowed = session.is_some() || top_k != TOP_K;
    let body = html! {
        h1 { "Search" }
        form.find method="get" action="/ui/search" role="search" data-live="#found, #when, #back" {
            div.box {
                label.hidden for="q" { "Question" }
                input #q type="search" name="q" required value=[question] autocomplete="off"
                    placeholder="What must Lena not eat?";
                button.primary type="submit" { "Search" }
            }
            div.chips {
                (time_pill(&range, as_of))
                details.menu {
                    summary.chip.on[is_narrowed] { "Options" }
                    div.popup {
                        label for="session" { "Only in the conversation" }
                        input #session type="text" name="session" value=[session] placeholder="all" autocomplete="off";
                        label for="top" { "At most so many answers" }
                        input #top type="number" name="top" min="1" max=(MOST) value=(top_k);
                        div.actions { button.primary type="submit" { "Search" } }
                    }
                }
                span #back {
                    @if as_of.is_some() { a.clear href=(asked.but_for(&["as_of"])) { "Back to now" } }
                }
            }
        }
        div #found {
            @match &found {
                Some((explained, texts, openings)) => (results(question.unwrap_or_default(), explained, texts, openings)),
                None => p.muted { "Ask as you would ask a person. Each answer says how likely it is, and why." }
            }
        }
    };
    Ok(Answer::Page(Here::Search, "Search".to_owned(), body))
}

type Found = (Explained, HashMap<String, Entry>, Openings);

async fn explain(
    asked: &Asked,
    question: &str,
    session: Option<&str>,
    as_of: Option<&str>,
    top_k: i32,
) -> Result<Found, Trouble> {
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
    let sessions = texts.values();
    let sessions =
        sessions.filter_map(|one| Some((one.session_id.as_deref()?, one.agent_id.as_str())));
    let openings = asked.openings(sessions).await?;
    Ok((explained, texts, openings))
}

fn results(
    question: &str,
    explained: &Explained,
    texts: &HashMap<String, Entry>,
    openings: &Openings,
) -> Markup {
    let (returned, dropped): (Vec<&Candidate>, Vec<&Candidate>) =
        explained.candidates.iter().partition(|candidate| candidate.rank.is_some());
    let list = |candidates: &[&Candidate]| {
        let groups = alike(candidates, texts);
        html! {
            ol.found {
                @for group in &groups { (one(question, explained, group, texts, openings)) }
            }
        }
    };
    html! {
        p.count-line role="status" { (told(explained, returned.len())) }
        @if let Some(warning) = unread(explained, returned.len()) { p.note { (warning) } }
        @if returned.is_empty() {
            (parts::empty("Nothing was found.", "Ask with other words, of another time, or in all conversations."))
        } @else { (list(&returned)) }
        @if !dropped.is_empty() {
            details.dropped open[returned.is_empty()] {
                summary { "Left out " span.count { (dropped.len()) } }
                (list(&dropped))
            }
        }
    }
}

/// Memories that say the same in other places, together; each group in the place of its best.
fn alike<'a>(
    candidates: &[&'a Candidate],
    texts: &HashMap<String, Entry>,
) -> Vec<Vec<&'a Candidate>> {
    let mut groups: Vec<(String, Vec<&Candidate>)> = Vec::new();
    for candidate in candidates {
        let text = texts.get(&candidate.id).map(|entry| normal(&entry.content));
        let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| candidate.id.clone());
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, group)) => group.push(candidate),
            None => groups.push((text, vec![candidate])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// How the search went, in a sentence.
fn told(explained: &Explained, returned: usize) -> Markup {
    let all = explained.rows.get("scope").and_then(Value::as_u64).unwrap_or(0);
    let time: f64 = explained.milliseconds.values().filter_map(Value::as_f64).sum();
    html! {
        (count(returned, "answer", "answers")) " out of " (count(all as usize, "memory", "memories"))
        ", in " (format!("{time:.0}")) " ms."
    }
}

/// That the order is less certain than it could be.
fn unread(explained: &Explained, returned: usize) -> Option<&'static str> {
    let read = explained.rows.get("reranked").and_then(Value::as_u64).unwrap_or(0);
    (read == 0 && returned > 1).then_some(match explained.reranking.as_deref() {
        Some(why) if why.contains("busy") => {
            "The model that reads the best ones closely is busy, so the order is less certain than usual. Search again in a moment."
        }
        _ => {
            "The best ones were not read closely this time, so the order is less certain than usual."
        }
    })
}

fn one(
    question: &str,
    explained: &Explained,
    group: &[&Candidate],
    texts: &HashMap<String, Entry>,
    openings: &Openings,
) -> Markup {
    let Some((candidate, others)) = group.split_first() else { return html! {} };
    let entry = texts.get(&candidate.id);
    let is_learned = explained.ranking.as_deref() == Some("learned");
    let verdict = candidate.relevance.filter(|_| is_learned).map(Verdict::of);
    html! {
        li data-row data-verdict=[verdict.map(Verdict::name)] {
            div.verdict {
                @if let Some(verdict) = verdict { b { (verdict.in_words()) } }
                (bar(candidate.relevance, "relevance", &candidate.relevance.map(percent).unwrap_or_default()))
            }
            div.what {
                @match entry {
                    Some(entry) => {
                        p.text { a href=(memory_path(&entry.id)) { (beginning(&entry.content, SHOWN)) } }
                        (place(entry, openings))
                    }
                    None => p.text { a href=(memory_path(&candidate.id)) { "This memory" } },
                }
                @if let Some(why) = candidate.dropped.as_deref().map(left_out) { p.muted { (why) } }
                @if !others.is_empty() {
                    details {
                        summary { "Said " (times(group.len())) }
                        @for other in others {
                            @if let Some(entry) = texts.get(&other.id) {
                                p.meta {
                                    a href=(memory_path(&entry.id)) { (parts::at(&entry.created_at)) }
                                    @if let Some(session) = &entry.session_id { span { "in " (name_of(session, &entry.agent_id, openings)) } }
                                }
                            }
                        }
                    }
                }
                details.why {
                    summary { "Why?" }
                    (why(question, candidate, entry))
                }
            }
        }
    }
}

fn times(number: usize) -> String {
    match number {
        2 => "twice".to_owned(),
        3 => "three times".to_owned(),
        number => format!("{number} times"),
    }
}

fn place(entry: &Entry, openings: &Openings) -> Markup {
    html! {
        p.meta {
            span { (parts::speaker(entry)) }
            span { (parts::on(&entry.created_at)) }
            @if let Some(session) = &entry.session_id { span { "in " (name_of(session, &entry.agent_id, openings)) } }
            @if entry.is_shared { span.tag { "shared with all users" } }
        }
    }
}

/// Why a memory is not among the answers.
fn left_out(step: &str) -> &'static str {
    match step {
        "pool" => {
            "Left out: others have more words or more of the meaning in common with the question."
        }
        "threshold" => "Left out: it is too improbable that it answers the question.",
        "mmr" => "Left out: there are better ones than the number that you asked for.",
        "budget" => "Left out: it is too long for the room that was given.",
        _ => "Left out.",
    }
}

/// The reasons in sentences, and every number for who wants it.
fn why(question: &str, candidate: &Candidate, entry: Option<&Entry>) -> Markup {
    let words =
        entry.map(|entry| shared_words(question, &entry.content, WORDS)).unwrap_or_default();
    let near = candidate.similarity.map(|similarity| match similarity {
        near if near >= 0.6 => "Its meaning is close to that of the question.",
        near if near >= 0.4 => "Its meaning has something to do with the question.",
        _ => "Its meaning is far from that of the question.",
    });
    html! {
        ul {
            @if let Some(relevance) = candidate.relevance {
                li {
                    "Of a hundred memories like this one, "
                    @if relevance >= 0.015 { "about " (format!("{:.0}", relevance * 100.0)) " answer" } @else { "hardly one answers" }
                    " such a question."
                }
            }
            @if !words.is_empty() { li { "Both say " (quoted(&words)) "." } }
            @else if candidate.lexical.is_some_and(|words| words > 0.0) { li { "It has words in common with the question." } }
            @else { li { "It has no word in common with the question." } }
            @if let Some(near) = near { li { (near) } }
            @if candidate.logit.is_some() { li { "It was read closely, together with the question." } }
            @if candidate.marker_boost.is_some_and(|boost| boost > 0.0) { li { "A marker, such as decision or constraint, moves it up." } }
        }
        (numbers(candidate))
    }
}

/// Everything that is known of a candidate, as the documentation calls it.
fn numbers(candidate: &Candidate) -> Markup {
    let own = [
        ("score", candidate.score),
        ("relevance", candidate.relevance),
        ("similarity", candidate.similarity),
        ("lexical", candidate.lexical),
        ("fused", candidate.fused),
        ("logit", candidate.logit),
        ("recency", candidate.recency),
        ("marker boost", candidate.marker_boost),
        ("age in days", candidate.age_days),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let features = candidate.features.iter().flatten();
    let features = features.filter(|(name, _)| *name != "similarity");
    let features =
        features.filter_map(|(name, value)| Some((name.replace('_', " "), value.as_f64()?)));
    let all: Vec<(String, f64)> = own.chain(features).collect();
    html! {
        details.numbers {
            summary { "All numbers" }
            dl { @for (name, value) in &all { div { dt { (name) } dd { (format!("{value:.3}")) } } } }
        }
    }
}
