//! Secrets in the texts of endpoints: none that is known is left, however it is spelled there.

use memory_agent_core::redact::mask;

/// What a server's error is cut to before it is masked, at most.
const MOST: usize = 4_000;

pub fn check(data: &[u8]) {
    let (secret, text) = crate::two_texts(&data[..data.len().min(MOST)]);
    let text: String = text.chars().take(MOST).collect();
    crate::linear(text.len() * secret.len().max(1), || {
        let masked = mask(&text, &[&secret]);
        let is_mask = secret.chars().all(|c| c == '*');
        if secret.len() >= 4 && !is_mask {
            assert!(!masked.contains(&secret), "{secret:?} is left of {text:?}: {masked:?}");
        }
    });
}
