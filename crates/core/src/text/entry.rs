//! The text of an entry: what may be stored, and what is embedded and indexed.

use crate::text::ids::{self, IdError};
use crate::text::unicode::is_blank;
use std::borrow::Cow;

pub use crate::text::lexical::{lexical_pieces, tsquery_any, without_overlong_words};
pub use crate::text::tokens::estimate_tokens;

/// The roles an entry can have.
pub const ROLES: [&str; 5] = ["user", "assistant", "system", "tool", "memory"];

/// The kinds of entries.
pub const KINDS: [&str; 3] = ["turn", "fact", "document"];

/// The name of the user's global memory where a session is named. What is learned or stored under it
/// belongs to no session; a conversation that is held under it is one, which all sessions recall.
pub const GLOBAL: &str = "global";

/// Text that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("content is empty: expected at least one character that can be seen")]
    EmptyContent,
    #[error("content is too long: {bytes} bytes, expected at most {max_bytes}")]
    ContentTooLong { bytes: usize, max_bytes: usize },
    #[error("content holds a NUL character (U+0000), which PostgreSQL cannot store")]
    Nul,
    #[error("unknown role {0:?}: expected one of user, assistant, system, tool, memory{meant}", meant = meant(.0))]
    UnknownRole(String),
    #[error("session_id {0}")]
    SessionId(IdError),
}

/// The text that is embedded, indexed and shown to the reranker: `name: content`
/// if the metadata has a speaker's `name`, as OpenAI messages do, else the
/// content. Questions are mostly about persons, so the name is half the answer.
pub fn indexed_text<'a>(content: &'a str, metadata: &serde_json::Value) -> Cow<'a, str> {
    match metadata.get("name").and_then(serde_json::Value::as_str) {
        Some(name) if !name.trim().is_empty() => Cow::Owned(format!("{}: {content}", name.trim())),
        _ => Cow::Borrowed(content),
    }
}

/// Checks the content of an entry; `max_bytes` is the limit in UTF-8 bytes.
pub fn validate_content(content: &str, max_bytes: usize) -> Result<(), TextError> {
    if content.len() > max_bytes {
        return Err(TextError::ContentTooLong { bytes: content.len(), max_bytes });
    }
    if content.contains('\0') {
        return Err(TextError::Nul);
    }
    if is_blank(content) {
        return Err(TextError::EmptyContent);
    }
    Ok(())
}

/// What a role of another program is called here.
fn meant(role: &str) -> String {
    let role = match role.trim().to_ascii_lowercase().as_str() {
        "user" | "human" | "person" | "customer" => "user",
        "assistant" | "ai" | "bot" | "model" | "agent" | "gpt" | "claude" => "assistant",
        "system" | "developer" => "system",
        "tool" | "function" => "tool",
        "memory" | "fact" => "memory",
        _ => return String::new(),
    };
    format!("; did you mean \"{role}\"?")
}

/// Checks that a role is one of [`ROLES`].
pub fn validate_role(role: &str) -> Result<(), TextError> {
    if ROLES.contains(&role) {
        Ok(())
    } else {
        const SHOWN: usize = 40;
        Err(TextError::UnknownRole(role.chars().take(SHOWN).collect()))
    }
}

/// Checks a session id, as [`ids::check`] does all ids.
pub fn validate_session_id(session_id: &str) -> Result<(), TextError> {
    ids::check(session_id).map_err(TextError::SessionId)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_speaker_leads_the_indexed_text() {
        assert_eq!(indexed_text("I moved", &json!({"name": " Ann "})), "Ann: I moved");
        for metadata in [
            json!({}),
            json!(null),
            json!([]),
            json!({"name": ""}),
            json!({"name": " "}),
            json!({"name": 7}),
        ] {
            assert_eq!(indexed_text("I moved", &metadata), "I moved", "{metadata}");
        }
    }

    #[test]
    fn content_is_checked() {
        assert_eq!(validate_content("a", 1), Ok(()));
        assert_eq!(validate_content("", 9), Err(TextError::EmptyContent));
        assert_eq!(validate_content(" \n\t\u{a0}", 9), Err(TextError::EmptyContent));
        assert_eq!(validate_content("a\0b", 9), Err(TextError::Nul));
        assert_eq!(
            validate_content("éé", 3).unwrap_err().to_string(),
            "content is too long: 4 bytes, expected at most 3"
        );
    }

    #[test]
    fn roles_and_session_ids_are_checked() {
        for role in ROLES {
            assert_eq!(validate_role(role), Ok(()));
        }
        assert_eq!(
            validate_role("User").unwrap_err().to_string(),
            "unknown role \"User\": expected one of user, assistant, system, tool, memory; did you mean \"user\"?"
        );
        let said = |role: &str| validate_role(role).unwrap_err().to_string();
        assert!(said("human").ends_with("memory; did you mean \"user\"?"));
        assert!(said("robot").ends_with("tool, memory"));
        assert!(validate_role(&"x".repeat(100_000)).unwrap_err().to_string().len() < 200);
        assert_eq!(validate_session_id("s1"), Ok(()));
        assert_eq!(
            validate_session_id(&"x".repeat(513)).unwrap_err().to_string(),
            "session_id is too long: 513 bytes, expected at most 512"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_checked_without_panic(text in any::<String>(), max_bytes in 0..50usize) {
            if validate_content(&text, max_bytes).is_ok() {
                prop_assert!(text.len() <= max_bytes && !text.trim().is_empty());
            }
            let _ = (validate_role(&text).is_ok(), validate_session_id(&text).is_ok());
        }
    }
}
