//! Sessions, newest first: what each is called, how it begins, where it comes from, and what was learned in it.

use super::frame::Here;
use super::opening::{Openings, name_of};
use super::parts::{self, beginning, count, encoded, session_path};
use super::request::{Answer, Asked, Trouble};
use super::rows;
use crate::db::memory::Param;
use crate::db::place::moment;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;

/// Sessions on a page.
const PAGE: usize = 30;
/// Sessions whose titles are looked through, the latest first.
const TITLES: i64 = 1_000;
/// Turns that a search finds.
const FOUND: i64 = 50;
/// Letters of a summary or a first line in the list.
const SHOWN: usize = 220;
/// Facts of a session that are counted.
const FACTS: i64 = 100;

/// A conversation.
#[derive(Debug, Deserialize)]
pub struct Session {
    pub session_id: String,
    pub agent_id: String,
    pub last_turn_at: String,
    pub turn_count: i64,
    pub is_shared: bool,
    pub summary: Option<String>,
    pub facts: Option<i64>,
    /// What a search found in it.
    pub line: Option<String>,
}

/// The columns of a [`Session`], of the view `memory_sessions s`.
pub const SESSION: &str = "s.session_id, s.agent_id, \
     s.last_turn_at AT TIME ZONE 'UTC' AS last_turn_at, s.turn_count, s.user_id = '*' AS is_shared";
/// A summary of the user's sessions, and how many facts those have that are `shown`.
const AROUND: &str = "summaries AS ( \
         SELECT DISTINCT ON (m.session_id, m.agent_id) m.session_id, m.agent_id, m.summary \
           FROM memory_session_summaries m WHERE m.user_id = $1 \
          ORDER BY m.session_id, m.agent_id, m.level DESC, m.updated_at DESC), \
     counted AS ( \
         SELECT x.*, m.summary, \
                (SELECT count(*) FROM memory_list(x.session_id, 'fact', user_id => $1, agent_id => x.agent_id, \
                                                  \"limit\" => $2)) AS facts \
           FROM shown x LEFT JOIN summaries m USING (session_id, agent_id))";

/// `GET /ui/sessions`.
///
/// # Errors
/// What memory says.
pub async fn list(asked: Asked) -> Result<Answer, Trouble> {
    let words = asked.query.get("q").map(str::trim).filter(|words| !words.is_empty());
    let Found { mut sessions, are_more } = match words {
        Some(words) => found(&asked, words).await?,
        None => Found { sessions: latest(&asked).await?, are_more: false },
    };
    let has_more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let next = sessions.last().filter(|_| has_more && words.is_none()).map(|last| {
        format!(
            "/ui/sessions?from={}&session={}&agent={}",
            encoded(&last.last_turn_at),
            encoded(&last.session_id),
            encoded(&last.agent_id)
        )
    });
    let named = sessions.iter().map(|one| (one.session_id.as_str(), one.agent_id.as_str()));
    let openings = asked.openings(named).await?;
    let day = |session: &Session| parts::day(&session.last_turn_at);
    let body = html! {
        h1 { "Sessions" }
        form.find method="get" action="/ui/sessions" role="search" data-live="#listed" {
            div.box {
                label.hidden for="q" { "Search in sessions" }
                input #q type="search" name="q" value=[words] autocomplete="off" placeholder="Search in sessions"
                    data-filter="#listed";
                button.primary type="submit" { "Search" }
            }
        }
        div #listed {
            @if words.is_some() {
                p.count-line role="status" {
                    (count(sessions.len(), "session", "sessions")) ". "
                    @if are_more { "Titles were looked for in the latest " (TITLES) " sessions, names and what was said in all. " }
                    a.clear href="/ui/sessions" { "All sessions" }
                }
            }
            @if sessions.is_empty() && words.is_some() {
                (parts::empty("No session fits.", "Try other words."))
            } @else if sessions.is_empty() {
                (parts::empty("No sessions yet.", "Each conversation becomes one, by the name that its client gives it."))
            } @else if words.is_some() {
                h2.hidden { "Found" }
                (rows_of(&Vec::from_iter(&sessions), &openings))
            } @else {
                @for group in sessions.chunk_by(|left, right| day(left) == day(right)) {
                    section.month {
                        h2 { (parts::on(&group[0].last_turn_at)) }
                        (rows_of(&titled_first(group, &openings), &openings))
                    }
                }
            }
            (parts::further(next.as_deref(), "Earlier sessions"))
        }
    };
    Ok(Answer::Page(Here::Sessions, "Sessions".to_owned(), body))
}

/// A page of all sessions, and one more if there is one.
async fn latest(asked: &Asked) -> Result<Vec<Session>, Trouble> {
    let at = asked.query.get("from").and_then(moment);
    let (session, agent) = (asked.query.get("session"), asked.query.get("agent"));
    let sql = format!(
        "WITH shown AS MATERIALIZED ( \
             SELECT {SESSION} FROM memory_sessions s WHERE s.user_id IN ($1, '*') \
                AND ($3::text IS NULL OR (s.last_turn_at, s.session_id, s.agent_id) \
                                       < ($3::timestamp AT TIME ZONE 'UTC', $4, $5)) \
              ORDER BY s.last_turn_at DESC, s.session_id DESC, s.agent_id DESC LIMIT $6), {AROUND} \
         SELECT to_jsonb(f) FROM ( \
             SELECT * FROM counted x ORDER BY x.last_turn_at DESC, x.session_id DESC, x.agent_id DESC) f"
    );
    let (user, limit) = (asked.user_id(), PAGE as i64 + 1);
    let params: [Param<'_>; 6] = [
        (&user, Type::TEXT),
        (&FACTS, Type::INT8),
        (&at, Type::TEXT),
        (&session, Type::TEXT),
        (&agent, Type::TEXT),
        (&limit, Type::INT8),
    ];
    rows::read(&asked.rows(&sql, &params).await?)
}

/// What a search found.
#[derive(Debug, Deserialize)]
struct Found {
    sessions: Vec<Session>,
    /// Whether there are sessions whose titles were not looked through.
    are_more: bool,
}

/// The sessions with these words in their name or title, then those in which something like them was said.
async fn found(asked: &Asked, words: &str) -> Result<Found, Trouble> {
    let sql = format!(
        "WITH hits AS MATERIALIZED ( \
             SELECT r.session_id, min(r.place) AS place, (array_agg(r.content ORDER BY r.place))[1] AS line \
               FROM memory_recall($3, kinds => '{{turn}}', top_k => $4, rerank => false) WITH ORDINALITY \
                    r (id, kind, role, content, score, relevance, similarity, lexical, recency, markers, \
                       token_count, session_id, episode_id, metadata, created_at, place) \
              WHERE r.session_id IS NOT NULL AND (r.relevance >= .05 OR r.lexical > 0) GROUP BY 1), \
         every AS MATERIALIZED ( \
             SELECT {SESSION}, row_number() OVER (ORDER BY s.last_turn_at DESC, s.session_id, s.agent_id) AS age, \
                    strpos(lower(s.session_id), lower($3)) > 0 AS is_named \
               FROM memory_sessions s WHERE s.user_id IN ($1, '*')), \
         titled AS MATERIALIZED ( \
             SELECT a.age FROM (SELECT * FROM every v WHERE v.age <= $5 AND NOT v.is_named OFFSET 0) a, \
                    LATERAL memory_list(a.session_id, 'turn', user_id => $1, agent_id => a.agent_id, \
                                        oldest_first => true, \"limit\" => 1) o \
              WHERE strpos(lower(o.entry_metadata ->> 'title'), lower($3)) > 0), \
         shown AS MATERIALIZED ( \
             SELECT v.*, h.line, h.place, v.is_named OR t.age IS NOT NULL AS is_titled \
               FROM every v LEFT JOIN hits h ON h.session_id = v.session_id LEFT JOIN titled t ON t.age = v.age \
              WHERE h.session_id IS NOT NULL OR v.is_named OR t.age IS NOT NULL \
              ORDER BY is_titled DESC, h.place, v.age LIMIT $6), {AROUND} \
         SELECT jsonb_build_object( \
             'sessions', (SELECT coalesce(jsonb_agg(to_jsonb(x) ORDER BY x.is_titled DESC, x.place, x.age), '[]') \
                            FROM counted x), \
             'are_more', (SELECT count(*) > $5 FROM every))"
    );
    let (user, limit) = (asked.user_id(), PAGE as i64);
    let params: [Param<'_>; 6] = [
        (&user, Type::TEXT),
        (&FACTS, Type::INT8),
        (&words, Type::TEXT),
        (&FOUND, Type::INT8),
        (&TITLES, Type::INT8),
        (&limit, Type::INT8),
    ];
    let found: Vec<Found> = rows::read(&asked.rows(&sql, &params).await?)?;
    found.into_iter().next().ok_or_else(Trouble::nothing_here)
}

/// The sessions of a day: those with a title come first, which say by themselves what they are about.
fn titled_first<'a>(sessions: &'a [Session], openings: &Openings) -> Vec<&'a Session> {
    let has_title = |one: &&Session| {
        let title = openings.title(&one.session_id, &one.agent_id);
        title.is_some_and(|title| !title.trim().is_empty())
    };
    let (mut first, others): (Vec<&Session>, Vec<&Session>) = sessions.iter().partition(has_title);
    first.extend(others);
    first
}

fn rows_of(sessions: &[&Session], openings: &Openings) -> Markup {
    html! {
        ul.sessions {
            @for session in sessions {
                @let opening = openings.of(&session.session_id, &session.agent_id);
                @let name = name_of(&session.session_id, &session.agent_id, openings);
                li data-row {
                    h3 { a href=(session_path(&session.session_id, &session.agent_id, None)) { (name) } }
                    @if let Some(line) = session.line.as_ref().or(session.summary.as_ref()) {
                        p.text { (beginning(line, SHOWN)) }
                    } @else if let Some(opening) = opening {
                        p.text { (beginning(&opening.first, SHOWN)) }
                    }
                    p.meta { (about(session, openings)) }
                }
            }
        }
    }
}

/// When, how much, and from where.
pub fn about(session: &Session, openings: &Openings) -> Markup {
    let opening = openings.of(&session.session_id, &session.agent_id);
    let source = opening.and_then(|one| one.source.as_deref());
    html! {
        span { "last " (parts::at(&session.last_turn_at)) }
        span { (count(session.turn_count as usize, "message", "messages")) }
        @if let Some(facts) = session.facts.filter(|facts| *facts > 0) {
            span { @if facts >= FACTS { (FACTS) " facts or more" } @else { (count(facts as usize, "fact", "facts")) } }
        }
        @if let Some(source) = source { span { "imported from " (source) } }
        @if session.agent_id != "default" { span { "agent " (session.agent_id) } }
        @if session.is_shared { span.tag { "shared with all users" } }
    }
}
