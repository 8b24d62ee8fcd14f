//! Cuts a section that is too long for one chunk.
//!
//! The section is taken apart into atoms: the sentences of a paragraph, the items of a list, the
//! rows of a table, a block of code as a whole. Pieces are filled with the blocks that fit, and
//! with the atoms of those that do not fit even alone.

use std::ops::Range;

use super::Limits;
use super::markdown::{self, Block, Kind};
use super::outline::Unit;
use super::sums::Sums;
use crate::text::sentences;
use crate::text::tokens::{self, Counter};

/// What is not cut any further.
#[derive(Clone, Debug)]
struct Atom {
    /// Its block; atoms of one block stay together where they fit.
    block: usize,
    range: Range<usize>,
    tokens: u32,
    kind: AtomKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtomKind {
    Heading,
    /// A line of code that is too long for one chunk.
    CodeLine,
    Other,
}

/// The byte ranges of the chunks of each unit. Those of a unit that was cut overlap.
pub(super) fn pieces<E>(
    text: &str,
    blocks: &[Block],
    units: &[Unit],
    limits: Limits,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Vec<Range<usize>>>, E> {
    let cut = units.iter().filter(|unit| !unit.is_whole).flat_map(|unit| unit.blocks.clone());
    let atoms = atoms(text, blocks, cut, limits.max_tokens, count)?;
    let range =
        |unit: &Unit| blocks[unit.blocks.start].range.start..blocks[unit.blocks.end - 1].range.end;
    let pieces = units.iter().map(|unit| {
        if unit.is_whole {
            return vec![range(unit)];
        }
        let first = atoms.partition_point(|atom| atom.block < unit.blocks.start);
        let end = atoms.partition_point(|atom| atom.block < unit.blocks.end);
        pack(&atoms[first..end], limits)
    });
    Ok(pieces.collect())
}

/// The atoms of the blocks, in order. All of them are counted at once, and again those that had to
/// be divided further.
fn atoms<E>(
    text: &str,
    blocks: &[Block],
    cut: impl Iterator<Item = usize>,
    max_tokens: u32,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Atom>, E> {
    let mut open: Vec<Atom> = cut
        .map(|block| {
            let kind = match blocks[block].kind {
                Kind::Heading { .. } => AtomKind::Heading,
                _ => AtomKind::Other,
            };
            Atom { block, range: blocks[block].range.clone(), tokens: 0, kind }
        })
        .flat_map(|atom| match blocks[atom.block].kind {
            Kind::Heading { .. } | Kind::Code => vec![atom],
            Kind::List => parts(text, &atom, item_ends),
            Kind::Table => parts(text, &atom, line_ends),
            Kind::Prose => parts(text, &atom, sentences::ends),
        })
        .collect();
    let mut done = Vec::new();
    while !open.is_empty() {
        let counts = tokens::count_all(open.iter().map(|atom| &text[atom.range.clone()]), count)?;
        let mut again = Vec::new();
        for (atom, tokens) in open.into_iter().zip(counts) {
            let parts = if tokens > max_tokens { smaller(text, blocks, &atom) } else { Vec::new() };
            if parts.len() > 1 {
                again.extend(parts);
            } else {
                done.push(Atom { tokens, ..atom });
            }
        }
        open = again;
    }
    done.sort_by_key(|atom| atom.range.start);
    Ok(done)
}

/// An atom that is too long, divided: code between its lines, all else between its sentences, and
/// what is one line or sentence in its middle.
fn smaller(text: &str, blocks: &[Block], atom: &Atom) -> Vec<Atom> {
    let is_code = blocks[atom.block].kind == Kind::Code;
    let kind = if is_code { AtomKind::CodeLine } else { atom.kind };
    let atom = Atom { kind, ..atom.clone() };
    let parts = parts(text, &atom, if is_code { line_ends } else { sentences::ends });
    if parts.len() > 1 {
        return parts;
    }
    match super::halved(text, &atom.range) {
        Some(halves) => halves.map(|range| Atom { range, ..atom.clone() }).into(),
        None => Vec::new(),
    }
}

/// The atom in parts that end where `ends` says.
fn parts(text: &str, atom: &Atom, ends: fn(&str) -> Vec<usize>) -> Vec<Atom> {
    let mut start = atom.range.start;
    let part = |end| {
        let range = std::mem::replace(&mut start, atom.range.start + end)..atom.range.start + end;
        Atom { range, ..atom.clone() }
    };
    ends(&text[atom.range.clone()]).into_iter().map(part).collect()
}

/// The offset behind each line that is not blank and the blank lines that follow it.
fn line_ends(text: &str) -> Vec<usize> {
    ends_before(text, |line| !line.trim().is_empty())
}

/// The offset behind each item of a list.
fn item_ends(text: &str) -> Vec<usize> {
    ends_before(text, |line| markdown::is_item(line.trim_start_matches([' ', '\t'])))
}

/// The offsets before each line but the first that begins something new, and the end.
fn ends_before(text: &str, begins: fn(&str) -> bool) -> Vec<usize> {
    let mut at = 0;
    let mut ends = Vec::new();
    for line in text.split_inclusive('\n') {
        if at > 0 && begins(line) {
            ends.push(at);
        }
        at += line.len();
    }
    ends.push(at);
    ends
}

/// Fills pieces with the atoms of one section.
fn pack(atoms: &[Atom], limits: Limits) -> Vec<Range<usize>> {
    let max = u64::from(limits.max_tokens);
    let sums = Sums::of(atoms.iter().map(|atom| atom.tokens));
    let mut pieces = Vec::new();
    // The atoms of the piece that is being filled; those before `fresh` repeat the piece before.
    let (mut start, mut fresh, mut next) = (0, 0, 0);
    while next < atoms.len() {
        // A block stays together unless it is too long even alone, or cut already.
        let block_end = next + atoms[next..].partition_point(|a| a.block == atoms[next].block);
        let is_begun = next > 0 && atoms[next - 1].block == atoms[next].block;
        let stays_together = !is_begun && sums.of_range(next..block_end) <= max;
        let end = if stays_together { block_end } else { next + 1 };
        let needed = sums.of_range(next..end);
        let filled = sums.of_range(start..next);
        if filled + needed <= max {
            next = end;
            continue;
        }
        // A heading is no chunk by itself if a part of its text has room.
        let has_text = atoms[fresh..next].iter().any(|atom| atom.kind != AtomKind::Heading);
        if next > fresh && !has_text && filled + u64::from(atoms[next].tokens) <= max {
            next += 1;
            continue;
        }
        if next > fresh {
            pieces.push(atoms[start].range.start..atoms[next - 1].range.end);
            start += overlap(&atoms[start..next], limits.overlap_tokens, atoms[next].block);
            fresh = next;
        }
        // What is new goes before what is repeated.
        while start < next && sums.of_range(start..next) + needed > max {
            start += 1;
        }
        if start == next {
            next = end;
        }
    }
    if next > fresh {
        pieces.push(atoms[start].range.start..atoms[next - 1].range.end);
    }
    pieces
}

/// Where in the atoms of a piece the part begins that the next piece repeats; `next` is the block
/// that comes then. Not all of the piece is repeated, no heading, and lines of code only if the
/// code goes on.
fn overlap(piece: &[Atom], overlap_tokens: u32, next: usize) -> usize {
    let mut room = u64::from(overlap_tokens);
    let mut start = piece.len();
    while start > 1 {
        let atom = &piece[start - 1];
        let is_repeated = match atom.kind {
            AtomKind::Heading => false,
            AtomKind::CodeLine => atom.block == next,
            AtomKind::Other => true,
        };
        match room.checked_sub(u64::from(atom.tokens)) {
            Some(rest) if is_repeated => room = rest,
            _ => break,
        }
        start -= 1;
    }
    start
}
