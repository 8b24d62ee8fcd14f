//! Erasing for good: first what will go, which is tried out and undone, then what has gone. In between
//! the visitor types a word, so that nothing is erased by accident.

use super::frame::{Here, form_token};
use super::parts::{beginning, headings};
use super::request::{Answer, Asked, Trouble};
use crate::db::memory::{End, Param};
use maud::{Markup, html};
use serde_json::{Map, Value};
use tokio_postgres::types::Type;
use uuid::Uuid;

/// What the visitor types to erase one memory.
const WORD: &str = "erase";

/// What is to be erased.
enum Target {
    One(Uuid),
    Session { session_id: String, agent_id: String },
    Everything,
}

impl Target {
    fn read(asked: &Asked) -> Result<Self, Trouble> {
        let form = &asked.form;
        match (form.get("id"), form.get("session"), form.get("everything")) {
            (Some(id), None, None) => {
                Uuid::parse_str(id).map(Self::One).map_err(|_| Trouble::nothing_here())
            }
            (None, Some(session), None) => Ok(Self::Session {
                session_id: session.to_owned(),
                agent_id: form.get("agent").unwrap_or("default").to_owned(),
            }),
            (None, None, Some(_)) => Ok(Self::Everything),
            _ => Err(Trouble::invalid("Say what is to be erased.")),
        }
    }

    /// What has to be typed.
    fn word<'a>(&'a self, asked: &'a Asked) -> &'a str {
        match self {
            Self::One(_) => WORD,
            Self::Session { session_id, .. } => session_id,
            Self::Everything => asked.user_id(),
        }
    }

    /// Erases it, or only counts what that comes to.
    async fn erase(&self, asked: &Asked, end: End) -> Result<Map<String, Value>, Trouble> {
        let user = asked.user_id();
        let rows = match self {
            Self::One(id) => {
                let params: [Param<'_>; 1] = [(id, Type::UUID)];
                asked.run("SELECT memory_erase(id => $1)", &params, end).await?
            }
            Self::Session { session_id, agent_id } => {
                let sql = "SELECT memory_erase(session_id => $1, agent_id => $2)";
                let params: [Param<'_>; 2] = [(session_id, Type::TEXT), (agent_id, Type::TEXT)];
                asked.run(sql, &params, end).await?
            }
            Self::Everything => {
                let params: [Param<'_>; 1] = [(&user, Type::TEXT)];
                asked.run("SELECT memory_erase(user_id => $1)", &params, end).await?
            }
        };
        let counts = rows.first().and_then(|row| row.try_get::<_, Value>(0).ok());
        match counts {
            Some(Value::Object(counts)) => Ok(counts),
            _ => Err(Trouble::nothing_here()),
        }
    }

    fn fields(&self) -> Markup {
        html! {
            @match self {
                Self::One(id) => { input type="hidden" name="id" value=(id); }
                Self::Session { session_id, agent_id } => {
                    input type="hidden" name="session" value=(session_id);
                    input type="hidden" name="agent" value=(agent_id);
                }
                Self::Everything => { input type="hidden" name="everything" value="yes"; }
            }
        }
    }
}

/// `POST /ui/erase`: what will go.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let target = Target::read(&asked)?;
    let counts = target.erase(&asked, End::Rollback).await?;
    confirm(&asked, &target, &counts, false).await
}

async fn confirm(
    asked: &Asked,
    target: &Target,
    counts: &Map<String, Value>,
    was_mistyped: bool,
) -> Result<Answer, Trouble> {
    let word = target.word(asked);
    let texts = match target {
        Target::One(id) => asked.texts(&[*id]).await?.into_values().collect(),
        _ => Vec::new(),
    };
    let body = html! {
        h1 { "Erase for good" }
        @match target {
            Target::One(_) => {
                p { "This memory goes, with its earlier and later versions, and with the facts that were learned only from it." }
                @for entry in &texts { blockquote { p { (beginning(&entry.content, 600)) } } }
            }
            Target::Session { session_id, .. } => {
                p { "The session " b { (session_id) } " goes: what was said, its summaries, and the facts that were learned only from it." }
            }
            Target::Everything => {
                p {
                    "Everything that is remembered of " b { (asked.user_id()) } " goes, and every token with \
                     which programs act for this user."
                }
            }
        }
        h2 { "What will go" }
        (table(counts))
        p.muted { "It cannot be brought back. To stop using a memory and keep the text, forget it instead." }
        form.confirm method="post" action="/ui/erased" {
            (form_token(&asked.visit))
            (target.fields())
            @if was_mistyped { p.note.bad role="alert" { "You typed something else, so nothing was erased." } }
            label for="word" { "Type " code { (word) } " to confirm" }
            input #word type="text" name="word" required autocomplete="off" autocapitalize="none"
                spellcheck="false" aria-invalid[was_mistyped];
            div.actions { button.danger type="submit" { "Erase for good" } a.button href="/ui" { "Keep it" } }
        }
    };
    Ok(Answer::Page(Here::Elsewhere, "Erase for good".to_owned(), body))
}

/// `POST /ui/erased`.
///
/// # Errors
/// What memory says.
pub async fn erase(asked: Asked) -> Result<Answer, Trouble> {
    let target = Target::read(&asked)?;
    if asked.form.get("word").map(str::trim) != Some(target.word(&asked).trim()) {
        let counts = target.erase(&asked, End::Rollback).await?;
        return confirm(&asked, &target, &counts, true).await;
    }
    let counts = target.erase(&asked, End::Commit).await?;
    let body = html! {
        h1 { "Erased" }
        p.note.good role="status" { "It is gone for good." }
        (table(&counts))
        p { a.button href="/ui" { "Go to what is known" } }
    };
    if !matches!(target, Target::Everything) || !asked.visit.has_signed_in {
        return Ok(Answer::Page(Here::Elsewhere, "Erased".to_owned(), body));
    }
    // The tokens are gone, and the one that this visit began with among them.
    let mut response = super::frame::page(None, Here::Elsewhere, "Erased", &body);
    asked.visit.end(&mut response);
    Ok(Answer::Other(Box::new(response)))
}

fn table(counts: &Map<String, Value>) -> Markup {
    let some = counts.iter().filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
    let mut some: Vec<_> = some.collect();
    some.sort_by_key(|(name, _)| *name != "entries");
    html! {
        @if some.is_empty() {
            p { "Nothing: there is no such memory." }
        } @else {
            table.counts {
                (headings(&["What", "How many"], 0))
                tbody {
                    @for (name, count) in some { tr { th scope="row" { (called(name)) } td { (count) } } }
                }
            }
        }
    }
}

/// What the rows of a table are called.
fn called(table: &str) -> String {
    match table {
        "entries" => {
            "memories: messages, facts and parts of documents, with old versions".to_owned()
        }
        "session_summaries" => "summaries".to_owned(),
        "archives" => "documents and archived conversations".to_owned(),
        "history" => "texts in the history".to_owned(),
        "jobs" => "pieces of background work".to_owned(),
        "llm_calls" => "texts that a language model was asked about".to_owned(),
        "traces" => "notes on how facts were learned".to_owned(),
        "entry_windows" => "parts of long texts, kept for search".to_owned(),
        other => other.replace('_', " "),
    }
}
