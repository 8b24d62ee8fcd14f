//! Courtesies: thanks, wishes and pardons that say nothing of a person.

use super::sentence_acts::Sentence;
use crate::text::word_lists::List;
use crate::text::words::Word;

/// What is hoped of the assistant, or of its time.
const HOPES: [&str; 7] = ["i do hope", "i hope", "do hope", "hope", "hoping", "i trust", "wishing"];
/// What users ask the assistant's pardon for.
const PARDONS: [&str; 7] = [
    "sorry to",
    "sorry for",
    "sorry if i'm",
    "sorry if i am",
    "forgive me for",
    "pardon me for",
    "apologies for",
];
/// "I hope I am not bothering you."
const NOT_HOPED: [&str; 4] = ["i am not", "i'm not", "im not", "i haven't been"];

impl Sentence<'_> {
    /// "Thanks, that was helpful": of whatever it speaks, it says nothing of a person.
    pub fn is_courtesy(&self) -> bool {
        let is_part = |word: &Word<'_>| {
            word.is_in(List::Greeting) || word.is_in(List::Courtesy) || word.is_in(List::Empty)
        };
        let is_kind = |from: usize| {
            let said = &self.words[from.min(self.words.len())..];
            said.iter().all(is_part)
                && !Self { words: said, ..*self }.is_personal()
                && !self.has(List::ThirdPerson)
        };
        let Some(first) = self.words.first() else {
            return false;
        };
        if first.is_in(List::Greeting) && is_kind(0) {
            return true;
        }
        // "How kind of you!"
        let is_exclamation = self.begins(0, ["how", "what a", "what an"]).is_some()
            && !self.is_asking
            && self.words.get(1).is_some_and(|word| !List::Auxiliary.has(&word.folded))
            && is_kind(1);
        let start = self.start();
        is_exclamation
            || self.bothers(start, PARDONS)
            || self.begins(start, HOPES).is_some_and(|length| {
                let hoped = start + length;
                let is_for_you = matches!(self.name(hoped), "you" | "your" | "you're" | "this");
                (is_for_you && is_kind(hoped)) || self.bothers(hoped, NOT_HOPED)
            })
    }

    /// "Sorry to trouble you again", and not "sorry to trouble you, my flight was cancelled".
    fn bothers(&self, start: usize, openings: impl IntoIterator<Item = &'static str>) -> bool {
        let bothering = self.begins(start, openings).and_then(|opening| {
            let from = start + opening;
            self.begins(from, List::Bothering.words()).map(|length| from + length)
        });
        bothering.is_some_and(|from| {
            self.words[from..].iter().all(|word| {
                let is_plain = word.is_in(List::Empty) || word.is_in(List::Courtesy);
                (is_plain && !word.is_in(List::FirstPerson) && !word.is_in(List::Own))
                    || word.is_in(List::Bothered)
            })
        })
    }
}
