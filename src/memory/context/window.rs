//! The recent turns of a prompt: the newest of the session's window, as far as there is room.

use crate::memory::context::prompt_memory;
use crate::memory::context::tokens::TokenCounter;
use crate::memory::prelude::*;
use crate::memory::recall::request::Request;
use crate::store::rows::entries::{self, WindowTurn};
use memory_agent_core::prompt::augment::{self, Outdated};
use memory_agent_core::prompt::fence;
use memory_agent_core::rank::follow_up::MOST_BEFORE;
use memory_agent_core::text::secrets::stored_forms;
use std::borrow::Cow;

/// How many times fewer tokens a text may have in another encoding than in the stored one, as in Hindi.
const FEWER_TOKENS: i64 = 4;

/// The newest turns of the window, newest first, with exact token counts where the tokeniser is to be
/// had. The message that is being answered is not among them.
pub struct Window {
    pub turns: Vec<WindowTurn>,
    /// What the user said last in them, newest first.
    pub said: Vec<String>,
}

impl Window {
    /// Reads turns until they have `room` tokens. What they say and what no longer holds is marked in
    /// them: without them the conversation would have holes.
    pub fn read(
        key: &SessionKey,
        request: &Request,
        room: i64,
        tokens: &TokenCounter,
    ) -> PgResult<Self> {
        // By their stored counts; of other tokens, there may be fewer.
        let read = if tokens.are_stored() { room } else { room.saturating_mul(FEWER_TOKENS) };
        let current = stored_forms(&request.query);
        let mut turns =
            roles::read_as_owner(|spi| entries::newest_turns(spi, key, &current, read))?;
        // The current message may have been stored before it is asked about: it comes last anyway.
        if turns.first().is_some_and(|newest| newest.is_current) {
            turns.remove(0);
        }
        let of_user = turns.iter().filter(|turn| turn.role == "user").take(MOST_BEFORE);
        let said = of_user.map(|turn| turn.content.clone()).collect();
        let ids: Vec<Uuid> = turns.iter().map(|turn| turn.id).collect();
        let outdated = prompt_memory::outdated(request, &ids, tokens)?;
        for turn in &mut turns {
            let of_turn = outdated.iter().filter(|(id, _)| *id == turn.id);
            let marks: Vec<Outdated> = of_turn.map(|(_, mark)| mark.clone()).collect();
            let text = augment::marked(&turn.content, &marks);
            if text != turn.content {
                turn.content = text;
                turn.token_count_exact = false;
            }
        }
        count_anew(&mut turns, tokens);
        Ok(Self { turns, said })
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

/// Turns that were stored while the tokeniser was out of reach have estimated counts, what no turn said is told
/// with more than its text, and the stored counts may be of other tokens.
fn count_anew(turns: &mut [WindowTurn], tokens: &TokenCounter) {
    let (counted, texts): (Vec<&mut WindowTurn>, Vec<String>) = turns
        .iter_mut()
        .filter(|turn| !turn.token_count_exact || is_data(turn) || !tokens.are_stored())
        .map(|turn| {
            let text = told(turn).into_owned();
            (turn, text)
        })
        .unzip();
    for (turn, count) in counted.into_iter().zip(tokens.count(texts)) {
        turn.token_count = i32::try_from(count).unwrap_or(i32::MAX);
    }
}

/// Whether neither the user nor the assistant nor the application says it.
fn is_data(turn: &WindowTurn) -> bool {
    ["tool", "memory"].contains(&turn.role.as_str())
}

/// The text of a turn's message.
fn told(turn: &WindowTurn) -> Cow<'_, str> {
    if is_data(turn) {
        let line = format!("[{}] {}", turn.role, fence::data(&turn.content));
        Cow::Owned(fence::fenced(&line))
    } else {
        Cow::Borrowed(&turn.content)
    }
}

/// A turn as an OpenAI-style message. A tool's result comes from the user's side: without the call it
/// answers, a message of role tool is refused by OpenAI-compatible servers, and as a system message
/// whatever a page on the web says would be an order. So that it does not pass for the user's words either,
/// it stands in a fence.
pub fn message(turn: &WindowTurn) -> Value {
    let role = match turn.role.as_str() {
        "tool" => "user",
        "memory" => "system",
        role => role,
    };
    json!({"role": role, "content": told(turn)})
}
