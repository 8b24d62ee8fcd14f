//! Which sequences run together. Batches keep several threads busy: 30 pairs of 35 to 60 tokens
//! take 212 ms one by one on two threads and 157 ms sorted by length in batches of 8. But padding
//! is wasted work: in one padded batch they take longer than one by one.

use crate::engine::tokenizer::TokenSequence;

/// Most sequences in one run. Measured on texts of 24 to 96 tokens, 8 are within 5 % of the
/// best cost per token and 16 are slower again.
pub const MAX_BATCH_SEQUENCES: usize = 8;

/// Most tokens, padding included, in one run of several sequences. It bounds how long a run
/// holds its thread, and so how long a newly arrived question or a cancel waits (about 60 ms);
/// from some 400 tokens on, larger batches no longer cost less per token.
pub const MAX_BATCH_TOKENS: usize = 512;

/// A sequence may be padded by at most this part of the longest sequence of its batch.
const MAX_PADDING: f64 = 0.125;

/// A batch under construction, started with its longest sequence.
#[derive(Debug, Clone, Copy)]
pub struct BatchShape {
    longest: usize,
    sequences: usize,
    max_sequences: usize,
}

impl BatchShape {
    /// A batch of one sequence of `longest` tokens that may grow to `max_sequences`.
    pub fn new(longest: usize, max_sequences: usize) -> Self {
        Self { longest, sequences: 1, max_sequences }
    }

    /// The lengths of sequences that may join, or `None` when the batch is full.
    pub fn joining_lengths(&self) -> Option<std::ops::RangeInclusive<usize>> {
        let room = self.sequences < self.max_sequences
            && (self.sequences + 1) * self.longest <= MAX_BATCH_TOKENS;
        let shortest = (self.longest as f64 * (1.0 - MAX_PADDING)).ceil() as usize;
        room.then_some(shortest..=self.longest)
    }

    /// Records that a sequence joined.
    pub fn add(&mut self) {
        self.sequences += 1;
    }
}

/// Splits sequences into batches, the longest first. Returns positions in `sequences`.
pub fn plan(sequences: &[TokenSequence], max_sequences: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sequences.len()).collect();
    order.sort_by_key(|position| std::cmp::Reverse(sequences[*position].len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut open: Option<BatchShape> = None;
    for position in order {
        let length = sequences[position].len();
        let joins = open.and_then(|shape| shape.joining_lengths());
        match (&mut open, batches.last_mut()) {
            (Some(shape), Some(batch)) if joins.is_some_and(|range| range.contains(&length)) => {
                batch.push(position);
                shape.add();
            }
            _ => {
                batches.push(vec![position]);
                open = Some(BatchShape::new(length, max_sequences));
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_length(length: usize) -> TokenSequence {
        TokenSequence { ids: vec![1; length], segments: vec![0; length] }
    }

    proptest! {
        #[test]
        fn every_sequence_is_planned_once_within_the_limits(
            lengths in prop::collection::vec(1usize..600, 0..80),
            max_sequences in 1usize..10,
        ) {
            let sequences: Vec<_> = lengths.iter().copied().map(of_length).collect();
            let batches = plan(&sequences, max_sequences);
            let mut planned: Vec<usize> = batches.iter().flatten().copied().collect();
            planned.sort_unstable();
            prop_assert_eq!(planned, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let longest = batch.iter().map(|position| lengths[*position]).max().unwrap();
                let shortest = batch.iter().map(|position| lengths[*position]).min().unwrap();
                prop_assert!(batch.len() <= max_sequences);
                prop_assert!(batch.len() == 1 || batch.len() * longest <= MAX_BATCH_TOKENS);
                prop_assert!(shortest as f64 >= longest as f64 * (1.0 - MAX_PADDING));
            }
        }
    }

    #[test]
    fn equal_lengths_fill_a_batch() {
        let sequences: Vec<_> = (0..20).map(|_| of_length(10)).collect();
        let sizes: Vec<usize> = plan(&sequences, 8).iter().map(Vec::len).collect();
        assert_eq!(sizes, [8, 8, 4]);
    }
}
