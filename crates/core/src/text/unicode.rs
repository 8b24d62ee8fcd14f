//! One form of texts that look the same: for comparing them, and for indexing their words. What is stored stays as it
//! was written.

use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};
use unicode_segmentation::UnicodeSegmentation;

/// Longer runs of letters without blanks are not indexed as a whole, beside their pairs.
const LONGEST_WHOLE: usize = 12;

/// Whether a character has no shape and says nothing about those beside it: marks of direction, spaces without
/// width, tags. Joiners are not among them, which words of some languages are written with.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether nothing of a text can be seen: it has blanks, invisible characters, and letters that fill a place.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| {
        character.is_whitespace()
            || is_format(character)
            || matches!(character, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
    })
}

/// The form in which texts are compared: composed (NFC), without invisible characters and joiners.
#[must_use]
pub fn compared(text: &str) -> Cow<'_, str> {
    let is_plain = is_nfc_quick(text.chars()) == IsNormalized::Yes && !text.chars().any(is_format);
    match is_plain {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().filter(|one| !is_format(*one)).nfc().collect()),
    }
}

/// The form in which the words of a text are indexed and looked up: NFKC, so that full-width letters and ligatures are
/// the usual ones, without invisible characters and joiners. Runs of letters of scripts that put no blanks between
/// words are overlapping pairs (Lucene's CJK bigrams), short ones also the whole run, as it was indexed before.
#[must_use]
pub fn indexed(text: &str) -> Cow<'_, str> {
    let is_plain = is_nfkc_quick(text.chars()) == IsNormalized::Yes
        && !text.chars().any(|one| is_format(one) || is_unspaced(one));
    if is_plain {
        return Cow::Borrowed(text);
    }
    let text: String = text.chars().filter(|one| !is_format(*one)).nfkc().collect();
    let mut indexed = String::with_capacity(text.len() * 2);
    let mut run: Vec<&str> = Vec::new();
    for letter in text.graphemes(true) {
        if letter.starts_with(is_unspaced) {
            run.push(letter);
            continue;
        }
        add_pairs(&mut indexed, &std::mem::take(&mut run));
        indexed.push_str(letter);
    }
    add_pairs(&mut indexed, &run);
    Cow::Owned(indexed)
}

fn add_pairs(indexed: &mut String, run: &[&str]) {
    if run.is_empty() {
        return;
    }
    let whole = (run.len() > 2 && run.len() <= LONGEST_WHOLE || run.len() == 1).then_some(run);
    for word in whole.into_iter().chain(run.windows(2)) {
        indexed.push(' ');
        indexed.extend(word.iter().copied());
    }
    indexed.push(' ');
}

/// An invisible character or a joiner.
fn is_format(character: char) -> bool {
    is_invisible(character) || matches!(character, '\u{200c}' | '\u{200d}')
}

/// A letter or a sign of Thai, Lao, Burmese, Khmer, Hangul, Kana or Han.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{e4e}' | '\u{e80}'..='\u{ecd}' | '\u{edc}'..='\u{edf}' | '\u{1000}'..='\u{103f}'
        | '\u{1050}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17d3}' | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{3130}'..='\u{318f}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_looks_the_same_is_compared_as_the_same() {
        assert_eq!(compared("Chloe\u{301}"), "Chlo\u{e9}");
        assert_eq!(compared("pass\u{ad}word\u{200b}"), "password");
        assert!(matches!(compared("Chlo\u{e9} has 2 cats."), Cow::Borrowed(_)));
        // Other letters are other texts.
        assert_eq!(compared("\u{ff21}\u{fb01}"), "\u{ff21}\u{fb01}");
    }

    #[test]
    fn words_are_indexed_in_one_form() {
        assert_eq!(
            indexed("\u{ff21}\u{ff22}\u{ff11} o\u{fb03}cial Chloe\u{301}"),
            "AB1 official Chlo\u{e9}"
        );
        assert_eq!(indexed("Hasel\u{ad}nuss"), "Haselnuss");
        assert!(matches!(indexed("Anna's cat, 3 o'clock"), Cow::Borrowed(_)));
    }

    #[test]
    fn runs_without_blanks_are_pairs() {
        assert_eq!(indexed("我有iPhone。"), " 我有 iPhone。");
        assert_eq!(indexed("花生过敏"), " 花生过敏 花生 生过 过敏 ");
        assert_eq!(indexed("茶"), " 茶 ");
        let long = "一二三四五六七八九十百千万";
        let pairs = long.graphemes(true).count() - 1;
        assert_eq!(indexed(long).split_whitespace().count(), pairs);
        // A sign stays with its letter.
        assert_eq!(indexed("กุ้ง"), " กุ้ง ");
        assert_eq!(indexed("김치"), " 김치 ");
    }

    #[test]
    fn blank_is_what_shows_nothing() {
        for text in ["", " \n", "\u{200b}", "\u{2060}\u{feff}", "\u{3164}", "\u{2800} \u{ad}"] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["a", "\u{200b}.", "茶", "👨\u{200d}👩"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    proptest! {
        /// Every two letters beside each other are found wherever they stand.
        #[test]
        fn a_part_of_a_run_has_pairs_of_the_run(text in "[一-龥]{2,30}", from in 0..30usize, size in 2..30usize) {
            let letters: Vec<char> = text.chars().collect();
            let from = from.min(letters.len() - 2);
            let part: String = letters[from..(from + size).min(letters.len())].iter().collect();
            let whole = indexed(&text).into_owned();
            let whole: Vec<&str> = whole.split_whitespace().collect();
            for pair in part.chars().collect::<Vec<_>>().windows(2) {
                let pair: String = pair.iter().collect();
                prop_assert!(whole.contains(&pair.as_str()));
            }
        }

        #[test]
        fn forms_are_stable(text in "\\PC{0,40}") {
            let once = compared(&text).into_owned();
            prop_assert_eq!(compared(&once).into_owned(), once);
        }
    }
}
