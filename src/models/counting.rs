//! Counting the tokens of texts, as OpenAI's cl100k_base has them: the model server does it.

use super::{Failure, current};
use memory_agent_model_server::protocol::Purpose;

/// One count per text.
///
/// # Errors
/// The model server's.
pub fn count(texts: &[String]) -> Result<Vec<u32>, Failure> {
    current()
        .prepare(None, Purpose::Document, Vec::new(), texts.to_vec())
        .map(|prepared| prepared.token_counts)
}

/// The count of one text.
///
/// # Errors
/// The model server's.
pub fn count_one(text: &str) -> Result<u32, Failure> {
    let counts = count(&[text.to_owned()])?;
    // A text without a count is as good as one without an end.
    Ok(counts.first().copied().unwrap_or(u32::MAX))
}
