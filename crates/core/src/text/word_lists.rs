//! The lists of words that the rules for facts know. A word means the same wherever a rule asks for it: what negates
//! stands in one list, and so does what counts.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::text::phrases;

crate::words! {
    /// A list of `words.txt`, by the name of its section.
    pub(crate) enum List {
        Negation = "negation",
        Opposing = "opposing",
        Negating = "negating",
        Plain = "plain",
        Unspaced = "unspaced",
        UnspacedIdiom = "unspaced_idiom",
        Idiom = "idiom",
        Turn = "turn",
        Empty = "empty",
        Owner = "owner",
        Subject = "subject",
        FirstPerson = "first_person",
        ThirdPerson = "third_person",
        Belonging = "belonging",
        Opener = "opener",
        Personal = "personal",
        Unnamed = "unnamed",
        User = "user",
        AnyUser = "any_user",
        UnspacedUser = "unspaced_user",
        English = "english",
        Foreign = "foreign",
        German = "german",
        Cardinal = "cardinal",
        Ordinal = "ordinal",
        Scale = "scale",
        Implied = "implied",
        Day = "day",
        Span = "span",
        Weekday = "weekday",
        Place = "place",
        People = "people",
        Unit = "unit",
        Relation = "relation",
        // What parts of a text do: see `acts`.
        Own = "own",
        Filler = "filler",
        Referring = "referring",
        Linking = "linking",
        Auxiliary = "auxiliary",
        Task = "task",
        Adjusted = "adjusted",
        Standing = "standing",
        Courtesy = "courtesy",
        Bothering = "bothering",
        Bothered = "bothered",
        Rules = "rules",
        Remembering = "remembering",
        Duty = "duty",
        Imagined = "imagined",
        Joking = "joking",
        Confiding = "confiding",
        Asking = "asking",
        AskedPolitely = "asked_politely",
        Supposing = "supposing",
        Answer = "answer",
        Telling = "telling",
        Greeting = "greeting",
        Determiner = "determiner",
        Yours = "yours",
        Author = "author",
        Notice = "notice",
        Order = "order",
        Power = "power",
        Right = "right",
        Request = "request",
        Check = "check",
        Obeying = "obeying",
    }
}

#[derive(Default)]
struct Entries {
    /// The lines that each word stands on.
    lines: HashMap<&'static str, Vec<usize>>,
    /// The words in their order, with what they mean if that is a number.
    words: Vec<(&'static str, Option<f64>)>,
}

// A unit test proves that the file can be read.
static LISTS: LazyLock<HashMap<&str, Entries>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Entries> = HashMap::new();
    for line in phrases::lines(include_str!("words.txt")).flatten() {
        let list = lists.entry(line.section).or_default();
        for (word, value) in phrases::numbered(line.text) {
            list.lines.entry(word).or_default().push(line.number);
            list.words.push((word, value));
        }
    }
    lists
});

impl List {
    /// The lines that a word stands on.
    pub fn lines(self, word: &str) -> &'static [usize] {
        let list = LISTS.get(self.as_str());
        list.and_then(|list| list.lines.get(word)).map_or(&[], Vec::as_slice)
    }

    /// Whether a word stands on the list.
    pub fn has(self, word: &str) -> bool {
        !self.lines(word).is_empty()
    }

    fn entries(self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        LISTS.get(self.as_str()).into_iter().flat_map(|list| list.words.iter().copied())
    }

    /// The words in the order of the list.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        self.entries().map(|(word, _)| word)
    }

    /// Whether a word begins with one of the list.
    pub fn begins(self, word: &str) -> bool {
        self.words().any(|begin| word.starts_with(begin))
    }

    /// Whether a word of the list is part of a text.
    pub fn is_within(self, text: &str) -> bool {
        self.words().any(|word| text.contains(word))
    }

    /// The numbers that a word means.
    pub fn values(self, word: &str) -> impl Iterator<Item = f64> {
        self.entries().filter(move |(name, _)| *name == word).filter_map(|(_, value)| value)
    }

    /// The number that a word means.
    pub fn value(self, word: &str) -> Option<f64> {
        self.values(word).next()
    }

    /// The number of the first word that is part of another one.
    pub fn value_within(self, word: &str) -> Option<f64> {
        self.entries().find(|(name, _)| word.contains(name)).and_then(|(_, value)| value)
    }
}

/// Whether a word in small letters is a negation of English, also one with its verb: "don't".
pub(crate) fn negates_in_english(word: &str) -> bool {
    let is_english = |line| List::Negation.lines("not").contains(line);
    word.len() > 3 && word.ends_with("n't") || List::Negation.lines(word).iter().any(is_english)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_words_and_every_section_is_a_list() {
        for line in phrases::lines(include_str!("words.txt")) {
            let section = line.unwrap().section;
            assert!(List::of(section).is_some(), "{section}");
        }
        for list in List::ALL {
            assert!(list.words().next().is_some(), "{list:?}");
        }
    }
}
