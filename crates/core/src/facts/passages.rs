//! What a small model is asked about in one call: not a whole message, but a sentence or two.

use crate::facts::grounding::refers_back;
use crate::text::sentences;

/// A message is asked about in at most so many passages, each of at least so many bytes.
const MOST_PASSAGES: usize = 12;
const LEAST_PASSAGE: usize = 20;

/// A message in passages that can be understood alone, in their order: its sentences, but short ones and those that
/// refer to the one before with that. A small model extracts more from them, and makes up less, than from the whole.
#[must_use]
pub fn passages(message: &str) -> Vec<&str> {
    let least = LEAST_PASSAGE.max(message.len() / MOST_PASSAGES);
    let (mut passages, mut start, mut end) = (Vec::new(), 0, 0);
    for next in sentences::ends(message) {
        if end - start >= least && !refers_back(&message[end..next]) {
            passages.push(message[start..end].trim());
            start = end;
        }
        end = next;
    }
    passages.push(message[start..end].trim());
    passages.retain(|passage| !passage.is_empty());
    passages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_has_passages_that_can_be_understood_alone() {
        let of = passages;
        assert_eq!(
            of("Hello! My sister Eva is a teacher. She moves to Graz. My cat is called Poum."),
            ["Hello! My sister Eva is a teacher. She moves to Graz.", "My cat is called Poum."]
        );
        // What is short goes with what follows, in other languages too.
        assert_eq!(
            of(
                "Mad day. We sold the old house. And that's it. Eva ist Lehrerin in Wien. Sie zieht um."
            ),
            [
                "Mad day. We sold the old house. And that's it.",
                "Eva ist Lehrerin in Wien. Sie zieht um."
            ]
        );
        assert_eq!(
            of("one sentence, however long it may be"),
            ["one sentence, however long it may be"]
        );
        assert_eq!(of(" \n "), Vec::<&str>::new());
        let long = "I have a very old boat in Oslo. ".repeat(100);
        assert!((2..=MOST_PASSAGES).contains(&of(&long).len()));
    }

    proptest! {
        #[test]
        fn passages_are_the_message(message in "[a-zA-Z .!?\n äßéи。]{0,300}") {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let of_passages: Vec<String> = passages(&message).into_iter().flat_map(words).collect();
            prop_assert_eq!(of_passages.concat(), words(&message).concat());
        }
    }
}
