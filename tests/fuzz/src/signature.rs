//! What is signed: two summaries are never the same message, and no row of history passes for a
//! different one.

use memory_agent_core::history::chain::{Event, hash};
use memory_agent_core::history::signature::{digest, key_id, sign, summary_message};

pub fn check(data: &[u8]) {
    let (at, rest) = crate::two_texts(data);
    let (key, summary) = rest.split_at(rest.floor_char_boundary(rest.len() / 2));
    crate::linear(data.len().max(rest.len()), || {
        let of = digest(summary);
        let message = summary_message(&of, &at, summary);
        // A time has no line break, so the parts can be told from the message.
        let parts: Vec<&str> = message.splitn(4, '\n').collect();
        assert_eq!(parts[1..], [of.as_str(), at.as_str(), summary]);
        assert_eq!(sign(key.as_bytes(), &message), sign(key.as_bytes(), &message));
        assert_ne!(sign(key.as_bytes(), &message), sign(key.as_bytes(), &format!("{message}x")));
        assert_eq!(key_id(key.as_bytes()).len(), 16);

        let event = |op, actor| Event {
            id: [1; 16],
            user_id: &at,
            entry_id: None,
            op,
            at_micros: 0,
            actor,
            job_id: None,
            commitment: &[],
        };
        if !key.is_empty() {
            let moved = format!("{summary}{key}");
            let (one, other) = (event(key, summary), event("", &moved));
            assert_ne!(hash(&one, 1, None, None), hash(&other, 1, None, None));
        }
    });
}
