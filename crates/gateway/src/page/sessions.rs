//! Sessions, newest first, and one session: what it comes to, and what was said.

use super::frame::{Here, form_token};
use super::parts::{self, beginning, encoded, memory_path, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, COLUMNS, Entry};
use crate::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;

/// Sessions on a page.
const PAGE: usize = 30;
/// Turns on a page.
const TURNS: usize = 40;
/// Letters of a summary in the list.
const SHOWN: usize = 260;
/// Letters of a turn; its own page shows the rest.
const SAID: usize = 4_000;

/// A conversation.
#[derive(Debug, Deserialize)]
struct Session {
    session_id: String,
    agent_id: String,
    last_turn_at: String,
    turn_count: i64,
    active_tokens: i64,
    is_shared: bool,
    summary: Option<String>,
}

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

/// The columns of a [`Session`], of the view `memory_sessions s`.
const SESSION: &str = "s.session_id, s.agent_id, \
     s.last_turn_at AT TIME ZONE 'UTC' AS last_turn_at, s.turn_count, s.active_tokens, \
     s.user_id = '*' AS is_shared";

/// `GET /ui/sessions`.
///
/// # Errors
/// What memory says.
pub async fn list(asked: Asked) -> Result<Answer, Trouble> {
    let at = asked.query.get("from").and_then(parts::moment);
    let (session, agent) = (asked.query.get("session"), asked.query.get("agent"));
    let sql = format!(
        "SELECT to_jsonb(f) FROM ( \
            WITH shown AS ( \
                SELECT {SESSION} FROM memory_sessions s WHERE s.user_id IN ($1, '*') \
                   AND ($2::text IS NULL OR (s.last_turn_at, s.session_id, s.agent_id) \
                                          < ($2::timestamp AT TIME ZONE 'UTC', $3, $4)) \
                 ORDER BY s.last_turn_at DESC, s.session_id DESC, s.agent_id DESC LIMIT $5), \
            summaries AS ( \
                SELECT DISTINCT ON (m.session_id, m.agent_id) m.session_id, m.agent_id, m.summary \
                  FROM memory_session_summaries m WHERE m.user_id = $1 \
                 ORDER BY m.session_id, m.agent_id, m.level DESC, m.updated_at DESC) \
            SELECT x.*, m.summary FROM shown x LEFT JOIN summaries m USING (session_id, agent_id) \
             ORDER BY x.last_turn_at DESC, x.session_id DESC, x.agent_id DESC) f"
    );
    let (user, limit) = (asked.user_id(), PAGE as i64 + 1);
    let params: [Param<'_>; 5] = [
        (&user, Type::TEXT),
        (&at, Type::TEXT),
        (&session, Type::TEXT),
        (&agent, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let mut sessions: Vec<Session> = rows::read(&asked.rows(&sql, &params).await?)?;
    let has_more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let next = sessions.last().filter(|_| has_more).map(|last| {
        format!(
            "/ui/sessions?from={}&session={}&agent={}",
            encoded(&last.last_turn_at),
            encoded(&last.session_id),
            encoded(&last.agent_id)
        )
    });
    let body = html! {
        h1 { "Sessions" }
        @if sessions.is_empty() {
            (parts::empty("No sessions yet.", "Each conversation becomes one, by the name that its client gives it."))
        } @else {
            ul.sessions {
                @for session in &sessions {
                    li {
                        article {
                            h2 { a href=(session_path(&session.session_id, &session.agent_id, None)) { (session.session_id) } }
                            p.meta { (counted(session)) }
                            @if let Some(summary) = &session.summary { p.text { (beginning(summary, SHOWN)) } }
                        }
                    }
                }
            }
        }
        (parts::further(next.as_deref(), "Earlier sessions"))
    };
    Ok(Answer::Page(Here::Sessions, "Sessions".to_owned(), body))
}

fn counted(session: &Session) -> Markup {
    html! {
        span { "last " (parts::at(&session.last_turn_at)) }
        span { (session.turn_count) @if session.turn_count == 1 { " turn" } @else { " turns" } }
        span { (session.active_tokens) " tokens in the window" }
        @if session.agent_id != "default" { span { "agent " (session.agent_id) } }
        @if session.is_shared { span.tag { "shared with all users" } }
    }
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
        "SELECT to_jsonb(f) FROM (SELECT {SESSION}, NULL AS summary FROM memory_sessions s \
          WHERE s.user_id IN ($1, '*') AND s.session_id = $2 AND s.agent_id = $3 \
          ORDER BY is_shared LIMIT 1) f"
    );
    let sessions: Vec<Session> = rows::read(&asked.rows(&sql, &of).await?)?;
    let session = sessions.into_iter().next().ok_or_else(Trouble::nothing_here)?;
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
    let body = html! {
        h1 { (session.session_id) }
        p.meta { (counted(&session)) }
        (summarised(&summaries))
        (conversation(&session, &turns))
        @if !session.is_shared { (what_to_do(&asked, &session)) }
    };
    Ok(Answer::Page(Here::Sessions, session.session_id.clone(), body))
}

/// A page of turns in their order, and where the pages beside it are.
struct Turns {
    shown: Vec<Entry>,
    earlier: Option<String>,
    later: Option<String>,
}

/// The latest turns; those before one, which are the ones just before it; or those from one on.
async fn turns(asked: &Asked, session_id: &str, agent_id: &str) -> Result<Turns, Trouble> {
    let place = |name: &str| asked.query.get(name).and_then(parts::read_place);
    let (from, before) = (place("from"), place("before"));
    let shown = match from {
        Some(from) => some_turns(asked, session_id, agent_id, Some(from), Order::Onward).await?,
        None => some_turns(asked, session_id, agent_id, before, Order::Back).await?,
    };
    let has_more = shown.len() > TURNS;
    let at = |entry: &Entry| parts::place(&entry.created_at, &entry.id);
    if from.is_none() {
        let shown: Vec<Entry> = shown.into_iter().take(TURNS).rev().collect();
        let earlier = shown.first().filter(|_| has_more).map(at);
        let later = before.and(asked.query.get("before")).map(str::to_owned);
        return Ok(Turns { shown, earlier, later });
    }
    let first = shown.first().map(at);
    let back = match first.as_deref().and_then(parts::read_place) {
        Some(first) => {
            some_turns(asked, session_id, agent_id, Some(first), Order::Back).await?.is_empty()
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
    at: Option<(&str, uuid::Uuid)>,
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
    let (at, id, limit) = (at.map(|at| at.0), at.map(|at| at.1), TURNS as i32 + 1);
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
                @if !turn.is_active { span.tag { "out of the window" } }
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
        section.summary aria-labelledby="summary" {
            h2 #summary { "Summary" }
            p.text { (first.summary) }
            div.lists {
                (list("Topics", &first.topics))
                (list("Decisions", &first.decisions))
                (list("Open questions", &first.questions))
            }
            p.meta {
                span { "made " (parts::at(&first.updated_at)) }
                @if let Some(count) = first.message_count { span { "of " (count) " turns" } }
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
        section.what-to-do aria-labelledby="do" {
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
