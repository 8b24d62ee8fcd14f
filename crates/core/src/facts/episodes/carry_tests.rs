//! Tests of which episodes are reflected together.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;

const SECOND: i64 = 1_000_000;
const GAP: i64 = 1800;

fn episodes(turns: &[u32]) -> Vec<ClosedEpisode> {
    turns.iter().map(|turns| ClosedEpisode { turns: *turns, quiet_since_micros: 0 }).collect()
}

/// Of episodes that ended at 0, with no limit of time reached.
fn next(turns: &[u32]) -> Reflection {
    next_reflection(&episodes(turns), false, 3, GAP, 0)
}

#[test]
fn a_long_episode_is_reflected_alone() {
    assert_eq!(next(&[3]), Reflection::Due(1));
    assert_eq!(next(&[7, 8]), Reflection::Due(1));
    assert_eq!(next(&[]), Reflection::None);
}

#[test]
fn a_short_episode_is_carried_into_the_next_one() {
    assert_eq!(next(&[2, 5, 4]), Reflection::Due(2));
    assert_eq!(next(&[1, 1, 5]), Reflection::Due(3));
    // Together they are long enough.
    assert_eq!(next(&[2, 1, 5]), Reflection::Due(2));
}

#[test]
fn a_short_episode_without_a_successor_is_due_after_two_gaps() {
    let due = 2 * GAP * SECOND;
    let at = |now| next_reflection(&episodes(&[1, 1]), false, 3, GAP, now);
    assert_eq!(at(0), Reflection::At(due));
    assert_eq!(at(due - 1), Reflection::At(due));
    assert_eq!(at(due), Reflection::Due(2));
    // The last of them counts.
    let mut waiting = episodes(&[1, 1]);
    waiting[1].quiet_since_micros = 5;
    assert_eq!(next_reflection(&waiting, false, 3, GAP, due), Reflection::At(due + 5));
}

#[test]
fn a_session_that_goes_on_is_waited_for() {
    let later = 1_000_000 * SECOND;
    assert_eq!(next_reflection(&episodes(&[2]), true, 3, GAP, later), Reflection::AfterNext);
    assert_eq!(next_reflection(&episodes(&[3]), true, 3, GAP, 0), Reflection::Due(1));
}

#[test]
fn without_gaps_the_default_gap_decides() {
    let due = 2 * 1800 * SECOND;
    for off in [0, -1, i64::MIN] {
        assert_eq!(next_reflection(&episodes(&[1]), false, 3, off, 0), Reflection::At(due));
    }
}

#[test]
fn without_a_least_length_every_episode_is_due() {
    for min_turns in [0, 1] {
        assert_eq!(
            next_reflection(&episodes(&[1, 1]), true, min_turns, GAP, 0),
            Reflection::Due(1)
        );
    }
}

proptest! {
    /// Episodes that close one after the other; each is reflected exactly once, in order.
    #[test]
    fn no_episode_is_left_out(
        lengths in prop::collection::vec((0..6_u32, 0..10_000_i64), 0..30),
        min_turns in 0..8_u32,
    ) {
        let (mut waiting, mut reflected, mut now) = (Vec::new(), 0, 0);
        let mut reflect = |waiting: &mut Vec<ClosedEpisode>, is_open, now| -> Result<(), TestCaseError> {
            while let Reflection::Due(count) =
                next_reflection(waiting, is_open, min_turns, GAP, now)
            {
                let turns: u32 = waiting[..count].iter().map(|episode| episode.turns).sum();
                let carried: u32 = waiting[..count - 1].iter().map(|episode| episode.turns).sum();
                prop_assert!(count == 1 || carried < min_turns);
                prop_assert!(turns >= min_turns || (count == waiting.len() && !is_open));
                reflected += count;
                waiting.drain(..count);
            }
            Ok(())
        };
        for (turns, pause) in &lengths {
            now += pause * SECOND;
            reflect(&mut waiting, true, now)?;
            waiting.push(ClosedEpisode { turns: *turns, quiet_since_micros: now });
            reflect(&mut waiting, false, now)?;
        }
        let short: u32 = waiting.iter().map(|episode| episode.turns).sum();
        prop_assert!(waiting.is_empty() || short < min_turns);
        reflect(&mut waiting, false, now + 2 * GAP * SECOND)?;
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(reflected, lengths.len());
    }

    #[test]
    fn any_time_and_length_are_accepted(
        turns in prop::collection::vec(any::<u32>(), 0..4),
        (quiet_since_micros, now, gap_seconds) in any::<(i64, i64, i64)>(),
        (min_turns, is_open) in any::<(u32, bool)>(),
    ) {
        let waiting: Vec<ClosedEpisode> =
            turns.iter().map(|turns| ClosedEpisode { turns: *turns, quiet_since_micros }).collect();
        match next_reflection(&waiting, is_open, min_turns, gap_seconds, now) {
            Reflection::Due(count) => prop_assert!((1..=waiting.len()).contains(&count)),
            Reflection::At(due) => prop_assert!(!is_open && due > now && !waiting.is_empty()),
            Reflection::AfterNext => prop_assert!(is_open && !waiting.is_empty()),
            Reflection::None => prop_assert!(waiting.is_empty()),
        }
    }
}
