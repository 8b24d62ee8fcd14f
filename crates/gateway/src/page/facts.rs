//! What is known: the facts of today, each with what it replaced and with what was said, found as one types and
//! changed on the spot; or those that held at a time.

use super::fact_rows::{Around, forms, row, source_ids};
use super::first_steps;
use super::frame::{Here, form_token};
use super::known::{
    Choices, Chosen, Counted, Known, MEANT, NEAREST, Sort, known, next_page, time_range,
};
use super::notice::notice;
use super::opening::{Openings, name_of};
use super::parts::{self, count};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, Entry, Event};
use maud::{Markup, html};
use memory_agent_core::facts::reconcile::is_about_user;
use std::collections::HashMap;

/// `GET /ui`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let chosen = Chosen::read(&asked.query)?;
    let is_first = asked.query.get("from").is_none();
    let range = async { if is_first { time_range(&asked).await } else { Ok(None) } };
    let (known, range, notice) =
        tokio::try_join!(known(&asked, &chosen), range, notice(&asked, None))?;
    let around = around(&asked, &known, &chosen).await?;
    let is_empty = range.is_none() && is_first && known.facts.is_empty();
    let is_new = is_empty && !chosen.narrows() && chosen.as_of.is_none();
    let now = asked.but_for(&["as_of", "done", "ids"]);
    let body = html! {
        h1 { "What is known" }
        @if is_new {
            (first_steps::show(&asked))
        } @else {
            @if is_first { (toolbar(&chosen, &known.choices, &around.openings, &range, &now)) }
            p #count .count-line role="status" { (told(&known, &chosen)) }
        }
        @if is_first && chosen.as_of.is_none() { (add(&asked, is_new)) }
        div #known {
            @if known.facts.is_empty() && !is_new { (nothing(&chosen, known.next.is_some())) }
            (list(&asked, &known, &chosen, &around))
            (forms(&asked, &around.here))
            @if let Some(next) = &known.next { (parts::further(Some(&next_page(&asked, next)), further(&chosen))) }
        }
        (notice)
        @if !known.facts.is_empty() { (keys()) }
    };
    Ok(Answer::Page(Here::Facts, "What is known".to_owned(), body))
}

async fn around(asked: &Asked, known: &Known, chosen: &Chosen) -> Result<Around, Trouble> {
    let ids = rows::ids(known.facts.iter().map(|fact| &fact.id));
    let events = by_memory(asked.events(&ids).await?);
    let mut wanted: Vec<String> =
        known.facts.iter().flat_map(|fact| source_ids(fact, &events)).cloned().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let sources = asked.texts(&rows::ids(&wanted)).await?;
    let shown = known.facts.iter().chain(sources.values());
    let sessions =
        shown.filter_map(|one| Some((one.session_id.as_deref()?, one.agent_id.as_str())));
    let choices = known.choices.sessions.iter().map(|one| (one.name.as_str(), ""));
    let openings = asked.openings(sessions.chain(choices)).await?;
    Ok(Around {
        events,
        sources,
        openings,
        here: asked.here(),
        hold: chosen.as_of.is_none() && !chosen.unverified,
        are_unverified: chosen.unverified && chosen.as_of.is_none(),
    })
}

/// One field to search in, what can be chosen, the order, and the time.
fn toolbar(
    chosen: &Chosen,
    choices: &Choices,
    openings: &Openings,
    range: &Option<(String, String)>,
    now: &str,
) -> Markup {
    let plain = |value: &str| value.to_owned();
    let usual = if chosen.words.is_some() { "Best first" } else { "About you first" };
    html! {
        form.find method="get" action="/ui" data-live="#count, #known, #when, #back" role="search" {
            div.box {
                label.hidden for="q" { "Search in what is known" }
                input #q type="search" name="q" value=[chosen.words.as_deref()] data-filter="#known"
                    placeholder="Search in what is known" autocomplete="off";
                button.primary type="submit" { "Search" }
            }
            div.chips {
                (choice("session", "Conversation", &choices.sessions, chosen.session.as_deref(), |id| name_of(id, "", openings)))
                (choice("key", "Topic", &choices.keys, chosen.key.as_deref(), plain))
                (choice("marker", "Marker", &choices.markers, chosen.marker.as_deref(), plain))
                (choice("program", "Imported from", &choices.programs, chosen.program.as_deref(), plain))
                @if choices.shared > 0 || chosen.shared {
                    label.chip { input type="checkbox" name="shared" value="yes" checked[chosen.shared]; "Shared" }
                }
                label.chip { input type="checkbox" name="unverified" value="yes" checked[chosen.unverified]; "Not verified" }
                label.hidden for="sort" { "Order" }
                select.chip #sort name="sort" {
                    option value="" selected[chosen.sort == Sort::Usual] { (usual) }
                    option value="newest" selected[chosen.sort == Sort::Newest] { "Newest first" }
                    option value="oldest" selected[chosen.sort == Sort::Oldest] { "Oldest first" }
                }
                (time_pill(range, chosen.as_of.as_deref()))
                span #back {
                    @if chosen.as_of.is_some() { a.clear href=(now) { "Back to now" } }
                    @if chosen.narrows() { a.clear href="/ui" { "Clear all" } }
                    @if let Some(words) = &chosen.words { a.clear href=(search_path(words, chosen.as_of.as_deref())) { "Search everything, with reasons" } }
                }
            }
        }
    }
}

/// The search for the same words in everything, which says why.
fn search_path(words: &str, as_of: Option<&str>) -> String {
    let path = format!("/ui/search?q={}", parts::encoded(words));
    as_of.map_or(path.clone(), |at| format!("{path}&as_of={}", parts::encoded(at)))
}

fn choice(
    name: &str,
    label: &str,
    values: &[Counted],
    chosen: Option<&str>,
    shown: impl Fn(&str) -> String,
) -> Markup {
    // What was chosen stays there though no fact is left that has it.
    let lost = chosen.filter(|chosen| values.iter().all(|value| value.name != *chosen));
    html! {
        @if !values.is_empty() || lost.is_some() {
            label.hidden for=(name) { (label) }
            select.chip.on[chosen.is_some()] id=(name) name=(name) {
                option value="" { (label) }
                @if let Some(lost) = lost { option value=(lost) selected { (shown(lost)) } }
                @for value in values {
                    option value=(value.name) selected[chosen == Some(value.name.as_str())] {
                        (parts::beginning(&shown(&value.name), 48)) " (" (value.facts) ")"
                    }
                }
            }
        }
    }
}

/// The time that is looked at: now, until the visitor moves it.
pub fn time_pill(range: &Option<(String, String)>, as_of: Option<&str>) -> Markup {
    html! {
        details.pill.menu {
            summary.chip {
                span.hidden { "Time: " }
                span #when { @match as_of { Some(as_of) => span.on { (parts::at(as_of)) }, None => "Now" } }
            }
            div.popup.time {
                label for="as_of" { "What held on " span.muted data-zone { "(UTC)" } }
                input #as_of type="datetime-local" name="as_of" value=[as_of.map(parts::for_field)];
                @if let Some((first, last)) = range {
                    input type="range" data-slider="as_of" data-first=(first) data-last=(last)
                        aria-label="Time" step="any" min="0" max="1" hidden;
                }
                div.actions { button.primary type="submit" { "Show" } }
            }
        }
    }
}

/// How much is shown, and of what.
fn told(known: &Known, chosen: &Chosen) -> Markup {
    let facts = known.facts.len();
    html! {
        @if let Some(as_of) = &chosen.as_of {
            "What held on " (parts::at(as_of)) ": "
            @if facts == NEAREST as usize { "the " (facts) " facts that say most about you." }
            @else { (count(facts, "fact", "facts")) "." }
        } @else if chosen.unverified {
            (count(facts, "statement", "statements")) " that the conversation did not bear out. They are not used until you say that they are true."
        } @else if let Some((of, are_more)) = known.of {
            @if chosen.narrows() {
                (count(facts, "fact", "facts")) " of " @if are_more { "more than " } (of) "."
                @if are_more && chosen.words.is_some() {
                    " Beyond the newest " (of) ", up to " (MEANT) " are found, by whole words and by meaning."
                }
            } @else if are_more { "More than " (of) " facts." }
            @else { (count(of as usize, "fact", "facts")) "." }
        }
    }
}

fn nothing(chosen: &Chosen, has_more: bool) -> Markup {
    if has_more {
        return parts::empty("None of these facts fits.", "There are others, of another time.");
    }
    if chosen.as_of.is_some() {
        return parts::empty("No facts yet.", "Nothing was known at that time.");
    }
    if chosen.unverified {
        return parts::empty("Nothing was set aside.", "A fact that was not said would be here.");
    }
    if chosen.narrows() {
        return parts::empty("No fact fits.", "Try fewer words, or clear what you have chosen.");
    }
    parts::empty(
        "No facts yet.",
        "A language model makes facts from what you say, if there is one. You can also add some.",
    )
}

fn further(chosen: &Chosen) -> &'static str {
    if chosen.sort == Sort::Oldest { "Later facts" } else { "Earlier facts" }
}

fn list(asked: &Asked, known: &Known, chosen: &Chosen, around: &Around) -> Markup {
    let (said, meant) = known.facts.split_at(known.facts.len() - known.meant);
    let rows =
        |facts: &[&Entry]| html! { ul.facts { @for fact in facts { (row(asked, fact, around)) } } };
    let all = |facts| rows(&Vec::from_iter(facts));
    let month = |fact: &Entry| {
        parts::day(&fact.created_at).split_once(' ').map(|(_, month)| month.to_owned())
    };
    let is_by_time = chosen.words.is_none() || chosen.sort != Sort::Usual;
    html! {
        @if is_by_time {
            @for group in known.facts.chunk_by(|left, right| month(left) == month(right)) {
                section.month {
                    h2 { (month(&group[0]).unwrap_or_default()) }
                    (rows(&in_order(asked.user_id(), group, chosen.sort)))
                }
            }
        } @else {
            @if !said.is_empty() { (all(said)) }
            @if !meant.is_empty() {
                section.month { h2 { "With a similar meaning" } (all(meant)) }
            }
        }
    }
}

/// The facts of a month: in the usual order those about the user come before others.
fn in_order<'a>(user: &str, facts: &'a [Entry], sort: Sort) -> Vec<&'a Entry> {
    let is_first = |fact: &&Entry| sort != Sort::Usual || is_about(user, fact);
    let (mut first, others): (Vec<&Entry>, Vec<&Entry>) = facts.iter().partition(is_first);
    first.extend(others);
    first
}

/// Whether a fact is about the user: it calls the user so, or by name.
fn is_about(user: &str, fact: &Entry) -> bool {
    let first = fact.content.split_whitespace().next().unwrap_or_default();
    let name = first.trim_end_matches(|c: char| !c.is_alphanumeric());
    let name = name.strip_suffix("'s").or_else(|| name.strip_suffix("’s")).unwrap_or(name);
    let is_named = name.to_lowercase() == user.to_lowercase();
    !fact.is_shared && (is_named || is_about_user(&fact.content))
}

/// The form for something new.
fn add(asked: &Asked, is_open: bool) -> Markup {
    html! {
        details.add open[is_open] {
            summary.button { "Add a memory" }
            form method="post" action="/ui/add" data-swap {
                (form_token(&asked.visit))
                input type="hidden" name="back" value="/ui";
                label for="new" { "What should be remembered?" }
                textarea #new name="content" required rows="2" placeholder="Lena is allergic to hazelnuts." {}
                div.actions { button.primary type="submit" { "Remember it" } }
            }
        }
    }
}

fn keys() -> Markup {
    html! {
        p.keys.muted {
            kbd { "/" } " search " kbd { "j" } " " kbd { "k" } " down and up " kbd { "e" } " edit " kbd { "Esc" } " close"
        }
    }
}

/// Events by the memory that they belong to.
pub fn by_memory(events: Vec<Event>) -> HashMap<String, Vec<Event>> {
    let mut all: HashMap<String, Vec<Event>> = HashMap::new();
    for event in events {
        all.entry(event.of.clone()).or_default().push(event);
    }
    all
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
