//! What a prompt tells of a long text: a passage around the words of the question, with an ellipsis where it is cut.
//!
//! A text is taken apart into sentences, and sentences too long to be told into parts. Of all passages that may be
//! told, the best has the most words of the question, the rare ones before those that are everywhere in the text;
//! what stands around them fills the rest.

use crate::text::sentences;
use crate::text::tokens::{self, Counter, estimate_tokens};
use crate::text::{cut, words_sought::Sought};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Stands where a text is cut.
pub const ELLIPSIS: &str = "…";

/// A longer text, in bytes for each token that may be told, is taken apart without counting all of it first: prose has
/// half of that a token. One that may be told whole after all is found out at the end.
const MOST_BYTES_PER_TOKEN: usize = 8;
/// Estimates are above what is counted, by up to so many times.
const ESTIMATED_ABOVE: u64 = 2;
/// Scores this close are equal.
const EQUAL: f64 = 1e-9;

/// Of each text the passage that tells most about a question, in at most `most` tokens. `None` is a text that may be
/// told whole. Without a word of the question the passage is the beginning.
///
/// # Errors
///
/// Those of the counter.
pub fn excerpts<E>(
    texts: &[&str],
    sought: &Sought,
    most: u32,
    count: &mut Counter<'_, E>,
) -> Result<Vec<Option<String>>, E> {
    let bytes = most as usize;
    let countable = bytes.saturating_mul(MOST_BYTES_PER_TOKEN);
    let in_doubt = |text: &&str| (bytes + 1..=countable).contains(&text.len());
    // No token is shorter than a byte.
    let counts = tokens::count_all(texts.iter().copied().filter(in_doubt), count)?;
    let mut counts = counts.into_iter();
    let mut excerpts: Vec<Option<String>> = vec![None; texts.len()];
    let mut drafts = Vec::new();
    for (place, text) in texts.iter().enumerate() {
        let is_short = match in_doubt(text) {
            true => counts.next().is_some_and(|count| count <= most),
            false => text.len() <= bytes,
        };
        if !is_short && let Some(draft) = Draft::of(place, text.trim(), sought, most) {
            drafts.push(draft);
        }
    }
    if drafts.is_empty() {
        return Ok(excerpts);
    }
    // The counter may be another process: all texts are counted at once, and once more for each piece too many.
    let around = drafts.iter().flat_map(|draft| draft.around().iter().copied());
    let counts = tokens::count_all(around.chain([" …"]), count)?;
    let ellipses = 2 * counts.last().copied().map_or(0, u64::from);
    let mut rest = counts.as_slice();
    for draft in &mut drafts {
        let (own, others) = rest.split_at(draft.around().len().min(rest.len()));
        draft.grow(own, u64::from(most).saturating_sub(ellipses));
        rest = others;
    }
    while !drafts.is_empty() {
        let shown: Vec<String> = drafts.iter().map(Draft::shown).collect();
        let counts = tokens::count_all(shown.iter().map(String::as_str), count)?;
        let mut too_long = Vec::new();
        for ((mut draft, shown), tokens) in drafts.into_iter().zip(shown).zip(counts) {
            if tokens <= most {
                excerpts[draft.place] = (!draft.is_whole()).then_some(shown);
            } else if draft.shrink() {
                too_long.push(draft);
            } else {
                let room = most.saturating_sub(u32::try_from(ellipses).unwrap_or(u32::MAX));
                excerpts[draft.place] = Some(draft.beginning(room, count)?);
            }
        }
        drafts = too_long;
    }
    Ok(excerpts)
}

/// A passage of a text that is longer than may be told, as it comes about.
struct Draft<'a> {
    /// Of the text among the texts.
    place: usize,
    pieces: Vec<&'a str>,
    /// The first and the last piece of the passage.
    passage: (usize, usize),
    /// Those that have what is sought.
    core: (usize, usize),
    /// Those that may have room.
    reach: (usize, usize),
}

impl<'a> Draft<'a> {
    /// `None` without pieces.
    fn of(place: usize, text: &'a str, sought: &Sought, most: u32) -> Option<Self> {
        let pieces = pieces(text, most);
        let core = best(&pieces, sought, most)?;
        let from = core.0 - within_reach(pieces[..core.0].iter().rev(), most);
        let to = core.1 + within_reach(pieces[core.1 + 1..].iter(), most);
        Some(Self { place, pieces, passage: core, core, reach: (from, to) })
    }

    /// What may stand in the passage.
    fn around(&self) -> &[&'a str] {
        &self.pieces[self.reach.0..=self.reach.1]
    }

    /// Takes in what stands around the core, as far as there is room, with the tokens of what is within reach.
    fn grow(&mut self, counts: &[u32], room: u64) {
        let (from, to) = self.reach;
        let cost =
            |piece: usize| counts.get(piece - from).map_or(u64::MAX, |count| u64::from(*count));
        let (mut first, mut last) = self.passage;
        let taken = (first..=last).fold(0, |sum: u64, piece| sum.saturating_add(cost(piece)));
        let mut left = room.saturating_sub(taken);
        loop {
            let grown = (first, last);
            // An answer rather stands behind what asks for it.
            if last < to && cost(last + 1) <= left {
                last += 1;
                left -= cost(last);
            }
            if first > from && cost(first - 1) <= left {
                first -= 1;
                left -= cost(first);
            }
            if (first, last) == grown {
                break;
            }
        }
        self.passage = (first, last);
    }

    /// Gives up one piece; `false` if there is only one. Joined, pieces may have a token more than they are counted
    /// with, and what was estimated may have many.
    fn shrink(&mut self) -> bool {
        let (first, last) = &mut self.passage;
        if *last > self.core.1 || *last > *first && *first >= self.core.0 {
            *last -= 1;
        } else if *first < *last {
            *first += 1;
        } else {
            return false;
        }
        true
    }

    /// Whether nothing is cut after all.
    fn is_whole(&self) -> bool {
        self.passage == (0, self.pieces.len() - 1)
    }

    /// As a prompt tells it.
    fn shown(&self) -> String {
        let (first, last) = self.passage;
        let text = self.pieces[first..=last].concat();
        let before = if first > 0 { "… " } else { "" };
        let after = if last + 1 < self.pieces.len() { " …" } else { "" };
        format!("{before}{}{after}", text.trim())
    }

    /// The beginning of a piece that is too long by itself, with an ellipsis behind it.
    fn beginning<E>(&self, room: u32, count: &mut Counter<'_, E>) -> Result<String, E> {
        let piece = self.pieces[self.passage.0];
        let kept = cut::cut_to(piece, room, count)?;
        let kept = &kept[..whole_characters(&kept, piece)];
        Ok(if kept.is_empty() { ELLIPSIS.to_owned() } else { format!("{kept} {ELLIPSIS}") })
    }
}

/// How many of these pieces may have room in so many tokens; more than have.
fn within_reach<'a>(pieces: impl Iterator<Item = &'a &'a str>, most: u32) -> usize {
    let mut left = u64::from(most) * ESTIMATED_ABOVE;
    let within = pieces.take_while(|piece| {
        left = left.saturating_sub(u64::from(estimate_tokens(piece)).max(1));
        left > 0
    });
    within.count()
}

/// How many bytes of a beginning are whole characters as readers see them, accents and joined emoji included; all of
/// them if not even one is.
fn whole_characters(beginning: &str, text: &str) -> usize {
    let Some(at) = text.find(beginning) else { return beginning.len() };
    match boundary(text, at + beginning.len()) - at {
        0 => beginning.len(),
        whole => whole,
    }
}

/// The place at or before `at` where no character is cut, as readers see them.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = text.floor_char_boundary(at);
    while at > 0 && !is_boundary(text, at) {
        at = text.floor_char_boundary(at - 1);
    }
    at
}

/// Whether no character is cut at this place, as readers see them.
fn is_boundary(text: &str, at: usize) -> bool {
    matches!(GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0), Ok(true))
}

/// A text in sentences, and in parts of those that are too long to be told as a whole. Joined, they are the text.
fn pieces(text: &str, most: u32) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in sentences::ends(text).into_iter().filter(|end| is_boundary(text, *end)) {
        let sentence = &text[start..end];
        start = end;
        // An estimate may be a little too low.
        let is_short = sentence.len() <= most as usize
            || u64::from(estimate_tokens(sentence)) * 4 <= u64::from(most) * 3;
        if is_short { pieces.push(sentence) } else { split(sentence, most as usize, &mut pieces) }
    }
    pieces
}

/// Splits a long sentence into parts of at most so many bytes: behind a line, else behind a word, else behind a
/// character as readers see them.
fn split<'a>(mut sentence: &'a str, most: usize, parts: &mut Vec<&'a str>) {
    while sentence.len() > most {
        let part = &sentence[..sentence.floor_char_boundary(most)];
        let behind = |at: Option<usize>| {
            let end = at? + part[at?..].chars().next().map_or(0, char::len_utf8);
            // Blanks at the beginning are no word, and an accent may stand on a blank.
            (!part[..end].trim().is_empty() && is_boundary(sentence, end)).then_some(end)
        };
        let end = behind(part.rfind('\n'))
            .or_else(|| behind(part.rfind(char::is_whitespace)))
            .or_else(|| Some(boundary(sentence, part.len())).filter(|end| *end > 0))
            .or_else(|| sentence.graphemes(true).next().map(str::len))
            .unwrap_or(sentence.len());
        let (part, rest) = sentence.split_at(end);
        parts.push(part);
        sentence = rest;
    }
    if !sentence.is_empty() {
        parts.push(sentence);
    }
}

/// The first and the last piece of the shortest passage that has most of what is sought, of those that are estimated
/// at `most` tokens or fewer. Without any such word, it is the first piece. `None` without pieces.
fn best(pieces: &[&str], sought: &Sought, most: u32) -> Option<(usize, usize)> {
    let found: Vec<Vec<usize>> = pieces.iter().map(|piece| sought.found_in(piece)).collect();
    let weights = sought.weights(&found);
    let costs: Vec<u64> = pieces.iter().map(|piece| estimate_tokens(piece).into()).collect();
    let lengths = |first: usize, last: usize| pieces[first..=last].iter().map(|p| p.len()).sum();
    let mut best: Option<(f64, usize, (usize, usize))> = None;
    let mut seen = vec![0_u32; weights.len()];
    let (mut left, mut cost, mut score) = (0, 0, 0.0);
    for right in 0..pieces.len() {
        cost += costs[right];
        for &word in &found[right] {
            score += if seen[word] == 0 { weights[word] } else { 0.0 };
            seen[word] += 1;
        }
        // What is too long, or says nothing that is not said behind it, goes.
        while left < right
            && (cost > u64::from(most) || found[left].iter().all(|&word| seen[word] > 1))
        {
            cost -= costs[left];
            for &word in &found[left] {
                seen[word] -= 1;
                score -= if seen[word] == 0 { weights[word] } else { 0.0 };
            }
            left += 1;
        }
        let length = lengths(left, right);
        let is_better = best.is_none_or(|(known, shortest, _)| {
            score > known + EQUAL || score > known - EQUAL && length < shortest && score > EQUAL
        });
        if is_better {
            best = Some((score, length, (left, right)));
        }
    }
    best.map(|(_, _, passage)| passage)
}

#[cfg(test)]
#[path = "excerpt_tests.rs"]
mod tests;
