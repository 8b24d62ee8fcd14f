//! One session: what it comes to, what was said, and what can be done with it.

use super::frame::{Here, form_token};
use super::opening::name_of;
use super::parts::{self, beginning, encoded, memory_path, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, COLUMNS, Entry};
use super::sessions::{SESSION, Session, about};
use crate::db::memory::Param;
use crate::db::place::{Place, written};
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;

/// Turns on a page.
const TURNS: usize = 40;
/// Letters of a turn; its own page shows the rest.
const SAID: usize = 4_000;

/// A summary of a session.
#[derive(Debug, Deserialize)]
struct Summary {
    summary: String,
    level: String,
    updated_at: String,
    topics: Vec<String>,
    decisions: Vec<String>,
    questions: Vec<String>,
    message_count: Option<i64>,
}

/// `GET /ui/session`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let session_id = asked.query.get("session").ok_or_else(Trouble::nothing_here)?;
    let agent_id = asked.query.get("agent").unwrap_or("default");
    let user = asked.user_id();
    let of: [Param<'_>; 3] =
        [(&user, Type::TEXT), (&session_id, Type::TEXT), (&agent_id, Type::TEXT)];
    let sql = format!(
        "SELECT to_jsonb(f) FROM (SELECT {SESSION} FROM memory_sessions s \
          WHERE s.user_id IN ($1, '*') AND s.session_id = $2 AND s.agent_id = $3 \
          ORDER BY is_shared LIMIT 1) f"
    );
    let sessions: Vec<Session> = rows::read(&asked.rows(&sql, &of).await?)?;
    let session = sessions.into_iter().next().ok_or_else(|| Trouble::gone("session"))?;
    let summaries: Vec<Summary> = rows::read(
        &asked
            .rows(
                "SELECT to_jsonb(f) FROM ( \
                     SELECT m.summary, m.level, m.updated_at AT TIME ZONE 'UTC' AS updated_at, m.topics, \
                            m.decisions, m.questions, m.message_count \
                       FROM memory_session_summaries m \
                      WHERE m.user_id IN ($1, '*') AND m.session_id = $2 AND m.agent_id = $3 \
                      ORDER BY m.level DESC, m.updated_at DESC LIMIT 50) f",
                &of,
            )
            .await?,
    )?;
    let turns = turns(&asked, session_id, agent_id).await?;
    let openings = asked.openings([(session_id, agent_id)]).await?;
    let name = name_of(session_id, agent_id, &openings);
    let body = html! {
        h1 { (name) }
        p.meta {
            (about(&session, &openings))
            @if name != session.session_id { span { "id " code { (session.session_id) } } }
        }
        (summarised(&summaries))
        (conversation(&session, &turns))
        @if !session.is_shared { (what_to_do(&asked, &session)) }
    };
    Ok(Answer::Page(Here::Sessions, name, body))
}

/// A page of turns in their order, and where the pages beside it are.
struct Turns {
    shown: Vec<Entry>,
    earlier: Option<String>,
    later: Option<String>,
}

/// The latest turns; those before one, which are the ones just before it; or those from one on.
async fn turns(asked: &Asked, session_id: &str, agent_id: &str) -> Result<Turns, Trouble> {
    let place = |name: &str| asked.query.get(name).and_then(Place::read);
    let (from, before) = (place("from"), place("before"));
    let shown = match from {
        Some(_) => some_turns(asked, session_id, agent_id, from.as_ref(), Order::Onward).await?,
        None => some_turns(asked, session_id, agent_id, before.as_ref(), Order::Back).await?,
    };
    let has_more = shown.len() > TURNS;
    let at = |entry: &Entry| written(&entry.created_at, &entry.id);
    if from.is_none() {
        let shown: Vec<Entry> = shown.into_iter().take(TURNS).rev().collect();
        let earlier = shown.first().filter(|_| has_more).map(at);
        let later = before.and(asked.query.get("before")).map(str::to_owned);
        return Ok(Turns { shown, earlier, later });
    }
    let first = shown.first().map(at);
    let back = match first.as_deref().and_then(Place::read) {
        Some(first) => {
            some_turns(asked, session_id, agent_id, Some(&first), Order::Back).await?.is_empty()
        }
        None => true,
    };
    let later = shown.get(TURNS).map(at);
    let shown = shown.into_iter().take(TURNS).collect();
    Ok(Turns { shown, earlier: first.filter(|_| !back), later })
}

/// Which way turns are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Onward,
    Back,
}

/// The turns from a place on, or before it, and one more than fits on a page if there is one.
async fn some_turns(
    asked: &Asked,
    session_id: &str,
    agent_id: &str,
    at: Option<&Place>,
    order: Order,
) -> Result<Vec<Entry>, Trouble> {
    let (is_onward, order) = match order {
        Order::Onward => (true, "e.created_at, e.id"),
        Order::Back => (false, "e.created_at DESC, e.id DESC"),
    };
    let sql = format!(
        "SELECT to_jsonb(f) FROM (SELECT {COLUMNS} FROM memory_list( \
             $2, 'turn', user_id => $1, agent_id => $3, from_at => $4::timestamp AT TIME ZONE 'UTC', \
             from_id => $5, \"limit\" => $6::int4, oldest_first => $7) e ORDER BY {order}) f"
    );
    let user = asked.user_id();
    let (at, id, limit) = (at.map(|at| &at.at), at.map(|at| at.id), TURNS as i32 + 1);
    let params: [Param<'_>; 7] = [
        (&user, Type::TEXT),
        (&session_id, Type::TEXT),
        (&agent_id, Type::TEXT),
        (&at, Type::TEXT),
        (&id, Type::UUID),
        (&limit, Type::INT4),
        (&is_onward, Type::BOOL),
    ];
    rows::read(&asked.rows(&sql, &params).await?)
}

fn conversation(session: &Session, turns: &Turns) -> Markup {
    let here = session_path(&session.session_id, &session.agent_id, None);
    let beside = |relation: &str, from: &str, name: &str, place: Option<&String>| {
        html! {
            @if let Some(place) = place {
                nav.further aria-label=(name) {
                    a rel=(relation) href={ (here) "&" (from) "=" (encoded(place)) } { (name) }
                }
            }
        }
    };
    html! {
        section.conversation aria-labelledby="said" {
            h2 #said { "What was said" }
            @if turns.shown.is_empty() { p.muted { "Nothing that is still remembered." } }
            (beside("prev", "before", "Earlier", turns.earlier.as_ref()))
            ol.turns {
                @for turn in &turns.shown { li { (one(turn)) } }
            }
            (beside("next", "from", "Later", turns.later.as_ref()))
        }
    }
}

fn one(turn: &Entry) -> Markup {
    html! {
        article.turn id={ "m-" (turn.id) } data-role=(turn.role) {
            p.meta {
                b { (parts::speaker(turn)) }
                span { (parts::at(&turn.created_at)) }
                @if !turn.is_active { span.tag title="Only its summary, or a recall, still brings it into a prompt" { "not in the prompt any more" } }
                @for marker in turn.markers.iter().flatten() { span.tag { (marker) } }
                a href=(memory_path(&turn.id)) aria-label={ "Details of: " (beginning(&turn.content, 60)) } { "Details" }
            }
            p.text { (beginning(&turn.content, SAID)) }
        }
    }
}

fn summarised(summaries: &[Summary]) -> Markup {
    let Some((first, others)) = summaries.split_first() else { return html! {} };
    let list = |title: &str, items: &[String]| {
        html! {
            @if !items.is_empty() {
                div { h3 { (title) } ul { @for item in items { li { (item) } } } }
            }
        }
    };
    html! {
        section.digest aria-labelledby="summary" {
            h2 #summary { "Summary" }
            p.text { (first.summary) }
            div.lists {
                (list("Topics", &first.topics))
                (list("Decisions", &first.decisions))
                (list("Open questions", &first.questions))
            }
            p.meta {
                span { "made " (parts::at(&first.updated_at)) }
                @if let Some(count) = first.message_count { span { "of " (parts::count(count as usize, "message", "messages")) } }
            }
            @if !others.is_empty() {
                details {
                    summary { (others.len()) " more summaries, of parts" }
                    @for other in others {
                        p.text { span.tag { (other.level) } " " (other.summary) }
                    }
                }
            }
        }
    }
}

fn what_to_do(asked: &Asked, session: &Session) -> Markup {
    let (id, agent) = (&session.session_id, &session.agent_id);
    html! {
        section aria-labelledby="do" {
            h2 #do { "This session" }
            div.actions {
                a.button href={ "/ui/search?session=" (encoded(id)) } { "Search in it" }
                a.button href={ "/ui/export?session=" (encoded(id)) "&agent=" (encoded(agent)) } { "Export" }
                form method="post" action="/ui/erase" {
                    (form_token(&asked.visit))
                    input type="hidden" name="session" value=(id);
                    input type="hidden" name="agent" value=(agent);
                    button.danger type="submit" { "Erase…" }
                }
            }
        }
    }
}
