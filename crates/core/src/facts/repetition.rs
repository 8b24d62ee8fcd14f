//! Whether an assistant said a statement once more: "Noted. You live in Rome." after the fact "The
//! user lives in Rome" was learned from the user.
//!
//! What is found here is taken for outdated together with the statement, so every doubt means that
//! it was not repeated, as in [`facts`](crate::facts::same).

use crate::facts::same::{content_words, negations, says_all_of, says_the_same};
use crate::text::sentences;

/// A statement of fewer words that have content is too easily part of another one.
const MIN_WORDS: usize = 3;
/// Clauses of a sentence beyond which only the whole sentence is compared.
const MAX_CLAUSES: usize = 12;
/// Marks between two clauses, if white space follows.
const MARKS: [char; 8] = [',', ';', ':', '–', '—', '(', ')', '"'];
/// Words between two clauses.
const JOINTS: [&str; 3] = ["that", "and", "but"];
/// How an assistant speaks of the user, and how facts do.
const SECOND_PERSON: [(&str, &str); 7] = [
    ("you", "the user"),
    ("your", "the user's"),
    ("yours", "the user's"),
    ("you're", "the user is"),
    ("you've", "the user has"),
    ("you'll", "the user will"),
    ("you'd", "the user would"),
];

/// Whether what an assistant `said` repeats a statement: some clauses of one sentence that is no
/// question say all of it and nothing else that could be told from it, see [`says_the_same`]. If
/// the embeddings of both are as near as those of duplicates (`is_similar`), it is enough that the
/// whole says the same and leaves something out.
#[must_use]
pub fn is_repeated(statement: &str, said: &str, is_similar: bool) -> bool {
    if is_similar && says_the_same(&in_third_person(said), statement) {
        return true;
    }
    if content_words(statement) < MIN_WORDS {
        return false;
    }
    let mut start = 0;
    sentences::ends(said).into_iter().any(|end| {
        let sentence = said[start..end].trim_end();
        start = end;
        !sentence.ends_with(['?', '？']) && is_in_sentence(statement, &in_third_person(sentence))
    })
}

fn is_in_sentence(statement: &str, sentence: &str) -> bool {
    // "It is not true that the user lives in Rome."
    if negations(sentence) > negations(statement) {
        return false;
    }
    if says_all_of(sentence, statement) {
        return true;
    }
    let clauses = clauses(sentence);
    if clauses.len() > MAX_CLAUSES {
        return false;
    }
    (clauses.iter().enumerate()).any(|(at, (start, _))| {
        clauses[at..].iter().any(|(_, end)| says_all_of(&sentence[*start..*end], statement))
    })
}

/// Where the clauses of a sentence begin and end, in bytes.
fn clauses(sentence: &str) -> Vec<(usize, usize)> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let mut add = |start: usize, end: usize| {
        if !sentence[start..end].trim().is_empty() {
            clauses.push((start, end));
        }
    };
    for (at, word) in words_between_spaces(sentence) {
        let end = at + word.len();
        if JOINTS.iter().any(|joint| word.eq_ignore_ascii_case(joint)) {
            add(start, at);
            start = end;
        } else if word.ends_with(MARKS) {
            add(start, end);
            start = end;
        }
    }
    add(start, sentence.len());
    clauses
}

/// The parts of a text without white space, each with its place in bytes.
fn words_between_spaces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let place = move |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(move |word| (place(word), word))
}

/// A text with "the user" in place of "you".
fn in_third_person(text: &str) -> String {
    let is_letter = |c: char| c.is_alphanumeric() || c == '\'' || c == '’';
    let mut rewritten = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match is_letter(first) {
            true => rest.find(|c| !is_letter(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        let lower = word.to_lowercase().replace('’', "'");
        let third = SECOND_PERSON.iter().find(|(second, _)| *second == lower);
        rewritten.push_str(third.map_or(word, |(_, third)| third));
        rest = after;
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROME: &str = "The user lives in Rome.";

    fn repeats(statement: &str, said: &str) -> bool {
        is_repeated(statement, said, false)
    }

    #[test]
    fn a_confirmation_repeats_what_it_confirms() {
        for said in [
            "The user lives in Rome.",
            "Noted. You live in Rome.",
            "Got it, you live in Rome! Anything else?",
            "I will remember that you live in Rome.",
            "You live in Rome and your dog is called Balu.",
            "Your dog is called Balu, and you’re vegan; you live in Rome now.",
            "As far as I know: you live in Rome.",
        ] {
            assert!(repeats(ROME, said), "{said}");
        }
        let decided = "The team decided to use MySQL as the database of the order service.";
        assert!(repeats(decided, &format!("Noted. {decided}")));
        assert!(repeats("The user's dog is called Balu", "Nice! Your dog is called Balu."));
        assert!(repeats("The user does not eat meat", "Ok, you don't eat meat."));
    }

    #[test]
    fn another_statement_is_no_repetition() {
        for said in [
            "",
            "Noted.",
            "You live in Oslo.",
            "You do not live in Rome.",
            "It is not true that you live in Rome.",
            "You no longer live in Rome.",
            "You lived in Rome, so you know the city.",
            "Anna lives in Rome.",
            "Do you live in Rome?",
            "You moved from Rome to Oslo.",
            "You would like to live in Rome.",
            "Rome is the capital of Italy.",
        ] {
            assert!(!repeats(ROME, said), "{said}");
        }
        assert!(!repeats("The rent is 810 euros", "Noted. The rent is 945 euros."));
        assert!(!repeats("The user's dog is called Balu", "Your cat is called Balu."));
    }

    #[test]
    fn a_short_statement_is_repeated_only_by_the_like() {
        assert!(!repeats("MySQL", "MySQL is a database."));
        assert!(!is_repeated("MySQL", "PostgreSQL it is", true));
        assert!(is_repeated("MySQL", "MySQL!", true));
    }

    #[test]
    fn what_is_similar_may_leave_something_out() {
        let statement = "The user lives in Rome with a dog";
        assert!(is_repeated(statement, "You live in Rome.", true));
        assert!(!is_repeated(statement, "You live in Rome.", false));
        assert!(!is_repeated(statement, "You live in Oslo.", true));
    }

    #[test]
    fn clauses_are_parts_of_their_sentence() {
        let sentence = "I know: you, (a pilot) and Bob, that";
        let parts: Vec<&str> =
            clauses(sentence).into_iter().map(|(start, end)| sentence[start..end].trim()).collect();
        assert_eq!(parts, ["I know:", "you,", "(a pilot)", "Bob,"]);
        assert_eq!(
            in_third_person("You’re early, your own clock…"),
            "the user is early, the user's own clock…"
        );
    }

    proptest! {
        #[test]
        fn similarity_is_never_against_it(statement in ".{0,80}", said in ".{0,200}") {
            prop_assert!(!repeats(&statement, &said) || is_repeated(&statement, &said, true));
        }

        #[test]
        fn a_statement_among_others_is_found(
            name in "[A-Z][a-z]{3,8}",
            before in prop_oneof![Just("Noted."), Just("Ok!"), Just("Your name is Eve.")],
        ) {
            let statement = format!("The user works for {name}");
            let said = format!("{before} You work for {name}. What else?");
            prop_assert!(repeats(&statement, &said));
            let other = format!("{before} You work for {name}x. What else?");
            prop_assert!(!repeats(&statement, &other));
        }
    }
}
