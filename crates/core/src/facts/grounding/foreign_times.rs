//! What words of another language than English mean on the day that they were said: "morgen", "la semaine dernière",
//! "tre anni fa". The phrases are those of the [language](Language).

use std::ops::RangeInclusive;

use chrono::NaiveDate;

use crate::text::calendar::Distance;
use crate::text::language::Language;
use crate::text::words::{self, Word, words};

/// The words that mean a time, by their numbers, and the time. They stand in one clause and outside quotation marks.
pub(super) fn foreign_times(
    words: &[Word<'_>],
    language: &Language,
) -> Vec<(RangeInclusive<usize>, Distance)> {
    let mut found = Vec::new();
    let mut begin = 0;
    for clause in words.chunk_by(|left, right| left.clause == right.clause) {
        let parts = parts(clause);
        let texts: Vec<&str> = parts.iter().map(|part| part.text).collect();
        for (range, distance) in language.distances(&texts) {
            let named = &parts[range];
            let (Some(first), Some(last)) = (named.first(), named.last()) else { continue };
            if first.may_begin() && last.ends_its_word() && !first.word.is_quoted {
                found.push((begin + first.at..=begin + last.at, distance));
            }
        }
        begin += clause.len();
    }
    found
}

/// A word as lists of phrases have it: "d'hier" and "après-demain" are two.
struct Part<'a> {
    text: &'a str,
    word: &'a Word<'a>,
    at: usize,
}

fn parts<'a>(words: &'a [Word<'_>]) -> Vec<Part<'a>> {
    let of_word = |(at, word): (usize, &'a Word<'a>)| {
        words::parts(word.raw).map(move |text| Part { text, word, at })
    };
    words.iter().enumerate().flat_map(of_word).collect()
}

impl Part<'_> {
    /// Whether a phrase can begin with it. Within a sentence, what begins with a capital is a noun or a name: "am
    /// Morgen", "USA Today".
    fn may_begin(&self) -> bool {
        let before =
            &self.word.raw[..self.text.as_ptr() as usize - self.word.raw.as_ptr() as usize];
        let begins_sentence = self.word.is_first && before.is_empty();
        (before.is_empty() || before.ends_with(['\'', '’']))
            && (begins_sentence || !self.text.starts_with(char::is_uppercase))
    }

    /// Not "heute" of "heute-show".
    fn ends_its_word(&self) -> bool {
        self.word.raw.ends_with(self.text)
            && self.text.as_bytes().as_ptr_range().end
                == self.word.raw.as_bytes().as_ptr_range().end
    }
}

/// A statement with the date in parentheses behind each phrase for a time: "morgen (2026-11-28)". Its words stay,
/// because a date in their place needs other words around it. A statement that names a date is left as it is.
pub(super) fn annotated(statement: &str, said: NaiveDate, language: &Language) -> String {
    let words = words(statement);
    let texts: Vec<&str> = parts(&words).iter().map(|part| part.text).collect();
    if language.names_a_date(&texts) {
        return statement.to_owned();
    }
    let (mut text, mut written) = (String::new(), 0);
    for (phrase, distance) in foreign_times(&words, language) {
        let behind = words[*phrase.end()].end();
        if let Some(date) = distance.in_digits(said)
            && !begins_with_a_date(&statement[behind..])
        {
            text.push_str(&statement[written..behind]);
            text.push_str(&format!(" ({date})"));
            written = behind;
        }
    }
    text.push_str(&statement[written..]);
    text
}

/// Whether digits in parentheses follow.
fn begins_with_a_date(rest: &str) -> bool {
    let inner = rest.trim_start().strip_prefix('(').unwrap_or_default();
    inner.trim_start_matches(['~', '+', '-']).starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
#[path = "foreign_times_tests.rs"]
mod tests;
