//! The words of a question, and where a text has them.

use std::collections::HashMap;

use crate::text::words::parts;

/// Shorter words of the Latin alphabet are mostly function words; names and abbreviations are told by their capitals.
const SHORT: usize = 3;
/// Words with this beginning are taken for forms of one word.
const BEGINNING: usize = 4;
/// Characters from which on a word is no more telling for being longer.
const LONG: usize = 8;

/// What is sought in texts: the words of a question, and the beginnings of the longer ones, each once. Where a script
/// has no spaces, a pair of characters is a word.
#[derive(Debug, Default)]
pub struct Sought {
    words: HashMap<String, usize>,
    beginnings: HashMap<String, usize>,
    /// How telling each is by itself.
    tells: Vec<f64>,
}

impl Sought {
    /// The words of a question.
    #[must_use]
    pub fn of(question: &str) -> Self {
        let mut sought = Self::default();
        for (place, word) in words(question).enumerate() {
            if !is_telling(word, place == 0) {
                continue;
            }
            let length = word.chars().count().min(LONG);
            let tells = length as f64 / LONG as f64;
            let text = word.to_lowercase();
            if let Some(beginning) = beginning(&text) {
                let next = sought.tells.len();
                if *sought.beginnings.entry(beginning.to_owned()).or_insert(next) == next {
                    sought.tells.push(tells);
                }
            }
            let next = sought.tells.len();
            if *sought.words.entry(text).or_insert(next) == next {
                sought.tells.push(tells);
            }
        }
        sought
    }

    /// What of it a text has, each once.
    pub(crate) fn found_in(&self, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        if self.tells.is_empty() {
            return found;
        }
        for word in words(text) {
            let word = word.to_lowercase();
            let beginning = beginning(&word).and_then(|begin| self.beginnings.get(begin));
            found.extend(self.words.get(&word).into_iter().chain(beginning));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What each is worth, given what the parts of a text have: the fewer have it, the more.
    pub(crate) fn weights(&self, found: &[Vec<usize>]) -> Vec<f64> {
        let mut having = vec![0_usize; self.tells.len()];
        for &one in found.iter().flatten() {
            having[one] += 1;
        }
        let rarity = |having: usize| (1.0 + found.len() as f64 / having.max(1) as f64).ln();
        self.tells.iter().zip(having).map(|(tells, having)| tells * rarity(having)).collect()
    }
}

/// Whether a word of a question says what it is about. The first one has a capital anyway.
fn is_telling(word: &str, is_first: bool) -> bool {
    let is_long = !word.is_ascii() || word.len() > SHORT;
    let has_capital = word.starts_with(|c: char| c.is_ascii_uppercase()) && !is_first;
    let is_abbreviation = word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let is_marked = has_capital || is_abbreviation || word.contains(|c: char| c.is_ascii_digit());
    is_long || word.len() > 1 && is_marked
}

/// The words of a text; of a script without spaces, each two characters that stand together.
fn words(text: &str) -> impl Iterator<Item = &str> {
    parts(text).flat_map(|run| {
        let mut words = Vec::new();
        let mut start = 0;
        while let Some(first) = run[start..].chars().next() {
            let dense = has_no_spaces(first);
            let rest = &run[start..];
            let length = rest.find(|c| has_no_spaces(c) != dense).unwrap_or(rest.len());
            let part = &rest[..length];
            start += length;
            if dense {
                pairs(part, &mut words);
            } else {
                words.push(part);
            }
        }
        words
    })
}

fn pairs<'a>(run: &'a str, words: &mut Vec<&'a str>) {
    let places: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    let mut push = |from: usize, to: usize| words.push(&run[places[from]..places[to]]);
    match places.len() {
        0..=2 => push(0, places.len() - 1),
        many => (2..many).for_each(|end| push(end - 2, end)),
    }
}

/// Whether the script of a letter has no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.
fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// The beginning of a word that inflection mostly leaves alone; `None` if it is too short to have one.
fn beginning(word: &str) -> Option<&str> {
    word.char_indices().nth(BEGINNING - 1).map(|(at, c)| &word[..at + c.len_utf8()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(question: &str, text: &str) -> usize {
        Sought::of(question).found_in(text).len()
    }

    #[test]
    fn words_and_their_forms_are_found() {
        assert_eq!(found("Which port?", "The port is 5433."), 2, "the word and its beginning");
        assert_eq!(found("Which port?", "Ports are open"), 1, "its beginning");
        assert_eq!(found("Is it so?", "It is so"), 0, "what every text has");
        assert_eq!(found("Who is Eva?", "eva came"), 1);
        assert_eq!(found("Which is v2?", "V2 came"), 1);
        assert_eq!(found("AWS or GCP?", "Aws"), 1);
        assert_eq!(found("", "anything"), 0);
        assert_eq!(found("Кто живёт?", "живёт"), 2);
    }

    #[test]
    fn scripts_without_spaces_have_pairs() {
        assert_eq!(found("用户对榛子过敏吗", "他说榛子很好"), 1);
        assert_eq!(found("猫", "猫"), 1);
        assert_eq!(found("PostgreSQL数据库", "数据库 postgresql"), 4);
        assert!(found("แพ้ถั่ว", "ถั่ว") > 0);
    }

    #[test]
    fn what_is_rare_is_worth_more() {
        let sought = Sought::of("shard leader");
        let texts = ["shard", "shard", "shard leader"];
        let found: Vec<Vec<usize>> = texts.iter().map(|text| sought.found_in(text)).collect();
        let weights = sought.weights(&found);
        let of = |word: &str| weights[sought.words[word]];
        assert!(of("leader") > of("shard"), "{weights:?}");
    }
}
