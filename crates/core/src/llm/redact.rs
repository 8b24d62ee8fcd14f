//! Takes secrets out of texts before they leave: into logs, errors, tables.
//!
//! An endpoint may repeat the key it was sent, as it came or encoded, so the secrets that are
//! known are looked for in every form they may take. What merely looks like a secret is masked
//! too.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex_lite::Regex;

const MASK: &str = "***";
/// Shorter secrets would mask half of any text.
const MIN_SECRET_BYTES: usize = 4;
/// Masks can only bring a secret together that contains or touches a mask.
const MAX_ROUNDS: usize = 8;

// Group 1 is what is masked. A unit test proves that each expression can be read.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // The user and password of a URL.
        r#"://([^\s/?#"'<>]*)@"#,
        r"(?i)\bbearer\s+([a-z0-9._~+/=-]+)",
        // `api-key: x`, `x-api-key=x`, `"api_key": "x"`
        r#"(?i)api[-_ ]?key["']?\s*[:=]\s*["']?([^\s"',;&})]+)"#,
        r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer)\s+)?([^\s"',;&})]+)"#,
        // The keys of many providers.
        r"\b(sk-[A-Za-z0-9_*-]{8,})",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// `text` with `***` in place of each of the `secrets` and of everything that is shaped like one.
///
/// A secret is found as it is, with JSON escapes, percent-encoded, mixed of these, and within
/// base64. Secrets of less than 4 bytes are ignored. Shapes are user and password in a URL,
/// `Bearer x`, `Authorization: x`, `api-key: x` in its spellings, and `sk-...`.
///
/// Mask before cutting a text: the first half of a secret is not recognised.
#[must_use]
pub fn mask(text: &str, secrets: &[&str]) -> String {
    masked(text, secrets, shapes_in)
}

/// `text` with `***` in place of this one secret, in the same forms. What is only shaped like a secret stays, so
/// that a document in JSON stays one.
#[must_use]
pub fn mask_secret(text: &str, secret: &str) -> String {
    masked(text, &[secret], |_| Vec::new())
}

fn masked(text: &str, secrets: &[&str], others_in: fn(&str) -> Vec<Range<usize>>) -> String {
    let needles: Vec<Needle> = secrets
        .iter()
        .filter(|secret| secret.len() >= MIN_SECRET_BYTES)
        .flat_map(|secret| Needle::all_of(secret))
        .collect();
    let mut text = text.to_owned();
    for _ in 0..MAX_ROUNDS {
        let mut found: Vec<_> = needles.iter().flat_map(|needle| needle.find(&text)).collect();
        found.extend(others_in(&text));
        if found.is_empty() {
            return text;
        }
        text = replace(&text, found);
    }
    // Only a secret made of asterisks comes back again and again.
    MASK.to_owned()
}

/// The parts of `text` that are shaped like secrets and not masked yet.
fn shapes_in(text: &str) -> Vec<Range<usize>> {
    SHAPES
        .iter()
        .flat_map(|shape| shape.captures_iter(text))
        .filter_map(|captures| captures.get(1))
        .filter(|found| found.as_str().chars().any(|c| c != '*'))
        .map(|found| found.range())
        .collect()
}

/// Puts a mask in place of each of the ranges, one for those that overlap.
fn replace(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        if range.start >= done {
            replaced.push_str(&text[done..range.start]);
            replaced.push_str(MASK);
        }
        done = done.max(range.end);
    }
    replaced.push_str(&text[done..]);
    replaced
}

/// A text to look for in all its spellings.
struct Needle {
    chars: Vec<char>,
    /// Whether it is a piece of base64: then the whole word around it is masked.
    is_base64: bool,
}

impl Needle {
    /// The secret, and what base64 makes of it behind 0, 1 or 2 other bytes (modulo 3).
    fn all_of(secret: &str) -> Vec<Self> {
        let mut needles = vec![Self { chars: secret.chars().collect(), is_base64: false }];
        // The first characters that hold no bit of what is before the secret.
        for (before, first) in [(0, 0), (1, 2), (2, 3)] {
            let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
            let encoded = STANDARD_NO_PAD.encode(&bytes);
            // A last character that holds bits of what follows is left out.
            let standard: String = encoded[first..bytes.len() * 8 / 6].to_owned();
            let url_safe = standard.replace('+', "-").replace('/', "_");
            let is_other = url_safe != standard;
            needles.extend(
                std::iter::once(standard)
                    .chain(is_other.then_some(url_safe))
                    .map(|core| Self { chars: core.chars().collect(), is_base64: true }),
            );
        }
        needles
    }

    fn find(&self, text: &str) -> Vec<Range<usize>> {
        text.char_indices()
            .filter_map(|(start, _)| Some(start..start + self.match_length(&text[start..])?))
            .map(|found| if self.is_base64 { base64_word(text, found) } else { found })
            .collect()
    }

    /// The bytes at the start of `text` that spell the needle; the longest reading, as a
    /// backslash or a percent sign may stand for itself or for an escape.
    fn match_length(&self, text: &str) -> Option<usize> {
        // Almost every position fails here, without allocating.
        spellings(*self.chars.first()?, text).next()?;
        let mut ends = vec![0];
        for c in &self.chars {
            let mut next: Vec<usize> = ends
                .iter()
                .flat_map(|end| spellings(*c, &text[*end..]).map(move |n| end + n))
                .collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                return None;
            }
            ends = next;
        }
        ends.last().copied()
    }
}

/// The lengths of the ways in which `text` starts with `c`.
fn spellings(c: char, text: &str) -> impl Iterator<Item = usize> {
    let raw = text.starts_with(c).then(|| c.len_utf8());
    [raw, percent_encoded(c, text), json_escaped(c, text)].into_iter().flatten()
}

fn percent_encoded(c: char, text: &str) -> Option<usize> {
    if c == ' ' && text.starts_with('+') {
        return Some(1);
    }
    let mut length = 0;
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        let digits = text.get(length..)?.strip_prefix('%')?.get(..2)?;
        if u8::from_str_radix(digits, 16) != Ok(byte) {
            return None;
        }
        length += 3;
    }
    Some(length)
}

fn json_escaped(c: char, text: &str) -> Option<usize> {
    let escaped = text.strip_prefix('\\')?;
    let short = match c {
        '"' | '\\' | '/' => c,
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        _ => 'u',
    };
    if short != 'u' && escaped.starts_with(short) {
        return Some(2);
    }
    let mut length = 0;
    for unit in c.encode_utf16(&mut [0; 2]) {
        let digits = text.get(length..)?.strip_prefix("\\u")?.get(..4)?;
        if u16::from_str_radix(digits, 16) != Ok(*unit) {
            return None;
        }
        length += 6;
    }
    Some(length)
}

/// The whole word of base64 around a piece of it.
fn base64_word(text: &str, found: Range<usize>) -> Range<usize> {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    let start = text[..found.start].trim_end_matches(is_base64).len();
    let rest = text[found.end..].trim_start_matches(is_base64).trim_start_matches('=');
    start..text.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "q7/\"Zx+ü\\9k";

    fn percent(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    fn json(text: &str) -> String {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    }

    fn unicode_escapes(text: &str) -> String {
        text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
    }

    #[test]
    fn every_shape_can_be_read() {
        assert_eq!(SHAPES.len(), 5);
    }

    #[test]
    fn a_secret_is_masked_in_all_its_forms() {
        for form in [
            KEY.to_owned(),
            json(KEY),
            json(KEY).replace('/', "\\/"),
            unicode_escapes(KEY),
            unicode_escapes(KEY).to_lowercase(),
            percent(KEY),
            percent(KEY).to_lowercase(),
            "q7%2F%22Zx%2B%C3%BC%5C9k".to_owned(),
            STANDARD.encode(KEY),
            URL_SAFE_NO_PAD.encode(KEY),
        ] {
            let text = format!("before ({form}) after {form}");
            assert_eq!(mask(&text, &[KEY]), "before (***) after ***", "{form}");
        }
    }

    #[test]
    fn a_secret_is_masked_within_base64_of_more() {
        for before in ["", "u:", "me:", "you:"] {
            let basic = STANDARD.encode(format!("{before}{KEY}!"));
            assert_eq!(mask(&format!("Basic {basic}."), &[KEY]), "Basic ***.", "{before}");
        }
    }

    #[test]
    fn several_secrets_are_masked_where_they_overlap() {
        assert_eq!(mask("abcdefgh", &["abcdef", "defgh"]), "***");
        assert_eq!(mask("abcd-efgh", &["efgh", "abcd"]), "***-***");
    }

    #[test]
    fn short_secrets_are_ignored() {
        assert_eq!(mask("the cat", &["", "cat", "t"]), "the cat");
    }

    #[test]
    fn masks_do_not_bring_a_secret_together() {
        assert_eq!(mask("a1234z and x", &["1234", "a***z"]), "*** and x");
        assert_eq!(mask("*1234", &["1234", "****"]), "***");
    }

    #[test]
    fn what_is_shaped_like_a_secret_is_masked() {
        for (text, masked) in [
            ("GET https://me:pass@example.org/v1", "GET https://***@example.org/v1"),
            ("http://token@host", "http://***@host"),
            ("http://a@b:c@host/x@y", "http://***@host/x@y"),
            ("Authorization: Bearer abc.def-1", "Authorization: Bearer ***"),
            ("Authorization: hunter2", "Authorization: ***"),
            ("bearer  abc123== expired", "bearer  *** expired"),
            ("authorization: Basic dTpw", "authorization: Basic ***"),
            ("x-api-key: hunter2", "x-api-key: ***"),
            ("api_key=hunter2&model=m", "api_key=***&model=m"),
            (r#"{"api-key": "hunter2", "model": "m"}"#, r#"{"api-key": "***", "model": "m"}"#),
            ("Incorrect API key provided: sk-abc*****xyz.", "Incorrect API key provided: ***."),
        ] {
            assert_eq!(mask(text, &[]), masked);
        }
    }

    #[test]
    fn one_secret_is_masked_and_nothing_that_looks_like_one() {
        let text = |key: &str| format!(r#"{{"api_key": null, "a": "Bearer x", "b": "{key}"}}"#);
        assert_eq!(mask_secret(&text("hunter22"), "hunter22"), text("***"));
        assert_eq!(mask_secret(&text("\\u0068unter22"), "hunter22"), text("***"));
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in [
            "",
            "connection refused (http://127.0.0.1:11434/v1)",
            "write to me@example.org",
            "the API key is missing",
            "a task-force of sk-12 ***",
            "model `bge-small-en-v1.5` not found: 404",
            "日本語 ümlaut %41 \\u0041",
        ] {
            assert_eq!(mask(text, &["not in there"]), text);
        }
    }

    #[test]
    fn a_long_text_is_masked_in_one_go() {
        let text = "aaaaaaaaaaaaaaab".repeat(2_000);
        assert_eq!(mask(&text, &["aaaaaaaaaaaaaaac"]), text);
        assert_eq!(mask(&"secret!".repeat(2_000), &["secret!"]), MASK.repeat(2_000));
    }

    proptest! {
        #[test]
        fn a_secret_never_survives(
            secret in "\\PC{2,6}[a-zA-Z0-9*\"\\\\%/+=]{2,20}",
            before in "\\PC{0,20}",
            after in "\\PC{0,20}",
        ) {
            let forms =
                [secret.clone(), json(&secret), percent(&secret), unicode_escapes(&secret)];
            for form in &forms {
                let masked = mask(&format!("{before}{form}{after}{form}"), &[&secret]);
                prop_assert!(!masked.contains(&secret), "{}", masked);
                prop_assert!(!masked.contains(form), "{}", masked);
            }
        }

        #[test]
        fn a_secret_never_survives_in_base64(
            secret in "[a-zA-Z0-9_-]{4,40}",
            before in "\\PC{0,8}",
            after in "\\PC{0,8}",
        ) {
            let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
            prop_assert_eq!(mask(&encoded, &[&secret]), MASK);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", secret in "\\PC{0,8}") {
            let masked = mask(&text, &[&secret]);
            prop_assert_eq!(mask(&masked, &[&secret]), masked);
        }
    }
}
