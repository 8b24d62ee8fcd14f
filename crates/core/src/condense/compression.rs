//! When a session is summarised, and when its window is compressed.

/// Share of the threshold from which a summary is made ready for the compression to come, in percent.
const READY_PERCENT: u64 = 90;

/// What a session's window and its turns are measured against. Tokens are cl100k_base tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether sessions are summarised as they grow.
    pub summarization: bool,
    /// New tokens from which a summary is renewed.
    pub min_tokens: u32,
    /// Whether windows are compressed.
    pub compression: bool,
    /// Tokens of a window above which it is compressed; 0 is never.
    pub threshold: u32,
}

/// What a session needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A summary that covers the new turns.
    Summary,
    /// That, and a smaller window.
    Compression,
}

impl Limits {
    /// What a session needs that has `window` tokens in its window and `unsummarized` tokens of turns
    /// that no summary covers.
    #[must_use]
    pub fn due(&self, window: u64, unsummarized: u64) -> Option<Due> {
        if self.is_full(window) {
            return Some(Due::Compression);
        }
        let wants_summary = self.summarization || self.is_nearly_full(window);
        (wants_summary && unsummarized >= u64::from(self.min_tokens)).then_some(Due::Summary)
    }

    /// Whether a window is to be compressed.
    #[must_use]
    pub fn is_full(&self, window: u64) -> bool {
        self.compression && self.threshold > 0 && window > u64::from(self.threshold)
    }

    /// Whether a window will be compressed soon: its summary is then made so that compression can use
    /// it without asking again.
    #[must_use]
    pub fn is_nearly_full(&self, window: u64) -> bool {
        self.compression
            && self.threshold > 0
            && window.saturating_mul(100) >= u64::from(self.threshold) * READY_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { summarization: true, min_tokens: 100, compression: true, threshold: 10_000 };

    #[test]
    fn a_summary_is_renewed_after_so_many_new_tokens() {
        assert_eq!(LIMITS.due(500, 99), None);
        assert_eq!(LIMITS.due(500, 100), Some(Due::Summary));
        let off = Limits { summarization: false, ..LIMITS };
        assert_eq!(off.due(500, 500), None);
    }

    #[test]
    fn a_window_is_compressed_above_the_threshold() {
        assert_eq!(LIMITS.due(10_000, 0), None);
        assert_eq!(LIMITS.due(10_001, 0), Some(Due::Compression));
        assert_eq!(Limits { threshold: 0, ..LIMITS }.due(u64::MAX, 0), None);
        assert_eq!(Limits { compression: false, ..LIMITS }.due(u64::MAX, 0), None);
    }

    #[test]
    fn the_summary_is_made_ready_at_ninety_percent() {
        let only_compression = Limits { summarization: false, ..LIMITS };
        assert_eq!(only_compression.due(8_999, 8_999), None);
        assert_eq!(only_compression.due(9_000, 9_000), Some(Due::Summary));
        assert_eq!(only_compression.due(9_000, 99), None, "there is next to nothing to add");
        assert!(LIMITS.is_nearly_full(9_000) && !LIMITS.is_nearly_full(8_999));
        assert!(!Limits { compression: false, ..LIMITS }.is_nearly_full(u64::MAX));
    }
}
