//! The form of a user's message that memories were put into, and the way back.
//!
//! An application may store the message it sent to its model instead of the one its user typed.
//! Facts must not be extracted from the memories in it: they would come back as something the
//! user said, again and again.

/// Opens the list of memories, one `[role] content` a line.
pub const MEMORY_HEADER: &str = "Long-term memory (most relevant first):";
/// Stands before what the user typed, at the start of a line.
pub const MESSAGE_HEADER: &str = "Current message:";

/// What the user typed, of a message that may have been augmented.
///
/// That is everything after the last line that begins with [`MESSAGE_HEADER`], provided that a
/// line before it begins with [`MEMORY_HEADER`] (with or without its colon). Any other text is
/// returned as it is.
#[must_use]
pub fn original_message(content: &str) -> &str {
    let is_header = |at: usize| content[at..].starts_with(MEMORY_HEADER.trim_end_matches(':'));
    let Some(block) = line_starts(content).find(|at| is_header(*at)) else { return content };
    line_starts(content)
        .filter(|at| *at > block)
        .filter_map(|at| content[at..].strip_prefix(MESSAGE_HEADER))
        .last()
        .map_or(content, str::trim)
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_the_user_typed_is_left_of_an_augmented_message() {
        for (augmented, typed) in [
            (
                "Long-term memory (most relevant first):\n[memory] The user has a dog\n\
                 [user] I like tea\n\nCurrent message: What do I drink?",
                "What do I drink?",
            ),
            (
                "Summary of the conversation:\nThey talked.\n\n\
                 Long-term memory (most relevant first)\n[memory] x\nCurrent message:\nTwo\nlines\n",
                "Two\nlines",
            ),
            (
                "Long-term memory (most relevant first):\n[memory] He wrote\nCurrent message: old\n\
                 Current message: new",
                "new",
            ),
            (
                "Long-term memory (most relevant first):\r\n[memory] x\r\nCurrent message: hi\r\n",
                "hi",
            ),
            ("Long-term memory (most relevant first):\nCurrent message:", ""),
        ] {
            assert_eq!(original_message(augmented), typed, "{augmented:?}");
        }
    }

    #[test]
    fn any_other_message_is_left_as_it_is() {
        for message in [
            "",
            "  I like tea\n",
            "Current message: I like tea",
            "a\nCurrent message: I like tea",
            "Long-term memory (most relevant first):\n[memory] The user likes tea",
            "My Long-term memory (most relevant first):\nCurrent message: I like tea",
            "Long-term memory (most relevant first):\nThe Current message: I like tea",
            "Current message: x\nLong-term memory (most relevant first):\n",
        ] {
            assert_eq!(original_message(message), message);
        }
    }

    proptest! {
        #[test]
        fn a_message_that_was_put_together_comes_back(
            memories in prop::collection::vec("(Current message: )?\\PC{0,30}", 0..4),
            typed in "\\PC{0,40}",
        ) {
            let memories: String = memories.iter().map(|m| format!("[memory] {m}\n")).collect();
            let augmented = format!("{MEMORY_HEADER}\n{memories}\n{MESSAGE_HEADER} {typed}");
            prop_assert_eq!(original_message(&augmented), typed.trim());
        }

        #[test]
        fn a_text_without_the_header_is_never_changed(text in "[a-zC:\\n m]{0,60}") {
            prop_assert_eq!(original_message(&text), &text);
        }
    }
}
