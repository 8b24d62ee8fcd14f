//! Asking for a summary until it is short enough: the LLM is told how long its answer was, and asked
//! again at most [`MAX_RETRIES`](crate::condense::levels::MAX_RETRIES) times. The shortest answer is kept.

use crate::condense::{levels, summarize};
use crate::llm::chat::ChatMessage;

/// A summary whose tokens were counted.
pub trait Counted: Sized {
    fn tokens(&self) -> u32;

    /// The shorter of two answers to one question, the earlier of equals.
    #[must_use]
    fn or_shorter(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) if self.tokens() >= earlier.tokens() => earlier,
            _ => self,
        }
    }
}

/// A question for a summary, and the shortest answer so far.
pub struct Shortening<S> {
    messages: Vec<ChatMessage>,
    target: u32,
    most: u32,
    retries: u32,
    kept: Option<S>,
}

/// What is to be done after an answer.
pub enum Step<S> {
    Done(S),
    /// Its messages are to be sent.
    Ask(Shortening<S>),
    /// Asked often enough: what is left is to cut.
    Cut(S),
}

impl<S: Counted> Shortening<S> {
    /// A question that asks for `target` tokens; up to `most` are taken.
    pub fn new(messages: Vec<ChatMessage>, target: u32, most: u32) -> Self {
        Self { messages, target, most, retries: 0, kept: None }
    }

    /// What is to be sent next.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// The shortest answer so far, for when no further one comes: too long is better than none.
    pub fn into_kept(self) -> Option<S> {
        self.kept
    }

    /// Takes an answer, `answer` as it was sent and `summary` as it was read.
    pub fn take(self, answer: &str, summary: S) -> Step<S> {
        let Self { messages, target, most, retries, kept } = self;
        let tokens = summary.tokens();
        let kept = summary.or_shorter(kept);
        if kept.tokens() <= most {
            return Step::Done(kept);
        }
        if retries >= levels::MAX_RETRIES {
            return Step::Cut(kept);
        }
        let messages = summarize::shorter(messages, answer, tokens, target);
        Step::Ask(Self { messages, target, most, retries: retries + 1, kept: Some(kept) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Counted for u32 {
        fn tokens(&self) -> u32 {
            *self
        }
    }

    /// How often it was asked, and what came of answers of these lengths.
    fn outcome(answers: &[u32]) -> (usize, &'static str, u32) {
        let mut question = Shortening::new(Vec::new(), 100, 120);
        for (asked, tokens) in answers.iter().enumerate() {
            match question.take("a summary", *tokens) {
                Step::Done(kept) => return (asked + 1, "done", kept),
                Step::Cut(kept) => return (asked + 1, "cut", kept),
                Step::Ask(next) => question = next,
            }
        }
        (answers.len(), "asked", question.into_kept().unwrap_or_default())
    }

    #[test]
    fn the_first_that_is_short_enough_is_taken() {
        assert_eq!(outcome(&[120]), (1, "done", 120));
        assert_eq!(outcome(&[121, 90]), (2, "done", 90));
        assert_eq!(outcome(&[400, 300, 120]), (3, "done", 120));
    }

    #[test]
    fn after_two_retries_the_shortest_is_cut() {
        assert_eq!(outcome(&[400, 200, 300]), (3, "cut", 200));
        assert_eq!(outcome(&[400, 200]), (2, "asked", 200));
    }

    #[test]
    fn a_retry_says_how_long_the_answer_was() {
        let Step::Ask(next) = Shortening::new(Vec::new(), 100, 120).take("too long", 321) else {
            panic!("321 tokens are too many");
        };
        let said: String = next.messages().iter().map(|m| m.content.as_str()).collect();
        assert!(
            said.contains("too long") && said.contains("321") && said.contains("100"),
            "{said}"
        );
    }
}
