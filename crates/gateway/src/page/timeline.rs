//! What happened to a memory, in words; and for who wants to check it, as the history has it.

use super::parts::{self, beginning, memory_path};
use super::rows::Event;
use maud::{Markup, html};

/// Letters of a text in its history.
const SHOWN: usize = 600;

/// The timeline of a memory, the latest last.
pub fn show(events: &[Event], id: &str) -> Markup {
    html! {
        section aria-labelledby="history" {
            h2 #history { "What happened to it" }
            ol.timeline {
                @for event in events {
                    li data-op=(event.op) {
                        p { (in_words(event)) ", " (parts::at(&event.at)) "." @if let Some(reason) = reason(event) { " Reason: " (reason) "." } }
                        (text(event, id))
                    }
                }
            }
            (audit(events))
        }
    }
}

fn text(event: &Event, id: &str) -> Markup {
    html! {
        @match (&event.content, &event.id) {
            (Some(text), Some(of)) if of != id => p.was { a href=(memory_path(of)) { (beginning(text, SHOWN)) } },
            (Some(text), _) => p.was { (beginning(text, SHOWN)) },
            (None, _) => p.was.muted { "The text was erased." },
        }
    }
}

/// What happened, as a person would say it.
fn in_words(event: &Event) -> &'static str {
    let is_work = event.job_id.is_some();
    match (event.op.as_str(), event.role.as_deref()) {
        ("ingest", Some("assistant")) => "The assistant said this",
        ("ingest", Some("tool")) => "A tool answered this",
        ("ingest", _) => "You said this",
        ("add", _) if is_work => "This was learned from what was said",
        ("add", _) => "This was added",
        ("import", _) => "This was imported",
        ("update", _) if is_work => "This was brought up to date, from what was said",
        ("update", _) => "You corrected this",
        ("supersede", _) if is_work => "Something newer was said, and took its place",
        ("supersede", _) => "Something newer took its place",
        ("delete", _) if is_work => "This was forgotten, because of what was said",
        ("delete", _) => "You had this forgotten",
        ("expire", _) => "Its time was over",
        ("restore", _) => "You brought this back",
        ("erase", _) => "This was erased",
        _ => "This was changed",
    }
}

fn reason(event: &Event) -> Option<&str> {
    event
        .reason
        .as_deref()
        .map(|reason| reason.trim().trim_end_matches('.'))
        .filter(|reason| !reason.is_empty())
}

/// The same for who checks it: operations, roles, jobs and seals.
fn audit(events: &[Event]) -> Markup {
    html! {
        details.audit {
            summary { "Audit" }
            p.muted { "Each change with the database role that made it, and its number in the sealed chain of changes." }
            div.scroll tabindex="0" role="group" aria-label="Audit" {
                table {
                    (parts::headings(&["When (UTC)", "Operation", "Role", "Job", "Seal"], 1))
                    tbody {
                        @for event in events {
                            tr {
                                td { (event.at) }
                                td { (event.op) }
                                td { (event.actor.as_deref().unwrap_or_default()) }
                                td { @if let Some(job) = &event.job_id { code { (job) } } }
                                td.number { @if let Some(seq) = event.seq { (seq) } @else { "not sealed yet" } }
                            }
                        }
                    }
                }
            }
        }
    }
}
