//! A statement as [`attributes`](super::attributes) compares it: what each of its words does, by the lists
//! of `attributes.txt`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::dates::WEEKDAYS;
use super::numbers::numbers;
use super::polarity::negates;
use super::topics::owns;
use super::words::{List, Word, is_latin, stem, words};
use crate::text::time_phrases::MONTHS;

/// The sections of `attributes.txt`: for each word the lines that it stands on.
type Lines = HashMap<&'static str, Vec<usize>>;

static LISTS: LazyLock<HashMap<&'static str, Lines>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Lines> = HashMap::new();
    let (mut name, mut weak) = ("", "");
    for (number, line) in include_str!("attributes.txt").lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            (name, weak) = (section, if section == "single" { "weak" } else { section });
            continue;
        }
        let (strong, also) = line.split_once(':').unwrap_or((line, ""));
        for (list, words) in [(name, strong), (weak, also)] {
            for word in words.split_whitespace() {
                lists.entry(list).or_default().entry(word).or_default().push(number);
            }
        }
    }
    lists
});

pub(super) fn lines(list: &str, word: &str) -> &'static [usize] {
    LISTS.get(list).and_then(|list| list.get(word)).map_or(&[], Vec::as_slice)
}

/// "Twice a day"
const OFTEN: [&str; 3] = ["once", "twice", "thrice"];

/// What a word does in a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It stands in every statement.
    Empty,
    /// A number, a unit, a day.
    Value,
    Verb,
    End,
    Change,
    Moved,
    /// What is spoken of.
    Content,
}

/// A statement, word by word.
pub(super) struct TaggedStatement<'a> {
    pub words: Vec<Word<'a>>,
    pub kinds: Vec<Kind>,
    /// Where what is said of the subject begins.
    pub predicate: usize,
    /// Whether it is in a script without words that could be compared.
    pub is_unknown: bool,
    /// Whether it is in a language that the lists do not know.
    pub is_foreign: bool,
    /// Whether it says what somebody is, other than to somebody else: "is a cashier at the station".
    pub is_calling: bool,
}

impl<'a> TaggedStatement<'a> {
    pub fn of(statement: &'a str) -> Self {
        let mut words = words(statement);
        let is_calling = is_calling(&words);
        words.retain(|word| !matches!(word.folded.as_str(), "the" | "a" | "an"));
        let kinds: Vec<Kind> = (0..words.len()).map(|at| kind(&words, at)).collect();
        let is_open = |kind: &Kind| !matches!(kind, Kind::Content | Kind::Value | Kind::Empty);
        let is_verb = |at: usize| !lines("verb", &words[at].folded).is_empty();
        // "the user's cat" is one subject.
        let first = if words.first().is_some_and(owns) { 2 } else { 1 };
        let predicate = (first..words.len())
            .find(|at| is_open(&kinds[*at]) || is_verb(*at))
            .unwrap_or(words.len().min(first));
        let letters = statement.chars().filter(|c| c.is_alphabetic()).count();
        let latin = statement.chars().filter(|c| is_latin(*c)).count();
        let count = |list| words.iter().filter(|word| word.is_in(list)).count();
        let is_foreign = count(List::Foreign).max(count(List::German)) > count(List::English);
        Self { words, kinds, predicate, is_unknown: latin * 2 < letters, is_foreign, is_calling }
    }

    /// The stems of the words of some kinds.
    pub fn stems(&self, kinds: &[Kind]) -> HashSet<&str> {
        self.places(kinds).map(|at| stem(&self.words[at].folded)).collect()
    }

    pub fn places(&self, kinds: &[Kind]) -> impl Iterator<Item = usize> {
        (0..self.words.len()).filter(|at| kinds.contains(&self.kinds[*at]))
    }

    /// The lines of a list that a word or two words in a row stand on.
    pub fn lines(&self, list: &str) -> HashSet<usize> {
        (0..self.words.len()).flat_map(|at| lines_at(list, &self.words, at)).collect()
    }

    pub fn has(&self, list: &str) -> bool {
        !self.lines(list).is_empty()
    }

    pub fn is_negated(&self) -> bool {
        self.words.iter().any(negates)
    }

    pub fn is_of_user(&self) -> bool {
        const USERS: [&str; 7] =
            ["user", "nutzer", "nutzerin", "utilisateur", "l'utilisateur", "usuario", "utente"];
        let place = self.words.iter().position(|word| USERS.contains(&word.folded.as_str()));
        place.is_some_and(|at| at <= 1 && !self.words[at].raw.ends_with(['s', '’', '\'']))
    }

    /// The words that name its subject, without the user.
    pub fn subject(&self) -> HashSet<&str> {
        if self.is_of_user() {
            return HashSet::new();
        }
        (0..self.predicate)
            .filter(|at| self.kinds[*at] != Kind::Empty)
            .map(|at| stem(&self.words[at].folded))
            .collect()
    }

    /// The units of a statement's numbers, and what other values it has.
    pub fn values(&self) -> HashSet<String> {
        // "One of the user's cats" counts nothing.
        let is_part = |at: usize| {
            self.words[at].folded == "one"
                && self.words.get(at + 1).is_some_and(|w| w.folded == "of")
        };
        let mut kinds: HashSet<String> = numbers(&self.words, false)
            .iter()
            .filter(|number| !is_part(number.at))
            .map(|number| match (number.is_time, number.unit) {
                (true, _) => "time".to_owned(),
                (false, Some(unit)) => format!("unit {unit}"),
                (false, None) => "number".to_owned(),
            })
            .collect();
        for word in &self.words {
            let name = word.folded.as_str();
            if OFTEN.contains(&name) {
                kinds.insert("times".to_owned());
            }
            let is_month = word.is_capitalised() && MONTHS.contains(&name);
            if is_month || WEEKDAYS.contains(&name.trim_end_matches('s')) {
                kinds.insert("date".to_owned());
            } else if matches!(name, "noon" | "midnight") {
                kinds.insert("number".to_owned());
            }
        }
        kinds
    }
}

fn is_calling(words: &[Word<'_>]) -> bool {
    let is = |at: usize, names: &[&str]| {
        words.get(at).is_some_and(|word| names.contains(&word.folded.as_str()))
    };
    let is_copula = |at: usize| is(at, &["is", "was"]);
    let begin = (1..words.len()).find(|at| {
        let before = if is(at - 1, &["now"]) { at.saturating_sub(2) } else { at - 1 };
        is(*at, &["a", "an"]) && is_copula(before)
    });
    begin.is_some_and(|begin| {
        let end = (begin..words.len()).find(|at| is(*at, &["at", "in", "for"]));
        let name = &words[begin + 1..end.unwrap_or(words.len())];
        let is_plain = |word: &Word<'_>| !word.is_in(List::Relation) && word.folded != "of";
        !name.is_empty() && name.iter().all(is_plain)
    })
}

fn lines_at(list: &str, words: &[Word<'_>], at: usize) -> Vec<usize> {
    let word = words[at].folded.as_str();
    let mut found = lines(list, word).to_vec();
    for next in words[at + 1..].iter().take(3) {
        // "gave the parrot away", "took her off"
        found.extend(lines(list, &format!("{word}_{}", next.folded)));
    }
    found
}

fn kind(words: &[Word<'_>], at: usize) -> Kind {
    let word = &words[at];
    let name = word.folded.as_str();
    let is = |list: &str| !lines_at(list, words, at).is_empty();
    let is_month = word.is_capitalised() && MONTHS.contains(&name);
    if word.has_digit()
        || is_month
        || word.is_in(List::Cardinal)
        || word.is_in(List::Ordinal)
        || word.is_in(List::Weekday)
        || word.is_in(List::Unit)
        || WEEKDAYS.contains(&name.trim_end_matches('s'))
        || OFTEN.contains(&name)
        || matches!(name, "noon" | "midnight" | "first" | "second" | "hundred" | "thousand")
    {
        Kind::Value
    } else if negates(word) || is("end") {
        Kind::End
    } else if is("change") {
        Kind::Change
    } else if is("moved") {
        Kind::Moved
    } else if name == "only"
        || word.is_in(List::Empty)
        || word.is_in(List::German)
        || word.is_in(List::Foreign)
    {
        Kind::Empty
    } else if is("verb") {
        Kind::Verb
    } else {
        Kind::Content
    }
}
