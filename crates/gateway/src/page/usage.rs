//! What language models took, for administrators: calls for a user's memory, tokens that programs spent of the
//! gateway's key, endpoints of the database. All of it is asked on the administrators' connection.

use super::parts;
use super::request::{Asked, Trouble};
use super::rows;
use crate::db::memory::{End, Memory, Param};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_postgres::types::Type;

/// Days of calls that are shown.
const DAYS: i32 = 30;
/// Tokens that are shown, those that spent most first.
const TOKENS: i64 = 200;

/// What the LLM was asked for on a day.
#[derive(Debug, Deserialize)]
struct Spent {
    day: String,
    purpose: String,
    model: String,
    calls: i64,
    failed: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
}

/// A row of `memory_list_tokens()`.
#[derive(Debug, Deserialize)]
struct Token {
    user_id: String,
    name: String,
    created_at: String,
    expires_at: Option<String>,
    spent_today: i64,
}

/// A row of `memory_list_endpoints()`.
#[derive(Debug, Deserialize)]
struct Endpoint {
    name: String,
    model: String,
    is_enabled: bool,
    agents: Vec<String>,
    daily_tokens: i64,
    tokens_today: i64,
}

/// Everything, for an administrator; `None` for others.
///
/// # Errors
/// What memory says.
pub async fn show(asked: &Asked) -> Result<Option<Markup>, Trouble> {
    let Some(admins) = asked.admins() else { return Ok(None) };
    let memory = &admins.memory;
    let user = asked.query.get("of").unwrap_or(asked.user_id());
    let spent: Vec<Spent> = ask(
        asked,
        memory,
        user,
        "SELECT to_jsonb(f) FROM ( \
             SELECT (c.at AT TIME ZONE 'UTC')::date AS day, c.purpose, c.model, count(*) AS calls, \
                    count(*) FILTER (WHERE c.status <> 'ok') AS failed, \
                    coalesce(sum(c.prompt_tokens), 0) AS prompt_tokens, \
                    coalesce(sum(c.completion_tokens), 0) AS completion_tokens \
               FROM memory_llm_calls c \
              WHERE c.user_id = $1 AND c.at > now() - make_interval(days => $2) \
              GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3) f",
        &[(&user, Type::TEXT), (&DAYS, Type::INT4)],
    )
    .await?;
    let tokens: Vec<Token> = ask(
        asked,
        memory,
        "",
        "SELECT to_jsonb(f) FROM ( \
             SELECT t.user_id, t.name, t.created_at AT TIME ZONE 'UTC' AS created_at, \
                    t.expires_at AT TIME ZONE 'UTC' AS expires_at, t.spent_today \
               FROM memory_list_tokens() t ORDER BY t.spent_today DESC, t.user_id, t.name LIMIT $1) f",
        &[(&TOKENS, Type::INT8)],
    )
    .await?;
    let sql = "SELECT to_jsonb(e) FROM memory_list_endpoints() e ORDER BY e.name";
    let endpoints: Vec<Endpoint> = ask(asked, memory, "", sql, &[]).await?;
    Ok(Some(html! {
        section aria-labelledby="spent" {
            h3 #spent { "Language models" }
            form.find method="get" action="/ui/background" {
                label for="of" { "For the memory of" }
                div.box {
                    input #of type="text" name="of" value=(user) list="users" autocomplete="off";
                    datalist #users { @for name in users(&tokens) { option value=(name) {} } }
                    button.primary type="submit" { "Show" }
                }
            }
            (calls(&spent))
        }
        section aria-labelledby="tokens" { h3 #tokens { "Keys of programs" } (tokens_table(&tokens)) }
        section aria-labelledby="endpoints" { h3 #endpoints { "Endpoints" } (endpoints_table(&endpoints)) }
    }))
}

async fn ask<T: DeserializeOwned>(
    asked: &Asked,
    memory: &Memory,
    user: &str,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<T>, Trouble> {
    let rows = memory.ask(user, sql, params, End::Commit).await;
    rows::read(&rows.map_err(|error| asked.trouble(&error))?)
}

fn users(tokens: &[Token]) -> Vec<&str> {
    let mut users: Vec<&str> = tokens.iter().map(|token| token.user_id.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    users
}

fn calls(spent: &[Spent]) -> Markup {
    let sum = |count: fn(&Spent) -> i64| spent.iter().map(count).sum::<i64>();
    html! {
        @if spent.is_empty() {
            (parts::empty("No calls in the last 30 days.", "A language model is asked for facts and summaries, if there is one."))
        } @else {
            div.scroll tabindex="0" role="group" aria-labelledby="spent" {
                table {
                    (parts::headings(&["Day", "For", "Model", "Calls", "Failed", "Tokens in", "Tokens out"], 4))
                    tbody {
                        @for row in spent {
                            tr {
                                th scope="row" { (parts::on(&row.day)) }
                                td { (row.purpose) } td { (row.model) }
                                td.number { (row.calls) } td.number { (row.failed) }
                                td.number { (row.prompt_tokens) } td.number { (row.completion_tokens) }
                            }
                        }
                    }
                    tfoot {
                        tr {
                            th scope="row" { "Sum" } td {} td {}
                            td.number { (sum(|row| row.calls)) } td.number { (sum(|row| row.failed)) }
                            td.number { (sum(|row| row.prompt_tokens)) } td.number { (sum(|row| row.completion_tokens)) }
                        }
                    }
                }
            }
        }
    }
}

fn tokens_table(tokens: &[Token]) -> Markup {
    html! {
        @if tokens.is_empty() {
            (parts::empty("No keys.", "memory_create_token makes one."))
        } @else {
            div.scroll tabindex="0" role="group" aria-labelledby="tokens" {
                table {
                    (parts::headings(&["User", "Key", "Since", "Until", "Tokens today"], 1))
                    tbody {
                        @for token in tokens {
                            tr {
                                th scope="row" {
                                    a href={ "/ui/background?of=" (parts::encoded(&token.user_id)) } { (token.user_id) }
                                }
                                td { (token.name) }
                                td { (parts::on(&token.created_at)) }
                                td { @if let Some(at) = &token.expires_at { (parts::on(at)) } }
                                td.number { (token.spent_today) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn endpoints_table(endpoints: &[Endpoint]) -> Markup {
    html! {
        @if endpoints.is_empty() {
            (parts::empty("No endpoints are listed.", "The settings of the server name the one that is used, or none."))
        } @else {
            div.scroll tabindex="0" role="group" aria-labelledby="endpoints" {
                table {
                    (parts::headings(&["Endpoint", "Model", "Agents", "State", "Tokens today", "A day"], 2))
                    tbody {
                        @for endpoint in endpoints {
                            tr {
                                th scope="row" { (endpoint.name) }
                                td { (endpoint.model) }
                                td { (endpoint.agents.join(", ")) }
                                td { @if endpoint.is_enabled { "in use" } @else { "not enabled" } }
                                td.number { (endpoint.tokens_today) }
                                td.number { @if endpoint.daily_tokens > 0 { (endpoint.daily_tokens) } @else { "any" } }
                            }
                        }
                    }
                }
            }
        }
    }
}
