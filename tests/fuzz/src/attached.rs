//! Rows of attached tables: what is admitted is within every limit, and a refusal holds no content.

use memory_agent_core::attached::{MAX_KEY_BYTES, Row, admit};

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    let mut parts = text.splitn(5, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (key, user, session, role, content) = (part(), part(), part(), part(), part());
    let most = 1_000;
    let row = Row {
        key,
        content: Some(content),
        content_bytes: content.len(),
        user_id: Some(user),
        session_id: Some(session).filter(|session| !session.is_empty()),
        role,
        metadata_bytes: key.len(),
    };
    crate::linear(text.len(), || match admit(&row, most, user.len() % 2 == 0) {
        Ok(true) => {
            assert!(key.len() <= MAX_KEY_BYTES && user.len() <= 512 && session.len() <= 512);
            assert!(!user.trim().is_empty() && content.len() <= most);
            assert!(!content.trim().is_empty());
        }
        Ok(false) => assert!(content.trim().is_empty()),
        Err(refusal) => crate::short(refusal),
    });
}
