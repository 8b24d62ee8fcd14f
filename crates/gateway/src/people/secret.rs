//! The gateway's key, where an upstream repeats it: `***` stands in its place. As it is written, the key is found
//! in every answer, however the bytes come; where a text is at hand, it is found in all its spellings.

use axum::body::Bytes;
use axum::http::HeaderValue;
use memory_agent_core::llm::redact::mask_secret;

const MASK: &[u8] = b"***";
/// What is shorter stands in the place of a key, such as "none" for a server that wants any: it is a word that
/// answers have for other reasons.
const MIN_BYTES: usize = 16;

/// A key.
pub struct Secret(String);

/// Takes a key out of bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Mask {
    /// The end of what came, which may be the beginning of the key.
    held: Vec<u8>,
}

impl Secret {
    /// `None` if it is too short to be one.
    pub fn new(key: &str) -> Option<Self> {
        (key.len() >= MIN_BYTES).then(|| Self(key.to_owned()))
    }

    /// A header's value without it; `None` if that is no text.
    pub fn masked(&self, value: &HeaderValue) -> Option<HeaderValue> {
        let text = std::str::from_utf8(value.as_bytes()).ok()?;
        HeaderValue::from_str(&mask_secret(text, &self.0)).ok()
    }

    /// A text without it, in all its spellings. What is no text is left as it is.
    pub fn masked_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match std::str::from_utf8(&bytes) {
            Ok(text) => mask_secret(text, &self.0).into_bytes(),
            Err(_) => bytes,
        }
    }
}

impl Mask {
    /// What can go on of what came so far.
    pub fn take(&mut self, bytes: Bytes, Secret(secret): &Secret) -> Bytes {
        let secret = secret.as_bytes();
        let whole = match self.held.is_empty() {
            true => bytes,
            false => Bytes::from([&std::mem::take(&mut self.held), &*bytes].concat()),
        };
        let mut masked = Vec::new();
        let mut done = 0;
        while let Some(found) = find(&whole[done..], secret) {
            masked.extend_from_slice(&whole[done..done + found]);
            masked.extend_from_slice(MASK);
            done += found + secret.len();
        }
        let rest = &whole[done..];
        let longest = rest.len().min(secret.len() - 1);
        let held = (1..=longest).rev().find(|length| rest.ends_with(&secret[..*length]));
        let end = whole.len() - held.unwrap_or(0);
        self.held = whole[end..].to_vec();
        if done == 0 {
            return whole.slice(..end);
        }
        masked.extend_from_slice(&whole[done..end]);
        Bytes::from(masked)
    }

    /// What was held back, when no more comes.
    pub fn rest(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }
}

/// Where a key begins.
fn find(bytes: &[u8], secret: &[u8]) -> Option<usize> {
    let first = *secret.first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes[at..].starts_with(secret) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-sk-0123456789";

    fn masked(pieces: &[&[u8]]) -> Vec<u8> {
        let (secret, mut mask) = (Secret::new(KEY).unwrap(), Mask::default());
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(mask.take(Bytes::copy_from_slice(piece), &secret));
        }
        all.extend(mask.rest());
        all
    }

    #[test]
    fn nothing_waits_that_cannot_be_the_key() {
        let (secret, mut mask) = (Secret::new(KEY).unwrap(), Mask::default());
        let mut take = |text: &'static str| mask.take(Bytes::from(text), &secret);
        assert_eq!(take("data: {}\n\n"), "data: {}\n\n");
        assert_eq!(take("sk-"), "");
        assert_eq!(take("sk-sk-0123"), "sk-");
        assert_eq!(take("456789!"), "***!");
        assert_eq!(take("task"), "task"[..2]);
        assert_eq!(take("."), "sk.");
    }

    #[test]
    fn a_word_that_stands_for_a_key_is_no_secret() {
        assert!(Secret::new("none").is_none() && Secret::new("EMPTY").is_none());
    }

    #[test]
    fn headers_and_errors_have_it_in_no_spelling() {
        let secret = Secret::new(KEY).unwrap();
        let header = HeaderValue::from_static("bad key sk%2dsk-0123456789");
        assert_eq!(secret.masked(&header).unwrap(), "bad key ***");
        assert!(secret.masked(&HeaderValue::from_bytes(b"\xff").unwrap()).is_none());
        let error = br#"{"error": "\u0073k-sk-0123456789", "api_key": null}"#.to_vec();
        assert_eq!(secret.masked_bytes(error), br#"{"error": "***", "api_key": null}"#);
    }

    proptest! {
        #[test]
        fn it_is_found_however_the_bytes_come(
            words in prop::collection::vec(
                prop_oneof![Just(KEY), Just("sk-"), Just("sk-sk-01234567"), Just("é "), Just("9")],
                0..8,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = words.concat();
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(masked(&pieces), text.replace(KEY, "***").into_bytes());
        }
    }
}
