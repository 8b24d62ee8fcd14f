//! Numbers in words of other languages than English, and in Chinese numerals.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::text::phrases;
use crate::text::words::Word;

/// Longest part of a number, longest word, and most words of a number that are read.
const MAX_PART: usize = 14;
const MAX_BYTES: usize = 80;
const MAX_WORDS: usize = 8;

/// How a part of a number follows the one before.
#[derive(Clone, Copy, PartialEq)]
enum Joined {
    Inside,
    Behind,
    And,
}

/// The values of a language's words; what joins them has none.
type Values = HashMap<&'static str, Option<f64>>;

static LANGUAGES: LazyLock<Vec<Values>> = LazyLock::new(|| {
    let lines = phrases::lines(include_str!("number_words.txt")).flatten();
    lines.map(|line| phrases::numbered(line.text).into_iter().collect()).collect()
});

/// The words of all languages: most words of a text begin with none of them.
static ALL: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| LANGUAGES.iter().flat_map(|language| language.keys().copied()).collect());

/// The ends of the parts that a text may begin with.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().map(|(at, c)| at + c.len_utf8()).take(MAX_PART)
}

/// What a number may be that begins with a word, and of how many words it is: each language may read another one.
pub(super) fn read(words: &[Word<'_>], at: usize) -> Vec<(f64, usize)> {
    let word = words[at].folded.as_str();
    if !ends(word).any(|end| ALL.contains(&word[..end])) {
        return Vec::new();
    }
    let mut found: Vec<(f64, usize)> =
        LANGUAGES.iter().filter_map(|language| sequence(language, words, at)).collect();
    let most = found.iter().map(|(_, length)| *length).max();
    found.retain(|(_, length)| Some(*length) == most);
    found.dedup();
    found
}

/// The value of a word that is a number by itself.
pub(super) fn value(word: &str) -> Option<f64> {
    LANGUAGES.iter().find_map(|language| {
        let mut number = Sum::default();
        (number.take(&parts(language, word)?, Joined::Inside)).then(|| number.value())
    })
}

fn sequence(language: &Values, words: &[Word<'_>], at: usize) -> Option<(f64, usize)> {
    let mut number = Sum::default();
    let (mut length, mut joined) = (0, Joined::Inside);
    for (read, word) in words[at..].iter().take(MAX_WORDS).enumerate() {
        if read > 0 && words[at + read - 1].clause != word.clause {
            break;
        }
        if read > 0 && language.get(word.folded.as_str()) == Some(&None) {
            joined = Joined::And;
            continue;
        }
        let Some(parts) = parts(language, &word.folded) else { break };
        let mut next = number;
        if !next.take(&parts, joined) {
            break;
        }
        (number, length, joined) = (next, read + 1, Joined::Behind);
    }
    (length > 0).then(|| (number.value(), length))
}

/// The parts of a word that is nothing but a number: longer ones first.
fn parts(language: &Values, word: &str) -> Option<Vec<Option<f64>>> {
    let (mut found, mut rest) = (Vec::new(), word);
    if word.len() > MAX_BYTES {
        return None;
    }
    while !rest.is_empty() {
        let longest = ends(rest).filter(|end| language.contains_key(&rest[..*end])).last()?;
        found.push(language[&rest[..longest]]);
        rest = rest[longest..].trim_start_matches('-');
    }
    let is_number = matches!((found.first(), found.last()), (Some(Some(_)), Some(Some(_))));
    is_number.then_some(found)
}

/// A number while its parts are read.
#[derive(Clone, Copy, Default)]
struct Sum {
    thousands: f64,
    rest: f64,
    last: f64,
}

impl Sum {
    fn value(self) -> f64 {
        self.thousands + self.rest
    }

    /// Whether the parts of a word belong to it.
    fn take(&mut self, parts: &[Option<f64>], joined: Joined) -> bool {
        let mut joined = joined;
        for part in parts {
            let Some(value) = *part else {
                joined = Joined::And;
                continue;
            };
            if !self.add(value, joined) {
                return false;
            }
            joined = Joined::Inside;
        }
        true
    }

    fn add(&mut self, value: f64, joined: Joined) -> bool {
        let last = self.last;
        self.last = value;
        if value == 1000.0 && self.thousands == 0.0 {
            (self.thousands, self.rest) = (self.rest.max(1.0) * 1000.0, 0.0);
        } else if last == 0.0 || last > value && last % 10.0 == 0.0 {
            self.rest += value;
        } else if last < 10.0
            && (value == 100.0 || joined == Joined::Inside && matches!(value, 10.0 | 20.0))
        {
            // "dreihundert", "quatre-vingt", "pięćdziesiąt"
            self.rest += last * value - last;
            self.last = last * value;
        } else if last < 10.0 && joined == Joined::And && value % 10.0 == 0.0 && value < 100.0 {
            // "fünfundzwanzig"
            self.rest += value;
        } else {
            return false;
        }
        true
    }
}

fn cjk_value(c: char) -> Option<f64> {
    Some(match c {
        '〇' | '零' => 0.0,
        '一' => 1.0,
        '二' | '两' | '兩' => 2.0,
        '三' => 3.0,
        '四' => 4.0,
        '五' => 5.0,
        '六' => 6.0,
        '七' => 7.0,
        '八' => 8.0,
        '九' => 9.0,
        '十' => 10.0,
        '百' => 100.0,
        '千' => 1000.0,
        '万' | '萬' => 10_000.0,
        _ => return None,
    })
}

/// The numbers of a word in Chinese and Japanese numerals.
pub(super) fn numerals(word: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let (mut total, mut current, mut any) = (0.0, 0.0, false);
    for c in word.chars().chain(std::iter::once(' ')) {
        match cjk_value(c) {
            Some(value) if value >= 10.0 => {
                total += if current == 0.0 { value } else { current * value };
                (current, any) = (0.0, true);
            }
            Some(value) => (current, any) = (value, true),
            None if any => {
                found.push(total + current);
                (total, current, any) = (0.0, 0.0, false);
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::text::words::words;

    #[test]
    fn numbers_are_read_by_their_parts() {
        for (said, expected) in [
            ("zwei", 2.0),
            ("vierundzwanzig", 24.0),
            ("dreihundertfünfundzwanzig", 325.0),
            ("zweitausendfünf", 2005.0),
            ("eenentwintig", 21.0),
            ("quatre-vingt-dix", 90.0),
            ("quatre-vingts", 80.0),
            ("cent quatre-vingt-dix-sept", 197.0),
            ("soixante et onze", 71.0),
            ("veintidós", 22.0),
            ("treinta y dos", 32.0),
            ("doscientos", 200.0),
            ("mil quinientos", 1500.0),
            ("ventitré", 23.0),
            ("quarantotto", 48.0),
            ("cento e vinte e cinco", 125.0),
            ("dwadzieścia trzy", 23.0),
            ("pięćdziesiąt", 50.0),
            ("pětadvacet", 25.0),
            ("двадцать три", 23.0),
            ("пятьсот", 500.0),
            ("трёх", 3.0),
            ("п’ятдесят", 50.0),
            ("huszonkettő", 22.0),
            ("yirmi iki", 22.0),
            ("스물다섯", 25.0),
            ("이십오", 25.0),
        ] {
            let found = words(said);
            let read = read(&found, 0);
            assert!(read.contains(&(expected, found.len())), "{said}: {read:?}");
        }
        // Two numbers, and none.
        assert_eq!(read(&words("два три"), 0), [(2.0, 1)]);
        assert_eq!(read(&words("dreist"), 0), []);
        assert_eq!(read(&words("und zwei"), 0), []);
    }
}
