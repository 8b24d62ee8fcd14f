//! Counts tokens as OpenAI's models do: [`cl100k`], which every stored count is in, or `o200k_base`, for
//! prompts to models that read that.

use crate::engine::cl100k;
use crate::protocol::Encoding;

/// Number of tokens of `text`. What looks like a special token is counted as the ordinary text it is. Counts
/// above `u32::MAX` saturate.
///
/// The first call for `o200k_base` in a process builds its tables, as that for `cl100k_base` does
/// (docs/inference.md has their size).
#[must_use]
pub fn count(encoding: Encoding, text: &str) -> u32 {
    match encoding {
        Encoding::Cl100k => cl100k::count(text),
        Encoding::O200k => u32::try_from(bpe_openai::o200k_base().count(text)).unwrap_or(u32::MAX),
    }
}
