//! What a message is searched for with. "And for Ben?" says little about what it is about; what the user said before
//! it does. docs/context.md has the measurement.

/// Characters from which on a message says by itself what it is about.
const SPEAKS_FOR_ITSELF: usize = 40;
/// So many messages before it are looked at.
pub const MOST_BEFORE: usize = 3;
/// So many characters of the end of each count: a question mostly ends what was said.
const END: usize = 100;

/// The message, below what the user said before it if it is short: as many messages, the newest first, as it takes
/// until the whole does not count as short any more.
#[must_use]
pub fn searched<'a>(message: &str, before: impl IntoIterator<Item = &'a str>) -> String {
    let mut searched = message.to_owned();
    for earlier in before.into_iter().take(MOST_BEFORE) {
        if searched.trim().chars().count() >= SPEAKS_FOR_ITSELF {
            break;
        }
        searched = format!("{}\n{searched}", end(earlier.trim()));
    }
    searched
}

/// The last words of a text.
fn end(text: &str) -> &str {
    let Some((from, _)) = text.char_indices().rev().nth(END - 1) else { return text };
    let cut = &text[from..];
    // Without the word that was cut, unless it is all there is.
    cut.split_once(char::is_whitespace).map_or(cut, |(_, rest)| rest).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_message_is_searched_for_with_what_was_said_before() {
        let before = ["What shoe size does Theo have?", "Hello!"];
        assert_eq!(
            searched("and for her?", before),
            "What shoe size does Theo have?\nand for her?"
        );
        assert_eq!(searched("and for her?", []), "and for her?");
    }

    #[test]
    fn as_many_messages_as_it_takes() {
        let before = ["Good.", "And Isla?", "What shoe size does Theo have?", "Hello!"];
        assert_eq!(
            searched("for school", before),
            "What shoe size does Theo have?\nAnd Isla?\nGood.\nfor school"
        );
        assert_eq!(searched("ok", ["a", "b", "c", "d"]), "c\nb\na\nok");
    }

    #[test]
    fn a_message_that_speaks_for_itself_stays_alone() {
        let message = "Which shoe size does my son Theo have now";
        assert_eq!(searched(message, ["What about Isla?"]), message);
        let at = |length: usize| searched(&"x".repeat(length), ["before"]);
        assert!(at(SPEAKS_FOR_ITSELF - 1).starts_with("before\n"));
        assert_eq!(at(SPEAKS_FOR_ITSELF), "x".repeat(SPEAKS_FOR_ITSELF));
    }

    #[test]
    fn of_a_long_message_the_end_counts() {
        let long = format!("{}What does Ben eat?", "a list of words, ".repeat(1_000));
        let found = searched("and Ada?", [long.as_str()]);
        assert!(found.ends_with("What does Ben eat?\nand Ada?"), "{found}");
        assert!(found.chars().count() <= END + 9, "{found}");
        let first = found.split_whitespace().next().unwrap();
        assert!(long.split_whitespace().any(|word| word == first), "no part of a word: {found}");
        assert_eq!(end(&"ü".repeat(END + 5)).chars().count(), END);
    }

    proptest! {
        #[test]
        fn the_message_is_always_the_end(message in ".{0,60}", before in prop::collection::vec(".{0,300}", 0..5)) {
            let found = searched(&message, before.iter().map(String::as_str));
            prop_assert!(found.ends_with(&message));
            prop_assert!(found.chars().count() <= message.chars().count() + MOST_BEFORE * (END + 2));
        }
    }
}
