//! Documents in chunks, and texts that are cut: no chunk is longer than it may be, and nothing of a
//! document but white space is left out.

use std::convert::Infallible;

use memory_agent_core::condense::chunk::{Limits, chunks};
use memory_agent_core::text::cut::cut_to;
use memory_agent_core::text::entry::estimate_tokens;

pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = crate::text(rest);
    let limits = Limits {
        max_tokens: 16 + 8 * u32::from(first % 32),
        overlap_tokens: 8 * u32::from(first / 32),
    };
    let mut count = |texts: &[String]| {
        Ok::<_, Infallible>(texts.iter().map(|text| estimate_tokens(text)).collect())
    };
    crate::linear(text.len(), || {
        let Ok(found) = chunks(&text, limits, &mut count);
        for chunk in &found {
            assert!(chunk.tokens <= limits.max_tokens || chunk.text.chars().count() == 1);
            assert!(!chunk.text.is_empty() && chunk.text.trim() == chunk.text);
            assert!(text.len() > 10_000 || text.contains(&chunk.text));
        }
        let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        assert!(found.iter().map(|chunk| dense(&chunk.text)).sum::<usize>() >= dense(&text));

        let Ok(cut) = cut_to(&text, limits.max_tokens, &mut count);
        assert!(estimate_tokens(&cut) <= limits.max_tokens);
        assert!(text.trim().starts_with(&cut) && cut.trim() == cut);
    });
}
