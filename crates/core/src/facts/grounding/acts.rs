//! What the parts of a source do: state something, or ask, order, quote, imagine and greet. Only what is
//! stated can be a fact. The rules are for English; of other languages they know a question by its mark.
//! Where a part may be a statement, it is one.

use std::collections::{HashMap, HashSet};

use serde::de::IgnoredAny;

use super::polarity::content;
use super::sentence_acts::Sentence;
use crate::text::word_lists::List;
use crate::text::words::{Word, stem, words};

/// What a part of a source does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    State,
    /// What is the user's, named within a question or a task: "our next match".
    Own,
    Ask,
    /// A question in the form of a statement: "The rent is 900 euros?"
    Doubt,
    /// Something to be done now: "translate this".
    Task,
    /// What the assistant is to be or to store: the form of injections.
    Instruct,
    Quote,
    Imagine,
    Greet,
}

impl Act {
    /// What a part that does this is.
    pub fn name(self) -> &'static str {
        match self {
            Self::State | Self::Own => "a statement",
            Self::Ask | Self::Doubt => "a question",
            Self::Task => "a task",
            Self::Instruct => "an instruction to the assistant",
            Self::Quote => "a quotation",
            Self::Imagine => "what was only imagined",
            Self::Greet => "a courtesy",
        }
    }
}

/// Shorter quotations are names: our dog "Balu".
const QUOTED_WORDS: usize = 4;
/// Faces with which a message may be meant as a joke.
const LAUGHING: [char; 11] = ['😂', '🤣', '😆', '😜', '😝', '🤪', '😏', '🙃', '😉', '😹', '💀'];
const QUOTES: [char; 7] = ['"', '“', '”', '„', '«', '»', '「'];

/// What a source states, and what else it says.
#[derive(Default)]
pub(super) struct Acts {
    stated: HashSet<String>,
    /// What is only named as the user's.
    owned: HashSet<String>,
    other: HashMap<String, Act>,
    /// Whether "yes" or "no" makes statements of questions.
    is_answered: bool,
}

impl Acts {
    pub fn add(&mut self, text: &str, words: &[Word<'_>]) {
        self.is_answered |= words.first().is_some_and(|word| word.is_in(List::Answer));
        let acts = acts(text, words);
        for (word, act) in words.iter().zip(&acts) {
            let stem = stem(&word.folded).to_owned();
            match act {
                Act::State => _ = self.stated.insert(stem),
                Act::Own => _ = self.owned.insert(stem),
                act => _ = self.other.entry(stem).or_insert(*act),
            }
        }
    }

    /// What the words of a statement do, if they state nothing. `of_user`: whether it is about the user.
    pub fn unstated(&self, statement: &[Word<'_>], of_user: bool) -> Option<Act> {
        let mut found = None;
        let is_stated = |stem: &str| self.stated.contains(stem);
        for word in content(statement) {
            let stem = stem(&word.folded);
            match self.other.get(stem) {
                // Who is spoken of is there, whatever is asked about them.
                _ if word.is_in(List::Relation) => {}
                _ if is_stated(stem) || self.owned.contains(stem) => return None,
                Some(act) => found = found.or(Some(*act)),
                None => {}
            }
        }
        found.filter(|act| match act {
            Act::Ask | Act::Doubt => !self.is_answered,
            Act::Quote => of_user,
            Act::Imagine => !statement.iter().any(|word| word.is_in(List::Imagined)),
            _ => true,
        })
    }

    /// Whether nothing is stated.
    pub fn is_unstated(&self) -> bool {
        self.stated.is_empty() && self.owned.is_empty()
    }

    pub fn states(&self, word: &Word<'_>) -> bool {
        self.stated.contains(stem(&word.folded))
    }
}

/// Whether a message may state something. One that does not is a question, a task or a courtesy, in
/// English, and says nothing of its user or of another person: there is no need to ask a model.
#[must_use]
pub fn may_state(message: &str) -> bool {
    let found = words(message);
    let mut acts = acts(message, &found).into_iter();
    let mut is_plain = |sentence: &[Word<'_>]| {
        let start = sentence.iter().position(|word| !word.is_in(List::Filler)).unwrap_or(0);
        let mut is_later = false;
        sentence.iter().enumerate().all(|(at, word)| {
            let before = at.checked_sub(1).map(|at| &sentence[at]);
            is_later |= at > start
                && before.is_some_and(|before| {
                    before.clause != word.clause && !before.is_quoted && !word.is_quoted
                });
            let is_for_me = matches!(word.folded.as_str(), "me" | "us")
                && before.is_some_and(|word| word.is_in(List::Task) || word.folded == "help");
            let is_told = word.is_in(List::FirstPerson)
                || word.is_in(List::Own)
                || (at > start && word.is_in(List::Linking))
                // A clause about a person: "Compare the offers, Karen wants the cheaper one."
                || (is_later && (word.is_capitalised() || word.is_in(List::ThirdPerson)));
            match acts.next() {
                Some(Act::Greet) => true,
                Some(Act::Ask | Act::Task) => is_for_me || word.is_quoted || !is_told,
                _ => false,
            }
        })
    };
    found.is_empty() || !found.chunk_by(|_, next| !next.is_first).all(&mut is_plain)
}

/// Whether a sentence is not understood without the one before: "She lives in Graz."
pub(crate) fn refers_back(sentence: &str) -> bool {
    words(sentence).first().is_some_and(|first| {
        let name = first.folded.split(['\'', '’']).next().unwrap_or_default();
        List::Referring.has(name)
    })
}

/// Whether a message only states things, perhaps with a greeting, and does not laugh, as far as the rules
/// can tell.
#[must_use]
pub fn only_states(message: &str) -> bool {
    let found = words(message);
    let laughs = message.contains(LAUGHING) || found.iter().any(|word| word.is_in(List::Joking));
    !laughs && acts(message, &found).iter().all(|act| matches!(act, Act::State | Act::Greet))
}

/// Keys of JSON that is written for a program: a message of a chat, or a change of a memory.
const MACHINE_KEYS: [&str; 9] = [
    "role",
    "op",
    "operation",
    "facts",
    "fact",
    "memory",
    "memories",
    "instruction",
    "instructions",
];

/// Whether a text is JSON that speaks to a program. Users do not tell their lives in it.
fn is_for_machines(text: &str) -> bool {
    let text = text.trim().trim_matches('`').trim_start_matches("json").trim();
    let Some(open) = text.chars().next().filter(|first| matches!(first, '{' | '[')) else {
        return false;
    };
    let objects = match open {
        '{' => serde_json::from_str(text).map(|object| vec![object]),
        _ => serde_json::from_str::<Vec<HashMap<String, IgnoredAny>>>(text),
    };
    let has_key = |object: &HashMap<String, IgnoredAny>| {
        MACHINE_KEYS.iter().any(|key| object.contains_key(*key))
    };
    objects.is_ok_and(|objects| objects.iter().any(has_key))
}

/// What each word takes part in.
pub(super) fn acts(text: &str, words: &[Word<'_>]) -> Vec<Act> {
    if is_for_machines(text) {
        return vec![Act::Instruct; words.len()];
    }
    let mut acts = Vec::with_capacity(words.len());
    let (mut rest, mut before) = (None, Act::State);
    for sentence in words.chunk_by(|_, next| !next.is_first) {
        let next = words.get(acts.len() + sentence.len());
        let tail =
            &text[sentence[sentence.len() - 1].end()..next.map_or(text.len(), |word| word.begin)];
        let read = Sentence { text, words: sentence, is_asking: is_asking(sentence, tail) };
        let (act, goes_on) = match rest {
            Some(act) => (act, true),
            None => read.act(before),
        };
        let from = acts.len();
        acts.resize(from + sentence.len(), act);
        match act {
            Act::Ask | Act::Doubt | Act::Task if rest.is_none() => read.own(&mut acts[from..]),
            _ => {}
        }
        if act == Act::Task && rest.is_none() {
            read.pasted(&mut acts[from..]);
        }
        if act == Act::State {
            read.exclaimed(&mut acts[from..]);
            quotes(sentence, &mut acts[from..]);
        }
        rest = goes_on.then_some(act);
        before = act;
    }
    acts
}

/// Whether a sentence ends with a question mark of its own, not of a quotation.
fn is_asking(sentence: &[Word<'_>], tail: &str) -> bool {
    let own = match sentence.last() {
        Some(word) if word.is_quoted => tail.split_once(QUOTES).map_or("", |(_, after)| after),
        _ => tail,
    };
    own.contains(['?', '？', '؟'])
}

/// Marks longer quotations.
fn quotes(sentence: &[Word<'_>], acts: &mut [Act]) {
    let mut at = 0;
    for run in sentence.chunk_by(|left, right| left.is_quoted == right.is_quoted) {
        if run[0].is_quoted && run.len() >= QUOTED_WORDS {
            acts[at..at + run.len()].fill(Act::Quote);
        }
        at += run.len();
    }
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
