//! The recent turns of a prompt: the newest of the session's window, as far as there is room.

use super::tokens::TokenCounter;
use crate::error::PgResult;
use crate::identity;
use crate::store::entries::{self, WindowTurn};
use crate::store::sessions::SessionKey;
use crate::store::spi::Session as Spi;
use serde_json::{Value, json};

/// The newest turns of the window, newest first, with exact token counts where the tokeniser is to be
/// had. The message that is being answered is not among them; its id is, if it was stored before.
pub struct Window {
    pub turns: Vec<WindowTurn>,
    pub stored_message: Option<pgrx::datum::Uuid>,
}

impl Window {
    /// Reads turns until they have `room` tokens.
    pub fn read(
        key: &SessionKey,
        message: &str,
        room: i64,
        tokens: &TokenCounter,
    ) -> PgResult<Self> {
        let mut turns = identity::as_owner(|| {
            let spi = Spi::read_only()?;
            let SessionKey { user_id, agent_id, session_id } = key;
            entries::newest_turns(&spi, user_id, agent_id, session_id, message, room)
        })?;
        // The current message may have been stored before it is asked about: it comes last anyway.
        let is_stored = turns.first().is_some_and(|newest| newest.is_current);
        let stored_message = is_stored.then(|| turns.remove(0).id);
        turns.iter_mut().for_each(name_tool);
        count_anew(&mut turns, tokens);
        Ok(Self { turns, stored_message })
    }

    /// The turns that fit, newest first, ending with the first that does not: a conversation with holes
    /// misleads. Those that are told already are passed over.
    pub fn fitting(
        &self,
        is_told: impl Fn(&WindowTurn) -> bool,
        mut room: i64,
        overhead: i64,
    ) -> Vec<&WindowTurn> {
        let mut shown = Vec::new();
        for turn in self.turns.iter().filter(|turn| !is_told(turn)) {
            let tokens = i64::from(turn.token_count) + overhead;
            if tokens > room {
                break;
            }
            room -= tokens;
            shown.push(turn);
        }
        shown
    }
}

/// Turns that were stored while the tokeniser was not to be had have estimated counts.
fn count_anew(turns: &mut [WindowTurn], tokens: &TokenCounter) {
    let estimated: Vec<&mut WindowTurn> =
        turns.iter_mut().filter(|turn| !turn.token_count_exact).collect();
    let counts = tokens.count(estimated.iter().map(|turn| turn.content.clone()).collect());
    for (turn, count) in estimated.into_iter().zip(counts) {
        turn.token_count = i32::try_from(count).unwrap_or(i32::MAX);
    }
}

/// Whether a turn is what a tool returned, or a memory that somebody stored as a turn.
fn is_quoted(turn: &WindowTurn) -> bool {
    ["memory", "tool"].contains(&turn.role.as_str())
}

/// What a tool returned is told with its role before it.
fn name_tool(turn: &mut WindowTurn) {
    if is_quoted(turn) {
        turn.content = format!("[{}] {}", turn.role, turn.content);
        turn.token_count_exact = false;
    }
}

/// A turn as an OpenAI-style message. A tool's result comes from the user's side: without the call it
/// answers, a message of role tool is refused by OpenAI-compatible servers, and as a system message
/// whatever a web page says would be an order.
pub fn message(turn: &WindowTurn) -> Value {
    let role = if is_quoted(turn) { "user" } else { turn.role.as_str() };
    json!({"role": role, "content": turn.content})
}
