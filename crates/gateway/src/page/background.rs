//! Background work: what runs and what does not, the user's jobs, and for administrators what language models
//! took.

use super::frame::{Here, form_token};
use super::parts;
use super::request::{Answer, Asked, Trouble};
use super::{rows, usage};
use crate::memory::Param;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Jobs that are shown, those that need attention first.
const JOBS: i64 = 50;

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
    id: String,
    kind: String,
    session_id: Option<String>,
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
    let spent = usage::show(&asked).await?;
    let body = html! {
        h1 { "Background work" }
        @if let Some(done) = asked.query.get("done") {
            p.note.good role="status" { @if done == "retried" { "It runs again." } @else { "There was no such job." } }
        }
        section aria-labelledby="jobs" { h2 #jobs { "Jobs" } (jobs_table(&asked, &jobs)) }
        @if let Some(spent) = &spent { (spent) }
        section aria-labelledby="status" { h2 #status { "What runs" } (status_table(&status)) }
    };
    Ok(Answer::Page(Here::Background, "Background work".to_owned(), body))
}

async fn jobs(asked: &Asked) -> Result<Vec<Job>, Trouble> {
    let sql = "SELECT to_jsonb(f) FROM ( \
                   SELECT j.id, j.kind, j.session_id, j.status, j.attempts, j.done, j.total, j.last_error, \
                          j.created_at AT TIME ZONE 'UTC' AS created_at, \
                          j.finished_at AT TIME ZONE 'UTC' AS finished_at \
                     FROM memory_jobs j WHERE j.user_id = $1 \
                    ORDER BY array_position('{dead,running,pending}', j.status), j.created_at DESC, j.id \
                    LIMIT $2) f";
    let user = asked.user_id();
    let params: [Param<'_>; 2] = [(&user, Type::TEXT), (&JOBS, Type::INT8)];
    rows::read(&asked.rows(sql, &params).await?)
}

/// `POST /ui/retry`: a dead job again.
///
/// # Errors
/// What memory says.
pub async fn retry(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.form.get("job").and_then(|id| Uuid::parse_str(id).ok());
    let id = id.ok_or_else(Trouble::nothing_here)?;
    let params: [Param<'_>; 1] = [(&id, Type::UUID)];
    let rows = asked.rows("SELECT memory_retry($1)", &params).await?;
    let has_one = rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or(false);
    let word = if has_one { "retried" } else { "nothing" };
    Ok(Answer::See(format!("/ui/background?done={word}")))
}

fn jobs_table(asked: &Asked, jobs: &[Job]) -> Markup {
    html! {
        @if jobs.is_empty() {
            (parts::empty("No jobs.", "Nothing waits, and nothing was done in the last 24 hours."))
        } @else {
            div.scroll tabindex="0" role="region" aria-labelledby="jobs" {
                table {
                    (parts::headings(&["Job", "State", "Session", "Since", "Problem"], 0))
                    tbody {
                        @for job in jobs {
                            tr {
                                th scope="row" { (job.kind) }
                                td {
                                    span.state data-state=(job.status) { (job.status) }
                                    @if let (Some(done), Some(total)) = (job.done, job.total) { " " (done) " of " (total) }
                                    @if job.attempts > 1 { span.muted { " attempt " (job.attempts) } }
                                }
                                td { (job.session_id.as_deref().unwrap_or_default()) }
                                td { (parts::at(job.finished_at.as_ref().unwrap_or(&job.created_at))) }
                                td.text {
                                    @if let Some(error) = &job.last_error { (parts::beginning(error, 300)) }
                                    @if job.status == "dead" {
                                        form method="post" action="/ui/retry" {
                                            (form_token(&asked.visit))
                                            input type="hidden" name="job" value=(job.id);
                                            button type="submit" { "Try again" }
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
}

fn status_table(status: &[Part]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="status" {
            table {
                (parts::headings(&["Part", "State", "Detail", "What to do"], 0))
                tbody {
                    @for part in status {
                        tr {
                            th scope="row" { (part.component) }
                            td { span.state data-state=(if part.hint.is_some() { "attention" } else { "fine" }) { (part.state) } }
                            td.text { (part.detail) }
                            td.text { (part.hint.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}
