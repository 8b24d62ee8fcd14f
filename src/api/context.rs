//! `memory_context`: what to put into a prompt now, within a token budget. Claims are served in
//! this order: the current message, recalled memories (at most a quarter), the newest turns of the
//! session with the rest. Nothing is there twice, and nothing is written.

use crate::api::recall::{self, Arguments};
use crate::error::{Error, PgResult};
use crate::guc;
use crate::identity::{self, Caller};
use crate::models;
use crate::sql_types::JsonbText;
use crate::store::entries::{self, WindowTurn};
use crate::store::grants::Level;
use crate::store::spi::Session as Spi;
use memory_agent_core::text;
use pgrx::datum::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

/// Most of the budget that memories may take.
const MEMORY_SHARE: f64 = 0.25;
/// What stands above the memories in the system message.
const MEMORY_HEADING: &str = "Long-term memory (most relevant first):";

/// A recalled row as it appears in the prompt.
struct Memory {
    id: Uuid,
    role: String,
    content: String,
    created_at: TimestampWithTimeZone,
    score: f32,
}

#[pg_extern(sql = false)]
fn memory_context(
    session_id: Option<String>,
    query: Option<String>,
    token_budget: Option<i32>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<JsonbText> {
    let session_id = session_id.unwrap_or_default();
    text::validate_session_id(&session_id).map_err(Error::from)?;
    let query = query.unwrap_or_default();
    text::validate_content(&query, guc::max_content_bytes().max(0) as usize).map_err(Error::from)?;
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let budget = i64::from(token_budget.unwrap_or_else(guc::default_token_budget));
    let overhead = i64::from(guc::message_overhead_tokens());
    let current = i64::from(models::count_tokens(&query)?.0) + overhead;
    if current > budget {
        return Err(Error::invalid(
            format!("the current message has {current} tokens, the budget is {budget}"),
            "Raise token_budget, or shorten the message.",
        )
        .into());
    }
    let share = ((budget as f64 * MEMORY_SHARE) as i64).min(budget - current);
    let arguments = Arguments {
        query: Some(query.clone()),
        session_id: Some(session_id.clone()),
        user_id,
        agent_id,
        token_budget: Some(i32::try_from(share.max(0)).unwrap_or(i32::MAX)),
        ..Arguments::default()
    };
    let mut memories = recalled(arguments)?;

    // Turns get what the memories leave. A memory that is among those turns is taken out of the
    // memories; the room this frees goes to older turns.
    let mut block_tokens = fit_block(&mut memories, share, overhead)?;
    let turns = newest_turns(&caller, &session_id, &query, budget - current)?;
    let mut shown = fitting(&turns, &memories, budget - current - block_tokens, overhead, true);
    memories.retain(|memory| !shown.iter().any(|&turn| turns[turn].id == memory.id));
    block_tokens = fit_block(&mut memories, share, overhead)?;
    shown = fitting(&turns, &memories, budget - current - block_tokens, overhead, false);

    let turn_tokens: i64 =
        shown.iter().map(|&turn| i64::from(turns[turn].token_count) + overhead).sum();
    let mut messages = Vec::new();
    if let Some(block) = block(&memories) {
        messages.push(json!({"role": "system", "content": block}));
    }
    messages.extend(shown.iter().rev().map(|&turn| message(&turns[turn])));
    messages.push(json!({"role": "user", "content": query}));
    let memories: Vec<Value> = memories
        .iter()
        .map(|memory| {
            json!({
                "id": memory.id.to_string(),
                "role": memory.role,
                "content": memory.content,
                "created_at": memory.created_at.to_iso_string(),
                "score": memory.score,
            })
        })
        .collect();
    Ok(JsonbText(
        json!({
            "messages": messages,
            "memories": memories,
            "token_count": current + block_tokens + turn_tokens,
        })
        .to_string(),
    ))
}

fn recalled(arguments: Arguments) -> PgResult<Vec<Memory>> {
    let request = arguments.check()?;
    let rows = match recall::run(&request)? {
        Some(recalled) => recall::rows(&request, recalled)?,
        None => Vec::new(),
    };
    Ok(rows
        .into_iter()
        .map(|row| Memory { id: row.0, role: row.2, content: row.3, created_at: row.14, score: row.4 })
        .collect())
}

/// The newest turns of the window, newest first, without the current message if it was stored
/// before it was asked about.
fn newest_turns(caller: &Caller, session_id: &str, query: &str, tokens: i64) -> PgResult<Vec<WindowTurn>> {
    let mut turns = identity::as_owner(|| {
        let spi = Spi::read_only()?;
        entries::newest_turns(&spi, &caller.user_id, caller.agent(), session_id, tokens)
    })?;
    if turns.first().is_some_and(|newest| newest.role == "user" && newest.content == query) {
        turns.remove(0);
    }
    Ok(turns)
}

/// The turns that fit, newest first, ending with the first that does not: a conversation with holes
/// misleads. `may_repeat` also admits turns that are among the memories.
fn fitting(
    turns: &[WindowTurn],
    memories: &[Memory],
    mut room: i64,
    overhead: i64,
    may_repeat: bool,
) -> Vec<usize> {
    let mut shown = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let tokens = i64::from(turn.token_count) + overhead;
        if tokens > room {
            break;
        }
        if may_repeat || !memories.iter().any(|memory| memory.id == turn.id) {
            room -= tokens;
            shown.push(index);
        }
    }
    shown
}

/// Drops the last memories until the block they make fits the share; returns its tokens.
fn fit_block(memories: &mut Vec<Memory>, share: i64, overhead: i64) -> PgResult<i64> {
    while let Some(block) = block(memories) {
        let tokens = i64::from(models::count_tokens(&block)?.0) + overhead;
        if tokens <= share {
            return Ok(tokens);
        }
        memories.pop();
    }
    Ok(0)
}

fn block(memories: &[Memory]) -> Option<String> {
    if memories.is_empty() {
        return None;
    }
    let mut block = MEMORY_HEADING.to_owned();
    for memory in memories {
        block.push_str(&format!("\n[{}] {}", memory.role, memory.content));
    }
    Some(block)
}

/// A turn as an OpenAI-style message; a stored fact speaks as the system.
fn message(turn: &WindowTurn) -> Value {
    let role = if turn.role == "memory" { "system" } else { turn.role.as_str() };
    json!({"role": role, "content": turn.content})
}
