//! Halves of characters in JSON. A program that cuts a text in the middle of an emoji writes one half of a surrogate
//! pair (`\ud83d`), which is no text: what reads JSON refuses all of it. Half a character is U+FFFD here, and two
//! halves that came one after the other, as the chunks of a stream do, are the character.

use std::borrow::Cow;

/// What stands for a half until it is known what comes next: the last characters that are for private use.
const MARKS: u32 = 0x10_f800;
const FIRST: u32 = 0xd800;
const FIRST_LOW: u32 = 0xdc00;
const LAST: u32 = 0xdfff;

/// JSON in which half a character is U+FFFD.
#[must_use]
pub fn mended(json: &str) -> Cow<'_, str> {
    with_halves(json, |_| char::REPLACEMENT_CHARACTER)
}

/// JSON in which a mark stands for each half, for [`joined`].
#[must_use]
pub fn marked(json: &str) -> Cow<'_, str> {
    with_halves(json, |half| {
        char::from_u32(MARKS + half - FIRST).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

/// A text in which two marks of halves that go together are the character, and others U+FFFD.
#[must_use]
pub fn joined(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(half) = half_of(character) else {
            result.push(character);
            continue;
        };
        let low = characters.peek().copied().and_then(half_of).filter(|low| *low >= FIRST_LOW);
        let whole = low
            .filter(|_| half < FIRST_LOW)
            .and_then(|low| char::from_u32(0x1_0000 + ((half - FIRST) << 10) + (low - FIRST_LOW)));
        if whole.is_some() {
            characters.next();
        }
        result.push(whole.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    result
}

fn half_of(character: char) -> Option<u32> {
    u32::from(character).checked_sub(MARKS).map(|place| FIRST + place)
}

/// JSON with another character for each half that has no other beside it.
fn with_halves(json: &str, other: impl Fn(u32) -> char) -> Cow<'_, str> {
    let (bytes, mut result) = (json.as_bytes(), String::new());
    let (mut at, mut done) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        let start = at + found;
        at = start + 2;
        let Some(half) = unit(json, start).filter(|unit| (FIRST..=LAST).contains(unit)) else {
            continue;
        };
        at = start + 6;
        let next = unit(json, at).filter(|_| half < FIRST_LOW);
        if next.is_some_and(|next| (FIRST_LOW..=LAST).contains(&next)) {
            at += 6;
            continue;
        }
        result.push_str(&json[done..start]);
        result.push(other(half));
        done = at;
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    result.push_str(&json[done..]);
    Cow::Owned(result)
}

/// The number in an escape, `\u` and four hexadecimal digits, that begins here.
fn unit(json: &str, at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_character_is_replaced_and_nothing_else() {
        for (json, expected) in [
            (r#""Sunny \ud83d""#, "\"Sunny \u{fffd}\""),
            (r#""\ude00 a""#, "\"\u{fffd} a\""),
            (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}\\ud83d\\ude00\""),
            (r#""\ud83d\n""#, "\"\u{fffd}\\n\""),
            (r#""\\ud83d \u00e9""#, r#""\\ud83d \u00e9""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud8""#, r#""\ud8""#),
            (r#""\"#, r#""\"#),
            ("\"\\ud8é0\"", "\"\\ud8é0\""),
        ] {
            assert_eq!(mended(json), expected, "{json}");
        }
    }

    #[test]
    fn halves_that_follow_one_another_are_the_character() {
        let said = |chunks: &[&str]| {
            let text: Vec<String> =
                chunks.iter().map(|json| serde_json::from_str(&marked(json)).unwrap()).collect();
            joined(&text.concat())
        };
        assert_eq!(said(&[r#""fun \ud83d""#, r#""\ude00 and""#]), "fun 😀 and");
        assert_eq!(said(&[r#""\ud83d""#, r#""x\ude00""#]), "\u{fffd}x\u{fffd}");
        assert_eq!(said(&[r#""\ud83d""#]), "\u{fffd}");
        assert_eq!(said(&[r#""\ude00""#, r#""\ud83d""#]), "\u{fffd}\u{fffd}");
        assert_eq!(said(&[r#""a\ud83d\ude00""#]), "a😀");
    }

    proptest! {
        #[test]
        fn what_is_mended_is_json(text in "(\\\\ud83d|\\\\ude00|\\\\n|\\\\\\\\|é|x){0,8}") {
            let json = format!("\"{text}\"");
            prop_assert!(serde_json::from_str::<String>(&mended(&json)).is_ok());
            prop_assert!(serde_json::from_str::<String>(&marked(&json)).is_ok());
            if serde_json::from_str::<String>(&json).is_ok() {
                prop_assert_eq!(mended(&json).into_owned(), json);
            }
        }
    }
}
