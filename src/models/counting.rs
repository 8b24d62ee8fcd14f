//! Counting the tokens of texts, as OpenAI's models have them: the model server does it. What is stored, and
//! what is not said to be otherwise, is in tokens of cl100k_base.

use super::{Failure, current};
use memory_agent_model_server::protocol::Encoding;

/// Most texts, and bytes of them, in one request to the model server.
const TEXTS_PER_REQUEST: usize = 256;
const BYTES_PER_REQUEST: usize = 8 * 1024 * 1024;

/// How many of these texts, from the first, make one request: at least one.
pub fn in_one_request(texts: &[String]) -> usize {
    let mut bytes = 0;
    let fitting = texts
        .iter()
        .take(TEXTS_PER_REQUEST)
        .take_while(|text| {
            bytes += text.len();
            bytes <= BYTES_PER_REQUEST
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
        let (some, others) = rest.split_at(in_one_request(rest));
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
