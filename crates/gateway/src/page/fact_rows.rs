//! A fact in the list of what is known: what it says, since when, what it replaced, what was said, and what can be
//! done about it on the spot.

use super::frame::form_token;
use super::opening::{Openings, name_of};
use super::parts::{self, beginning, memory_path, session_path};
use super::request::Asked;
use super::rows::{Entry, Event};
use maud::{Markup, html};
use std::collections::{HashMap, HashSet};

/// Letters that are shown of what was said.
const SAID: usize = 400;
/// Letters of a memory in the name of a button.
const NAMED: usize = 60;

/// What is known about the facts of a list.
pub struct Around {
    pub events: HashMap<String, Vec<Event>>,
    /// What facts were made from, by id.
    pub sources: HashMap<String, Entry>,
    pub openings: Openings,
    /// The view that the list is in.
    pub here: String,
    /// Whether they hold now.
    pub hold: bool,
    /// Whether they are facts that were set aside.
    pub are_unverified: bool,
}

/// The sources of a fact: a recall does not say them, history does.
pub fn source_ids<'a>(fact: &'a Entry, events: &'a HashMap<String, Vec<Event>>) -> &'a [String] {
    let own = events.get(&fact.id).into_iter().flatten();
    let mut own = own.filter(|event| event.id.as_deref() == Some(fact.id.as_str()));
    let by_history = || own.find_map(|event| event.source_ids.as_deref());
    fact.source_ids.as_deref().or_else(by_history).unwrap_or_default()
}

/// A row of the list.
pub fn row(asked: &Asked, fact: &Entry, around: &Around) -> Markup {
    let events = around.events.get(&fact.id).map_or(&[][..], Vec::as_slice);
    let before = earlier(&fact.id, &fact.created_at, events);
    let source_ids = source_ids(fact, &around.events);
    let named = beginning(&fact.content, NAMED);
    let is_own = !fact.is_shared;
    html! {
        li.fact data-row id={ "f-" (fact.id) } {
            @if is_own && around.hold {
                input.pick type="checkbox" form="selected" name="id" value=(fact.id) aria-label={ "Select: " (named) };
            } @else { span.pick {} }
            div.what {
                p.text { a href=(memory_path(&fact.id)) { (fact.content) } }
                p.meta {
                    span { "since " (parts::on(&fact.created_at)) }
                    @if let Some(key) = &fact.fact_key { span.key { (key) } }
                    @if let Some(session) = &fact.session_id {
                        span { "from " (name_of(session, &fact.agent_id, &around.openings)) }
                    }
                    @if fact.is_shared { span.tag { "shared with all users" } }
                    @if around.are_unverified { span.tag.doubt { "not verified" } }
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
                            @match around.sources.get(id) {
                                Some(source) => (said(source, &around.openings)),
                                None => p.muted { "Erased." },
                            }
                        }
                    }
                }
            }
            @if is_own { (what_to_do(asked, fact, around, &named)) }
        }
    }
}

fn what_to_do(asked: &Asked, fact: &Entry, around: &Around, named: &str) -> Markup {
    let path = memory_path(&fact.id);
    html! {
        div.do {
            @if around.are_unverified {
                button.small type="submit" form="restored" name="id" value=(fact.id)
                    aria-label={ "It is true: " (named) } { "It is true" }
            }
            @if around.hold {
                (editor(asked, fact, &around.here, named))
                button.small type="submit" form="forgotten" name="id" value=(fact.id)
                    aria-label={ "Forget: " (named) } { "Forget" }
            }
            details.more.menu {
                summary aria-label={ "More about: " (named) } { "⋯" }
                div.popup {
                    a href=(path) { "Open" }
                    @if let Some(session) = &fact.session_id {
                        a href=(session_path(session, &fact.agent_id, None)) { "The conversation" }
                    }
                    a href={ "/ui/prompt?q=" (parts::encoded(&fact.content)) } { "Would the model see it?" }
                    form method="post" action="/ui/erase" {
                        (form_token(&asked.visit))
                        input type="hidden" name="id" value=(fact.id);
                        button.danger type="submit" { "Erase for good…" }
                    }
                }
            }
        }
    }
}

/// The text of a memory, to be changed on the spot.
pub fn editor(asked: &Asked, entry: &Entry, back: &str, named: &str) -> Markup {
    html! {
        details.edit {
            summary.button.small aria-label={ "Edit: " (named) } { "Edit" }
            form method="post" action={ (memory_path(&entry.id)) "/correct" } data-swap {
                (form_token(&asked.visit))
                @if !back.is_empty() { input type="hidden" name="back" value=(back); }
                textarea name="content" required rows=(lines(&entry.content)) aria-label={ "What is right: " (named) } { (entry.content) }
                div.actions {
                    button.primary type="submit" { "Save" }
                    button.cancel type="reset" { "Cancel" }
                    span.muted.keys { kbd { "Ctrl" } " " kbd { "Enter" } " saves, " kbd { "Esc" } " closes" }
                }
            }
        }
    }
}

/// As many as a text takes, within reason.
fn lines(text: &str) -> usize {
    text.lines().map(|line| 1 + line.chars().count() / 70).sum::<usize>().clamp(2, 20)
}

/// The forms that the buttons of a list belong to: one for the button of a row, one for what is selected.
pub fn forms(asked: &Asked, here: &str) -> Markup {
    let fields = html! {
        (form_token(&asked.visit))
        input type="hidden" name="back" value=(here);
    };
    html! {
        form #forgotten method="post" action="/ui/forget" data-swap { (fields) }
        form #restored method="post" action="/ui/restore" data-swap { (fields) }
        form #selected .selection method="post" action="/ui/forget" data-swap {
            (fields)
            span data-selected role="status" { "Selected" }
            button.primary type="submit" { "Forget selected" }
            button type="reset" { "Clear selection" }
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
pub fn said(source: &Entry, openings: &Openings) -> Markup {
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
                        @if let Some(title) = openings.title(session, &source.agent_id) { span { (title) } }
                    }
                    None => a href=(memory_path(&source.id)) { "This memory" },
                }
            }
        }
    }
}
