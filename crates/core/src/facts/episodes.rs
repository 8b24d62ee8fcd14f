//! When a running episode, a run of related turns, is closed.
//!
//! Manual closing is decided by the caller; the reasons are here so that all of them have one spelling. What happens to closed
//! episodes is in `episodes/carry.rs`.

use crate::words;

mod carry;

pub use carry::{ClosedEpisode, Reflection, next_reflection};

/// Limits of an episode. 0 or less switches a limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeSettings {
    /// Turns in one episode at most.
    pub max_turns: u32,
    /// Longest pause between two turns, in seconds of event time.
    pub gap_seconds: i64,
}

impl Default for EpisodeSettings {
    fn default() -> Self {
        Self { max_turns: 20, gap_seconds: 1800 }
    }
}

/// The running episode of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenEpisode {
    pub turn_count: u32,
    /// Event time of the newest turn, in microseconds; any epoch.
    pub last_turn_at_micros: i64,
}

words! {
    /// Why an episode was closed.
    pub enum CloseReason {
        MaxTurns = "max_turns",
        Gap = "gap",
        ToolResult = "tool_result",
        Manual = "manual",
    }
}

/// Why the running episode must be closed before a turn of `created_at_micros`
/// (same epoch as the episode's) is added; `None` if the turn belongs to it, or
/// no episode runs.
///
/// A turn older than the newest one, as in an import, is no gap. An episode that
/// is full already (the limit was lowered meanwhile) takes no more turns.
pub fn before_turn(
    open: Option<&OpenEpisode>,
    created_at_micros: i64,
    settings: &EpisodeSettings,
) -> Option<CloseReason> {
    let open = open?;
    if is_full(open.turn_count, settings) {
        return Some(CloseReason::MaxTurns);
    }
    let pause = created_at_micros.saturating_sub(open.last_turn_at_micros);
    let longest_pause = settings.gap_seconds.saturating_mul(1_000_000);
    (settings.gap_seconds > 0 && pause > longest_pause).then_some(CloseReason::Gap)
}

/// Why the episode ends with the turn just added; `None` if it goes on.
///
/// `turn_count` includes that turn. A turn of role `tool` is the last of its
/// own episode.
pub fn after_turn(turn_count: u32, role: &str, settings: &EpisodeSettings) -> Option<CloseReason> {
    if role == "tool" {
        Some(CloseReason::ToolResult)
    } else if is_full(turn_count, settings) {
        Some(CloseReason::MaxTurns)
    } else {
        None
    }
}

fn is_full(turn_count: u32, settings: &EpisodeSettings) -> bool {
    settings.max_turns > 0 && turn_count >= settings.max_turns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    fn open(turn_count: u32, last_turn_at_micros: i64) -> OpenEpisode {
        OpenEpisode { turn_count, last_turn_at_micros }
    }

    #[test]
    fn the_first_turn_closes_nothing() {
        assert_eq!(before_turn(None, 0, &EpisodeSettings::default()), None);
    }

    #[test]
    fn a_pause_longer_than_the_gap_closes() {
        let settings = EpisodeSettings::default();
        let episode = open(3, 10 * SECOND);
        assert_eq!(before_turn(Some(&episode), 1810 * SECOND, &settings), None);
        assert_eq!(
            before_turn(Some(&episode), 1810 * SECOND + 1, &settings),
            Some(CloseReason::Gap)
        );
    }

    #[test]
    fn an_imported_older_turn_is_no_gap() {
        let episode = open(3, 1_000_000 * SECOND);
        assert_eq!(before_turn(Some(&episode), 0, &EpisodeSettings::default()), None);
        assert_eq!(before_turn(Some(&episode), i64::MIN, &EpisodeSettings::default()), None);
    }

    #[test]
    fn the_last_turn_closes_a_full_episode() {
        let settings = EpisodeSettings::default();
        assert_eq!(after_turn(19, "user", &settings), None);
        assert_eq!(after_turn(20, "user", &settings), Some(CloseReason::MaxTurns));
        assert_eq!(after_turn(21, "user", &settings), Some(CloseReason::MaxTurns));
        // The limit was lowered while the episode ran.
        assert_eq!(before_turn(Some(&open(25, 0)), 0, &settings), Some(CloseReason::MaxTurns));
    }

    #[test]
    fn a_tool_turn_ends_its_own_episode() {
        let settings = EpisodeSettings::default();
        assert_eq!(after_turn(2, "tool", &settings), Some(CloseReason::ToolResult));
        assert_eq!(after_turn(20, "tool", &settings), Some(CloseReason::ToolResult));
    }

    #[test]
    fn zero_switches_a_limit_off() {
        let unlimited = EpisodeSettings { max_turns: 0, gap_seconds: 0 };
        assert_eq!(before_turn(Some(&open(u32::MAX, i64::MIN)), i64::MAX, &unlimited), None);
        assert_eq!(after_turn(u32::MAX, "user", &unlimited), None);
    }

    #[test]
    fn reasons_have_the_names_stored() {
        let reasons =
            [CloseReason::MaxTurns, CloseReason::Gap, CloseReason::ToolResult, CloseReason::Manual];
        let names = reasons.map(CloseReason::as_str);
        assert_eq!(names, ["max_turns", "gap", "tool_result", "manual"]);
    }

    proptest! {
        /// A conversation, played through as the caller does it.
        #[test]
        fn no_episode_exceeds_its_limits(
            pauses in prop::collection::vec((0..4000i64, any::<bool>()), 1..80),
            max_turns in 1..8u32,
        ) {
            let settings = EpisodeSettings { max_turns, ..EpisodeSettings::default() };
            let (mut now, mut running) = (0, None::<OpenEpisode>);
            for (pause, is_tool) in pauses {
                now += pause * SECOND;
                let closed = before_turn(running.as_ref(), now, &settings);
                // after_turn has closed full episodes already.
                prop_assert_ne!(closed, Some(CloseReason::MaxTurns));
                prop_assert_eq!(closed.is_some(), running.is_some() && pause > 1800);
                let turn_count = match (closed, running) {
                    (None, Some(episode)) => episode.turn_count + 1,
                    _ => 1,
                };
                prop_assert!(turn_count <= max_turns);
                let role = if is_tool { "tool" } else { "user" };
                let ended = after_turn(turn_count, role, &settings);
                prop_assert_eq!(ended.is_some(), is_tool || turn_count == max_turns);
                running = ended.is_none().then(|| open(turn_count, now));
            }
        }

        #[test]
        fn any_time_is_accepted(
            last in any::<i64>(), now in any::<i64>(), gap_seconds in any::<i64>(), turns in any::<u32>(),
        ) {
            let settings = EpisodeSettings { gap_seconds, max_turns: 0 };
            let closed = before_turn(Some(&open(turns, last)), now, &settings);
            if closed.is_some() {
                prop_assert!(gap_seconds > 0 && now > last);
            }
        }
    }
}
