//! Documents in chunks that are short enough to be embedded and recalled by themselves.
//!
//! A document is Markdown or plain text. It is divided where it divides itself: first at its
//! headings, then between paragraphs, lists, tables and code, then between sentences. Chunks are
//! pieces of the text as it is; nothing is added, and only white space is left out.

mod markdown;
mod outline;
mod pack;
mod sums;

use crate::words;
use std::ops::Range;

use crate::text::sentences;
use crate::text::tokens::{self, Counter};

/// A chunk is allowed at least so many tokens: each character has room in it.
const MIN_MAX_TOKENS: u32 = 16;

/// Tokens of a section that had to be cut with which its next chunk begins.
pub const OVERLAP_TOKENS: u32 = 100;

/// How long chunks are, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No chunk is longer. Less than 16 counts as 16.
    pub max_tokens: u32,
    /// How much of a section that has to be cut is repeated at the beginning of its next chunk, at
    /// most. More than half of `max_tokens` counts as half.
    pub overlap_tokens: u32,
}

impl Limits {
    fn checked(self) -> Self {
        let max_tokens = self.max_tokens.max(MIN_MAX_TOKENS);
        Self { max_tokens, overlap_tokens: self.overlap_tokens.min(max_tokens / 2) }
    }
}

words! {
    /// How much of its document a chunk is.
    #[derive(PartialOrd, Ord)]
    pub enum Granularity {
        /// All of it.
        Document = "document",
        /// A section with its subsections, or several that are neighbours.
        Section = "section",
        /// A part of a section.
        Chunk = "chunk",
    }
}

/// A piece of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// As it is in the document, without the white space around it.
    pub text: String,
    /// The headings that all of the text stands under, the outermost first.
    pub headings: Vec<String>,
    pub granularity: Granularity,
    /// The tokens of the text.
    pub tokens: u32,
}

/// The chunks of a document, in its order. A blank document has none.
///
/// Sections that fit stay whole, and small neighbours share a chunk. A section that is too long is
/// cut between its blocks; lists, tables and code are cut only if one alone is too long. What
/// follows a cut repeats the end of the chunk before, whole sentences or items of at most
/// `limits.overlap_tokens` tokens, and never a part of code, unless the code alone is too long.
///
/// # Errors
///
/// Those of the counter.
pub fn chunks<E>(
    markdown: &str,
    limits: Limits,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Chunk>, E> {
    let limits = limits.checked();
    let blocks = markdown::blocks(markdown);
    let block_tokens =
        tokens::count_all(blocks.iter().map(|block| &markdown[block.range.clone()]), count)?;
    let outline = outline::Outline::of(&blocks);
    let units = outline.divide(&block_tokens, limits.max_tokens);

    let mut parts = Vec::new();
    let is_whole_document = units.len() == 1 && units[0].is_whole;
    let cut = pack::pieces(markdown, &blocks, &units, limits, count)?;
    for (unit, pieces) in units.iter().zip(cut) {
        let granularity = match unit.is_whole {
            true if is_whole_document => Granularity::Document,
            true => Granularity::Section,
            false => Granularity::Chunk,
        };
        let headings = outline.headings(unit.blocks.clone());
        parts.extend(pieces.into_iter().map(|range| Part {
            range,
            headings: headings.clone(),
            granularity,
        }));
    }
    within_limit(markdown, parts, limits.max_tokens, count)
}

/// A document in which a chunk got another text; `None` when the chunk's old text is not in it exactly once.
#[must_use]
pub fn edited(document: &str, old: &str, new: &str) -> Option<String> {
    let mut places = document.match_indices(old).map(|(at, _)| at);
    let (Some(at), None) = (places.next(), places.next()) else { return None };
    Some([&document[..at], new, &document[at + old.len()..]].concat())
}

/// A chunk before its tokens are known.
struct Part {
    range: Range<usize>,
    headings: Vec<String>,
    granularity: Granularity,
}

/// Counts the chunks as they are and halves those that are too long: the parts of a text may have
/// a few tokens less than the text.
fn within_limit<E>(
    text: &str,
    mut parts: Vec<Part>,
    max_tokens: u32,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Chunk>, E> {
    let mut chunks: Vec<(usize, Chunk)> = Vec::new();
    while !parts.is_empty() {
        let counts =
            tokens::count_all(parts.iter().map(|part| text[part.range.clone()].trim()), count)?;
        let mut halves = Vec::new();
        for (part, tokens) in parts.into_iter().zip(counts) {
            match halved(text, &part.range) {
                Some(ranges) if tokens > max_tokens => {
                    halves.extend(ranges.map(|range| Part {
                        range,
                        headings: part.headings.clone(),
                        granularity: Granularity::Chunk,
                    }));
                }
                _ => {
                    let chunk = Chunk {
                        text: text[part.range.clone()].trim().to_owned(),
                        headings: part.headings,
                        granularity: part.granularity,
                        tokens,
                    };
                    chunks.push((part.range.start, chunk));
                }
            }
        }
        parts = halves;
    }
    // Stable, and with overlaps no two chunks begin at the same place.
    chunks.sort_by_key(|(start, _)| *start);
    Ok(chunks.into_iter().map(|(_, chunk)| chunk).filter(|chunk| !chunk.text.is_empty()).collect())
}

/// The two halves of a part of the text: divided between sentences, else between words, else
/// between characters, as near to the middle as possible. A single character has no halves.
fn halved(text: &str, range: &Range<usize>) -> Option<[Range<usize>; 2]> {
    let part = &text[range.clone()];
    let middle = part.len() / 2;
    let nearest = |at: &usize| at.abs_diff(middle);
    // Neither half is blank.
    let first = part.len() - part.trim_start().len();
    let last = part.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    let inner = |at: &usize| first < *at && *at <= last;
    let words = || part.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at);
    let characters = || part.char_indices().map(|(at, _)| at);
    let at = sentences::ends(part)
        .into_iter()
        .filter(inner)
        .min_by_key(nearest)
        .or_else(|| words().filter(inner).min_by_key(nearest))
        .or_else(|| characters().filter(inner).min_by_key(nearest))?;
    let at = range.start + at;
    Some([range.start..at, at..range.end])
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
