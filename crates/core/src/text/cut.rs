//! A text that must not be longer than a number of tokens: what is left of it.

use crate::text::sentences;
use crate::text::tokens::{self, Counter};

/// The longest beginning of `text` that has at most `max_tokens` tokens: whole sentences, or whole
/// words if not even the first sentence fits, or characters if not even the first word does.
///
/// The result is trimmed and never over the limit. It is empty only if the text is blank, or if
/// not even its first character fits.
///
/// # Errors
///
/// Those of the counter.
pub fn cut_to<E>(text: &str, max_tokens: u32, count: &mut Counter<'_, E>) -> Result<String, E> {
    let text = text.trim();
    if text.is_empty() || max_tokens == 0 {
        return Ok(String::new());
    }
    if tokens::count_one(text, count)? <= max_tokens {
        return Ok(text.to_owned());
    }
    let ways: [fn(&str) -> Vec<usize>; 3] = [sentences::ends, word_ends, character_ends];
    for ends in ways {
        let kept = longest(text, &ends(text), max_tokens, count)?;
        if !kept.is_empty() {
            return Ok(kept.to_owned());
        }
    }
    Ok(String::new())
}

/// The longest of the beginnings of `text` that end at one of `ends` and fit, empty if none does.
fn longest<'a, E>(
    text: &'a str,
    ends: &[usize],
    max_tokens: u32,
    count: &mut Counter<'_, E>,
) -> Result<&'a str, E> {
    // Beginnings that fit come before those that do not: a longer text has more tokens. Where the
    // tokeniser breaks this rule by a token, the result is a sentence shorter, but never too long.
    let (mut kept, mut low, mut high) = ("", 0, ends.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let candidate = text[..ends[middle]].trim_end();
        if tokens::count_one(candidate, count)? <= max_tokens {
            kept = candidate;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(kept)
}

/// The offset behind each word.
fn word_ends(text: &str) -> Vec<usize> {
    let starts = text.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at);
    starts.chain([text.len()]).collect()
}

/// The offset behind each character.
fn character_ends(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, c)| at + c.len_utf8()).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Words and the marks that end them are a token each, like most of short English words.
    fn words(texts: &[String]) -> Result<Vec<u32>, Infallible> {
        let count = |text: &String| {
            text.split_whitespace().map(|word| 1 + u32::from(word.ends_with('.'))).sum()
        };
        Ok(texts.iter().map(count).collect())
    }

    fn bytes(texts: &[String]) -> Result<Vec<u32>, Infallible> {
        Ok(texts.iter().map(|text| text.len() as u32).collect())
    }

    fn cut(text: &str, max_tokens: u32) -> String {
        cut_to(text, max_tokens, &mut words).unwrap()
    }

    #[test]
    fn whole_sentences_are_kept() {
        let text = "Ann moved to Rome. She has a dog. It barks.\n";
        assert_eq!(cut(text, 100), text.trim());
        assert_eq!(cut(text, 13), text.trim());
        assert_eq!(cut(text, 12), "Ann moved to Rome. She has a dog.");
        assert_eq!(cut(text, 9), "Ann moved to Rome.");
        assert_eq!(cut(text, 5), "Ann moved to Rome.");
    }

    #[test]
    fn where_no_sentence_fits_words_are_kept() {
        assert_eq!(cut("Ann moved to Rome. She has a dog.", 4), "Ann moved to");
        assert_eq!(cut("Ann moved", 1), "Ann");
    }

    #[test]
    fn where_no_word_fits_characters_are_kept() {
        assert_eq!(cut_to("Grüße an alle", 3, &mut bytes).unwrap(), "Gr");
        assert_eq!(cut_to("日本語の文章。次。", 6, &mut bytes).unwrap(), "日本");
        assert_eq!(cut_to("日本", 2, &mut bytes).unwrap(), "", "nothing fits");
    }

    #[test]
    fn nothing_is_left_of_nothing() {
        assert_eq!((cut("", 5), cut(" \n", 5), cut("Ann.", 0)), Default::default());
    }

    #[test]
    fn an_error_of_the_counter_is_returned() {
        let mut fails = |_: &[String]| Err("down");
        assert_eq!(cut_to("Ann.", 5, &mut fails), Err("down"));
    }

    #[test]
    fn a_counter_without_an_answer_lets_nothing_through() {
        let mut silent = |_: &[String]| Ok::<_, Infallible>(Vec::new());
        assert_eq!(cut_to("Ann.", 5, &mut silent).unwrap(), "");
    }

    proptest! {
        #[test]
        fn a_cut_text_is_a_beginning_that_fits(
            text in "([A-Za-zé0-9 .!?\\n日。]{0,80})|\\PC{0,60}", max_tokens in 0..60_u32,
        ) {
            let kept = cut_to(&text, max_tokens, &mut bytes).unwrap();
            prop_assert!(kept.len() <= max_tokens as usize);
            prop_assert!(text.trim().starts_with(&kept));
            let first = text.trim().chars().next().map_or(0, char::len_utf8);
            prop_assert_eq!(kept.is_empty(), first == 0 || first > max_tokens as usize);
        }

        #[test]
        fn sentences_are_whole_and_as_many_as_fit(
            // The last word is too long for an abbreviation, whose period ends no sentence.
            sentences in prop::collection::vec("[A-Z][a-z]{1,8}( [a-z]{2,8}){0,5} [a-z]{9}\\.", 1..8),
            max_tokens in 1..200_u32,
        ) {
            let text = sentences.join(" ");
            let kept = cut_to(&text, max_tokens, &mut bytes).unwrap();
            let fitting = (0..=sentences.len())
                .map(|many| sentences[..many].join(" "))
                .rfind(|part| part.len() <= max_tokens as usize)
                .unwrap_or_default();
            if fitting.is_empty() {
                prop_assert!(sentences[0].starts_with(&kept));
            } else {
                prop_assert_eq!(kept, fitting);
            }
        }
    }
}
