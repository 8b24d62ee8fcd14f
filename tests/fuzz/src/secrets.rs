//! Secrets in the texts of endpoints: none that is known is left, however it is spelled there. And secrets in texts that
//! are stored: what was taken out once is not found again, and JSON stays JSON.

use memory_agent_core::llm::redact::mask;
use memory_agent_core::text::secrets::{Counts, redacted, redacted_json};

/// What a server's error is cut to before it is masked, at most.
const MOST: usize = 4_000;

pub fn check(data: &[u8]) {
    let stored = String::from_utf8_lossy(data);
    crate::linear(stored.len(), || {
        for phrases in [false, true] {
            let mut counts = Counts::default();
            let once = redacted(&stored, phrases, &mut counts).into_owned();
            assert_eq!(counts.is_empty(), once == stored);
            let json = serde_json::to_string(&[&*stored]).unwrap_or_default();
            let clean = redacted_json(&json, phrases, &mut Counts::default());
            let read =
                serde_json::from_str::<Vec<String>>(&clean).map_err(|error| error.to_string());
            assert_eq!(read, Ok(vec![once]));
        }
    });
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
