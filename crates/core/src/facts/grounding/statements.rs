//! One statement a fact: what joins two is parted, without an LLM. English.
//!
//! "Priya is vegetarian and her son Arun is allergic to peanuts" are two facts; as one, neither could be
//! replaced alone. In doubt a fact stays whole.

use crate::text::word_lists::List;
use crate::text::words::{Word, words};

/// Verbs of which two say two things. Those of tastes are not among them: "likes tea and hates coffee".
const VERBS: [&str; 28] = [
    "is", "are", "was", "has", "had", "lives", "works", "plays", "drives", "owns", "plans",
    "speaks", "studies", "teaches", "runs", "eats", "drinks", "weighs", "earns", "pays", "uses",
    "moved", "bought", "sold", "likes", "loves", "hates", "prefers",
];
/// With one of these the parts may belong together.
const JOINING: [&str; 25] = [
    "that", "who", "which", "whose", "whom", "where", "when", "what", "how", "why", "because",
    "if", "whether", "while", "since", "so", "although", "though", "unless", "until", "than", "or",
    "between", "both", "but",
];
/// Most words of a subject that is repeated.
const SUBJECT: usize = 4;
/// How far behind its first word the verb of a second subject stands.
const SECOND: usize = 4;

/// The statements that a fact consists of, at least one.
pub(crate) fn statements(fact: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = fact.to_owned();
    while let Some((first, second)) = parted(&rest) {
        parts.push(first);
        rest = second;
    }
    parts.push(rest);
    parts
}

/// The first statement of two, and the other with its subject.
fn parted(fact: &str) -> Option<(String, String)> {
    let found = words(fact);
    let is_verb = |word: &Word<'_>| VERBS.contains(&word.folded.as_str());
    if found.iter().any(|word| word.is_quoted || JOINING.contains(&word.folded.as_str())) {
        return None;
    }
    let verb = found.iter().position(is_verb).filter(|verb| (1..=SUBJECT).contains(verb))?;
    let subject = fact[..found[verb].begin].trim_end();
    let is_person = |word: &Word<'_>| word.is_in(List::Relation) || word.is_capitalised();
    let and = (verb + 2..found.len()).find(|at| {
        let second = behind(&found, *at);
        let Some(next) = second.first() else { return false };
        let has_verb = second.iter().take(SECOND + 1).skip(1).any(is_verb);
        found[*at].folded == "and"
            && match next.folded.as_str() {
                // Whose son it is must not be in doubt.
                "his" | "her" | "their" => {
                    has_verb
                        && verb <= 2
                        && !owns(&found[verb - 1])
                        && !found[verb..*at].iter().any(is_person)
                }
                "user" => owns(next) && has_verb,
                _ => (is_verb(next) && second.len() > 1) || (owns(next) && has_verb),
            }
    })?;
    let next = behind(&found, and).first()?;
    let first = fact[..found[and].begin].trim_end_matches([' ', ',']);
    let tail = &fact[next.begin..];
    let second = match next.folded.as_str() {
        "his" | "her" | "their" => format!("{subject}'s{}", &tail[next.raw.len()..]),
        _ if is_verb(next) => format!("{subject} {tail}"),
        "user" => format!("The {tail}"),
        _ => tail.to_owned(),
    };
    Some((first.to_owned(), second))
}

/// What follows an "and", without an article.
fn behind<'a, 'b>(found: &'a [Word<'b>], and: usize) -> &'a [Word<'b>] {
    let has_article = found.get(and + 1).is_some_and(|word| word.folded == "the");
    found.get(and + 1 + usize::from(has_article)..).unwrap_or_default()
}

/// Whether a fact says that something changed and not to what: "The user changed suppliers".
pub(crate) fn is_bare_change(fact: &str) -> bool {
    const CHANGES: [&str; 6] = ["changed", "switched", "moved", "replaced", "updated", "corrected"];
    const TO: [&str; 9] = ["to", "from", "into", "in", "with", "by", "on", "at", "for"];
    let found = words(fact);
    let Some(change) = found.iter().position(|word| CHANGES.contains(&word.folded.as_str())) else {
        return false;
    };
    let rest = &found[change + 1..];
    let says = |word: &Word<'_>| {
        word.has_digit() || word.is_capitalised() || TO.contains(&word.folded.as_str())
    };
    change <= SUBJECT && rest.len() <= SUBJECT && !rest.iter().any(says)
}

/// How far behind the verb stands what changed, and the longest of what it changed to.
const CHANGED: usize = 5;
const TO_WHAT: usize = 6;

/// A fact with what its turn says that something changed to, if it left that out: "The club raised the user's
/// pay", of "The club raised my pay to 700 zloty". English.
#[must_use]
pub fn completed(fact: &str, turn: &str) -> String {
    let found = words(fact);
    let is_verb = |word: &&Word<'_>| word.is_in(List::Adjusted);
    let tail = found.iter().find(is_verb).zip(found.last()).and_then(|(verb, last)| {
        let said = words(turn);
        let begins = |at: &usize| said[*at].folded == verb.folded;
        let ends = |at: usize| {
            let mut near = at..said.len().min(at + CHANGED);
            near.find(|at| said[*at].folded == last.folded)
        };
        let to = (0..said.len()).filter(begins).find_map(ends)? + 1;
        let is_part = |word: &&Word<'_>| word.clause == said[to - 1].clause;
        let what = said[to.min(said.len())..].iter().take_while(is_part).take(TO_WHAT + 1);
        let what: Vec<&Word<'_>> = what.collect();
        let is_own = |word: &&&Word<'_>| word.is_in(List::FirstPerson) || word.is_in(List::Own);
        let is_whole = (2..=TO_WHAT).contains(&what.len()) && what[0].folded == "to";
        let text = |last: &Word<'_>| &turn[what[0].begin..last.end()];
        (is_whole && !what.iter().any(|word| is_own(&word))).then(|| text(what[what.len() - 1]))
    });
    let bare = fact.trim_end_matches('.');
    tail.map_or_else(|| fact.to_owned(), |tail| format!("{bare} {tail}{}", &fact[bare.len()..]))
}

/// Whether a word names an owner: "Anna's".
fn owns(word: &Word<'_>) -> bool {
    word.raw.ends_with("'s") || word.raw.ends_with("’s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_statements_are_parted() {
        for (fact, parts) in [
            (
                "Priya is vegetarian and her son Arun is allergic to peanuts",
                &["Priya is vegetarian", "Priya's son Arun is allergic to peanuts"][..],
            ),
            (
                "The user lives in Bonn, and works at the post office.",
                &["The user lives in Bonn", "The user works at the post office."],
            ),
            (
                "The user's brother Tom lives in Cork and plays the fiddle",
                &[
                    "The user's brother Tom lives in Cork",
                    "The user's brother Tom plays the fiddle",
                ],
            ),
            (
                "The user is a nurse and the user's wife is a pharmacist",
                &["The user is a nurse", "The user's wife is a pharmacist"],
            ),
            (
                "The user is 33 and has a dog and drives a Volvo",
                &["The user is 33", "The user has a dog", "The user drives a Volvo"],
            ),
        ] {
            assert_eq!(statements(fact), parts);
        }
    }

    #[test]
    fn what_belongs_together_stays_whole() {
        for fact in [
            "",
            "The user likes tea and coffee",
            "The user and Clara are engaged",
            "The user trains on Mondays and Thursdays",
            "The user has a sister and her son is five",
            "The user's sister is ill and her son is five",
            "The user's sister, who lives in Rome and works as a nurse, is ill",
            "The user said that Ana lives in Rome and works as a nurse",
            "The user is allergic to nuts and is",
            "The project is called \"Run and has fun\"",
            "Rock and roll is what the user likes",
            "Die Nutzerin wohnt in Bonn und arbeitet bei der Post",
        ] {
            assert_eq!(statements(fact), [fact]);
        }
    }

    #[test]
    fn a_fact_says_to_what_something_changed() {
        for (turn, fact, completed_fact) in [
            (
                "The club raised my pay to 700 zloty.",
                "The club raised the user's pay.",
                "The club raised the user's pay to 700 zloty.",
            ),
            (
                "Good news: they cut the fee to 30 euros, at last",
                "They cut the fee",
                "They cut the fee to 30 euros",
            ),
            ("The exam was moved to May 5.", "The exam was moved", "The exam was moved to May 5"),
        ] {
            assert_eq!(completed(fact, turn), completed_fact);
        }
        for (turn, fact) in [
            (
                "The club raised my pay to 700 zloty.",
                "The club raised the user's pay to 700 zloty.",
            ),
            ("The club raised my pay.", "The club raised the user's pay."),
            ("We moved the sofa to my room.", "The user moved the sofa"),
            ("I moved the trip so that we could go to Rome.", "The user moved the trip"),
            ("The user lives in Rome.", "The user lives in Rome"),
            ("", "The user changed jobs"),
            ("I changed jobs", ""),
        ] {
            assert_eq!(completed(fact, turn), fact);
        }
    }

    #[test]
    fn a_change_says_to_what() {
        for fact in
            ["The user changed suppliers", "The user changed jobs again.", "The deadline was moved"]
        {
            assert!(is_bare_change(fact), "{fact}");
        }
        for fact in [
            "The user changed to Nordmel",
            "The user moved to Lisbon",
            "The deadline was moved to 2026-05-15",
            "The user replaced the Volvo",
            "The user has a dog",
            "",
        ] {
            assert!(!is_bare_change(fact), "{fact}");
        }
    }
}
