//! `memory_context`: what to put into a prompt now, within a token budget. Claims are served in
//! this order: the current message, recalled memories (at most a quarter), the newest turns of the
//! session with the rest. Nothing is there twice, and nothing is written.

use crate::api::recall;
use crate::api::request::Arguments;
use crate::error::{Error, PgResult};
use crate::guc;
use crate::identity::{self, Caller};
use crate::models;
use crate::sql_types::JsonbText;
use crate::store::entries::{self, WindowTurn};
use crate::store::grants::Level;
use crate::store::spi::Session as Spi;
use memory_agent_core::{text, tokens};
use memory_agent_model_server::protocol::Purpose;
use pgrx::datum::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;

/// Most of the budget that memories may take.
const MEMORY_SHARE: f64 = 0.25;
/// Memories that are asked for before what does not fit is dropped.
const MEMORY_CANDIDATES: i32 = 50;
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
    text::validate_content(&query, guc::max_content_bytes().max(0) as usize)
        .map_err(Error::from)?;
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let budget = i64::from(token_budget.unwrap_or_else(guc::default_token_budget));
    let overhead = i64::from(guc::message_overhead_tokens());
    let tokens = TokenCounter::new();
    let current = tokens.count(vec![query.clone()])[0] + overhead;
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
        // More than will fit: what the window shows anyway is taken away first.
        top_k: Some(MEMORY_CANDIDATES),
        ..Arguments::default()
    };
    let mut memories = recalled(arguments)?;

    // The current message may have been stored before it is asked about: it comes last anyway.
    let mut turns = newest_turns(&caller, &session_id, &query, budget - current)?;
    if turns.first().is_some_and(|newest| newest.is_current) {
        let stored = turns.remove(0);
        memories.retain(|memory| memory.id != stored.id);
    }
    // The window that is certain, whatever the memories take, shows its turns itself.
    let certain = fitting(&turns, &[], budget - current - share, overhead);
    memories.retain(|memory| !certain.iter().any(|&turn| turns[turn].id == memory.id));
    let block_tokens = fit_block(&mut memories, share, overhead, &tokens);
    // Older turns get what the memories left; those among the memories are passed over.
    let shown = fitting(&turns, &memories, budget - current - block_tokens, overhead);

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
        .map(|row| Memory {
            id: row.0,
            role: row.2,
            content: row.3,
            created_at: row.14,
            score: row.4,
        })
        .collect())
}

/// The newest turns of the window, newest first.
fn newest_turns(
    caller: &Caller,
    session_id: &str,
    query: &str,
    tokens: i64,
) -> PgResult<Vec<WindowTurn>> {
    identity::as_owner(|| {
        let spi = Spi::read_only()?;
        entries::newest_turns(&spi, &caller.user_id, caller.agent(), session_id, query, tokens)
    })
}

/// The turns that fit, newest first, ending with the first that does not: a conversation with holes
/// misleads. Turns that are among the memories are passed over.
fn fitting(turns: &[WindowTurn], memories: &[Memory], mut room: i64, overhead: i64) -> Vec<usize> {
    let mut shown = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        if memories.iter().any(|memory| memory.id == turn.id) {
            continue;
        }
        let tokens = i64::from(turn.token_count) + overhead;
        if tokens > room {
            break;
        }
        room -= tokens;
        shown.push(index);
    }
    shown
}

/// Keeps the best memories whose block fits the share; returns the block's tokens.
fn fit_block(memories: &mut Vec<Memory>, share: i64, overhead: i64, tokens: &TokenCounter) -> i64 {
    // Lines are counted once; where joining them costs a token more, one more memory goes.
    let lines: Vec<String> = memories.iter().map(line).chain([MEMORY_HEADING.to_owned()]).collect();
    let mut counts = tokens.count(lines);
    let mut left = share - overhead - counts.pop().unwrap_or(0);
    let mut kept = Vec::new();
    for (memory, count) in memories.drain(..).zip(counts) {
        if count <= left {
            left -= count;
            kept.push(memory);
        }
    }
    *memories = kept;
    while let Some(block) = block(memories) {
        let count = tokens.count(vec![block])[0] + overhead;
        if count <= share {
            return count;
        }
        memories.pop();
    }
    0
}

/// A memory as a line of the block.
fn line(memory: &Memory) -> String {
    // Indented, so that a line of the content cannot pass for an entry of its own.
    format!("\n[{}] {}", memory.role, memory.content.replace('\n', "\n  "))
}

/// Counts tokens, by estimate once the tokeniser was not to be had; says so once.
struct TokenCounter {
    failed: Cell<bool>,
}

impl TokenCounter {
    fn new() -> Self {
        Self { failed: Cell::new(false) }
    }

    /// One count per text.
    fn count(&self, texts: Vec<String>) -> Vec<i64> {
        let estimates: Vec<u32> = texts.iter().map(|text| tokens::estimate_tokens(text)).collect();
        let counts = if self.failed.get() {
            estimates
        } else {
            match models::current().prepare(None, Purpose::Document, Vec::new(), texts) {
                Ok(prepared) => prepared.token_counts,
                Err(failure) => {
                    failure.warn("token counts are estimates");
                    self.failed.set(true);
                    estimates
                }
            }
        };
        counts.into_iter().map(i64::from).collect()
    }
}

fn block(memories: &[Memory]) -> Option<String> {
    if memories.is_empty() {
        return None;
    }
    let mut block = MEMORY_HEADING.to_owned();
    for memory in memories {
        block.push_str(&line(memory));
    }
    Some(block)
}

/// A turn as an OpenAI-style message. A tool's result speaks as the system: without the call it
/// answers, a message of role tool is refused by OpenAI-compatible servers.
fn message(turn: &WindowTurn) -> Value {
    let role = if ["memory", "tool"].contains(&turn.role.as_str()) {
        "system"
    } else {
        turn.role.as_str()
    };
    json!({"role": role, "content": turn.content})
}
