//! What would the model see? For a message, the prompt that `memory_context` makes: how its tokens are shared, each
//! memory with the reason why it is there, and what was left out.

use super::frame::{Here, form_token};
use super::notice::notice;
use super::opening::{Openings, name_of};
use super::parts::{self, bar, beginning, count, memory_path};
use super::request::{Answer, Asked, Trouble};
use super::rows::{self, Entry};
use super::verdict::{percent, quoted, shared_words};
use crate::db::memory::Param;
use maud::{Markup, html};
use memory_agent_core::prompt::DEFAULT_TOKEN_BUDGET;
use memory_agent_core::prompt::augment::{MEMORY_HEADER, SUMMARY_HEADER};
use memory_agent_core::prompt::fence;
use serde::Deserialize;
use std::collections::HashMap;
use tokio_postgres::types::Type;

/// The conversation of who names none: one that has not begun.
const NEW: &str = "a new conversation";
/// Tokens of a prompt where the server does not say.
const BUDGET: i64 = 2_000;
const MOST: i64 = 1_000_000;
/// What was left out and is shown.
const UNTOLD: usize = 30;
/// Letters of a memory.
const SHOWN: usize = 400;
/// Below this probability a memory is in the prompt because there is room.
const HARDLY: f64 = 0.01;
/// Words in common that are named.
const WORDS: usize = 5;

/// The prompt, with the tokens of each message.
#[derive(Debug, Deserialize)]
struct Told {
    context: Context,
    tokens: Vec<i64>,
    budget: Option<i64>,
    ranking: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Context {
    messages: Vec<Message>,
    #[serde(default)]
    memories: Vec<Hit>,
    #[serde(default)]
    cross_session: Vec<Hit>,
    #[serde(default)]
    left_out: Vec<Untold>,
    token_count: i64,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: String,
}

/// A memory in the prompt.
#[derive(Debug, Deserialize)]
struct Hit {
    id: String,
    kind: Option<String>,
    role: String,
    session_id: Option<String>,
    content: String,
    created_at: String,
    score: Option<f64>,
}

/// A memory that is not.
#[derive(Debug, Deserialize)]
struct Untold {
    id: String,
    layer: String,
    why: String,
}

/// The parts of a prompt, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Summary,
    Memories,
    Earlier,
    Turns,
    Message,
}

const PARTS: [(Part, &str, &str); 5] = [
    (Part::Summary, "summary", "Summary"),
    (Part::Memories, "memories", "Memories"),
    (Part::Earlier, "earlier", "Earlier conversations"),
    (Part::Turns, "turns", "This conversation"),
    (Part::Message, "message", "The message"),
];

/// `GET /ui/prompt`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let message = asked.query.get("q").map(str::trim).filter(|message| !message.is_empty());
    let session = asked.query.get("session").map(str::trim).filter(|session| !session.is_empty());
    let budget = asked.query.get("budget").and_then(|budget| budget.parse::<i64>().ok());
    let budget = budget.map(|budget| budget.clamp(1, MOST));
    let told = match message {
        Some(message) => Some(told(&asked, session.unwrap_or(NEW), message, budget).await?),
        None => None,
    };
    let known = told.as_ref().and_then(|told| told.budget);
    let body = html! {
        h1 { "What would the model see?" }
        form.find method="get" action="/ui/prompt" {
            div.box {
                label.hidden for="q" { "Message" }
                input #q type="text" name="q" required value=[message] autocomplete="off"
                    placeholder="Type a message, as you would in a chat";
                button.primary type="submit" { "Show" }
            }
            div.chips {
                details.menu {
                    summary.chip.on[session.is_some() || budget.is_some()] { "Options" }
                    div.popup {
                        label for="session" { "In the conversation" }
                        input #session type="text" name="session" value=[session] placeholder=(NEW) autocomplete="off";
                        label for="budget" { "Room, in tokens" }
                        input #budget type="number" name="budget" min="1" max=(MOST) value=(known.or(budget).unwrap_or(BUDGET));
                        div.actions { button.primary type="submit" { "Show" } }
                    }
                }
            }
        }
        @match (&told, message) {
            (Some(told), Some(message)) => (shown(&asked, told, message).await?),
            _ => p.muted { "You see the prompt that a model would get with your message: what is remembered, why, and how much room is left. No model is asked, and nothing is stored." },
        }
        (notice(&asked, None).await?)
    };
    Ok(Answer::Page(Here::Prompt, "What would the model see?".to_owned(), body))
}

async fn told(
    asked: &Asked,
    session: &str,
    message: &str,
    budget: Option<i64>,
) -> Result<Told, Trouble> {
    // What an agent or a session has of its own counts, not what the connection has.
    let sql = format!(
        "WITH told AS MATERIALIZED ( \
                   SELECT memory_context($2, $3, token_budget => $4, user_id => $1) AS context, \
                          memory_configure(session_id => $2, user_id => $1) -> 'settings' AS settings) \
               SELECT jsonb_build_object('context', t.context, \
                   'tokens', (SELECT jsonb_agg(memory_count_tokens(m.message ->> 'content', \
                                                                   t.settings ->> 'prompt_tokenizer') ORDER BY m.place) \
                                FROM jsonb_array_elements(t.context -> 'messages') WITH ORDINALITY m (message, place)), \
                   'budget', coalesce($4, {DEFAULT_TOKEN_BUDGET}), \
                   'ranking', t.settings ->> 'ranking') \
                 FROM told t"
    );
    let user = asked.user_id();
    let params: [Param<'_>; 4] = [
        (&user, Type::TEXT),
        (&session, Type::TEXT),
        (&message, Type::TEXT),
        (&budget, Type::INT8),
    ];
    let told: Vec<Told> = rows::read(&asked.rows(&sql, &params).await?)?;
    told.into_iter().next().ok_or_else(Trouble::nothing_here)
}

async fn shown(asked: &Asked, told: &Told, message: &str) -> Result<Markup, Trouble> {
    let context = &told.context;
    let untold = rows::ids(context.left_out.iter().take(UNTOLD).map(|one| &one.id));
    let texts = asked.texts(&untold).await?;
    let told_in = context.memories.iter().filter_map(|hit| Some((hit.session_id.as_deref()?, "")));
    let openings = asked.openings(told_in).await?;
    let budget = told.budget.unwrap_or(BUDGET).max(context.token_count);
    let is_probable = told.ranking.as_deref() == Some("learned");
    Ok(html! {
        section aria-labelledby="room" {
            h2 #room { (context.token_count) " of " (budget) " tokens" }
            (bars(told, budget))
        }
        section aria-labelledby="why" {
            h2 #why { (count(context.memories.len() + context.cross_session.len(), "memory", "memories")) " in the prompt" }
            @if context.memories.is_empty() && context.cross_session.is_empty() {
                p.muted { "Nothing that is remembered has to do with this message." }
            }
            ol.found {
                @for hit in context.memories.iter().chain(&context.cross_session) { (in_prompt(asked, hit, message, &openings, is_probable)) }
            }
        }
        @if !context.left_out.is_empty() {
            details.dropped {
                summary { "Left out " span.count { (context.left_out.len()) } }
                ol.found {
                    @for one in context.left_out.iter().take(UNTOLD) { (not_in_prompt(one, &texts)) }
                }
            }
        }
        section aria-labelledby="prompt" {
            h2 #prompt { "The prompt, word for word" }
            ol.prompt {
                @for one in &context.messages {
                    li { h3 { (one.role) } pre tabindex="0" { (one.content) } }
                }
            }
        }
    })
}

/// What a message of a prompt is.
fn part(messages: &[Message], place: usize) -> Part {
    let message = &messages[place];
    let headed = |header: &str| {
        message.role == "system"
            && message
                .content
                .strip_prefix(fence::OPEN)
                .is_some_and(|rest| rest.trim_start().starts_with(header))
    };
    match place + 1 == messages.len() {
        true => Part::Message,
        false if headed(SUMMARY_HEADER) => Part::Summary,
        false if headed(MEMORY_HEADER) => Part::Memories,
        false if headed("From earlier conversations") => Part::Earlier,
        false => Part::Turns,
    }
}

/// How the tokens are shared: a bar, and the same in words.
fn bars(told: &Told, budget: i64) -> Markup {
    let messages = &told.context.messages;
    let counted: i64 = told.tokens.iter().sum();
    // What each message costs beside its text.
    let overhead = (told.context.token_count - counted).max(0) / messages.len().max(1) as i64;
    let of = |wanted: Part| -> i64 {
        let each = told.tokens.iter().enumerate();
        each.filter(|(place, _)| *place < messages.len() && part(messages, *place) == wanted)
            .map(|(_, tokens)| tokens + overhead)
            .sum()
    };
    let mut parts: Vec<(&str, &str, i64)> =
        PARTS.into_iter().map(|(part, class, name)| (class, name, of(part))).collect();
    let used: i64 = parts.iter().map(|part| part.2).sum();
    parts.push(("room", "Room left", (budget - used).max(0)));
    let scale = |tokens: i64| tokens as f64 * 1000.0 / budget.max(1) as f64;
    let ends = parts.iter().scan(0, |end, part| {
        *end += part.2;
        Some(*end)
    });
    let ends: Vec<i64> = ends.collect();
    html! {
        svg.tokens viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            @for ((class, _, tokens), end) in parts.iter().zip(&ends) {
                rect class=(class) x=(format!("{:.1}", scale(end - tokens))) width=(format!("{:.1}", scale(*tokens))) height="16" {}
            }
        }
        dl.legend {
            @for (class, name, tokens) in &parts {
                @if *tokens > 0 { div { dt { span class={ "dot " (class) } {} (name) } dd { (tokens) } } }
            }
        }
    }
}

fn in_prompt(
    asked: &Asked,
    hit: &Hit,
    message: &str,
    openings: &Openings,
    is_probable: bool,
) -> Markup {
    let probability = hit.score.filter(|_| is_probable);
    let words = shared_words(message, &hit.content, WORDS);
    let what = match (hit.kind.as_deref(), hit.role.as_str()) {
        (Some("fact"), _) => "A fact about you",
        (_, "user") => "You said it",
        (_, "assistant") => "An assistant said it",
        (_, "document") => "Part of a document",
        (_, "conversation") => "Part of an earlier conversation",
        _ => "It was said",
    };
    html! {
        li data-row {
            div.verdict { (bar(probability, "fits", &probability.map(percent).unwrap_or_default())) }
            div.what {
                p.text { a href=(memory_path(&hit.id)) { (beginning(&hit.content, SHOWN)) } }
                p.reason {
                    (what) ". "
                    @if words.is_empty() && probability.is_some_and(|fits| fits < HARDLY) { "It hardly fits, but there is room for it." }
                    @else if words.is_empty() { "Its meaning fits the message." }
                    @else { "It and the message say " (quoted(&words)) "." }
                }
                p.meta {
                    span { (parts::on(hit.created_at.get(..19).unwrap_or(&hit.created_at))) }
                    @if let Some(session) = &hit.session_id { span { "in " (name_of(session, "", openings)) } }
                }
            }
            div.do {
                form method="post" action={ (memory_path(&hit.id)) "/forget" } {
                    (form_token(&asked.visit))
                    input type="hidden" name="back" value=(asked.here());
                    button.small type="submit" aria-label={ "Forget: " (beginning(&hit.content, 60)) } { "Forget" }
                }
            }
        }
    }
}

fn not_in_prompt(one: &Untold, texts: &HashMap<String, Entry>) -> Markup {
    let place = match one.layer.as_str() {
        "session" => "from this conversation",
        "other_sessions" => "from another conversation",
        "global" => "of what is known about you",
        "shared" => "of what all users share",
        _ => "",
    };
    let why = match one.why.as_str() {
        "echo" => "It stands in the message already",
        "repeated" => "Another memory, or a turn that is shown, says the same",
        "budget" => "There is no room for it",
        "gate" => "It has next to nothing to do with the message",
        _ => "It was left out",
    };
    html! {
        li data-row {
            div.what {
                p.text {
                    a href=(memory_path(&one.id)) {
                        @match texts.get(&one.id) {
                            Some(entry) => (beginning(&entry.content, SHOWN)),
                            None => "This memory",
                        }
                    }
                }
                p.reason { (why) @if !place.is_empty() { " (" (place) ")" } "." }
            }
        }
    }
}
