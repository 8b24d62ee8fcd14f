//! Whether two statements that are near in embedding space say the same. Similarity only proposes:
//! "joined Google" and "joined Microsoft" are near, and so are two versions of a number.

use std::collections::BTreeSet;

/// Words that turn a statement into its opposite.
const NEGATIONS: [&str; 13] = [
    "not", "no", "never", "none", "nothing", "nobody", "neither", "nor", "cannot", "without", "stopped",
    "quit", "former",
];

/// Whether two statements agree in what similarity does not see: the same numbers, the same names
/// (capitalised words and words with digits or inner capitals), the same negations.
///
/// The first word of a sentence is capitalised by grammar, so it counts as a name only if the other
/// statement does not have it at all.
#[must_use]
pub fn says_the_same(left: &str, right: &str) -> bool {
    let (left, right) = (Marks::of(left), Marks::of(right));
    left.numbers == right.numbers
        && left.negations == right.negations
        && left.names_known_to(&right)
        && right.names_known_to(&left)
}

/// What identifies a statement beside its wording.
struct Marks {
    /// All words, in lower case.
    words: BTreeSet<String>,
    /// In lower case.
    names: BTreeSet<String>,
    /// With their signs and decimals.
    numbers: Vec<String>,
    negations: usize,
}

impl Marks {
    fn of(text: &str) -> Self {
        let mut marks =
            Self { words: BTreeSet::new(), names: BTreeSet::new(), numbers: Vec::new(), negations: 0 };
        for raw in text.split(|c: char| !(c.is_alphanumeric() || "'’.,-+%".contains(c))) {
            let word = raw.trim_matches(|c: char| !c.is_alphanumeric() && c != '-' && c != '%');
            let word = word.trim_end_matches('-');
            if word.is_empty() {
                continue;
            }
            let lower = word.to_lowercase();
            if word.chars().any(|c| c.is_ascii_digit()) {
                marks.numbers.push(lower.clone());
            } else if NEGATIONS.contains(&lower.as_str()) || is_contracted_not(&lower) {
                marks.negations += 1;
            } else if word.chars().any(char::is_uppercase) {
                marks.names.insert(without_possessive(&lower).to_owned());
            }
            marks.words.insert(without_possessive(&lower).to_owned());
        }
        marks.numbers.sort_unstable();
        marks
    }

    fn names_known_to(&self, other: &Self) -> bool {
        self.names.iter().all(|name| other.words.contains(name))
    }
}

/// "don't", "won't", "isn't".
fn is_contracted_not(word: &str) -> bool {
    word.ends_with("n't") || word.ends_with("n’t")
}

fn without_possessive(word: &str) -> &str {
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
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
            ("Anna's dog is called Rex", "Anna has a dog called Rex"),
            ("The user does not eat meat", "The user doesn't eat meat"),
            ("The meeting is at 10:30", "The meeting takes place at 10:30"),
        ] {
            assert!(says_the_same(left, right), "{left:?} and {right:?}");
        }
    }

    #[test]
    fn another_name_number_or_negation_is_another_statement() {
        for (left, right) in [
            ("The user lives in Paris.", "The user lives in Rome."),
            ("Bob joined Google", "Bob joined Microsoft"),
            ("The user comes from Argentina", "The user comes from Armenia"),
            ("The budget is 500 euros", "The budget is 700 euros"),
            ("It costs 1.5 euros", "It costs 15 euros"),
            ("The user eats meat", "The user does not eat meat"),
            ("The user likes tea", "The user never likes tea"),
            ("The temperature is -5 degrees", "The temperature is 5 degrees"),
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
    }
}
