//! One memory: what it says, where it comes from, what was made of it, what happened to it, and what can
//! be done about it.

use super::fact_rows::{editor, said};
use super::facts::from_history;
use super::frame::{Here, form_token};
use super::notice::notice;
use super::opening::{Openings, name_of};
use super::parts::{self, beginning, memory_path, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, COLUMNS, Entry, Event};
use super::timeline;
use crate::db::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Sources that are shown.
const SOURCES: usize = 20;
/// Facts that were made of a memory, likewise.
const MADE: i32 = 50;
/// Letters of a memory that are its heading; a longer one stands below.
const HEADING: usize = 240;

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
    let sessions = sources.iter().chain([entry]);
    let sessions =
        sessions.filter_map(|one| Some((one.session_id.as_deref()?, one.agent_id.as_str())));
    let openings = asked.openings(sessions).await?;
    let notice = notice(&asked, Some(id)).await?;
    let is_told = asked.query.get("done") == Some("forgotten");
    let title = memory.title.as_deref().unwrap_or(&entry.content);
    let is_whole = title.chars().count() <= HEADING && memory.title.is_none();
    let body = html! {
        article.one {
            p.kind { (kind(entry)) }
            h1.text { (beginning(title, HEADING)) }
            p.meta { (about(entry, &openings)) }
            @if !memory.holds && !is_told {
                p.note {
                    "This is not remembered any more. "
                    @if let Some(later) = later { a href=(memory_path(later)) { "What took its place" } }
                }
            }
            @if !entry.is_shared { (what_to_do(&asked, &memory)) }
            @if !is_whole { p.text { (entry.content) } }
        }
        @if !sources.is_empty() {
            section aria-labelledby="sources" {
                h2 #sources { "Where it comes from" }
                @for source in &sources { (said(source, &openings)) }
            }
        }
        @if !made.is_empty() {
            section aria-labelledby="made" {
                h2 #made { "What was learned from it" }
                ul.plain { @for fact in &made { li { a href=(memory_path(&fact.id)) { (fact.content) } } } }
            }
        }
        @if !memory.events.is_empty() { (timeline::show(&memory.events, &entry.id)) }
        (notice)
    };
    let title = beginning(&entry.content, 60);
    Ok(Answer::Page(Here::Elsewhere, title, body))
}

/// What it is, over its text.
fn kind(entry: &Entry) -> &'static str {
    match (entry.kind.as_str(), entry.role.as_str()) {
        ("fact", _) => "A fact",
        ("document", _) => "A document",
        (_, "user") => "You said",
        (_, "assistant") => "The assistant said",
        _ => "In a conversation",
    }
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
        None => Err(Trouble::gone("memory")),
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

fn about(entry: &Entry, openings: &Openings) -> Markup {
    html! {
        span { @if entry.kind == "fact" { "since " } (parts::at(&entry.created_at)) }
        @if let Some(session) = &entry.session_id {
            a href=(session_path(session, &entry.agent_id, (entry.kind == "turn").then_some((&entry.created_at, &entry.id)))) {
                "in " (name_of(session, &entry.agent_id, openings))
            }
        }
        @if let Some(key) = &entry.fact_key { span.key { (key) } }
        @if let Some(confidence) = entry.confidence { span { (format!("{:.0}", confidence * 100.0)) " % certain" } }
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

/// Everything that can be done about it, in one row.
fn what_to_do(asked: &Asked, memory: &Memory) -> Markup {
    let entry = &memory.entry;
    let path = memory_path(&entry.id);
    let token = form_token(&asked.visit);
    html! {
        section.do.row aria-label="Change it" {
            @if memory.holds {
                @if entry.kind != "document" { (editor(asked, entry, "", &beginning(&entry.content, 60))) }
                details.forget {
                    summary.button.small { "Forget" }
                    form method="post" action={ (path) "/forget" } {
                        (token)
                        p.muted { "It is not used any more. The text stays in the history, and you can bring it back." }
                        label for="reason" { "Reason " span.muted { "(if you like)" } }
                        input #reason type="text" name="reason" maxlength="300" autocomplete="off";
                        div.actions { button.primary type="submit" { "Forget" } }
                    }
                }
            } @else {
                form method="post" action={ (path) "/restore" } {
                    (token)
                    button.small type="submit" { "Restore" }
                }
            }
            form method="post" action="/ui/erase" {
                (token)
                input type="hidden" name="id" value=(entry.id);
                button.small.danger type="submit" { "Erase…" }
            }
        }
    }
}
