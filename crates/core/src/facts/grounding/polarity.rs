//! What a source says and what it denies: the words that stand behind a negation, up to the end of their
//! clause.

use std::collections::HashMap;

use crate::text::word_lists::{List, negates_in_english};
use crate::text::words::{Word, stem};

/// Common words of Portuguese that languages where "no" is a negation do not have.
const PORTUGUESE: [&str; 9] =
    ["minha", "meu", "moro", "estou", "sou", "quero", "tenho", "nao", "pra"];

/// Words that in Portuguese often follow "no", which is "in the", and that no negation "no" of another language stands
/// before: "no ano passado".
const AFTER_PORTUGUESE_NO: [&str; 9] =
    ["ano", "mes", "dia", "fim", "proximo", "passado", "verao", "outono", "inverno"];

/// Whether a word is a negation, also one with its verb: "don't".
pub(super) fn negates(word: &Word<'_>) -> bool {
    word.is_in(List::Negation) || negates_in_english(&word.folded)
}

/// Whether words are Portuguese, where "no" is "in the".
fn is_portuguese(words: &[Word<'_>]) -> bool {
    words.iter().any(|word| PORTUGUESE.contains(&word.folded.as_str()))
        || (0..words.len()).any(|at| is_in_the(words, at))
}

/// Whether the word at a place is the "no" of "no ano passado".
fn is_in_the(words: &[Word<'_>], at: usize) -> bool {
    words[at].folded == "no"
        && words.get(at + 1).is_some_and(|next| AFTER_PORTUGUESE_NO.contains(&next.folded.as_str()))
}

/// Whether a statement has a negation.
pub(super) fn has_negation(words: &[Word<'_>]) -> bool {
    (0..words.len()).any(|at| negates(&words[at]) && !is_in_the(words, at))
}

/// Whether a text of a script without spaces holds a negation.
pub(super) fn negates_unspaced(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let is_negation = |at: usize, negation: &str| {
        let is_idiom = |idiom: &str| {
            idiom.match_indices(negation).any(|(inside, _)| {
                at.checked_sub(inside)
                    .and_then(|from| text.get(from..))
                    .is_some_and(|rest| rest.starts_with(idiom))
            })
        };
        !List::UnspacedIdiom.words().any(is_idiom)
    };
    // In Korean, "안" is a part of other words, too.
    let mut negations = List::Unspaced.words().chain(["안 "]);
    negations.any(|negation| text.match_indices(negation).any(|(at, _)| is_negation(at, negation)))
}

/// Whether a text says that something is not, or no longer, or not all of it.
pub(super) fn is_negating(words: &[Word<'_>]) -> bool {
    words.iter().any(|word| negates(word) || negates_by_itself(word))
}

/// Whether a word that is no negation says that something is not: "quit", "unhappy", "sugar-free".
fn negates_by_itself(word: &Word<'_>) -> bool {
    let name = word.folded.as_str();
    word.is_in(List::Negating)
        || word.is_in(List::Opposing)
        || name.split('-').any(|part| matches!(part, "free" | "non" | "ex" | "anti" | "less"))
        || (["un", "dis", "non", "im", "il", "mis"]
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.len() >= 5))
            && !List::Plain.begins(name))
        || (name.len() > 6 && name.ends_with("less"))
}

/// The content of a statement's words.
pub(super) fn content<'a>(words: &'a [Word<'_>]) -> impl Iterator<Item = &'a Word<'a>> + Clone {
    words.iter().filter(|word| !word.is_in(List::Empty) && !negates(word))
}

/// "No longer", "not anymore".
fn is_until_now(word: &Word<'_>) -> bool {
    matches!(word.folded.as_str(), "longer" | "anymore")
}

/// How a source says a word.
#[derive(Clone, Copy, Default)]
struct Said {
    /// Outside of every negation.
    plainly: bool,
    negated: bool,
    /// Before a negation of its part of a sentence, as what something is denied of.
    is_subject: bool,
}

/// What a source denies of what it says.
#[derive(Default)]
pub(super) struct Polarity {
    words: HashMap<String, Said>,
    /// Whether it says that something is not, in whatever words.
    pub is_negating: bool,
    /// Whether all of it is one clause with a negation.
    pub is_denial: bool,
    /// Whether something negates that no rule can tell the reach of: "No, thanks", "I quit", "unhappy".
    is_vague: bool,
}

impl Polarity {
    pub fn add(&mut self, text: &str, words: &[Word<'_>]) {
        let unspaced = negates_unspaced(text);
        self.is_negating |= unspaced || is_negating(words);
        let is_one_clause = words.last().is_none_or(|word| word.clause == words[0].clause)
            && !words.iter().any(|word| {
                word.is_in(List::Turn)
                    || matches!(word.folded.as_str(), "and" | "und" | "y" | "et" | "e" | "en")
            })
            && !text
                .trim_end_matches(['。', '.', '！', '!', '？'])
                .contains(['，', '、', '。', ',']);
        let is_portuguese = is_portuguese(words);
        let has_negation = unspaced || (0..words.len()).any(|at| denies(words, at, is_portuguese));
        self.is_denial |= is_one_clause && has_negation;
        let is_vague = |at: usize| match negates(&words[at]) {
            true => !reaches(words, at, is_portuguese),
            false => negates_by_itself(&words[at]),
        };
        self.is_vague |= unspaced || (0..words.len()).any(is_vague);
        let mut until = None;
        let mut owned: u8 = 0;
        // Where the part of a sentence begins that is read.
        let mut part = 0;
        for (at, word) in words.iter().enumerate() {
            let name = word.folded.as_str();
            let next = words.get(at + 1).map_or("", |word| word.folded.as_str());
            // "They cannot come, as Helen is ill"
            let is_reason = name == "as"
                && (List::Subject.has(next) || words.get(at + 1).is_some_and(Word::is_capitalised));
            let turns =
                word.is_in(List::Turn) || is_reason || (name == "and" && List::Subject.has(next));
            if turns || at.checked_sub(1).is_some_and(|at| words[at].clause != word.clause) {
                (until, part) = (None, at);
            }
            if denies(words, at, is_portuguese) {
                for word in &words[part..at] {
                    if let Some(said) = self.words.get_mut(stem(&word.folded)) {
                        said.is_subject = true;
                    }
                }
                (until, part, owned) = (Some(word.clause), at + 1, 0);
                continue;
            }
            if List::Owner.has(name) {
                owned = 3;
                continue;
            }
            let said = self.words.entry(stem(name).to_owned()).or_default();
            match until {
                Some(_) if owned > 0 => {}
                Some(_) => said.negated = true,
                None => said.plainly = true,
            }
            owned = if List::Empty.has(name) { 0 } else { owned.saturating_sub(1) };
        }
    }

    /// Whether a statement negates only what the source says plainly, whatever else the source negates: "The user
    /// does not drink milk" of "I don't eat meat, but I drink milk".
    pub fn affirms(&self, statement: &[Word<'_>]) -> bool {
        let mut content = content(statement)
            .filter(|word| !is_until_now(word))
            .map(|word| self.words.get(stem(&word.folded)))
            .peekable();
        !self.is_vague
            && content.peek().is_some()
            && content.all(|said| {
                said.is_some_and(|said| said.plainly && !said.negated && !said.is_subject)
            })
    }

    /// Whether a statement that negates nothing repeats what the source says of something that is not.
    pub fn denies(&self, statement: &[Word<'_>]) -> bool {
        let said =
            |word: &Word<'_>| self.words.get(stem(&word.folded)).copied().unwrap_or_default();
        let (mut negated, mut plainly) = (0, 0);
        for word in content(statement) {
            match said(word) {
                // Who or what is spoken of is there, whatever is denied of it.
                Said { plainly: true, is_subject, .. }
                    if is_subject || word.is_in(List::Relation) => {}
                // "I don't like tea, I like coffee": what is said of both tells neither.
                Said { plainly: true, negated: true, .. } => {}
                Said { plainly: true, .. } => plainly += 1,
                Said { negated: true, .. } => negated += 1,
                _ => {}
            }
        }
        negated > 0 && plainly == 0
    }
}

/// Whether the word at a place is a negation, and something follows that it denies.
fn reaches(words: &[Word<'_>], at: usize, is_portuguese: bool) -> bool {
    let is_reached = |word: &&Word<'_>| word.clause == words[at].clause && !word.is_in(List::Turn);
    denies(words, at, is_portuguese)
        && content(&words[at + 1..]).take_while(is_reached).any(|word| !is_until_now(word))
}

/// Whether the word at a place is a negation that denies what follows.
fn denies(words: &[Word<'_>], at: usize, is_portuguese: bool) -> bool {
    let word = &words[at];
    if !negates(word) {
        return false;
    }
    let next = words.get(at + 1);
    let has_idiom = next.is_some_and(|next| next.is_in(List::Idiom));
    // "No, I live in Rome": an answer to something else.
    let is_answer = word.is_first
        && matches!(word.folded.as_str(), "no" | "nein" | "non" | "nee" | "nao" | "nope" | "нет")
        && next.is_none_or(|next| next.clause != word.clause || next.is_in(List::Subject));
    // "Moro no Porto": it is "in the".
    let is_portuguese = is_portuguese && word.folded == "no";
    let why = at.checked_sub(1).is_some_and(|before| words[before].folded == "why");
    !(has_idiom || is_answer || is_portuguese || why)
}
