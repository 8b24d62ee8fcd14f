//! What a prompt tells of a long text: a passage around the words of the question, with an ellipsis where it is cut.
//!
//! A text is taken apart into sentences, and sentences too long to be told into parts. Of all passages that may be
//! told, the best has the most words of the question, the rare ones before those that are everywhere in the text;
//! what stands around them fills the rest.

use crate::sentences;
use crate::tokens::{self, Counter, estimate_tokens};
use crate::{cut, words_sought::Sought};
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
    let mut excerpts = Vec::with_capacity(texts.len());
    for text in texts {
        let is_short = match in_doubt(text) {
            true => counts.next().is_some_and(|count| count <= most),
            false => text.len() <= bytes,
        };
        excerpts.push(if is_short { None } else { excerpt(text.trim(), sought, most, count)? });
    }
    Ok(excerpts)
}

/// The passage of a text that is longer than `most` tokens; `None` if it is not after all.
fn excerpt<E>(
    text: &str,
    sought: &Sought,
    most: u32,
    count: &mut Counter<'_, E>,
) -> Result<Option<String>, E> {
    let pieces = pieces(text, most);
    let Some((mut first, mut last)) = best(&pieces, sought, most) else { return Ok(None) };
    let (core_first, core_last) = (first, last);

    // What may stand around it, counted at once.
    let from = first - within_reach(pieces[..first].iter().rev(), most);
    let to = last + within_reach(pieces[last + 1..].iter(), most);
    let counts = tokens::count_all(pieces[from..=to].iter().copied(), count)?;
    let cost = |piece: usize| u64::from(counts[piece - from]);
    let ellipses = 2 * u64::from(tokens::count_one(" …", count)?);
    let taken = (first..=last).map(cost).sum::<u64>() + ellipses;
    let mut left = u64::from(most).saturating_sub(taken);
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

    // Joined, pieces may have a token more, and what was estimated may have many.
    loop {
        if first == 0 && last == pieces.len() - 1 && tokens::count_one(text, count)? <= most {
            return Ok(None);
        }
        let shown = shown(&pieces, first, last);
        if tokens::count_one(&shown, count)? <= most {
            return Ok(Some(shown));
        }
        if last > core_last || last > first && first >= core_first {
            last -= 1;
        } else if first < last {
            first += 1;
        } else {
            break;
        }
    }
    let room = most.saturating_sub(u32::try_from(ellipses).unwrap_or(u32::MAX));
    let kept = cut::cut_to(pieces[first], room, count)?;
    let kept = &kept[..whole_characters(&kept, pieces[first])];
    Ok(Some(if kept.is_empty() { ELLIPSIS.to_owned() } else { format!("{kept} {ELLIPSIS}") }))
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

/// These pieces as a prompt tells them.
fn shown(pieces: &[&str], first: usize, last: usize) -> String {
    let text = pieces[first..=last].concat();
    let before = if first > 0 { "… " } else { "" };
    let after = if last + 1 < pieces.len() { " …" } else { "" };
    format!("{before}{}{after}", text.trim())
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
