//! What a cross-encoder reads of a row: who said it, and a passage around the words of the question.
//!
//! Passages are counted by estimate, so that no tokeniser is asked and every machine has the same ones.

use std::convert::Infallible;

use crate::text::excerpt::excerpts;
use crate::text::tokens::estimate_tokens;
use crate::text::words_sought::Sought;

/// Most tokens of a passage. Nearly every turn of a chat is read whole, and a chunk of a document costs no more than a
/// turn.
pub const PASSAGE_TOKENS: u32 = 120;
/// Characters of a speaker's name, which may be any text.
const MAX_NAME: usize = 60;

/// The passage of a text.
#[must_use]
pub fn passage(speaker: Option<&str>, text: &str, sought: &Sought) -> String {
    let mut estimate = |texts: &[String]| {
        Ok::<_, Infallible>(texts.iter().map(|text| estimate_tokens(text)).collect())
    };
    let Ok(passages) = excerpts(&[text], sought, PASSAGE_TOKENS, &mut estimate);
    let passage = passages.into_iter().flatten().next();
    let passage = passage.as_deref().unwrap_or(text);
    match speaker {
        Some(name) => {
            format!("{}: {passage}", name.chars().take(MAX_NAME).collect::<String>())
        }
        None => passage.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWER: &str = "Ada keeps the spare key under the blue pot.";

    fn of(text: &str, question: &str) -> String {
        passage(None, text, &Sought::of(question))
    }

    /// A long text with one sentence in its midst.
    fn around(sentence: &str) -> String {
        let filler =
            "The harbour was closed that week, and the ships had to wait outside. ".repeat(400);
        format!("{filler}{sentence} {filler}")
    }

    #[test]
    fn a_turn_is_read_whole() {
        assert_eq!(of(ANSWER, "What about the harbour?"), ANSWER);
        let long_turn = "We went to the lake and had a swim. ".repeat(12);
        assert_eq!(of(&long_turn, "Where was the swim?"), long_turn);
    }

    #[test]
    fn of_a_long_text_the_words_of_the_question_are_read() {
        let found = of(&around(ANSWER), "Where is the spare key?");
        assert!(found.contains(ANSWER), "{found}");
        assert!(estimate_tokens(&found) <= PASSAGE_TOKENS, "{found}");
        assert!(estimate_tokens(&found) > PASSAGE_TOKENS / 2, "with what stands around: {found}");
    }

    #[test]
    fn without_them_it_is_the_beginning() {
        let found = of(&around(ANSWER), "");
        assert!(found.starts_with("The harbour was closed"), "{found}");
    }

    #[test]
    fn a_name_stands_before_it_and_is_no_text() {
        let said = |name: &str, text: &str| passage(Some(name), text, &Sought::of("spare key"));
        assert_eq!(said("Eva", ANSWER), format!("Eva: {ANSWER}"));
        assert!(said("Eva", &around(ANSWER)).starts_with("Eva: … "));
        assert_eq!(said(&"é".repeat(1_000), "no"), format!("{}: no", "é".repeat(MAX_NAME)));
    }

    proptest! {
        #[test]
        fn no_passage_is_longer(text in "(\\PC{0,40}[ .\n]){0,60}", question in "\\PC{0,40}") {
            let found = of(&text, &question);
            prop_assert!(found == text || estimate_tokens(&found) <= PASSAGE_TOKENS, "{found}");
            prop_assert_eq!(of(&text, &question), found);
        }
    }
}
