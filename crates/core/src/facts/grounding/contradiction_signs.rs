//! Whether something that was said, in whatever words, speaks against a known statement: by the signs of
//! [`attributes`](super::attributes), sentence by sentence, with what a sentence refers to.

use super::attributes::can_replace;
use super::tagged_statement::{Kind, TaggedStatement};
use super::words::Word;
use crate::limits::GROUNDED_BYTES;
use crate::text::sentences;

/// What a sentence begins with that answers the one before it.
const ANSWERS: [&str; 10] =
    ["yes", "yeah", "yep", "right", "exactly", "correct", "sure", "no", "nope", "nah"];
const NO: [&str; 3] = ["no", "nope", "nah"];
/// What speaks of something that was named in the sentence before it.
const REFERENCES: [&str; 15] = [
    "it", "it's", "its", "that", "that's", "this", "them", "they", "they're", "he", "she", "him",
    "her", "there", "one",
];
/// What asks for a memory to end, among the first words of a sentence.
const FORGETTING: [&str; 5] = ["forget", "delete", "remove", "erase", "scratch"];
const FIRST_WORDS: usize = 4;

/// Bytes of the known statement that are read again for each sentence, all in all: so many sentences are read.
const READ_AGAIN: usize = 32_768;
const SENTENCES: std::ops::RangeInclusive<usize> = 4..=256;

/// Whether what was said can end `known`: a sentence of it [can take its place](can_replace) or asks to forget
/// it, by itself or with the one before that it refers to: "Do you still have the Volvo?" "No, I sold it."
/// `before` is what was said just before. Of very long texts only the begin is read.
#[must_use]
pub fn can_end(said: &str, before: &str, known: &str) -> bool {
    let said = &said[..said.floor_char_boundary(GROUNDED_BYTES)];
    let known = &known[..known.floor_char_boundary(GROUNDED_BYTES)];
    let before = &before[before.ceil_char_boundary(before.len().saturating_sub(GROUNDED_BYTES))..];
    let mut previous = sentences_of(before).pop().unwrap_or_default();
    let most = (READ_AGAIN / known.len().max(1)).clamp(*SENTENCES.start(), *SENTENCES.end());
    for sentence in sentences_of(said).into_iter().take(most) {
        let speaks_against = || {
            is_sign(&sentence, known)
                || asks_to_forget(&sentence, known)
                || ends_named(&sentence, &previous, known)
        };
        // A question is no statement.
        if !sentence.ends_with('?') && speaks_against() {
            return true;
        }
        previous = sentence;
    }
    false
}

/// Whether a sentence ends `known` that refers to the one before it.
fn ends_named(sentence: &str, previous: &str, known: &str) -> bool {
    let told = TaggedStatement::of(sentence);
    let is_one_of = |word: &Word<'_>, list: &[&str]| list.contains(&word.folded.as_str());
    let answers = |list: &[&str]| told.words.first().is_some_and(|word| is_one_of(word, list));
    let refers = answers(&ANSWERS) || told.words.iter().any(|word| is_one_of(word, &REFERENCES));
    // "Is the trip off?" "No."
    if !refers || (answers(&NO) && can_replace(previous, known)) {
        return false;
    }
    // "The trip was a nice idea. But that is over."
    is_sign(&format!("{previous} {sentence}"), known)
        || (told.has("end") && share_content(previous, known))
}

fn is_sign(sentence: &str, known: &str) -> bool {
    can_replace(sentence, known) && !says_again(sentence, known)
}

/// Whether a sentence says all of `known` and nothing of an end or a change.
fn says_again(sentence: &str, known: &str) -> bool {
    const SAID: [Kind; 3] = [Kind::Content, Kind::Value, Kind::Verb];
    let (told, known) = (TaggedStatement::of(sentence), TaggedStatement::of(known));
    let turns = [Kind::End, Kind::Change, Kind::Moved];
    known.stems(&SAID).is_subset(&told.stems(&SAID)) && told.places(&turns).next().is_none()
}

fn asks_to_forget(sentence: &str, known: &str) -> bool {
    let told = TaggedStatement::of(sentence);
    let mut first = told.words.iter().take(FIRST_WORDS);
    first.any(|word| FORGETTING.contains(&word.folded.as_str())) && share_content(sentence, known)
}

/// Whether two statements speak of one thing.
fn share_content(left: &str, right: &str) -> bool {
    let (left, right) = (TaggedStatement::of(left), TaggedStatement::of(right));
    let right = right.stems(&[Kind::Content]);
    left.stems(&[Kind::Content]).iter().any(|word| right.contains(word))
}

/// The sentences of what was said, with the user in place of "I" as facts have it.
fn sentences_of(said: &str) -> Vec<String> {
    let mut begin = 0;
    let ends = sentences::ends(said).into_iter();
    ends.map(|end| of_user(&said[std::mem::replace(&mut begin, end)..end])).collect()
}

fn of_user(sentence: &str) -> String {
    let told = |word: &str| -> String {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let named = match bare.to_lowercase().replace('’', "'").as_str() {
            "i" | "we" | "i'd" | "we'd" | "i'll" | "we'll" => "the user",
            "my" | "our" => "the user's",
            "i'm" | "we're" => "the user is",
            "i've" | "we've" => "the user has",
            _ => return word.to_owned(),
        };
        word.replacen(bare, named, 1)
    };
    sentence.split_whitespace().map(told).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of a section for which `can_end` says yes, and the others.
    fn judged(section: &str) -> (Vec<&'static str>, Vec<&'static str>) {
        let cases = include_str!("against_cases.txt");
        let begin = cases.find(&format!("[{section}]\n")).expect("the section");
        let lines = cases[begin..].lines().skip(1).take_while(|line| !line.starts_with('['));
        lines.filter(|line| line.contains(" | ")).partition(|line| {
            let (turns, known) = line.split_once(" | ").expect("a statement");
            let (before, said) = turns.split_once('/').expect("what was said");
            can_end(said.trim(), before.trim(), known)
        })
    }

    #[test]
    fn most_of_what_speaks_against_a_statement_is_recognised() {
        let (ended, missed) = judged("ends");
        let (wrong, stayed) = judged("stays");
        assert_eq!((ended.len() + missed.len(), wrong.len() + stayed.len()), (25, 25));
        // The figures of docs/reflection.md.
        assert!(missed.len() <= 1 && wrong.len() <= 2, "{missed:#?}\n{wrong:#?}");
    }

    /// A memory and a turn may be whole documents.
    #[test]
    fn of_long_texts_the_begin_is_read() {
        let long = "It is off. The trip to Rome, in May, not now. ".repeat(40_000);
        assert!(can_end(&long, &long, "The user plans a trip to Rome."));
        assert!(!can_end("I play chess.", &long, &format!("The user knows this: {long}")));
        assert!(!can_end(&"Chess is old. ".repeat(40_000), "", &long));
    }

    #[test]
    fn what_was_said_ends_what_it_speaks_of() {
        let volvo = "The user drives a Volvo.";
        let trip = "The user plans a trip to Rome.";
        for (before, said, known) in [
            ("", "The fair was cancelled.", "The user wants to show Quillfeather at a fair in May"),
            ("", "Good news! I stopped smoking.", "The user smokes."),
            ("", "I no longer live with Jonas.", "The user lives with Jonas."),
            ("", "We sold the Volvo in May", volvo),
            ("", "I've given up running.", "The user runs on Sundays."),
            ("", "I moved out. I live in Oslo now.", "The user lives in Rome."),
            ("Do you still have the Volvo?", "No, I sold it.", volvo),
            ("", "The trip to Rome was such a nice idea. But that's over.", trip),
            ("So the trip to Rome is cancelled?", "Yes.", trip),
            ("Do you still plan the trip to Rome?", "No.", trip),
            ("", "Forget that: the user plans a trip to Rome.", trip),
            ("", "Please forget about the trip.", trip),
            ("", "旅行は中止になった。", "ユーザーは旅行を計画している。"),
        ] {
            assert!(can_end(said, before, known), "{before} {said} | {known}");
        }
        for (before, said, known) in [
            ("", "", volvo),
            ("", "I play chess", volvo),
            ("", "Forget about the hotel.", trip),
            ("", "Thanks, that was helpful.", volvo),
            ("", "I have a dog. It's called Balu.", "The user has a dog called Balu."),
            ("", "My rent is 810 euros, as I said.", "The user's rent is 810 euros."),
            ("", "My sister moved to Porto.", "The user lives in Hamburg."),
            ("", "I have a dog called Balu. I stopped smoking.", "The user has a dog called Balu."),
            ("", "Is the trip to Rome cancelled?", trip),
            ("Is the trip to Rome cancelled?", "No.", trip),
            ("Shall I look for a hotel?", "Yes, in Rome.", volvo),
        ] {
            assert!(!can_end(said, before, known), "{before} {said} | {known}");
        }
    }
}
