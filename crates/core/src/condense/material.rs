//! What goes into one request: the turns of a conversation in pieces, the pieces in chunks (one
//! summary L1 each), the chunks in groups (one summary L2 each).

use std::ops::Range;

use crate::condense::chunk::{self, Limits};
use crate::text::tokens::Counter;

/// About how many chunks a group has; as many chunks need no groups at all.
pub const GROUP_SIZE: usize = 5;

/// A turn, or a part of a turn that is too long for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The place of its turn among the turns.
    pub turn: usize,
    pub text: String,
    pub tokens: u32,
}

/// The turns in pieces of at most `limits.max_tokens`, in order. A turn is its text and the number
/// of its tokens; one that is too long is divided as a document is, with overlaps.
///
/// # Errors
///
/// Those of the counter, which is asked only about turns that are too long.
pub fn pieces<E>(
    turns: &[(&str, u32)],
    limits: Limits,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Piece>, E> {
    let mut pieces = Vec::new();
    for (turn, &(text, tokens)) in turns.iter().enumerate() {
        if tokens <= limits.max_tokens {
            pieces.push(Piece { turn, text: text.to_owned(), tokens });
        } else {
            let parts = chunk::chunks(text, limits, count)?;
            pieces.extend(parts.into_iter().map(|part| Piece {
                turn,
                text: part.text,
                tokens: part.tokens,
            }));
        }
    }
    Ok(pieces)
}

/// Chunks of consecutive pieces, given the tokens of each piece: at most `max_tokens` in each
/// chunk, and as few chunks as possible, of about the same size, so that the last is no
/// remainder of a few words.
///
/// A chunk begins with the last pieces of the one before that have at most `overlap_tokens`
/// together: a question there explains the answer here. A piece over `max_tokens` is a chunk by
/// itself.
#[must_use]
pub fn group(tokens: &[u32], max_tokens: u32, overlap_tokens: u32) -> Vec<Range<usize>> {
    let fewest = fill(tokens, max_tokens, overlap_tokens).len();
    // The smallest limit that gives as few chunks.
    let (mut low, mut high) = (0, max_tokens);
    while low < high {
        let middle = low + (high - low) / 2;
        if fill(tokens, middle, overlap_tokens).len() <= fewest {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    fill(tokens, high, overlap_tokens)
}

/// Fills chunks one after the other.
fn fill(tokens: &[u32], max_tokens: u32, overlap_tokens: u32) -> Vec<Range<usize>> {
    let mut chunks: Vec<Range<usize>> = Vec::new();
    let mut next = 0;
    while next < tokens.len() {
        let start = match chunks.last() {
            Some(last) => overlap_start(tokens, last, max_tokens, overlap_tokens),
            None => 0,
        };
        let mut total = sum(&tokens[start..=next]);
        let mut end = next + 1;
        while end < tokens.len() && total + u64::from(tokens[end]) <= u64::from(max_tokens) {
            total += u64::from(tokens[end]);
            end += 1;
        }
        chunks.push(start..end);
        next = end;
    }
    chunks
}

/// Where the chunk after `last` begins: as early as the overlap allows and its first new piece
/// leaves room, but behind the start of `last`.
fn overlap_start(
    tokens: &[u32],
    last: &Range<usize>,
    max_tokens: u32,
    overlap_tokens: u32,
) -> usize {
    let mut start = last.end;
    let Some(room) = max_tokens.checked_sub(tokens[start]) else { return start };
    let mut room = u64::from(room.min(overlap_tokens));
    while start > last.start + 1 && u64::from(tokens[start - 1]) <= room {
        start -= 1;
        room -= u64::from(tokens[start]);
    }
    start
}

fn sum(tokens: &[u32]) -> u64 {
    tokens.iter().map(|tokens| u64::from(*tokens)).sum()
}

/// Groups of consecutive chunks, given how many there are: about [`GROUP_SIZE`] in each, of about
/// the same size, so that no group is a single chunk. Up to [`GROUP_SIZE`] chunks make no groups.
#[must_use]
pub fn groups(chunks: usize) -> Vec<Range<usize>> {
    if chunks <= GROUP_SIZE {
        return Vec::new();
    }
    let many = chunks.div_ceil(GROUP_SIZE);
    (0..many).map(|group| group * chunks / many..(group + 1) * chunks / many).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn words(texts: &[String]) -> Result<Vec<u32>, Infallible> {
        Ok(texts.iter().map(|text| text.split_whitespace().count() as u32).collect())
    }

    #[test]
    fn a_turn_is_a_piece_unless_it_is_too_long() {
        let long = ["One two three four."; 10].join(" ");
        let limits = Limits { max_tokens: 16, overlap_tokens: 0 };
        let pieces = pieces(&[("hi", 1), (&long, 40), ("bye", 1)], limits, &mut words).unwrap();
        assert_eq!(pieces.iter().map(|piece| piece.turn).collect::<Vec<_>>(), [0, 1, 1, 1, 2]);
        assert_eq!(pieces.iter().map(|piece| piece.tokens).collect::<Vec<_>>(), [1, 16, 16, 8, 1]);
        assert_eq!(pieces[1].text, ["One two three four."; 4].join(" "));
    }

    #[test]
    fn short_turns_are_not_counted() {
        let mut never = |_: &[String]| Err("counted");
        let limits = Limits { max_tokens: 16, overlap_tokens: 0 };
        assert_eq!(pieces(&[("hi", 1), ("", 0)], limits, &mut never).unwrap().len(), 2);
        assert_eq!(pieces(&[("a b c", 17)], limits, &mut never), Err("counted"));
    }

    #[test]
    fn chunks_are_few_and_even() {
        assert_eq!(group(&[10; 10], 100, 0), vec![0..10; 1]);
        assert_eq!(group(&[10; 11], 100, 0), [0..6, 6..11]);
        assert_eq!(group(&[100; 200], 3_000, 0).len(), 7);
        assert_eq!(group(&[], 100, 10), []);
        assert_eq!(group(&[10, 500, 10], 100, 10), [0..1, 1..2, 2..3], "too long for any chunk");
    }

    #[test]
    fn chunks_overlap_by_whole_pieces() {
        assert_eq!(group(&[50; 12], 300, 100), [0..6, 4..10, 8..12]);
        assert_eq!(group(&[90, 90, 90], 100, 50), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn groups_have_about_five_chunks() {
        assert!(groups(0).is_empty() && groups(5).is_empty());
        assert_eq!(groups(6), [0..3, 3..6]);
        assert_eq!(groups(7), [0..3, 3..7]);
        assert_eq!(groups(10), [0..5, 5..10]);
        assert_eq!(groups(11), [0..3, 3..7, 7..11]);
    }

    proptest! {
        #[test]
        fn every_piece_is_in_a_chunk(
            tokens in prop::collection::vec(0..400_u32, 0..60),
            max_tokens in 1..1_000_u32,
            overlap_tokens in 0..300_u32,
        ) {
            let chunks = group(&tokens, max_tokens, overlap_tokens);
            let mut end = 0;
            for (index, chunk) in chunks.iter().enumerate() {
                prop_assert!(chunk.start <= end && chunk.end > end, "in order, without holes");
                prop_assert!(index == 0 || chunk.start > chunks[index - 1].start);
                prop_assert!(sum(&tokens[chunk.start..end]) <= u64::from(overlap_tokens));
                prop_assert!(chunk.len() == 1 || sum(&tokens[chunk.clone()]) <= u64::from(max_tokens));
                end = chunk.end;
            }
            prop_assert_eq!(end, tokens.len());
            prop_assert!(chunks.len() <= fill(&tokens, max_tokens, overlap_tokens).len());
        }

        #[test]
        fn every_chunk_is_in_one_group(chunks in 6..2_000_usize) {
            let groups = groups(chunks);
            prop_assert_eq!(groups[0].start, 0);
            prop_assert_eq!(groups[groups.len() - 1].end, chunks);
            prop_assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(groups.iter().all(|group| (3..=GROUP_SIZE).contains(&group.len())));
        }
    }
}
