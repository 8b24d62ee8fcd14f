//! Rows of attached tables: what is admitted is within every limit, and a refusal holds no content. What is read out
//! of JSON is no longer than the JSON.

use memory_agent_core::attached::{MAX_KEY_BYTES, Row, admit};
use memory_agent_core::row_json::{Document, Path, RoleMap};

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
    crate::linear(text.len(), || json(content, key, role));
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

/// The content as JSON, with a path and a map of roles.
fn json(content: &str, path: &str, roles: &str) {
    let map = RoleMap::read(roles);
    let (Ok(document), Ok(path)) = (Document::read(content), Path::read(path)) else { return };
    // A character 0 becomes a longer one, and so does half a character; texts have two line feeds between them.
    let most = 3 * content.len();
    for text in [document.text_at(&path), document.role_at(&path)].into_iter().flatten() {
        assert!(text.len() <= most && !text.contains('\0'));
        if let Ok(map) = &map {
            assert_eq!(RoleMap::read(&map.to_json()).as_ref(), Ok(map));
        }
    }
}
