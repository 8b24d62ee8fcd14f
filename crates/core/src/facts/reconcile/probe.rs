//! What an LLM can be trusted with, from pairs of which the answer is known. Each question is one as
//! [`messages`](super::messages) asks it about several facts: to confuse their numbers, or to take what is said
//! beside a memory for a change of it, is what small models do.

use super::{Choice, DatedFact, messages, parse};
use crate::facts::answers::AnswerFormat;
use crate::llm::chat::ChatMessage;

/// How a fact relates to the memories of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    New,
    Same(u32),
    /// Replaces it or ends it: of some changes both can be said.
    Changes(u32),
}

use Right::{Changes, New, Same};

struct Pairs {
    memories: [&'static str; 8],
    facts: [(&'static str, Right); 8],
}

const QUESTIONS: [Pairs; 2] = [
    Pairs {
        memories: [
            "The user lives in Porto",
            "The user's sister Marta is a nurse",
            "The user has two cats",
            "The user is training for a half marathon",
            "The weekly team meeting is on Tuesday at 10",
            "The user pays 40 euros a month for the gym",
            "The user drinks coffee every morning",
            "The user's laptop is a ThinkPad",
        ],
        facts: [
            ("The user has moved to Braga", Changes(1)),
            ("Marta has two children", New),
            ("The gym is open until midnight", New),
            ("The weekly team meeting now takes place on Wednesday at 10", Changes(5)),
            ("The user owns a pair of cats", Same(3)),
            ("The user has given up coffee", Changes(7)),
            ("The user's brother lives in Porto", New),
            ("The user bought a MacBook as a second laptop", New),
        ],
    },
    Pairs {
        memories: [
            "The user works at Brandt as an accountant",
            "The user's daughter Ines plays the violin",
            "The release of version 4 is planned for May 12",
            "The user is allergic to peanuts",
            "The user's car is a red Skoda",
            "The user and Jonas are engaged",
            "The user reads before going to sleep",
            "The user has a dentist appointment on June 3",
        ],
        facts: [
            ("The user's neighbour works at Brandt", New),
            ("Ines has swapped the violin for the drums", Changes(2)),
            ("The release of version 5 is planned for August 20", New),
            ("The user has a peanut allergy", Same(4)),
            ("The Skoda has run 90,000 kilometres", New),
            ("The user and Jonas have broken off their engagement", Changes(6)),
            ("The user's dentist appointment was moved to June 10", Changes(8)),
            ("The user's son plays the violin", New),
        ],
    },
];

/// Choices that a model makes in a probe.
pub const CHOICES: u32 = 16;

/// So far in a probe: questions that were answered, and right choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    answered: usize,
    right: u32,
}

impl Probe {
    /// The next question. After a wrong choice, there is none: the model has not passed.
    #[must_use]
    pub fn question(&self) -> Option<(Vec<ChatMessage>, AnswerFormat)> {
        let pairs = QUESTIONS.get(self.answered).filter(|_| self.is_all_right())?;
        let dated = |content| DatedFact { content, since: "" };
        let existing = pairs.memories.map(dated);
        let new = pairs.facts.map(|(fact, _)| dated(fact));
        Some((messages(&existing, &new), AnswerFormat::Decisions { existing: 8, new: 8 }))
    }

    /// Goes on with an answer. One that cannot be read is wrong.
    pub fn take(&mut self, answer: &str) {
        let Some(pairs) = QUESTIONS.get(self.answered) else { return };
        let decisions = parse(answer, 8, 8).unwrap_or_default();
        let is_right = |(number, (_, right)): &(u32, (&str, Right))| {
            let mut choices = decisions.iter().filter(|decision| decision.fact == *number);
            let only = choices.next().filter(|_| choices.next().is_none());
            only.is_some_and(|decision| match (&decision.choice, *right) {
                (Choice::New, New) => true,
                (Choice::Same(memory), Same(expected)) => *memory == expected,
                (Choice::Replaces { memory, .. } | Choice::Ends(memory), Changes(expected)) => {
                    *memory == expected
                }
                _ => false,
            })
        };
        let right = (1..).zip(pairs.facts).filter(is_right).count();
        self.right += u32::try_from(right).unwrap_or_default();
        self.answered += 1;
    }

    fn is_all_right(&self) -> bool {
        usize::try_from(self.right) == Ok(self.answered * 8)
    }

    /// Right choices among [`CHOICES`]. Questions that were not asked count as answered wrongly.
    #[must_use]
    pub fn right(&self) -> u32 {
        self.right
    }
}

/// Whether a model with so many right choices gets several facts in a call, and is believed what it replaces:
/// only one that makes no mistake. One that chooses rightly 98 times out of 100 passes with 72 %, one that does so
/// half of the time never.
#[must_use]
pub fn passes(right: u32) -> bool {
    right >= CHOICES
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
