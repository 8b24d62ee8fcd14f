//! One statement a fact: what joins two is parted, without an LLM. English.
//!
//! "Priya is vegetarian and her son Arun is allergic to peanuts" are two facts; as one, neither could be
//! replaced alone. In doubt a fact stays whole.

use super::topics::owns;
use super::words::{List, Word, begin, words};

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
    let subject = fact[..begin(fact, &found[verb])].trim_end();
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
    let first = fact[..begin(fact, &found[and])].trim_end_matches([' ', ',']);
    let tail = &fact[begin(fact, next)..];
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
