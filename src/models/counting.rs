//! Counting the tokens of texts, as OpenAI's models have them: the model server does it. What is stored, and
//! what is not said to be otherwise, is in tokens of cl100k_base.

use super::{Failure, current};
use memory_agent_model_server::protocol::Encoding;

/// Most texts in one request to the model server.
const TEXTS_PER_REQUEST: usize = 256;
/// Most bytes of texts that one request counts.
pub const COUNTED_BYTES: usize = 8 * 1024 * 1024;
/// Most bytes of texts that one request embeds: some 32 windows of a model that reads 512 tokens. One text
/// alone may be longer, and has 32 windows at most.
pub const EMBEDDED_BYTES: usize = 48 * 1024;

/// How many of these texts, from the first, make one request of at most `limit` bytes: at least one.
pub fn in_one_request(texts: &[String], limit: usize) -> usize {
    let mut bytes = 0;
    let fitting = texts
        .iter()
        .take(TEXTS_PER_REQUEST)
        .take_while(|text| {
            bytes += text.len();
            bytes <= limit
        })
        .count();
    fitting.max(1).min(texts.len())
}

/// One count per text.
pub fn count(texts: &[String]) -> Result<Vec<u32>, Failure> {
    count_as(Encoding::Cl100k, texts)
}

/// [`count`] of other tokens.
pub fn count_as(encoding: Encoding, texts: &[String]) -> Result<Vec<u32>, Failure> {
    let mut counts = Vec::with_capacity(texts.len());
    let mut rest = texts;
    while !rest.is_empty() {
        let (some, others) = rest.split_at(in_one_request(rest, COUNTED_BYTES));
        counts.extend(current().count(encoding, some.to_vec())?);
        rest = others;
    }
    Ok(counts)
}

/// The count of one text.
pub fn count_one(text: &str) -> Result<u32, Failure> {
    count_one_as(Encoding::Cl100k, text)
}

/// [`count_one`] of other tokens.
pub fn count_one_as(encoding: Encoding, text: &str) -> Result<u32, Failure> {
    let counts = count_as(encoding, &[text.to_owned()])?;
    // A text without a count is as good as one without an end.
    Ok(counts.first().copied().unwrap_or(u32::MAX))
}
