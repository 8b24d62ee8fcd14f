//! Whether two statements are plainly about different people or things, so that one is no newer
//! version of the other: "The user's sister lives in Porto" says nothing of where the user lives.
//!
//! Where statements differ before what is said of them and in that, their subjects differ; where they
//! differ only in one of both, it is the value. English; statements in other languages are only told apart by names.

use super::polarity::negates;
use super::tagged_statement::lines;
use super::words::{List, Word, words};

/// Most words in which two subjects differ.
const LONGEST: usize = 5;

const COPULAS: [&str; 12] =
    ["is", "are", "was", "were", "has", "have", "will", "ist", "sind", "war", "hat", "haben"];

/// What stands beside a negation where something is over: "no longer", "not any more".
const ENDS: [&str; 6] = ["longer", "any", "anymore", "more", "mehr", "langer"];

/// Whether two statements are about different people or things. In doubt they are not.
#[must_use]
pub fn is_about_another(left: &str, right: &str) -> bool {
    let (left, right) = (told(left), told(right));
    if let (Some(l), Some(r)) = (Role::of(&left), Role::of(&right))
        && l == r
        && l.is_own
        && l.is_whole
    {
        return false;
    }
    let is_equal = |(l, r): &(&Word<'_>, &Word<'_>)| l.folded == r.folded && owns(l) == owns(r);
    let shared = left.iter().zip(&right).take_while(is_equal).count();
    let (left_rest, right_rest) = (&left[shared..], &right[shared..]);
    match (left_rest.first(), right_rest.first()) {
        (Some(l), Some(r)) if l.folded == r.folded => {
            let (own, other) = if owns(l) { (left_rest, right) } else { (right_rest, left) };
            return names_a_person(&own[1..], &other);
        }
        (Some(_), Some(_)) => {}
        _ => return false,
    }
    let Some((l, r)) = next_shared(left_rest, right_rest) else { return false };
    let (left_gap, right_gap) = (&left_rest[..l], &right_rest[..r]);
    // "Ana leads the team", "Tim leads the team": then who it is is the value.
    // So it is when one of them leads it no longer.
    if affirmed(&left_rest[l..]).eq(affirmed(&right_rest[r..])) {
        return false;
    }
    let is_own = |gap: &[Word<'_>], other: &[Word<'_>]| {
        gap.iter().any(|word| !word.has_digit() && !has(other, &word.folded))
    };
    if !is_own(left_gap, &right) || !is_own(right_gap, &left) {
        return false;
    }
    let is_person = |gap: &[Word<'_>]| gap.iter().any(|w| w.is_capitalised() || is_relation(w));
    let begins = shared == 0 || (shared == 1 && owns(&left[0]));
    COPULAS.contains(&left_rest[l].folded.as_str())
        || (begins && is_person(left_gap) && is_person(right_gap))
}

/// A role in a group of which a statement speaks: "the user's goalkeeper", "the goalkeeper of the team".
#[derive(PartialEq, Eq)]
pub(super) struct Role {
    name: usize,
    /// Whether the group is the user's, as far as is said.
    pub is_own: bool,
    /// Whether the statement is about who it is.
    is_whole: bool,
}

impl Role {
    pub fn of(words: &[Word<'_>]) -> Option<Self> {
        let is_in = |list: &str, at: usize| {
            words.get(at).is_some_and(|w| !lines(list, &w.folded).is_empty())
        };
        let is_users = |at: usize| words.get(at).is_some_and(|w| w.folded == "user" && owns(w));
        let is_verb = |at: usize| COPULAS.contains(&words[at].folded.as_str());
        let role = (0..words.len()).find(|at| is_in("group_role", *at))?;
        let (mut from, mut to) = (role, role + 1);
        while from > 0 && matches!(words[from - 1].folded.as_str(), "new" | "current") {
            from -= 1;
        }
        let mut is_own = from == 0 || !ANOTHER.contains(&words[from - 1].folded.as_str());
        if from > 0 && owns(&words[from - 1]) {
            from -= 1;
            is_own = is_in("group", from) || is_users(from);
            from -= usize::from(is_in("group", from) && from > 0 && is_users(from - 1));
        } else if words.get(to).is_some_and(|word| word.folded == "of") {
            to += 1 + usize::from(is_users(to + 1));
            is_own = is_in("group", to);
            to += 1;
        }
        let is_whole = (from == 0 || is_verb(from - 1)) && (to >= words.len() || is_verb(to));
        Some(Self { name: lines("group_role", &words[role].folded)[0], is_own, is_whole })
    }
}

/// Whose role is not that of the others.
const ANOTHER: [&str; 8] =
    ["favourite", "favorite", "other", "second", "former", "old", "assistant", "deputy"];

/// The words of a statement without articles.
fn told(statement: &str) -> Vec<Word<'_>> {
    let mut found = words(statement);
    // "A" within a sentence is a name.
    found.retain(|word| {
        !(matches!(word.raw, "the" | "a" | "an") || word.is_first && word.folded == "the")
    });
    found
}

/// The words that say what is or was so, without those that say that it is not.
fn affirmed<'a>(words: &'a [Word<'_>]) -> impl Iterator<Item = &'a str> {
    let is_part = |word: &&Word<'_>| !negates(word) && !ENDS.contains(&word.folded.as_str());
    words.iter().filter(is_part).map(|word| word.folded.as_str())
}

pub(super) fn owns(word: &Word<'_>) -> bool {
    word.raw.ends_with("'s") || word.raw.ends_with("’s")
}

fn is_relation(word: &Word<'_>) -> bool {
    word.is_in(List::Relation)
}

fn has(words: &[Word<'_>], folded: &str) -> bool {
    words.iter().any(|word| word.folded == folded)
}

/// Whether what somebody has is a person that the other statement does not mention.
fn names_a_person(owned: &[Word<'_>], other: &[Word<'_>]) -> bool {
    let owned = &owned[..owned.len().min(LONGEST)];
    let is_known = |word: &Word<'_>| {
        let lines = List::Relation.lines(&word.folded);
        other.iter().any(|w| List::Relative.lines(&w.folded).iter().any(|l| lines.contains(l)))
            || has(other, &word.folded)
    };
    let is_named = |word: &Word<'_>| word.is_capitalised() && has(other, &word.folded);
    let mut people = owned.iter().filter(|word| is_relation(word)).peekable();
    people.peek().is_some() && !people.any(is_known) && !owned.iter().any(is_named)
}

/// The nearest word that both have, by its place in each; neither begins with it.
fn next_shared(left: &[Word<'_>], right: &[Word<'_>]) -> Option<(usize, usize)> {
    let places = |words: &[Word<'_>]| 1..words.len().min(LONGEST + 1);
    places(left)
        .flat_map(|l| places(right).map(move |r| (l, r)))
        .filter(|&(l, r)| left[l].folded == right[r].folded)
        .min_by_key(|(l, r)| l + r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_people_and_things_are_told_apart() {
        for (left, right) in [
            ("The user lives in Dublin", "The user's brother lives in Galway"),
            ("The user's brother Tim lives in Cork", "The user's sister Ana lives in Galway"),
            ("The user's daughter was born on 2026-06-19", "The user's son was born on 2019-03-02"),
            ("The user's wife works at night", "The user works at a school"),
            ("Priya's son Arun is allergic to nuts", "Priya is allergic to peanuts"),
            ("Tim lives in Cork", "Ana lives in Porto"),
            ("The deadline of project A is 3 July", "The deadline of project B is 1 May"),
            ("The API timeout is 30 seconds", "The API rate limit is 100 requests"),
            ("The user's favourite food is ramen", "The user's favourite colour is green"),
            ("Maras Bruder ist 30", "Maras Schwester ist 40"),
        ] {
            assert!(is_about_another(left, right), "{left:?} and {right:?}");
            assert!(is_about_another(right, left), "{right:?} and {left:?}");
        }
    }

    #[test]
    fn other_values_are_not() {
        for (left, right) in [
            ("The user lives in Oslo", "The user lives in Rome"),
            ("The user lives in Lisbon", "The user lives in Hamburg with their husband Jonas"),
            ("The user lives in Oslo with Tom", "The user lives in Rome with Ann"),
            ("The user's boss is Karen", "The user's boss is Stefan"),
            ("Karen is the user's boss", "Stefan is the user's boss"),
            ("Grigori lives in the flat above the user.", "Ana lives in the flat above the user."),
            (
                "Grigori lives in the flat above the user no longer.",
                "Leopold lives in the flat above the user.",
            ),
            ("Ana leads the team", "Tim leads the team not any more"),
            ("Mara leitet das Team", "Jonas leitet das Team nicht länger"),
            (
                "Ines teaches the user to play the violin.",
                "Tim teaches the user to play the violin.",
            ),
            ("The user's rent is 950 euros a month", "The user's rent is 900 euros a month"),
            ("The API allows 200 requests a minute", "The API allows 100 requests a minute"),
            ("The user does not eat meat", "The user eats meat"),
            ("The user's dog died", "The user has a dog"),
            ("The user's wife Anne died", "The user is married to Anne"),
            ("The user's wife died", "The user is married"),
            ("The user's new phone is a Pixel", "The user's phone is an iPhone"),
            ("The user sold the Volvo", "The user's car is a blue Volvo"),
            ("The user gave up running", "The user runs on Sundays"),
            ("Ana moved to Madrid", "Ana lives in Porto"),
            ("The user's sister Ana moved to Madrid", "Ana lives in Porto"),
            ("", "The user has a cat"),
        ] {
            assert!(!is_about_another(left, right), "{left:?} and {right:?}");
            assert!(!is_about_another(right, left), "{right:?} and {left:?}");
        }
    }
}
