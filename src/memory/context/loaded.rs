//! The window of a session as the messages of a prompt, as far as a budget has room: the summary, up to its
//! share, and the newest turns.

use crate::memory::context::block::{LEAST_CUT, SUMMARY_SHARE};
use crate::memory::context::tokens::TokenCounter;
use crate::pg::error::PgResult;
use crate::pg::roles;
use crate::pg::spi::Session as Spi;
use crate::settings::Prompts;
use crate::store::sessions::SessionKey;
use crate::store::window::{self, Loaded, Message};

/// The messages that have together at most `budget` tokens, oldest first. The turns end with the first
/// that does not fit: a conversation with holes misleads.
pub fn within(key: &SessionKey, budget: i64) -> PgResult<Vec<Message>> {
    let mut loaded = roles::as_owner(|| window::load(&Spi::read_only()?, key))?;
    let tokens = TokenCounter::new();
    count_anew(&mut loaded, &tokens);
    let overhead = i64::from(Prompts::current().message_overhead_tokens);
    let cost = |message: &Message| i64::from(message.4) + overhead;
    let mut left = budget;
    let mut turns = loaded.into_iter().peekable();
    let summary = turns.next_if(|loaded| loaded.is_summary);
    let share = (budget as f64 * SUMMARY_SHARE) as i64 - overhead;
    let summary = summary.and_then(|summary| shortened(summary.message, share, &tokens));
    left -= summary.as_ref().map_or(0, &cost);
    let mut messages = Vec::new();
    for turn in turns.rev() {
        left -= cost(&turn.message);
        if left < 0 {
            break;
        }
        messages.push(turn.message);
    }
    messages.extend(summary);
    messages.reverse();
    Ok(messages)
}

/// A summary of at most `most` tokens, cut at a sentence if it is longer; `None` when that leaves too
/// little to be worth it.
fn shortened(mut summary: Message, most: i64, tokens: &TokenCounter) -> Option<Message> {
    if i64::from(summary.4) <= most {
        return Some(summary);
    }
    if most < LEAST_CUT {
        return None;
    }
    summary.1 = tokens.cut(&summary.1, most);
    summary.4 = clamped(tokens.count_one(&summary.1));
    (!summary.1.is_empty()).then_some(summary)
}

/// Turns that were stored while the tokeniser was not to be had have estimated counts, and a summary that
/// was imported may have none.
fn count_anew(loaded: &mut [Loaded], tokens: &TokenCounter) {
    let uncounted: Vec<&mut Message> = loaded
        .iter_mut()
        .filter(|loaded| !loaded.is_counted)
        .map(|loaded| &mut loaded.message)
        .collect();
    let texts = uncounted.iter().map(|message| message.1.clone()).collect();
    for (message, count) in uncounted.into_iter().zip(tokens.count(texts)) {
        message.4 = clamped(count);
    }
}

fn clamped(tokens: i64) -> i32 {
    i32::try_from(tokens).unwrap_or(i32::MAX)
}
