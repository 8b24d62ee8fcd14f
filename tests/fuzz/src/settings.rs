//! Settings that are lists or one of a few names.

use memory_agent_core::text::triggers;

pub fn check(data: &[u8]) {
    let (message, list) = crate::two_texts(data);
    crate::linear(message.len() + list.len(), || {
        let phrases = triggers::parse(&list);
        assert!(phrases.iter().all(|phrase| !phrase.is_empty() && phrase.trim() == phrase));
        assert!(phrases.iter().map(|phrase| phrase.len() + 1).sum::<usize>() <= list.len() + 1);
        assert_eq!(triggers::parse(&phrases.join(", ")), phrases);
        if let Some(found) = triggers::find(&message, &phrases) {
            assert!(message.to_lowercase().contains(&found.to_lowercase()));
        }
    });
}
