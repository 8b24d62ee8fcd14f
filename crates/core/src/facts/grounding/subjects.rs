//! The person that a source is about: the user or another one. English.

use std::collections::HashMap;

use super::polarity::content;
use crate::text::word_lists::List;
use crate::text::words::{Word, stem};

/// The person that each word of a source is about.
#[derive(Clone, Copy, Default)]
struct Of {
    user: bool,
    other: bool,
}

/// The people that the clauses of a source are about.
#[derive(Default)]
pub(super) struct Subjects {
    words: HashMap<String, Of>,
}

impl Subjects {
    pub fn add(&mut self, words: &[Word<'_>]) {
        let mut begin = 0;
        let mut last = None;
        while begin < words.len() {
            let parts = |at: usize| {
                let word = &words[at];
                let next = words.get(at + 1).map_or("", |word| word.folded.as_str());
                word.clause != words[at - 1].clause
                    || word.is_in(List::Turn)
                    || (word.folded == "and"
                        && (List::FirstPerson.has(next)
                            || List::ThirdPerson.has(next)
                            || next == "my"))
            };
            let end = (begin + 1..words.len()).find(|at| parts(*at)).unwrap_or(words.len());
            let clause = &words[begin..end];
            // A clause without a subject goes on with that of the one before, in the same sentence.
            let of = match (subject(clause), last) {
                (Some(of), _) => of,
                (None, Some(of)) if !clause[0].is_first => of,
                _ => Of { user: true, other: true },
            };
            last = Some(of);
            for word in clause {
                let said = self.words.entry(stem(&word.folded).to_owned()).or_default();
                said.user |= of.user;
                said.other |= of.other;
            }
            begin = end;
        }
    }

    /// Whether a statement says of the user what a source says only of another person, or the reverse.
    pub fn confuses(&self, statement: &[Word<'_>], speaker: &[String]) -> bool {
        if is_reflexive(statement) {
            return true;
        }
        let Some(about) = told_about(statement, speaker) else { return false };
        let (mut fitting, mut other) = (0, 0);
        for word in content(statement) {
            match self.words.get(stem(&word.folded)) {
                Some(of) if (about.user && of.user) || (about.other && of.other) => fitting += 1,
                Some(_) => other += 1,
                None => {}
            }
        }
        other > 0 && fitting == 0
    }
}

/// The person that a clause is about, if it says so.
fn subject(clause: &[Word<'_>]) -> Option<Of> {
    let name = |at: usize| clause.get(at).map_or("", |word| word.folded.as_str());
    if clause.iter().any(|word| word.is_in(List::FirstPerson)) {
        return Some(Of { user: true, other: false });
    }
    let relation = |at: usize| {
        clause.get(at).is_some_and(|word| word.is_in(List::Relation) && word.folded != "married")
    };
    let skipped = usize::from(matches!(
        name(0),
        "and" | "but" | "so" | "because" | "while" | "well" | "yes" | "also"
    ));
    // "You're a saint": so is the assistant.
    let is_assistant = matches!(name(skipped), "you're" | "you've")
        || (name(skipped) == "you" && matches!(name(skipped + 1), "are" | "have" | "were"));
    let third = List::ThirdPerson.has(name(skipped)) || is_assistant;
    // "my wife is", "my little sister works"
    let owned = matches!(name(skipped), "my" | "our" | "his" | "her")
        && (skipped + 1..skipped + 3).any(relation);
    (third || owned).then_some(Of { user: false, other: true })
}

/// Whether a statement tells of the conversation, in whatever language it was: "The user said 'lol, thanks'". One about
/// the assistant does, unless what was said `speaks_of_assistant`.
pub(super) fn retells(
    statement: &str,
    found: &[Word<'_>],
    speaker: &[String],
    speaks_of_assistant: bool,
) -> bool {
    const SAYS: [&str; 6] = ["said", "says", "wrote", "replied", "answered", "exclaimed"];
    const QUOTES: [char; 7] = ['"', '\'', '“', '”', '‘', '’', '„'];
    let verb = found.iter().take(3).find(|word| SAYS.contains(&word.folded.as_str()));
    let rest = verb.map_or("", |verb| statement[verb.end()..].trim_start());
    let rest = rest.trim_end_matches('.');
    let is_quotation = rest.starts_with(QUOTES) && rest.ends_with(QUOTES);
    // "The user thanked the assistant"
    let [.., about] = found else { return false };
    let is_about_assistant = about.folded == "assistant"
        && !speaks_of_assistant
        && found.iter().rev().skip(1).take(2).any(|word| word.is_in(List::Telling));
    (is_quotation || is_about_assistant) && is_of_user(found, speaker)
}

/// Whether a statement begins with the user, not with what is theirs.
pub(super) fn is_of_user(statement: &[Word<'_>], speaker: &[String]) -> bool {
    statement.iter().find(|word| word.folded != "the").is_some_and(|first| {
        let is_owner = first.raw.ends_with("'s") || first.raw.ends_with("’s");
        !is_owner && (first.folded == "user" || speaker.contains(&first.folded))
    })
}

/// "The user cheered the user up": one of the two was the assistant.
fn is_reflexive(statement: &[Word<'_>]) -> bool {
    let name = |at: usize| statement.get(at).map_or("", |word| word.folded.as_str());
    let is_user = |at: usize| name(at) == "user" && !statement[at].raw.ends_with(['s', '\'', '’']);
    // Behind the verb, and no "user account".
    (3..6).any(|at| {
        is_user(at)
            && name(at - 1) == "the"
            && matches!(name(at + 1), "" | "up" | "down" | "out" | "laugh" | "smile" | "feel")
            && !statement[..at].iter().any(|word| word.is_in(List::Linking))
    }) && is_of_user(statement, &[])
}

/// The person that a statement is about: the user alone, or one of their people alone.
fn told_about(statement: &[Word<'_>], speaker: &[String]) -> Option<Of> {
    let first = statement.iter().find(|word| word.folded != "the")?;
    let is_user = first.folded == "user" || speaker.contains(&first.folded);
    let is_owner = first.raw.ends_with("'s") || first.raw.ends_with("’s");
    let has_relation = statement.iter().any(|word| word.is_in(List::Relation));
    let belongs = statement.iter().any(|word| word.is_in(List::Belonging));
    match (is_user, is_owner, has_relation) {
        (true, false, false) if !belongs => Some(Of { user: true, other: false }),
        _ => None,
    }
}
