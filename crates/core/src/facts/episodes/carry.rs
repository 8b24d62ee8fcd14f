//! Which closed episodes are reflected together.
//!
//! An episode of few turns says little. It is carried into the next one of its session, so that its
//! turns are part of that one's reflection; no turn is ever left out.

use super::EpisodeSettings;

/// A closed episode that waits for its reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedEpisode {
    pub turns: u32,
    /// When its last turn was said or recorded, whichever is later, in microseconds; any epoch.
    /// Only the time of the recording tells an import of old turns that still goes on from a
    /// conversation that is over.
    pub quiet_since_micros: i64,
}

/// What happens next to the episodes of a session that wait for their reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflection {
    /// The first so many episodes are reflected together. All but the last of them are carried into
    /// the last one.
    Due(usize),
    /// All of them together are too short; they are due at this time if no other episode of the
    /// session begins before it.
    At(i64),
    /// All of them together are too short, and the session goes on: they are carried into the
    /// episode that is open.
    AfterNext,
    /// None waits.
    None,
}

/// What happens next to the closed episodes of one session.
///
/// * `waiting`: those that are not reflected yet, in the order in which they began.
/// * `is_open`: whether another episode of the session is running.
/// * `min_turns`: an episode with fewer turns is carried into the next one. Turns that were carried
///   count.
/// * `gap_seconds`: the longest pause within an episode. What is too short is reflected after twice
///   this time without a successor. With 0 or less, which switches gaps off, the default gap counts
///   here.
/// * `now_micros`: in the epoch of the episodes.
#[must_use]
pub fn next_reflection(
    waiting: &[ClosedEpisode],
    is_open: bool,
    min_turns: u32,
    gap_seconds: i64,
    now_micros: i64,
) -> Reflection {
    let Some(last) = waiting.last() else { return Reflection::None };
    let mut turns = 0_u32;
    for (index, episode) in waiting.iter().enumerate() {
        turns = turns.saturating_add(episode.turns);
        if turns >= min_turns {
            return Reflection::Due(index + 1);
        }
    }
    if is_open {
        return Reflection::AfterNext;
    }
    let gap = if gap_seconds > 0 { gap_seconds } else { EpisodeSettings::default().gap_seconds };
    let patience = gap.saturating_mul(2_000_000);
    let due = last.quiet_since_micros.saturating_add(patience);
    if now_micros >= due { Reflection::Due(waiting.len()) } else { Reflection::At(due) }
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
