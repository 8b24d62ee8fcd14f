//! One memory: what it says, where it comes from, what was made of it, what happened to it, and what can
//! be done about it.

use super::facts::{from_history, said};
use super::frame::{Here, form_token};
use super::parts::{self, beginning, memory_path, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, COLUMNS, Entry, Event};
use crate::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Sources that are shown.
const SOURCES: usize = 20;
/// Facts that were made of a memory, likewise.
const MADE: i32 = 50;
/// Letters of a text in its history.
const SHOWN: usize = 600;

/// A document, or an archived conversation, as a whole.
#[derive(Debug, Deserialize)]
struct Document {
    title: Option<String>,
    content: String,
    doc_type: String,
    session_id: Option<String>,
    agent_id: String,
    updated_at: String,
    is_shared: bool,
}

/// What a page is about.
struct Memory {
    entry: Entry,
    /// The title of a document.
    title: Option<String>,
    /// Whether it holds now.
    holds: bool,
    events: Vec<Event>,
}

/// `GET /ui/memory/{id}`.
///
/// # Errors
/// What memory says; that there is no such memory.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.id()?;
    let memory = find(&asked, id).await?;
    let entry = &memory.entry;
    let source_ids = rows::ids(entry.source_ids.iter().flatten().take(SOURCES));
    let mut sources: Vec<Entry> = asked.texts(&source_ids).await?.into_values().collect();
    sources.sort_by(|left, right| left.created_at.cmp(&right.created_at));
    let made = made_of(&asked, id).await?;
    let later = later_version(&entry.id, &memory.events);
    let title = match entry.kind.as_str() {
        "fact" => "A fact",
        "document" => "A document",
        _ => "What was said",
    };
    let body = html! {
        h1 { (title) }
        @if let Some(done) = asked.query.get("done").and_then(done) { p.note.good role="status" { (done) } }
        article.one {
            @if let Some(title) = &memory.title { h2 { (title) } }
            p.text.large { (entry.content) }
            p.meta { (about(entry)) }
            @if !memory.holds {
                p.note {
                    "This is not remembered any more. "
                    @if let Some(later) = later { a href=(memory_path(later)) { "What took its place" } }
                }
            }
        }
        @if !entry.is_shared { (what_to_do(&asked, &memory)) }
        @if !sources.is_empty() {
            section aria-labelledby="sources" {
                h2 #sources { "Where it comes from" }
                @for source in &sources { (said(source)) }
            }
        }
        @if !made.is_empty() {
            section aria-labelledby="made" {
                h2 #made { "What was learned from it" }
                ul.plain { @for fact in &made { li { a href=(memory_path(&fact.id)) { (fact.content) } } } }
            }
        }
        @if !memory.events.is_empty() { (history(&memory.events, &entry.id)) }
    };
    let title = beginning(&entry.content, 60);
    Ok(Answer::Page(Here::Elsewhere, title, body))
}

/// What was just done, in the words of its address.
fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "corrected" => "Corrected. This is what is remembered from now on.",
        "same" => "It already says this.",
        "forgotten" => "Forgotten. It is not used any more; you can restore it.",
        "restored" => "Restored. It is remembered again.",
        "nothing" => "There was nothing to do.",
        _ => return None,
    })
}

async fn find(asked: &Asked, id: Uuid) -> Result<Memory, Trouble> {
    let events = asked.events(&[id]).await?;
    if let Some(entry) = asked.entries(&[id]).await?.into_iter().next() {
        return Ok(Memory { entry, title: None, holds: true, events });
    }
    if let Some(entry) = from_history(&id.to_string(), &events) {
        // History says of a document what becomes of it, and its text is in the archive.
        let document = document(asked, id).await?;
        return Ok(match document {
            Some(document) => document.memory(id, events),
            None => Memory { entry, title: None, holds: false, events },
        });
    }
    match document(asked, id).await? {
        Some(document) => Ok(document.memory(id, events)),
        None => Err(Trouble::nothing_here()),
    }
}

async fn document(asked: &Asked, id: Uuid) -> Result<Option<Document>, Trouble> {
    let sql = "SELECT to_jsonb(f) FROM ( \
                   SELECT a.title, a.content, a.doc_type, a.session_id, a.agent_id, \
                          a.updated_at AT TIME ZONE 'UTC' AS updated_at, a.user_id = '*' AS is_shared \
                     FROM memory_archives a WHERE a.user_id IN ($1, '*') AND a.id = $2) f";
    let user = asked.user_id();
    let params: [Param<'_>; 2] = [(&user, Type::TEXT), (&id, Type::UUID)];
    Ok(rows::read(&asked.rows(sql, &params).await?)?.into_iter().next())
}

impl Document {
    fn memory(self, id: Uuid, events: Vec<Event>) -> Memory {
        let last = events.iter().rev().find(|event| event.op == "delete" || event.op == "restore");
        let holds = last.is_none_or(|event| event.op == "restore");
        let entry = Entry {
            id: id.to_string(),
            kind: "document".to_owned(),
            role: self.doc_type,
            content: self.content,
            created_at: self.updated_at,
            session_id: self.session_id,
            agent_id: self.agent_id,
            is_shared: self.is_shared,
            is_active: holds,
            ..Entry::default()
        };
        Memory { entry, title: self.title, holds, events }
    }
}

/// The facts that were made of a memory.
async fn made_of(asked: &Asked, id: Uuid) -> Result<Vec<Entry>, Trouble> {
    let sql = format!(
        "SELECT to_jsonb(f) FROM (SELECT {COLUMNS} \
           FROM memory_list(source_id => $2, user_id => $1, \"limit\" => $3::int4) e \
          ORDER BY e.created_at DESC, e.id DESC) f"
    );
    let user = asked.user_id();
    let params: [Param<'_>; 3] = [(&user, Type::TEXT), (&id, Type::UUID), (&MADE, Type::INT4)];
    rows::read(&asked.rows(&sql, &params).await?)
}

/// The version that holds in the place of this one, or did last.
fn later_version<'a>(id: &str, events: &'a [Event]) -> Option<&'a str> {
    let mut own = events.iter().rev().filter(|event| event.id.as_deref() == Some(id));
    own.find_map(|event| event.replaced_by.as_deref())
}

fn about(entry: &Entry) -> Markup {
    html! {
        span { (parts::speaker(entry)) }
        span { @if entry.kind == "fact" { "since " } (parts::at(&entry.created_at)) }
        @if let Some(session) = &entry.session_id {
            a href=(session_path(session, &entry.agent_id, (entry.kind == "turn").then_some((&entry.created_at, &entry.id)))) {
                "in " (session)
            }
        }
        @if let Some(key) = &entry.fact_key { span.key { (key) } }
        @if let Some(confidence) = entry.confidence { span { "confidence " (format!("{confidence:.2}")) } }
        @if let Some(end) = &entry.expires_at { span { "until " (parts::at(end)) } }
        @if entry.is_shared { span.tag { "shared with all users" } }
        @for marker in entry.markers.iter().flatten() { span.tag { (marker) } }
        @if let Some(parent) = parent(entry) { a href=(memory_path(parent)) { "The whole document" } }
    }
}

/// The document that a chunk is of.
fn parent(entry: &Entry) -> Option<&str> {
    let parent = entry.metadata.as_ref()?.get("parent_id")?.as_str()?;
    (entry.kind == "document").then_some(parent)
}

fn what_to_do(asked: &Asked, memory: &Memory) -> Markup {
    let entry = &memory.entry;
    let path = memory_path(&entry.id);
    let token = form_token(&asked.visit);
    html! {
        section.what-to-do aria-labelledby="do" {
            h2 #do { "Change it" }
            @if memory.holds {
                @if entry.kind != "document" {
                    details.correct {
                        summary { "Correct" }
                        form method="post" action={ (path) "/correct" } {
                            (token)
                            label for="content" { "What is right" }
                            textarea #content name="content" required rows=(lines(&entry.content)) { (entry.content) }
                            div.actions { button type="submit" { "Save" } }
                        }
                    }
                }
                details.forget {
                    summary { "Forget" }
                    form method="post" action={ (path) "/forget" } {
                        (token)
                        p.muted { "It is not used any more. The text stays in the history, and you can restore it." }
                        label for="reason" { "Reason " span.muted { "(if you like)" } }
                        input #reason type="text" name="reason" maxlength="300" autocomplete="off";
                        div.actions { button type="submit" { "Forget" } }
                    }
                }
            } @else {
                form method="post" action={ (path) "/restore" } {
                    (token)
                    div.actions { button type="submit" { "Restore" } }
                }
            }
            form method="post" action="/ui/erase" {
                (token)
                input type="hidden" name="id" value=(entry.id);
                div.actions { button.danger type="submit" { "Erase…" } }
            }
        }
    }
}

/// As many as a text takes, within reason.
fn lines(text: &str) -> usize {
    text.lines().map(|line| 1 + line.chars().count() / 70).sum::<usize>().clamp(2, 20)
}

fn history(events: &[Event], id: &str) -> Markup {
    html! {
        section aria-labelledby="history" {
            h2 #history { "What happened to it" }
            div.scroll tabindex="0" role="region" aria-labelledby="history" {
                table.history {
                    (parts::headings(&["When", "What", "Text", "Why, and by whom"], 0))
                    tbody {
                        @for event in events {
                            tr {
                                td { (parts::at(&event.at)) }
                                td { (what(&event.op)) }
                                td.text {
                                    @match &event.content {
                                        Some(text) => {
                                            @if event.id.as_deref().is_some_and(|of| of != id) {
                                                a href=(memory_path(event.id.as_deref().unwrap_or_default())) { (beginning(text, SHOWN)) }
                                            } @else { (beginning(text, SHOWN)) }
                                        }
                                        None => span.muted { "erased" },
                                    }
                                }
                                td {
                                    @if let Some(reason) = &event.reason { (reason) " " }
                                    span.muted {
                                        @if event.job_id.is_some() { "background work" }
                                        @else if let Some(actor) = &event.actor { "role " (actor) }
                                        @if let Some(seq) = event.seq { ", sealed as " (seq) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What an event is called.
fn what(op: &str) -> &str {
    match op {
        "ingest" => "said",
        "add" => "stored",
        "import" => "imported",
        "update" => "corrected",
        "supersede" => "replaced",
        "delete" => "forgotten",
        "expire" => "expired",
        "restore" => "restored",
        "erase" => "erased",
        other => other,
    }
}
