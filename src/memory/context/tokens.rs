//! Counting the tokens of texts that are put into a prompt.

use crate::models::counting;
use crate::settings::Prompts;
use memory_agent_core::text::excerpt::excerpts;
use memory_agent_core::text::words_sought::Sought;
use memory_agent_core::text::{cut, tokens};
use memory_agent_core::wire::protocol::Encoding;
use std::cell::Cell;
use std::convert::Infallible;

/// Counts the tokens that prompts are measured in, by estimate once the tokeniser was unavailable; says so
/// once.
pub struct TokenCounter {
    encoding: Encoding,
    /// Most tokens of a memory's text.
    pub memory_tokens: u32,
    failed: Cell<bool>,
}

impl TokenCounter {
    pub fn new(settings: &Prompts) -> Self {
        Self {
            encoding: settings.prompt_tokenizer,
            memory_tokens: settings.memory_tokens,
            failed: Cell::new(false),
        }
    }

    /// Whether the stored counts are of these tokens.
    pub fn are_stored(&self) -> bool {
        self.encoding == Encoding::Cl100k
    }

    /// One count per text.
    pub fn count(&self, texts: Vec<String>) -> Vec<i64> {
        self.counts(texts).into_iter().map(i64::from).collect()
    }

    pub fn count_one(&self, text: &str) -> i64 {
        self.counts(vec![text.to_owned()]).into_iter().map(i64::from).sum()
    }

    /// The longest run of whole sentences at the beginning of a text that has at most `most` tokens;
    /// of words when not even one sentence fits.
    pub fn cut(&self, text: &str, most: i64) -> String {
        let most = u32::try_from(most.max(0)).unwrap_or(u32::MAX);
        let Ok(cut) = cut::cut_to(text, most, &mut |texts: &[String]| {
            Ok::<_, Infallible>(self.counts(texts.to_vec()))
        });
        cut
    }

    /// Of each of these texts the passage that is told of it in at most so many tokens; `None` for one that is told
    /// whole.
    pub fn passages(&self, texts: &[&str], sought: &Sought, most: u32) -> Vec<Option<String>> {
        let mut count = |texts: &[String]| Ok::<_, Infallible>(self.counts(texts.to_vec()));
        let Ok(passages) = excerpts(texts, sought, most, &mut count);
        passages
    }

    fn counts(&self, texts: Vec<String>) -> Vec<u32> {
        let estimates: Vec<u32> = texts.iter().map(|text| tokens::estimate_tokens(text)).collect();
        if self.failed.get() || texts.is_empty() {
            return estimates;
        }
        match counting::count_as(self.encoding, &texts) {
            Ok(counts) => counts,
            Err(failure) => {
                failure.warn("token counts are estimates");
                self.failed.set(true);
                estimates
            }
        }
    }
}
