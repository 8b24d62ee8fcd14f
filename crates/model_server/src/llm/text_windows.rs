//! Cuts long texts for a remote model, whose tokenizer is not at hand.

use crate::protocol::Purpose;

/// Lengths of windows in bytes, tried from the longest on. A token is about four bytes of
/// English and seldom less than two of any language: the first suits OpenAI's models, which take
/// 8,191 tokens, the last those that take 512.
const LENGTHS: [usize; 3] = [16_000, 6_000, 1_500];

/// Longest windows, for an endpoint of which nothing else is known.
pub const LONGEST: usize = LENGTHS[0];

/// The next length below `length` that makes a difference to any of these windows, or `None` if
/// there is none.
#[must_use]
pub fn shorter(length: usize, windows: &[String]) -> Option<usize> {
    let longest = windows.iter().map(String::len).max()?;
    LENGTHS.into_iter().find(|shorter| *shorter < length && *shorter < longest)
}

/// The windows of a text, at least one, each of at most `length` bytes: a document's cover all
/// of it, a question has the first only. No window is empty, because endpoints refuse empty
/// texts.
#[must_use]
pub fn windows(text: &str, purpose: Purpose, length: usize) -> Vec<String> {
    if text.trim().is_empty() {
        return vec![" ".to_owned()];
    }
    let mut windows = Vec::new();
    let mut start = 0;
    loop {
        let end = end_of_window(text, start, length);
        windows.push(text[start..end].to_owned());
        if end == text.len() || purpose == Purpose::Query {
            return windows;
        }
        // Neighbours share a twentieth, so that a sentence at the border is whole in one.
        start = text.floor_char_boundary(end - length / 20);
    }
}

/// Where the window that begins at `start` ends: between words if there is a space in its last
/// quarter.
fn end_of_window(text: &str, start: usize, length: usize) -> usize {
    if text.len() - start <= length {
        return text.len();
    }
    let limit = text.floor_char_boundary(start + length);
    let last_quarter = text.floor_char_boundary(limit - length / 4);
    let space = text[last_quarter..limit].rfind(char::is_whitespace);
    space.map_or(limit, |space| last_quarter + space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_texts_are_one_window() {
        assert_eq!(windows("She moved.", Purpose::Document, LONGEST), ["She moved."]);
        assert_eq!(windows("", Purpose::Query, LONGEST), [" "]);
    }

    #[test]
    fn long_documents_are_cut_between_words_and_questions_are_cut_off() {
        let text = "word ".repeat(10_000);
        let cut = windows(&text, Purpose::Document, LONGEST);
        assert_eq!(cut.len(), 4);
        assert!(cut.iter().all(|window| window.len() <= LONGEST));
        assert!(cut[..3].iter().all(|window| window.ends_with("word")));
        assert_eq!(windows(&text, Purpose::Query, LONGEST), cut[..1]);
    }

    #[test]
    fn windows_get_shorter_while_that_changes_something() {
        let of = |bytes: usize| vec!["x".to_owned(), "x".repeat(bytes)];
        assert_eq!(shorter(LONGEST, &of(16_000)), Some(6_000));
        assert_eq!(shorter(LONGEST, &of(2_000)), Some(1_500));
        assert_eq!(shorter(6_000, &of(6_000)), Some(1_500));
        assert_eq!(shorter(1_500, &of(1_500)), None);
        assert_eq!(shorter(LONGEST, &of(1_000)), None);
        assert_eq!(shorter(LONGEST, &[]), None);
    }

    proptest! {
        #[test]
        fn everything_short_is_whole_in_a_window(unit in ".{0,12}", times in 1_usize..500) {
            let word = |number: usize| format!("<{number}>");
            let text: String =
                (0..times).map(|number| word(number) + &unit).collect();
            let windows = windows(&text, Purpose::Document, 1_500);
            for number in 0..times {
                prop_assert!(windows.iter().any(|window| window.contains(&word(number))));
            }
            prop_assert!(windows.iter().all(|window| (1..=1_500).contains(&window.len())));
            prop_assert!(text.starts_with(&windows[0]));
            prop_assert!(text.ends_with(&windows[windows.len() - 1]));
        }
    }
}
