//! How much a summary condenses: its level by the size of what it covers, and its length.
//!
//! Long conversations are condensed in steps: chunks (L1), groups of chunks (L2), the whole (L3).

/// A summary is never asked to be shorter, in tokens: less is no sentence.
pub const MIN_TARGET: u32 = 24;
/// A summary of a whole conversation is never asked to be longer, in tokens. It is 7 % of
/// [`HIERARCHICAL_FROM`]: from there on a summary grows no more with its conversation, as it goes
/// into every prompt.
pub const MAX_TARGET: u32 = 1_050;
/// How often a summary that is too long is asked for again.
pub const MAX_RETRIES: u32 = 2;

const BRIEF_FROM: u32 = 100;
const STANDARD_FROM: u32 = 500;
const DETAILED_FROM: u32 = 3_000;
const HIERARCHICAL_FROM: u32 = 15_000;

/// By how much a summary may be longer than its target, in percent.
const TOLERANCE_PERCENT: u64 = 20;

/// How a text is summarised, by its length. The bounds are half-open: a text of 500 tokens is
/// already `Standard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SummaryLevel {
    /// Under 100 tokens: its facts are shorter than a summary would be.
    None,
    /// Under 500 tokens: one sentence, a fifth of the text.
    Brief,
    /// Under 3,000 tokens: a paragraph, 12 % of the text.
    Standard,
    /// Under 15,000 tokens: chunks and a summary of their summaries, 7 % of the text.
    Detailed,
    /// From 15,000 tokens on: chunks, groups of chunks and the whole.
    Hierarchical,
}

impl SummaryLevel {
    /// The level of a text of `tokens` tokens.
    #[must_use]
    pub const fn of(tokens: u32) -> Self {
        match tokens {
            ..BRIEF_FROM => Self::None,
            BRIEF_FROM..STANDARD_FROM => Self::Brief,
            STANDARD_FROM..DETAILED_FROM => Self::Standard,
            DETAILED_FROM..HIERARCHICAL_FROM => Self::Detailed,
            HIERARCHICAL_FROM.. => Self::Hierarchical,
        }
    }

    /// The value of `session_summaries.method`. What needs no summary but gets one, because its
    /// turns leave the window, is summarised briefly.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::None | Self::Brief => "brief",
            Self::Standard => "standard",
            Self::Detailed => "detailed",
            Self::Hierarchical => "hierarchical",
        }
    }

    /// The length of a summary, in percent of what it covers.
    const fn percent(self) -> u64 {
        match self {
            Self::None | Self::Brief => 20,
            Self::Standard => 12,
            Self::Detailed | Self::Hierarchical => 7,
        }
    }
}

/// The length in tokens that the summary of a whole text (L3) is asked for, by the tokens of all
/// that it covers, also through an earlier summary.
#[must_use]
pub fn target_tokens(tokens_covered: u32) -> u32 {
    percent_of(tokens_covered, SummaryLevel::of(tokens_covered).percent())
        .clamp(MIN_TARGET, MAX_TARGET)
}

/// The length in tokens that the summary of a chunk (L1) is asked for: 12 % of the chunk.
#[must_use]
pub fn chunk_target(tokens: u32) -> u32 {
    percent_of(tokens, SummaryLevel::Standard.percent()).max(MIN_TARGET)
}

/// The length in tokens that the summary of a group of chunks (L2) is asked for: half of what
/// their summaries have together.
#[must_use]
pub fn group_target(tokens: u32) -> u32 {
    percent_of(tokens, 50).max(MIN_TARGET)
}

/// The most tokens that a summary may have: a fifth over its target.
#[must_use]
pub fn most_tokens(target: u32) -> u32 {
    let most = u64::from(target) * (100 + TOLERANCE_PERCENT) / 100;
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Rounded to the nearest token.
fn percent_of(tokens: u32, percent: u64) -> u32 {
    // At most half of a u32.
    ((u64::from(tokens) * percent + 50) / 100) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bounds_are_half_open() {
        use SummaryLevel::{Brief, Detailed, Hierarchical, None, Standard};
        for (tokens, level) in [
            (0, None),
            (99, None),
            (100, Brief),
            (499, Brief),
            (500, Standard),
            (2_999, Standard),
            (3_000, Detailed),
            (14_999, Detailed),
            (15_000, Hierarchical),
            (u32::MAX, Hierarchical),
        ] {
            assert_eq!(SummaryLevel::of(tokens), level, "{tokens}");
        }
        let methods = [None, Brief, Standard, Detailed, Hierarchical].map(SummaryLevel::method);
        assert_eq!(methods, ["brief", "brief", "standard", "detailed", "hierarchical"]);
    }

    #[test]
    fn the_targets_are_the_ratios_of_the_levels() {
        for (tokens, target) in [
            (0, 24),
            (99, 24),
            (120, 24),
            (200, 40),
            (499, 100),
            (500, 60),
            (2_999, 360),
            (3_000, 210),
            (10_000, 700),
            (14_999, 1_050),
            (15_000, 1_050),
            (20_000, 1_050),
            (u32::MAX, 1_050),
        ] {
            assert_eq!(target_tokens(tokens), target, "{tokens}");
        }
        assert_eq!((chunk_target(3_000), chunk_target(10)), (360, 24));
        assert_eq!((group_target(1_800), group_target(10)), (900, 24));
        assert_eq!(group_target(u32::MAX), 1 << 31);
    }

    #[test]
    fn a_fifth_more_than_the_target_is_accepted() {
        assert_eq!([0, 100, 24, 1].map(most_tokens), [0, 120, 28, 1]);
        assert_eq!(most_tokens(u32::MAX), u32::MAX);
    }

    proptest! {
        #[test]
        fn a_summary_is_shorter_than_what_it_covers(tokens in 25..u32::MAX) {
            prop_assert!(target_tokens(tokens) < tokens);
            prop_assert!(chunk_target(tokens) < tokens && group_target(tokens) < tokens);
        }

        #[test]
        fn more_text_of_one_level_gets_no_shorter_summary(tokens in 0..100_000_u32) {
            if SummaryLevel::of(tokens) == SummaryLevel::of(tokens + 1) {
                prop_assert!(target_tokens(tokens) <= target_tokens(tokens + 1));
            }
        }
    }
}
