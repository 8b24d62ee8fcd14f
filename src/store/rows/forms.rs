//! The forms of a text that rows are found by: its hash, and its words. Versions before 0.3.0 stored both of the text as
//! it was written. A `reindex` job brings such rows over after the update; a dump of an older version may bring others
//! at any time. They are found as they were before.

use crate::store::prelude::*;
use crate::store::rows::lexemes::Lexemes;
use memory_agent_core::text::lexical::Terms;
use memory_agent_core::text::unicode;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Words of a question that are also looked up as they were written.
const MOST_WORDS: usize = 64;

/// The hash by which exact duplicates are found: SHA-256 of the content in the form in which texts are compared,
/// without outer white space.
pub fn content_hash(content: &str) -> Vec<u8> {
    Sha256::digest(unicode::compared(content).trim().as_bytes()).to_vec()
}

/// The hashes of which a row has one that says this, the one that is stored now first.
pub fn content_hashes(content: &str) -> Vec<Vec<u8>> {
    let mut hashes = vec![content_hash(content)];
    if matches!(unicode::compared(content), Cow::Owned(_)) {
        hashes.push(Sha256::digest(content.trim().as_bytes()).to_vec());
    }
    hashes
}

/// Whether a row with this hash says this.
pub fn says(hash: Option<&[u8]>, content: &str) -> bool {
    hash.is_some_and(|hash| content_hashes(content).iter().any(|one| one == hash))
}

/// Adds the words of a text as they were written to those that the text's own configuration, the first one, makes of
/// them now.
pub fn add_words(
    spi: &Spi,
    terms: &mut Terms,
    configurations: &[&str],
    text: &str,
) -> PgResult<()> {
    let is_other = |word: &&str| matches!(unicode::indexed(word), Cow::Owned(_));
    let Some(own) = configurations.first() else { return Ok(()) };
    for word in text.split_whitespace().filter(is_other).take(MOST_WORDS) {
        let now = Lexemes::index(spi, own, word)?.placed();
        for configuration in configurations {
            terms.vary(&now, &Lexemes::of(spi, configuration, word)?.placed());
        }
    }
    Ok(())
}

/// A text with the words of it as it was written behind it, if they are others.
pub fn both(text: &str) -> Cow<'_, str> {
    match unicode::indexed(text) {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(indexed) => Cow::Owned(format!("{indexed} {text}")),
    }
}
