//! Signatures with the audit key, first of all of summaries: who has the audit key can show later that a summary was made of a text at
//! a time, and that it was not changed since.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// What a key's name is made of: its own signature of this text says nothing about the key.
const KEY_NAME: &[u8] = b"memory_agent audit key";

/// The first line of what is signed: another kind of document can never pass for a summary.
const SUMMARY: &str = "memory_agent summary 1";

/// The SHA-256 of a text in hexadecimal digits, which stands for the text in what is signed.
#[must_use]
pub fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The name of a key, to tell keys apart after one was replaced: 16 hexadecimal digits.
#[must_use]
pub fn key_id(key: &[u8]) -> String {
    hex(&mac(key, KEY_NAME)[..8])
}

/// What is signed: the kind of document, the digest of the text, the time as ISO 8601 and the
/// summary, each on a line of its own; the summary is the last and so may have several.
#[must_use]
pub fn summary_message(text_digest: &str, at: &str, summary: &str) -> String {
    format!("{SUMMARY}\n{text_digest}\n{at}\n{summary}")
}

/// HMAC-SHA-256 (RFC 2104) of a message in hexadecimal digits.
#[must_use]
pub fn sign(key: &[u8], message: &str) -> String {
    hex(&mac(key, message.as_bytes()))
}

/// HMAC-SHA-256 (RFC 2104) of bytes.
#[must_use]
pub fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    // A longer key than a block stands for its digest, as the RFC has it.
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 2 and 6 of RFC 4231: a short key, and one longer than a block.
    #[test]
    fn the_mac_is_that_of_the_rfc() {
        assert_eq!(
            sign(b"Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            sign(&[0xaa; 131], "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_summary_is_signed_with_its_text_and_time() {
        let digest = digest("abc");
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let message = summary_message(&digest, "2026-01-31T10:00:00Z", "Letters.\nThree.");
        assert_eq!(
            message,
            "memory_agent summary 1\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n\
             2026-01-31T10:00:00Z\nLetters.\nThree."
        );
        let signature = sign(b"key", &message);
        for other in [
            summary_message(&digest, "2026-01-31T10:00:01Z", "Letters.\nThree."),
            summary_message(&digest, "2026-01-31T10:00:00Z", "Letters.\nTwo."),
            summary_message(&super::digest("abd"), "2026-01-31T10:00:00Z", "Letters.\nThree."),
        ] {
            assert_ne!(sign(b"key", &other), signature, "{other}");
        }
        assert_ne!(sign(b"kez", &message), signature);
    }

    /// The example of docs/window.md, which Python computes there.
    #[test]
    fn anybody_can_compute_it_again() {
        let digest = digest("The committee met on Monday and decided nothing.");
        let at = "2025-05-01T09:00:00.000000Z";
        let message = summary_message(&digest, at, "No decision on Monday.");
        let key = b"our audit key";
        assert_eq!(
            sign(key, &message),
            "8b0d4d3bb7d37492127446063defe61e4bef70504b822df5238de56927f7e87b"
        );
        assert_eq!(key_id(key), "b7bf6e2e591f6bf3");
    }

    #[test]
    fn keys_have_names_that_differ_and_are_no_part_of_them() {
        assert_eq!(key_id(b"key").len(), 16);
        assert_ne!(key_id(b"key"), key_id(b"kez"));
        assert_ne!(key_id(b"key"), digest("key")[..16]);
    }
}
