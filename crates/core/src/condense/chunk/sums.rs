//! Sums of token counts.

use std::ops::Range;

/// Sums of the tokens of neighbours, each in one step: a document may be half a million lines.
pub struct Sums(Vec<u64>);

impl Sums {
    pub fn of(tokens: impl Iterator<Item = u32>) -> Self {
        let mut sums = vec![0];
        sums.extend(tokens.scan(0, |sum, tokens| {
            *sum += u64::from(tokens);
            Some(*sum)
        }));
        Self(sums)
    }

    pub fn of_range(&self, range: Range<usize>) -> u64 {
        self.0[range.end] - self.0[range.start]
    }
}
