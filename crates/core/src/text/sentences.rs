//! Where the sentences of a text end.
//!
//! The rules are meant for cutting: if in doubt, two sentences are taken for one, so that no cut
//! goes through the middle of a sentence. They need no dictionary of a language.

/// Marks that end a sentence if white space follows.
const MARKS: [char; 4] = ['.', '!', '?', '…'];
/// Marks that end a sentence whatever follows, as their scripts have no spaces.
const WIDE_MARKS: [char; 4] = ['。', '！', '？', '｡'];
/// What may stand between the mark and the white space.
const CLOSERS: [char; 15] =
    ['"', '\'', '”', '’', '»', '«', ')', ']', '}', '*', '_', '`', '」', '』', '）'];
/// Words with a full stop that are always followed by a name or a number.
const TITLES: [&str; 12] =
    ["mr", "mrs", "ms", "dr", "prof", "st", "vs", "hr", "fr", "mme", "sra", "bzw"];
/// Words with a full stop if a number follows.
const NUMBERED: [&str; 9] = ["no", "nr", "fig", "vol", "p", "pp", "sec", "art", "ch"];
/// An ordinal or the number of a list item has at most so many digits; a year has more.
const MAX_ORDINAL_DIGITS: usize = 2;

/// The byte offset behind each sentence and the white space that follows it. The sentences are the
/// whole text: the last offset is its length. An empty text has none.
pub(crate) fn ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut start = 0;
    let mut at = spaces(text);
    while let Some(mark) = text[at..].chars().next() {
        let (after, end) = if mark == '\n' {
            (at + 1, ends_line(text, at + 1).then_some(at + 1))
        } else if is_mark(mark) {
            end_of_marks(text, at)
        } else {
            (at + mark.len_utf8(), None)
        };
        at = after;
        if let Some(end) = end {
            at = end + spaces(&text[end..]);
            start = at;
            ends.push(at);
        }
    }
    if start < text.len() {
        ends.push(text.len());
    }
    ends
}

/// The bytes of white space that the text begins with.
fn spaces(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn is_mark(character: char) -> bool {
    MARKS.contains(&character) || WIDE_MARKS.contains(&character)
}

/// Whether the line break before `after` ends a sentence. It does not if the next line goes on in
/// small letters, as in wrapped text.
fn ends_line(text: &str, after: usize) -> bool {
    let next = text[after..].trim_start_matches([' ', '\t', '\r']).chars().next();
    next.is_none_or(|next| !next.is_lowercase())
}

/// Where the marks end that begin at `at`, and where the sentence ends, if they end one.
fn end_of_marks(text: &str, at: usize) -> (usize, Option<usize>) {
    let after = text.len() - text[at..].trim_start_matches(is_mark).len();
    let marks = &text[at..after];
    let closed = text[after..].trim_start_matches(CLOSERS);
    let end = text.len() - closed.len();
    if marks.ends_with(WIDE_MARKS) {
        return (after, Some(end));
    }
    let next = closed.trim_start().chars().next();
    let goes_on = closed.starts_with(|c: char| !c.is_whitespace())
        || next.is_some_and(char::is_lowercase)
        || marks == "." && is_abbreviated(&text[..at], next);
    (after, (!goes_on).then_some(end))
}

/// Whether the full stop behind `before` belongs to its last word. `next` is what follows the
/// white space.
fn is_abbreviated(before: &str, next: Option<char>) -> bool {
    if next.is_none() {
        return false;
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut characters = word.chars();
    let (first, second) = (characters.next(), characters.next());
    let is_initial = second.is_none() && first.is_some_and(char::is_uppercase);
    // "e.g", "U.S"
    let is_letters = word.contains('.') && word.split('.').all(|part| part.chars().count() == 1);
    let is_ordinal = word.len() <= MAX_ORDINAL_DIGITS
        && !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_digit());
    let lower = word.to_lowercase();
    let is_numbered =
        NUMBERED.contains(&lower.as_str()) && next.is_some_and(|c| c.is_ascii_digit());
    is_initial || is_letters || is_ordinal || is_numbered || TITLES.contains(&lower.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let mut start = 0;
        let next = |end| text[std::mem::replace(&mut start, end)..end].trim();
        ends(text).into_iter().map(next).collect()
    }

    #[test]
    fn sentences_end_at_their_marks() {
        for (text, expected) in [
            ("One. Two! Three? Four", vec!["One.", "Two!", "Three?", "Four"]),
            ("Really?! Yes... No…", vec!["Really?!", "Yes...", "No…"]),
            (
                "He said \"Go.\" She went. (Far.) Done",
                vec!["He said \"Go.\"", "She went.", "(Far.)", "Done"],
            ),
            ("今日は晴れ。明日は？雨！", vec!["今日は晴れ。", "明日は？", "雨！"]),
            ("It is **bold.** Next", vec!["It is **bold.**", "Next"]),
            ("In 2024. She moved.", vec!["In 2024.", "She moved."]),
        ] {
            assert_eq!(sentences(text), expected, "{text}");
        }
    }

    #[test]
    fn a_full_stop_inside_of_a_sentence_does_not_end_it() {
        for sentence in [
            "Version 1.2.3 of example.com costs 3.50.",
            "Dr. Smith met Mrs. Jones and J. R. Miller.",
            "Fruit, e.g. apples, in the U.S. Army.",
            "See No. 5 and Fig. 3.",
            "Am 3. Mai war es kalt.",
            "\"Really?\" she asked.",
            "Wait... and see.",
            "1. First",
        ] {
            assert_eq!(sentences(sentence), [sentence]);
        }
        assert_eq!(sentences("She said no. He left."), ["She said no.", "He left."]);
    }

    #[test]
    fn a_line_ends_a_sentence_unless_it_is_wrapped() {
        assert_eq!(
            sentences("# Title\n- one\n- two\n\nwrapped\ntext here.\r\n\r\nEnd"),
            ["# Title", "- one", "- two", "wrapped\ntext here.", "End"]
        );
        assert_eq!(sentences("a\n \nb"), ["a", "b"], "a blank line always ends one");
    }

    #[test]
    fn white_space_is_no_sentence() {
        assert!(ends("").is_empty());
        assert_eq!(ends(" \n "), [3]);
        assert_eq!(sentences("\n\n A. \n\n"), ["A."]);
    }

    proptest! {
        #[test]
        fn the_sentences_are_the_whole_text(text in "([A-Za-z0-9 .!?\\n\"”。é]{0,60})|\\PC{0,60}") {
            let ends = ends(&text);
            prop_assert_eq!(ends.last().copied().unwrap_or(0), text.len());
            prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
            let mut start = 0;
            for end in ends {
                prop_assert!(!text[start..end].trim().is_empty() || text.trim().is_empty());
                start = end;
            }
        }
    }
}
