//! The window of a session as the messages of a prompt, as far as a budget has room: the summary, up to its
//! share, and the newest turns.

use crate::memory::context::block::{Block, SUMMARY_SHARE};
use crate::memory::context::prompt_memory;
use crate::memory::context::tokens::TokenCounter;
use crate::memory::prelude::*;
use crate::settings::Effective;
use crate::store::summaries::window::{self, Loaded, Message};
use memory_agent_core::prompt::MESSAGE_OVERHEAD_TOKENS;
use memory_agent_core::prompt::augment::SUMMARY_HEADER;

/// The messages that have together at most `budget` tokens, oldest first. The turns end with the first
/// that does not fit: a conversation with holes misleads. The summary stands in a fence, as in other prompts:
/// what was once said in the conversation is no order of the application's.
pub fn within(key: &SessionKey, budget: i64, settings: &Effective) -> PgResult<Vec<Message>> {
    let mut loaded = roles::read_as_owner(|spi| window::load(spi, key))?;
    let tokens = TokenCounter::new(&settings.prompts);
    let overhead = i64::from(MESSAGE_OVERHEAD_TOKENS);
    let is_summarized = loaded.first().is_some_and(|first| first.is_summary);
    let summary = is_summarized.then(|| loaded.remove(0).message);
    count_anew(&mut loaded, &tokens);
    let mut left = budget;
    let summary = match summary {
        Some(summary) => told(summary, key, budget, &tokens, settings)?,
        None => None,
    };
    let cost = |message: &Message| i64::from(message.4) + overhead;
    left -= summary.as_ref().map_or(0, &cost);
    let mut messages = Vec::new();
    for turn in loaded.into_iter().rev() {
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

/// The summary as the message of a prompt, cut at a sentence if it is longer than its share of the budget;
/// `None` when that leaves too little to be worth it.
fn told(
    mut summary: Message,
    key: &SessionKey,
    budget: i64,
    tokens: &TokenCounter,
    settings: &Effective,
) -> PgResult<Option<Message>> {
    let stale_sources = settings.recall.prompt_stale_sources;
    let (_, outdated) = prompt_memory::summary(key, stale_sources, tokens)?.unwrap_or_default();
    let overhead = i64::from(MESSAGE_OVERHEAD_TOKENS);
    let block = Block { heading: SUMMARY_HEADER, overhead, tokens };
    let share = (budget as f64 * SUMMARY_SHARE) as i64;
    let fitting = block.fit_text(&summary.1, &outdated, share);
    Ok(fitting.map(|(text, cost)| {
        summary.1 = block.below_heading(&text, &outdated);
        summary.4 = clamped(cost - overhead);
        summary
    }))
}

/// Turns that were stored while the tokeniser was unavailable have estimated counts, and the stored counts
/// may be of other tokens.
fn count_anew(loaded: &mut [Loaded], tokens: &TokenCounter) {
    let uncounted: Vec<&mut Message> = loaded
        .iter_mut()
        .filter(|loaded| !loaded.is_counted || !tokens.are_stored())
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
