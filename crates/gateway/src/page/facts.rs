//! What is known: the facts of today, newest first, each with what it replaced and with what was said;
//! or those that held at a time.

use super::frame::Here;
use super::parts::{self, beginning, memory_path, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, COLUMNS, Entry, Event};
use super::search::time_field;
use crate::memory::Param;
use maud::{Markup, html};
use std::collections::{HashMap, HashSet};
use tokio_postgres::types::Type;

/// Facts on a page.
const PAGE: usize = 25;
/// Most facts that are shown of a time: those that are nearest to the question.
const AT_A_TIME: i32 = 100;
/// The question when the visitor gives none.
const QUESTION: &str = "What is known about the user?";
/// Letters that are shown of what was said.
const SAID: usize = 400;

/// `GET /ui`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let as_of = asked.query.get("as_of").map(|at| {
        parts::moment(at)
            .ok_or_else(|| Trouble::invalid("This is not a time: write 2026-01-31T10:00."))
    });
    let as_of = as_of.transpose()?;
    let first_page = asked.query.get("from").is_none();
    let known = async {
        Ok(match as_of {
            Some(as_of) => (at_a_time(&asked, as_of).await?, None),
            None => today(&asked).await?,
        })
    };
    let range = async { if first_page { time_range(&asked).await } else { Ok(None) } };
    let ((facts, next), range) = tokio::try_join!(known, range)?;
    let ids = rows::ids(facts.iter().map(|fact| &fact.id));
    let events = by_memory(asked.events(&ids).await?);
    let sources = sources(&asked, &facts, &events).await?;
    let is_cut = as_of.is_some() && facts.len() == AT_A_TIME as usize;
    let body = html! {
        h1 { "What is known" }
        @if first_page {
            form.when method="get" action="/ui" data-live="#facts" role="search" {
                (time_field(&range, as_of))
                div.actions {
                    button type="submit" { "Show" }
                    @if as_of.is_some() { a.button.quiet href="/ui" { "Today" } }
                }
            }
        }
        div #facts aria-live="polite" {
            @if let Some(as_of) = as_of {
                p.muted {
                    "What held on " (parts::at(as_of)) ": "
                    @if is_cut { "the " (facts.len()) " facts that say most about you." }
                    @else { (facts.len()) @if facts.len() == 1 { " fact." } @else { " facts." } }
                }
            }
            @if facts.is_empty() {
                (parts::empty("No facts yet.", "Facts are made from what you say, when an LLM is configured, or stored with memory_add."))
            }
            (by_month(&facts, &events, &sources))
            (parts::further(next.as_deref(), "Earlier facts"))
        }
    };
    Ok(Answer::Page(Here::Facts, "What is known".to_owned(), body))
}

/// A page of the facts of today, and where the next one is.
async fn today(asked: &Asked) -> Result<(Vec<Entry>, Option<String>), Trouble> {
    let from = asked.query.get("from").map(|from| {
        parts::read_place(from).ok_or_else(|| Trouble::invalid("This is not a page of facts."))
    });
    let from = from.transpose()?;
    let sql = format!(
        "SELECT to_jsonb(f) FROM (SELECT {COLUMNS} FROM memory_list( \
             kind => 'fact', user_id => $1, from_at => $2::timestamp AT TIME ZONE 'UTC', from_id => $3, \
             \"limit\" => $4::int4) e ORDER BY e.created_at DESC, e.id DESC) f"
    );
    let (user, limit) = (asked.user_id(), PAGE as i32 + 1);
    let (at, id) = (from.map(|from| from.0), from.map(|from| from.1));
    let params: [Param<'_>; 4] =
        [(&user, Type::TEXT), (&at, Type::TEXT), (&id, Type::UUID), (&limit, Type::INT4)];
    let mut facts: Vec<Entry> = rows::read(&asked.rows(&sql, &params).await?)?;
    let has_more = facts.len() > PAGE;
    facts.truncate(PAGE);
    let last = facts.last().filter(|_| has_more);
    let next = last.map(|last| {
        format!("/ui?from={}", parts::encoded(&parts::place(&last.created_at, &last.id)))
    });
    Ok((facts, next))
}

/// The facts that held at a time, newest first.
async fn at_a_time(asked: &Asked, as_of: &str) -> Result<Vec<Entry>, Trouble> {
    let sql = "SELECT to_jsonb(f) FROM ( \
                   SELECT r.id, r.kind, r.role, r.content, r.created_at AT TIME ZONE 'UTC' AS created_at, \
                          r.session_id, r.markers, r.metadata \
                     FROM memory_recall($1, kinds => '{fact}', top_k => $2::int4, rerank => false, \
                                        as_of => $3::timestamp AT TIME ZONE 'UTC') r \
                    ORDER BY r.created_at DESC, r.id DESC) f";
    let params: [Param<'_>; 3] =
        [(&QUESTION, Type::TEXT), (&AT_A_TIME, Type::INT4), (&as_of, Type::TEXT)];
    rows::read(&asked.rows(sql, &params).await?)
}

/// From the first fact or session until now; nothing for who has none.
pub async fn time_range(asked: &Asked) -> Result<Option<(String, String)>, Trouble> {
    let sql = "SELECT jsonb_build_array(least( \
                   (SELECT e.created_at FROM memory_list(kind => 'fact', oldest_first => true, \
                                                         \"limit\" => 1, user_id => $1) e), \
                   (SELECT min(s.created_at) FROM memory_sessions s WHERE s.user_id = $1) \
               ) AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC')";
    let user = asked.user_id();
    let found: Vec<(Option<String>, String)> =
        rows::read(&asked.rows(sql, &[(&user, Type::TEXT)]).await?)?;
    Ok(found.into_iter().find_map(|(first, now)| Some((first?, now))))
}

/// Events by the memory that they belong to.
pub fn by_memory(events: Vec<Event>) -> HashMap<String, Vec<Event>> {
    let mut all: HashMap<String, Vec<Event>> = HashMap::new();
    for event in events {
        all.entry(event.of.clone()).or_default().push(event);
    }
    all
}

/// What facts were made from, by id. What is not in memory any more may be in history.
async fn sources(
    asked: &Asked,
    facts: &[Entry],
    events: &HashMap<String, Vec<Event>>,
) -> Result<HashMap<String, Entry>, Trouble> {
    let mut wanted: Vec<String> =
        facts.iter().flat_map(|fact| source_ids(fact, events)).cloned().collect();
    wanted.sort_unstable();
    wanted.dedup();
    asked.texts(&rows::ids(&wanted)).await
}

/// The sources of a fact: a recall does not say them, history does.
fn source_ids<'a>(fact: &'a Entry, events: &'a HashMap<String, Vec<Event>>) -> &'a [String] {
    let own = events.get(&fact.id).into_iter().flatten();
    let mut own = own.filter(|event| event.id.as_deref() == Some(fact.id.as_str()));
    let by_history = || own.find_map(|event| event.source_ids.as_deref());
    fact.source_ids.as_deref().or_else(by_history).unwrap_or_default()
}

impl Asked {
    /// Memories by id, also those that do not hold any more.
    ///
    /// # Errors
    /// What memory says.
    pub async fn texts(&self, wanted: &[uuid::Uuid]) -> Result<HashMap<String, Entry>, Trouble> {
        let entries = self.entries(wanted).await?;
        let mut found: HashMap<String, Entry> =
            entries.into_iter().map(|entry| (entry.id.clone(), entry)).collect();
        let missing: Vec<_> =
            wanted.iter().filter(|id| !found.contains_key(&id.to_string())).copied().collect();
        for (id, events) in by_memory(self.events(&missing).await?) {
            if let Some(entry) = from_history(&id, &events) {
                found.insert(id, entry);
            }
        }
        Ok(found)
    }
}

/// A memory as history has it.
pub fn from_history(id: &str, events: &[Event]) -> Option<Entry> {
    let own = events.iter().rev().find(|event| event.id.as_deref() == Some(id));
    let event = own.or_else(|| events.iter().find(|event| event.op == "ingest"))?;
    Some(Entry {
        id: id.to_owned(),
        kind: event.kind.clone().unwrap_or_else(|| "turn".to_owned()),
        role: event.role.clone().unwrap_or_default(),
        content: event.content.clone()?,
        created_at: event.created_at.clone().unwrap_or_else(|| event.at.clone()),
        session_id: event.session_id.clone(),
        agent_id: event.agent_id.clone().unwrap_or_default(),
        fact_key: event.fact_key.clone(),
        confidence: event.confidence,
        source_ids: event.source_ids.clone(),
        ..Entry::default()
    })
}

fn by_month(
    facts: &[Entry],
    events: &HashMap<String, Vec<Event>>,
    sources: &HashMap<String, Entry>,
) -> Markup {
    let month = |fact: &Entry| {
        parts::day(&fact.created_at).split_once(' ').map(|(_, month)| month.to_owned())
    };
    html! {
        @for group in facts.chunk_by(|left, right| month(left) == month(right)) {
            section.month {
                h2 { (month(&group[0]).unwrap_or_default()) }
                ul.facts {
                    @for fact in group {
                        li { (one(fact, events.get(&fact.id).map_or(&[], Vec::as_slice), source_ids(fact, events), sources)) }
                    }
                }
            }
        }
    }
}

fn one(
    fact: &Entry,
    events: &[Event],
    source_ids: &[String],
    sources: &HashMap<String, Entry>,
) -> Markup {
    let before = earlier(&fact.id, &fact.created_at, events);
    html! {
        article.fact {
            p.text { a href=(memory_path(&fact.id)) { (fact.content) } }
            p.meta {
                span { "since " (parts::on(&fact.created_at)) }
                @if let Some(key) = &fact.fact_key { span.key { (key) } }
                @if let Some(session) = &fact.session_id { span { "in " (session) } }
                @if fact.is_shared { span.tag { "shared with all users" } }
                @for marker in fact.markers.iter().flatten() { span.tag { (marker) } }
            }
            @for old in before.iter().take(1) { (replaced(old)) }
            @if before.len() > 1 {
                details {
                    summary { "And before" }
                    @for old in before.iter().skip(1) { (replaced(old)) }
                }
            }
            @if !source_ids.is_empty() {
                details.sources {
                    summary { "What was said" }
                    @for id in source_ids {
                        @match sources.get(id) {
                            Some(source) => (said(source)),
                            None => p.muted { "Erased." },
                        }
                    }
                }
            }
        }
    }
}

/// What a fact replaced, the latest first: each earlier version as it was last.
pub fn earlier<'a>(id: &str, since: &str, events: &'a [Event]) -> Vec<&'a Event> {
    let mut seen = HashSet::from([id]);
    let is_earlier = |event: &&Event| {
        event.state.as_deref() == Some("inactive")
            && event.created_at.as_deref().is_some_and(|at| at <= since)
            && event.content.as_deref().is_some_and(|text| !text.is_empty())
    };
    let mut versions: Vec<&Event> = Vec::new();
    for event in events.iter().rev() {
        if event.id.as_deref().is_some_and(|of| seen.insert(of)) && is_earlier(&event) {
            versions.push(event);
        }
    }
    versions.sort_by(|left, right| right.created_at.cmp(&left.created_at));
    versions
}

fn replaced(old: &Event) -> Markup {
    let id = old.id.as_deref().unwrap_or_default();
    html! {
        p.replaced {
            span.label { "Before" }
            del { a href=(memory_path(id)) { (old.content.as_deref().unwrap_or_default()) } }
            span.muted { "until " (parts::on(old.valid_to.as_ref().unwrap_or(&old.at))) }
        }
    }
}

/// What a fact was made from.
pub fn said(source: &Entry) -> Markup {
    html! {
        blockquote {
            p { (beginning(&source.content, SAID)) }
            footer.meta {
                span { (parts::speaker(source)) }
                span { (parts::at(&source.created_at)) }
                @match &source.session_id {
                    Some(session) => {
                        a href=(session_path(session, &source.agent_id, Some((&source.created_at, &source.id)))) {
                            "In the conversation"
                        }
                    }
                    None => a href=(memory_path(&source.id)) { "This memory" },
                }
            }
        }
    }
}
