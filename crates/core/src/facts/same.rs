//! Whether two statements that are near in embedding space say the same.
//!
//! Similarity only proposes: "joined Google" and "joined Microsoft" are near, and
//! so are two versions of a number. A statement that is wrongly taken for a
//! repetition is lost, and an outdated one stays; a repetition that is not seen
//! costs one row. So every doubt here means "not the same".
//!
//! Numbers, names and word order are recognised in any language, negations and
//! the words that carry no content only in English.

use std::collections::BTreeSet;

use crate::text::word_lists::{List, negates_in_english};
use crate::text::words::{self, parts};

/// Words that say who or when, and are names in that sense: "his sister" is not
/// "her sister", and who "was" a nurse no longer is one.
const POINTERS: [&str; 32] = [
    "i", "me", "my", "mine", "you", "your", "yours", "he", "him", "his", "she", "her", "hers",
    "we", "us", "our", "ours", "they", "them", "their", "theirs", "was", "were", "had", "did",
    "used", "will", "would", "might", "may", "could", "should",
];

/// Words that a rewording may add, drop or exchange.
const EMPTY_WORDS: [&str; 16] = [
    "the", "a", "an", "is", "are", "be", "been", "being", "has", "have", "having", "does", "do",
    "it", "its", "that",
];

/// Endings that do not change what a word says. The past is not among them.
const ENDINGS: [&str; 7] = ["", "s", "e", "es", "ing", "y", "ies"];

/// Whether two statements agree in what similarity does not see:
///
/// - the same numbers in the same order,
/// - as many negations,
/// - the same names: capitalised words, words with inner marks (`a.b@c.org`),
///   pronouns, and all words of a script that has no capitals;
/// - no word exchanged for another ("tea" for "coffee"): only one of the two may
///   have words of its own, apart from inflection and words without content;
/// - the words they share, in the same order ("Anna pays Bob").
///
/// The first word of a sentence is capitalised by grammar, so it counts as a
/// name only if the other statement does not have it at all. The answer does not
/// depend on which statement is `left`.
#[must_use]
pub fn says_the_same(left: &str, right: &str) -> bool {
    let (left, right) = (Marks::of(left), Marks::of(right));
    left.numbers == right.numbers
        && left.negations == right.negations
        && left.names.is_subset(&right.words)
        && right.names.is_subset(&left.words)
        && !(left.has_words_beyond(&right) && right.has_words_beyond(&left))
        && left.order_of_shared(&right) == right.order_of_shared(&left)
}

/// Whether `new` says the same as `known` and has no words of its own.
#[must_use]
pub fn repeats(new: &str, known: &str) -> bool {
    says_the_same(new, known) && words(new).is_subset(&words(known))
}

/// Whether most words of `new` stand in `known`, as those of a rewording do. Who is spoken of does not
/// count.
pub(crate) fn is_mostly_in(new: &str, known: &str) -> bool {
    let (new, known) = (Marks::of(new), Marks::of(known));
    let is_shared =
        |word: &&String| known.words.contains(word.as_str()) || has_inflection(word, &known.words);
    let words = new.words.iter().filter(|word| *word != "user");
    let (shared, own): (Vec<_>, Vec<_>) = words.partition(is_shared);
    shared.len() > own.len()
}

/// Whether a passage says the same as a statement and leaves nothing of it out.
pub(crate) fn says_all_of(passage: &str, statement: &str) -> bool {
    says_the_same(passage, statement) && !Marks::of(statement).has_words_beyond(&Marks::of(passage))
}

/// How many words of a statement have content.
pub(crate) fn content_words(statement: &str) -> usize {
    Marks::of(statement).words.len()
}

/// How often a text negates.
pub(crate) fn negations(text: &str) -> usize {
    Marks::of(text).negations
}

/// The words of a text, in lower case.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    parts(text).map(str::to_lowercase).collect()
}

/// What identifies a statement.
#[derive(Default)]
struct Marks {
    /// All words but the empty ones, in lower case; every negation is "not".
    words: BTreeSet<String>,
    /// The words in the order of their first occurrence.
    order: Vec<String>,
    names: BTreeSet<String>,
    /// With their signs, decimals and currency, in the order of the statement.
    numbers: Vec<String>,
    negations: usize,
}

impl Marks {
    fn of(text: &str) -> Self {
        let mut marks = Self::default();
        for word in words::words(text) {
            marks.add(word.raw);
        }
        marks
    }

    fn add(&mut self, word: &str) {
        if !word.chars().any(char::is_alphanumeric) {
            return;
        }
        let lower = word.to_lowercase().replace('’', "'").replace('−', "-");
        let mut lower = lower.strip_suffix("'s").unwrap_or(&lower);
        let is_amount = |list: List| list.has(lower);
        if word.chars().any(char::is_numeric)
            || lower == "half"
            || [List::Cardinal, List::Scale].into_iter().any(is_amount)
        {
            self.numbers.push(lower.to_owned());
        } else if negates_in_english(lower) || List::Opposing.has(lower) {
            self.negations += 1;
            lower = "not";
        } else if EMPTY_WORDS.contains(&lower) {
            return;
        } else if is_name(word) || POINTERS.contains(&lower) {
            self.names.insert(lower.to_owned());
        }
        if self.words.insert(lower.to_owned()) {
            self.order.push(lower.to_owned());
        }
    }

    /// Whether a word here has no counterpart in `other`, not even inflected.
    fn has_words_beyond(&self, other: &Self) -> bool {
        self.words.difference(&other.words).any(|word| !has_inflection(word, &other.words))
    }

    fn order_of_shared(&self, other: &Self) -> Vec<&String> {
        self.order.iter().filter(|word| other.words.contains(*word)).collect()
    }
}

fn is_name(word: &str) -> bool {
    // Letters of scripts without case (Chinese, Arabic, Hindi) are neither.
    let is_lower_letter = |c: char| c.is_lowercase() || !c.is_alphabetic();
    !word.chars().all(is_lower_letter) || word.contains(['.', '@', '_', '/', '\\', ':', '+', '#'])
}

/// Whether a word stands among others in another form. Only the forms that there can be are looked up,
/// for a statement may have as many words as a memory has room for.
fn has_inflection(word: &str, words: &BTreeSet<String>) -> bool {
    let stems = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
    let mut forms =
        stems.flat_map(|stem| ENDINGS.iter().map(move |ending| format!("{stem}{ending}")));
    forms.any(|form| words.contains(&form) && is_inflection(word, &form))
}

/// "lives" and "living": a common stem of three letters or more, and endings.
fn is_inflection(left: &str, right: &str) -> bool {
    let common = left.chars().zip(right.chars()).take_while(|(a, b)| a == b);
    let stem: usize = common.clone().map(|(a, _)| a.len_utf8()).sum();
    common.count() >= 3 && ENDINGS.contains(&&left[stem..]) && ENDINGS.contains(&&right[stem..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reworded_statement_says_the_same() {
        for (left, right) in [
            ("The user lives in Rome.", "The user lives in Rome"),
            ("The user lives in Rome.", "The user is living in Rome now."),
            ("The user lives in Rome.", "User lives in Rome"),
            ("Anna's dog is called Rex", "Anna has a dog called Rex"),
            ("Anna’s dog is called Rex", "Anna's dog is called Rex"),
            ("The user does not eat meat", "The user doesn't eat meat"),
            ("The user does not like tea", "The user never likes tea"),
            ("The meeting is at 10:30", "The meeting takes place at 10:30"),
            ("The temperature is −5 degrees", "The temperature is -5 degrees"),
            ("用户住在巴黎", "用户住在巴黎。"),
            ("", ""),
        ] {
            assert!(says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    #[test]
    fn another_name_is_another_statement() {
        for (left, right) in [
            ("The user lives in Paris.", "The user lives in Rome."),
            ("Bob joined Google", "Bob joined Microsoft"),
            ("Bob joined Google", "Bob joined"),
            ("The user comes from Argentina", "The user comes from Armenia"),
            ("The user writes C++", "The user writes C#"),
            ("The user writes C++", "The user writes C"),
            ("Write to anna@example.org", "Write to bob@example.org"),
            ("The code is in src/api", "The code is in src/store"),
            ("Yesterday his sister called", "Yesterday her sister called"),
            ("用户住在巴黎", "用户住在罗马"),
            ("المستخدم يعيش في باريس", "المستخدم يعيش في روما"),
        ] {
            assert!(!says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    #[test]
    fn another_number_is_another_statement() {
        for (left, right) in [
            ("The budget is 500 euros", "The budget is 700 euros"),
            ("The budget is 500 euros", "The budget is 500 dollars"),
            ("The budget is $500", "The budget is €500"),
            ("The budget is 500€", "The budget is 500$"),
            ("The budget is 5 million", "The budget is 5 billion"),
            ("It costs 1.5 euros", "It costs 15 euros"),
            ("It costs 15 euros", "It costs euros"),
            ("The temperature is -5 degrees", "The temperature is 5 degrees"),
            ("The temperature is −5 degrees", "The temperature is 5 degrees"),
            ("The user has two children", "The user has three children"),
            ("The meeting is at 10 am", "The meeting is at 10 pm"),
            ("The meeting is at 10:30", "The meeting is at 10:45"),
            ("The price rose from 5 to 10", "The price rose from 10 to 5"),
            ("At least 5 people come", "At most 5 people come"),
        ] {
            assert!(!says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    #[test]
    fn a_negation_is_another_statement() {
        for (left, right) in [
            ("The user eats meat", "The user does not eat meat"),
            ("The user eats meat", "The user doesn’t eat meat"),
            ("The user likes tea", "The user never likes tea"),
            ("The user likes tea", "The user dislikes tea"),
            ("The user is happy", "The user is unhappy"),
            ("The user lives in Rome", "The user no longer lives in Rome"),
            ("The user lives in Rome", "The user used to live in Rome"),
            ("The user is a nurse", "The user was a nurse"),
            ("Eat meat but not fish", "Eat not meat but fish"),
        ] {
            assert!(!says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    #[test]
    fn an_exchange_of_words_or_roles_is_another_statement() {
        for (left, right) in [
            ("The user likes tea", "The user likes coffee"),
            ("The user is vegan", "The user is vegetarian"),
            ("The shop closed before Easter", "The shop closed after Easter"),
            ("The user worked at Acme", "The user works at Acme"),
            ("Anna manages Bob", "Bob manages Anna"),
            ("The user moved from Rome to Paris", "The user moved from Paris to Rome"),
            ("the dog bit the cat", "the cat bit the dog"),
        ] {
            assert!(!says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_reflexive_and_symmetric(left in ".{0,80}", right in ".{0,80}") {
            prop_assert!(says_the_same(&left, &left));
            prop_assert_eq!(says_the_same(&left, &right), says_the_same(&right, &left));
        }

        #[test]
        fn it_is_symmetric_for_sentences(
            left in "((Anna|Bob|likes|like|tea|not|5|the|was|living) ?){0,8}",
            right in "((Anna|Bob|likes|like|tea|not|5|the|was|living) ?){0,8}",
        ) {
            prop_assert_eq!(says_the_same(&left, &right), says_the_same(&right, &left));
        }

        #[test]
        fn a_changed_number_is_always_seen(number in any::<u32>(), other in any::<u32>()) {
            prop_assume!(number != other);
            let statement = |number: u32| format!("Room {number} is taken");
            prop_assert!(!says_the_same(&statement(number), &statement(other)));
        }
    }
}
