//! Background work: what waits and what failed of the user's, in words; and for the operator, what runs on it
//! and what language models took.

use super::frame::{Here, form_token};
use super::opening::{Openings, name_of};
use super::parts::{self, count};
use super::request::{Answer, Asked, Trouble};
use super::{quota, rows, usage};
use crate::db::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Jobs that are shown, those that need attention first.
const JOBS: i64 = 50;
/// Jobs that are tried again at once.
const RETRIED: i64 = 1_000;
/// Letters of a reason.
const REASON: usize = 300;

/// A row of `memory_status()`.
#[derive(Debug, Deserialize)]
struct Part {
    component: String,
    state: String,
    detail: String,
    hint: Option<String>,
}

/// A job of the user.
#[derive(Debug, Deserialize)]
struct Job {
    kind: String,
    session_id: Option<String>,
    agent_id: Option<String>,
    status: String,
    attempts: i64,
    done: Option<i64>,
    total: Option<i64>,
    last_error: Option<String>,
    created_at: String,
    finished_at: Option<String>,
}

/// `GET /ui/background`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let status: Vec<Part> =
        rows::read(&asked.rows("SELECT to_jsonb(s) FROM memory_status() s", &[]).await?)?;
    let jobs = jobs(&asked).await?;
    let quota = quota::show(&asked).await?;
    let spent = usage::show(&asked).await?;
    let is_operator = spent.is_some() || !asked.visit.has_signed_in;
    let of = |wanted: &[&str]| -> Vec<&Job> {
        jobs.iter().filter(|job| wanted.contains(&job.status.as_str())).collect()
    };
    let (failed, waiting, done) = (of(&["dead"]), of(&["pending", "running"]), of(&["done"]));
    let sessions = jobs.iter();
    let sessions = sessions.filter_map(|job| Some((job.session_id.as_deref()?, job.agent())));
    let openings = asked.openings(sessions).await?;
    let list = |jobs: &[&Job]| {
        html! { ul.jobs { @for job in jobs { (one(job, &openings)) } } }
    };
    let body = html! {
        h1 { "Background work" }
        @if let Some(done) = asked.query.get("done") {
            p.note.good role="status" { @if done == "retried" { "It runs again." } @else { "There was nothing to try again." } }
        }
        section aria-labelledby="yours" {
            h2 #yours { "Your memory" }
            (health(&status))
            (quota)
            @if !failed.is_empty() {
                h3 { (count(failed.len(), "task failed", "tasks failed")) }
                (list(&failed))
                form method="post" action="/ui/retry" {
                    (form_token(&asked.visit))
                    div.actions { button.primary type="submit" { "Try all again" } }
                }
            }
            @if !waiting.is_empty() {
                h3 { (count(waiting.len(), "task waits or runs", "tasks wait or run")) }
                (list(&waiting))
            }
            @if !done.is_empty() {
                details { summary { "Done lately " span.count { (done.len()) } } (list(&done)) }
            }
            @if jobs.is_empty() {
                (parts::empty("Nothing to do.", "Nothing waits, and nothing was done in the last 24 hours."))
            }
        }
        @if is_operator {
            section aria-labelledby="server" {
                h2 #server { "Server" }
                (status_table(&status))
                @if let Some(spent) = &spent { (spent) }
            }
        }
    };
    Ok(Answer::Page(Here::Background, "Background work".to_owned(), body))
}

async fn jobs(asked: &Asked) -> Result<Vec<Job>, Trouble> {
    let sql = "SELECT to_jsonb(f) FROM ( \
                   SELECT j.kind, j.session_id, j.agent_id, j.status, j.attempts, j.done, j.total, j.last_error, \
                          j.created_at AT TIME ZONE 'UTC' AS created_at, \
                          j.finished_at AT TIME ZONE 'UTC' AS finished_at \
                     FROM memory_jobs j WHERE j.user_id = $1 \
                    ORDER BY array_position('{dead,running,pending}', j.status), j.created_at DESC, j.id \
                    LIMIT $2) f";
    let user = asked.user_id();
    let params: [Param<'_>; 2] = [(&user, Type::TEXT), (&JOBS, Type::INT8)];
    rows::read(&asked.rows(sql, &params).await?)
}

/// `POST /ui/retry`: a job that failed, or all of them, again.
///
/// # Errors
/// What memory says.
pub async fn retry(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.form.get("job");
    let id = id.map(|id| Uuid::parse_str(id).map_err(|_| Trouble::nothing_here())).transpose()?;
    let user = asked.user_id();
    let sql = "SELECT f.id FROM ( \
                   SELECT j.id FROM memory_jobs j \
                    WHERE j.user_id = $1 AND j.status = 'dead' AND ($2::uuid IS NULL OR j.id = $2) LIMIT $3) f \
                WHERE memory_retry(f.id)";
    let params: [Param<'_>; 3] = [(&user, Type::TEXT), (&id, Type::UUID), (&RETRIED, Type::INT8)];
    let rows = asked.rows(sql, &params).await?;
    let word = if rows.is_empty() { "nothing" } else { "retried" };
    Ok(Answer::See(format!("/ui/background?done={word}")))
}

impl Job {
    fn agent(&self) -> &str {
        self.agent_id.as_deref().unwrap_or_default()
    }

    /// What it does, for who waits for it.
    fn task(&self) -> &str {
        match self.kind.as_str() {
            "extract" => "Learning facts from what was said",
            "reflect" => "Learning facts from a whole conversation",
            "summarize" => "Summarising a conversation",
            "compress" => "Shortening a long conversation",
            "evict" => "Moving old messages out of prompts",
            "embed" => "Making memories findable by their meaning",
            "reembed" => "Changing the model that knows meanings",
            "reindex" => "Making older memories findable by their words",
            "attach" => "Taking in the rows of a table",
            other => other,
        }
    }
}

fn one(job: &Job, openings: &Openings) -> Markup {
    let (dot, state) = match job.status.as_str() {
        "dead" => ("attention", "failed"),
        "running" => ("fine", "runs"),
        "pending" => ("idle", "waits"),
        "done" => ("fine", "done"),
        other => ("idle", other),
    };
    html! {
        li {
            p.task {
                span.state data-state=(dot) { (job.task()) " " b { (state) } }
                @if let (Some(done), Some(total)) = (job.done, job.total) { " (" (done) " of " (total) ")" }
            }
            @if let Some(error) = job.last_error.as_deref().filter(|_| job.status != "done") {
                p.reason {
                    @if job.attempts > 1 { "Tried " (job.attempts) " times. " }
                    "The reason: " (reason(error))
                }
            }
            p.meta {
                @if let Some(session) = &job.session_id { span { "in " (name_of(session, job.agent(), openings)) } }
                span { (parts::at(job.finished_at.as_ref().unwrap_or(&job.created_at))) }
            }
        }
    }
}

/// A reason as a sentence: those of models and endpoints are often a few words.
fn reason(error: &str) -> String {
    match error.trim() {
        "it is empty" => "the language model gave an empty answer.".to_owned(),
        error if error.ends_with('.') => parts::beginning(error, REASON),
        error => format!("{}.", parts::beginning(error, REASON)),
    }
}

/// Whether memory works, as far as a user notices.
fn health(status: &[Part]) -> Markup {
    let state = |wanted: &str| {
        status.iter().find(|part| part.component == wanted).map_or("", |part| part.state.as_str())
    };
    let mut told = Vec::new();
    if ["none", "misconfigured", "unreachable"].contains(&state("llm")) {
        told.push("No language model is set up, so no facts are learned from what is said. You can add facts yourself, and what was said is found all the same.");
    } else if ["unavailable", "paused", "limited"].contains(&state("llm")) {
        told.push("The language model does not answer at the moment. Facts are learned as soon as it does.");
    }
    if ["failing", "not responding", "not running", "starting"].contains(&state("model server")) {
        told.push("Search by meaning does not work at the moment. Words are found all the same.");
    }
    if state("worker") == "not running" && state("launcher") != "on demand" {
        told.push("Background work does not run on this server, so what waits goes on waiting.");
    }
    html! {
        @if told.is_empty() { p { span.state data-state="fine" { "Memory works." } } }
        @for sentence in told { p { span.state data-state="attention" { (sentence) } } }
    }
}

/// The dot of a part. Only what runs is green.
fn dot(part: &Part) -> &'static str {
    const FINE: [&str; 19] = [
        "running",
        "loaded",
        "present",
        "remote",
        "preloaded",
        "current",
        "setting",
        "required",
        "role",
        "claims",
        "found",
        "complete",
        "reachable",
        "configured",
        "empty",
        "believed",
        "sealed",
        "attached",
        "not needed",
    ];
    match &part.hint {
        Some(_) => "attention",
        None if FINE.contains(&part.state.as_str()) => "fine",
        None => "idle",
    }
}

fn status_table(status: &[Part]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby="server" {
            table.cards {
                (parts::headings(&["Part", "State", "Detail", "What to do"], 0))
                tbody {
                    @for part in status {
                        tr {
                            th scope="row" { (part.component) }
                            td { span.state data-state=(dot(part)) { (part.state) } }
                            td.text { (part.detail) }
                            td.text { (part.hint.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_green() {
        let part = |state: &str, hint: Option<&str>| {
            let (component, detail) = ("worker".to_owned(), String::new());
            dot(&Part { component, state: state.to_owned(), detail, hint: hint.map(str::to_owned) })
        };
        assert_eq!(part("running", None), "fine");
        assert_eq!(part("running", Some("Look at it.")), "attention");
        for state in ["not running", "off", "on demand", "waiting", "resting", "unknown", ""] {
            assert_eq!(part(state, None), "idle", "{state}");
        }
    }
}
