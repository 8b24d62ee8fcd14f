//! What a reflection is about: how much of an episode fits into one prompt, and how it is put there.

use crate::store::facts::NearFact;
use crate::store::facts::reflections::EpisodeTurn;
use memory_agent_core::facts::extract::original_message;
use memory_agent_core::facts::reflect;

/// Turns in one reflection, and characters of them.
pub const TURNS: usize = 100;
const CHARS: usize = 30_000;

/// How many of the turns fit into one prompt, at least one. After each failure it is half as many: perhaps it
/// is their length, or one of them.
pub fn fitting(turns: &[EpisodeTurn], failures: i32) -> usize {
    let mut chars = 0;
    let fits = |turn: &&EpisodeTurn| {
        chars += turn.content.chars().count();
        chars <= CHARS
    };
    let fitting = turns.iter().take(TURNS).take_while(fits).count().max(1);
    let halvings = u32::try_from(failures).unwrap_or(0).min(TURNS.ilog2());
    (fitting >> halvings).max(1).min(turns.len())
}

/// The turns' own words, without memories that were put into them.
pub fn said(turns: &[EpisodeTurn]) -> Vec<String> {
    let text = |turn: &EpisodeTurn| -> String {
        let text = match turn.role.as_str() {
            "user" => original_message(&turn.content),
            _ => &turn.content,
        };
        text.chars().take(CHARS).collect()
    };
    turns.iter().map(text).collect()
}

/// Facts and turns as they were or are to be sent.
pub fn question<'a>(
    shown: &'a [NearFact],
    turns: &'a [EpisodeTurn],
    said: &'a [String],
) -> (Vec<reflect::PriorFact<'a>>, Vec<reflect::EpisodeTurn<'a>>) {
    let prior = (shown.iter())
        .map(|near| reflect::PriorFact {
            content: &near.content,
            since: &near.said_at,
            markers: &near.markers,
        })
        .collect();
    let turns = (turns.iter().zip(said))
        .map(|(turn, content)| reflect::EpisodeTurn {
            role: &turn.role,
            content,
            speaker: turn.speaker.as_deref(),
            said_at: &turn.said_at,
            markers: &turn.markers,
        })
        .collect();
    (prior, turns)
}
