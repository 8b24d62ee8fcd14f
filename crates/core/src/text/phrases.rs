//! Word lists: their file format and how they are found in text.
//!
//! A list is plain text. `#` starts a comment, `[name]` opens a section, every
//! other line is a phrase of the section:
//!
//! - words are separated by spaces and match whole words, in any letter case;
//! - `a|b` is either word, a trailing `?` makes a word optional;
//! - `:` and `,` stand for themselves; a phrase that ends in a colon is a label;
//! - in lists of numbers, a number is what the words before it mean: `two couple 2`;
//! - a phrase that starts with `!` is a false friend: it voids every phrase of
//!   its section that it overlaps in the text.
//!
//! Two section names are special. `[question]` holds words that open a question;
//! phrases in a sentence that starts with one and ends in `?` do not count,
//! labels excepted. `[filler]` holds words that may stand before such an opener.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A line of a word list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("word list line {line}: {problem}")]
pub(crate) struct PhraseListError {
    line: usize,
    problem: &'static str,
}

/// A word of a text, or one of the punctuation marks `: , . ! ? ;` as a token of
/// its own. Lower case, with the typewriter apostrophe.
#[derive(Debug)]
struct Token<'a> {
    folded: Cow<'a, str>,
    /// Number of the sentence the token belongs to.
    sentence: usize,
}

#[derive(Debug)]
struct Phrase {
    section: usize,
    words: Vec<String>,
    is_false_friend: bool,
}

impl Phrase {
    fn is_label(&self) -> bool {
        self.words.last().is_some_and(|word| word == ":")
    }
}

/// A word list, ready to be searched for.
#[derive(Debug, Default)]
pub(crate) struct PhraseList {
    sections: Vec<String>,
    by_first_word: HashMap<String, Vec<Phrase>>,
    question_openers: HashSet<String>,
    fillers: HashSet<String>,
}

impl PhraseList {
    /// Reads a word list.
    pub(crate) fn parse(source: &str) -> Result<Self, PhraseListError> {
        let mut list = Self::default();
        for line in lines(source) {
            let Line { number, section, text } = line?;
            match section {
                "question" => list.question_openers.extend(words_of(text)),
                "filler" => list.fillers.extend(words_of(text)),
                _ => list.add(section, text).map_err(|problem| error(number, problem))?,
            }
        }
        Ok(list)
    }

    fn add(&mut self, section: &str, line: &str) -> Result<(), &'static str> {
        let known = self.sections.iter().position(|name| name == section);
        let section = known.unwrap_or_else(|| {
            self.sections.push(section.to_owned());
            self.sections.len() - 1
        });
        let is_false_friend = line.starts_with('!');
        for words in expand(line.trim_start_matches('!')) {
            let words: Vec<String> = words.iter().map(|word| folded(word)).collect();
            let first = words.first().ok_or("all words are optional")?.clone();
            self.by_first_word.entry(first).or_default().push(Phrase {
                section,
                words,
                is_false_friend,
            });
        }
        Ok(())
    }

    /// The names of all sections with phrases, in the order of the list.
    pub(crate) fn sections(&self) -> &[String] {
        &self.sections
    }

    /// The names of the sections of which at least one phrase is in the text, in
    /// the order of the list.
    pub(crate) fn find(&self, text: &str) -> impl Iterator<Item = &str> {
        let found = self.find_sections(&tokens(text));
        self.sections.iter().zip(found).filter_map(|(name, found)| found.then_some(name.as_str()))
    }

    fn find_sections(&self, tokens: &[Token]) -> Vec<bool> {
        let in_question = self.questions(tokens);
        let mut hits = Vec::new();
        // Sections and tokens that a false friend covers.
        let mut voided = HashSet::new();
        for start in 0..tokens.len() {
            let Some(phrases) = self.by_first_word.get(tokens[start].folded.as_ref()) else {
                continue;
            };
            for phrase in phrases {
                let end = start + phrase.words.len();
                let matches = tokens.get(start..end).is_some_and(|window| {
                    window.iter().zip(&phrase.words).all(|(token, word)| token.folded == *word)
                });
                if !matches {
                    continue;
                }
                if phrase.is_false_friend {
                    voided.extend((start..end).map(|token| (phrase.section, token)));
                } else if phrase.is_label() || !in_question.contains(&tokens[start].sentence) {
                    hits.push((phrase.section, start, end));
                }
            }
        }
        let mut found = vec![false; self.sections.len()];
        for (section, start, end) in hits {
            found[section] |= !(start..end).any(|token| voided.contains(&(section, token)));
        }
        found
    }

    /// The sentences that ask something.
    fn questions(&self, tokens: &[Token]) -> HashSet<usize> {
        let mut questions = HashSet::new();
        for sentence in tokens.chunk_by(|a, b| a.sentence == b.sentence) {
            let opener = sentence
                .iter()
                .find(|token| token.folded != "," && !self.fillers.contains(token.folded.as_ref()));
            let asks =
                opener.is_some_and(|word| self.question_openers.contains(word.folded.as_ref()));
            if asks && sentence.last().is_some_and(|token| token.folded == "?") {
                questions.insert(sentence[0].sentence);
            }
        }
        questions
    }
}

/// A line of a list that is no comment, no section's name and not empty.
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) section: &'a str,
    pub(crate) text: &'a str,
}

pub(crate) fn error(line: usize, problem: &'static str) -> PhraseListError {
    PhraseListError { line, problem }
}

/// The lines of a list, each with the section it stands in.
pub(crate) fn lines(source: &str) -> impl Iterator<Item = Result<Line<'_>, PhraseListError>> {
    let mut section = None;
    source.lines().zip(1..).filter_map(move |(line, number)| {
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            return None;
        }
        let Some(name) = text.strip_prefix('[') else {
            let section = section.ok_or(error(number, "a phrase needs a section"));
            return Some(section.map(|section| Line { number, section, text }));
        };
        section = name.strip_suffix(']');
        section.is_none().then(|| Err(error(number, "a section needs ]")))
    })
}

/// The words of a line and the numbers that they mean: those behind them, none behind the last number.
pub(crate) fn numbered(line: &str) -> Vec<(&str, Option<f64>)> {
    let mut words: Vec<(&str, Option<f64>)> = Vec::new();
    let mut meant = 0;
    for word in line.split_whitespace() {
        match word.parse().ok().filter(|_| word.ends_with(|c: char| c.is_ascii_digit())) {
            Some(number) => {
                words[meant..].iter_mut().for_each(|(_, value)| *value = Some(number));
                meant = words.len();
            }
            None => words.push((word, None)),
        }
    }
    words
}

fn words_of(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(folded)
}

/// All the word sequences that a phrase with alternatives stands for.
pub(crate) fn expand(phrase: &str) -> Vec<Vec<String>> {
    let mut sequences: Vec<Vec<String>> = vec![Vec::new()];
    for item in phrase.split_whitespace() {
        let (words, optional) = match item.strip_suffix('?') {
            Some(words) => (words, true),
            None => (item, false),
        };
        let mut longer = if optional { sequences.clone() } else { Vec::new() };
        for word in words.split('|') {
            longer.extend(sequences.iter().map(|sequence| {
                let mut sequence = sequence.clone();
                sequence.push(word.to_owned());
                sequence
            }));
        }
        sequences = longer;
    }
    sequences
}

/// Splits text into words and the punctuation marks that carry meaning here.
///
/// A full stop ends a sentence only before white space, so `v1.2` is one; an
/// empty line ends it too.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut sentence = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_word_char(first) { word_length(rest) } else { first.len_utf8() };
        let (raw, tail) = rest.split_at(length);
        if is_word_char(first) {
            let folded = fold(raw);
            tokens.push(Token { folded, sentence });
        } else if matches!(first, ':' | ',' | '.' | '!' | '?' | ';') {
            let folded = Cow::Borrowed(raw);
            tokens.push(Token { folded, sentence });
            let ends_sentence = match first {
                ':' | ',' => false,
                '.' => tail.chars().next().is_none_or(char::is_whitespace),
                _ => true,
            };
            sentence += usize::from(ends_sentence);
        } else if first == '\n' && tail.trim_start_matches([' ', '\t', '\r']).starts_with('\n') {
            sentence += 1;
        }
        rest = tail;
    }
    tokens
}

fn is_word_char(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Bytes of the word that `text` starts with; an apostrophe between two letters
/// belongs to it.
fn word_length(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((position, character)) = characters.next() {
        let inside = is_word_char(character)
            || (matches!(character, '\'' | '’')
                && characters.peek().is_some_and(|(_, next)| next.is_alphanumeric()));
        if !inside {
            return position;
        }
    }
    text.len()
}

/// A word of a list, folded as those of texts are.
pub(crate) fn folded(word: &str) -> String {
    fold(word).into_owned()
}

fn fold(word: &str) -> Cow<'_, str> {
    let is_folded = |character: char| !character.is_uppercase() && character != '’';
    if word.chars().all(is_folded) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(word.to_lowercase().replace('’', "'"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: &str = "
# A list for these tests.
[question]
did  is

[filler]
so

[choice]   # a section
we|i have? chosen
choice :
!never|not chosen

[other]
plan b
";

    fn find(text: &str) -> Vec<String> {
        let list = PhraseList::parse(LIST).unwrap();
        list.find(text).map(str::to_owned).collect()
    }

    #[test]
    fn alternatives_and_optional_words_are_expanded() {
        let expanded = expand("a|b c? d");
        let joined: Vec<String> = expanded.iter().map(|words| words.join(" ")).collect();
        assert_eq!(joined, ["a d", "b d", "a c d", "b c d"]);
    }

    #[test]
    fn phrases_match_words_across_lines_marks_and_case() {
        for text in ["we chosen", "I HAVE chosen", "well, we\nhave *chosen* it", "(we chosen)"] {
            assert_eq!(find(text), ["choice"], "{text:?}");
        }
        for text in ["we. chosen", "wee chosen", "we have been chosen", "iwe chosen"] {
            assert!(find(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn phrases_match_however_the_list_writes_them() {
        let list =
            "[question]\nIst\n[filler]\nAlso\n[goal]\nIch MÖCHTE\nJ’aimerais\n!Ich möchte NICHT";
        let list = PhraseList::parse(list).unwrap();
        let is_found = |text: &str| list.find(text).next().is_some();
        for text in ["ich möchte", "ICH MÖCHTE", "j'aimerais", "J’AIMERAIS"] {
            assert!(is_found(text), "{text}");
        }
        for text in ["ich möchte nicht", "also ist das, was ich möchte?", "ist ich möchte so?"] {
            assert!(!is_found(text), "{text}");
        }
    }

    #[test]
    fn false_friends_void_only_what_they_overlap() {
        assert!(find("we have chosen").len() == 1);
        // "not chosen" does not overlap "i chosen" elsewhere in the text.
        assert_eq!(find("it was not chosen, i chosen"), ["choice"]);
        assert!(find("never chosen").is_empty());
    }

    #[test]
    fn false_friends_of_one_section_leave_the_others_alone() {
        assert_eq!(find("not chosen: plan B"), ["other"]);
    }

    #[test]
    fn questions_silence_phrases_but_not_labels() {
        assert!(find("So is it plan b?").is_empty());
        assert_eq!(find("is it plan b."), ["other"]);
        assert_eq!(find("plan b, is it?"), ["other"]);
        assert_eq!(find("Is choice: red?"), ["choice"]);
        assert_eq!(find("Is it so? Then plan b"), ["other"]);
    }

    #[test]
    fn sections_come_in_the_order_of_the_list() {
        assert_eq!(find("plan b, and we have chosen it"), ["choice", "other"]);
    }

    #[test]
    fn tokens_keep_apostrophes_and_know_sentences() {
        let tokens = tokens("Don’t use v1.2! It's\n\n'ours'.");
        let folded: Vec<&str> = tokens.iter().map(|token| token.folded.as_ref()).collect();
        assert_eq!(folded, ["don't", "use", "v1", ".", "2", "!", "it's", "ours", "."]);
        let sentences: Vec<usize> = tokens.iter().map(|token| token.sentence).collect();
        assert_eq!(sentences, [0, 0, 0, 0, 0, 0, 1, 2, 2]);
    }

    #[test]
    fn malformed_lists_are_refused_with_their_line() {
        let error = |source: &str| PhraseList::parse(source).unwrap_err().to_string();
        assert_eq!(error("\nhello"), "word list line 2: a phrase needs a section");
        assert_eq!(error("[a"), "word list line 1: a section needs ]");
        assert_eq!(error("[a]\nb?"), "word list line 2: all words are optional");
    }

    proptest! {
        #[test]
        fn tokens_are_slices_of_the_folded_text_in_order(text in "[ -~]{0,120}|[a-z'’.?\n ]{0,80}") {
            let text = text.to_lowercase().replace('’', "'");
            let mut rest = text.as_str();
            for token in tokens(&text) {
                let at = rest.find(token.folded.as_ref());
                prop_assert!(at.is_some());
                rest = &rest[at.unwrap() + token.folded.len()..];
            }
        }

        #[test]
        fn a_phrase_is_found_between_any_other_words(before in "[a-z]{0,9}", after in "[a-z]{0,9}") {
            prop_assume!(before != "did" && before != "is" && before != "so");
            prop_assert_eq!(find(&format!("{before} plan b {after}")), ["other"]);
        }
    }
}
