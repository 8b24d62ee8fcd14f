//! Rows of attached tables: which of them can be remembered, and what becomes of the entry that a row
//! has when the row changes.

use crate::row_json::NotJson;
use crate::text::entry::{self, TextError};
use crate::text::ids::{self, IdError};

/// Longest key of a row, in bytes of its JSON text: with the names of table and user it is the key of an
/// index, and PostgreSQL's B-trees take 2,704 bytes.
pub const MAX_KEY_BYTES: usize = 1800;

/// A row of an attached table, as far as it decides what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    pub key: &'a str,
    /// Left out (`None`) where it is NULL or longer than `content_bytes` may be.
    pub content: Option<&'a str>,
    pub content_bytes: usize,
    pub user_id: Option<&'a str>,
    pub session_id: Option<&'a str>,
    pub role: &'a str,
    pub metadata_bytes: usize,
}

/// Why a row cannot be remembered. The messages hold lengths and roles, never content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("its content has {bytes} bytes, and memory_agent.max_content_bytes is {max_bytes}")]
    ContentTooLong { bytes: usize, max_bytes: usize },
    #[error("its metadata has {bytes} bytes, and memory_agent.max_content_bytes is {max_bytes}")]
    MetadataTooLong { bytes: usize, max_bytes: usize },
    #[error("its user is '*', which is the shared memory and not a user")]
    SharedUser,
    #[error("its user id {0}")]
    UserId(IdError),
    #[error("its session id {0}")]
    SessionId(IdError),
    #[error("{0}")]
    Role(TextError),
    #[error("its primary key has {0} bytes, the limit is {MAX_KEY_BYTES}")]
    Key(usize),
    #[error("{0}")]
    NotJson(NotJson),
    #[error("its condition failed with {0}; the server's log has the message")]
    Condition(String),
}

/// Whether a row is remembered: `Ok(false)` when there is nothing to remember: no content or no
/// user. `max_bytes` is the limit of content. `fixed_user` says that the user was
/// named with the attachment, where `*` is allowed.
pub fn admit(row: &Row<'_>, max_bytes: usize, fixed_user: bool) -> Result<bool, Refusal> {
    if row.content_bytes > max_bytes {
        return Err(Refusal::ContentTooLong { bytes: row.content_bytes, max_bytes });
    }
    let (Some(content), Some(user_id)) = (row.content, row.user_id) else { return Ok(false) };
    if content.trim().is_empty() {
        return Ok(false);
    }
    if user_id == "*" && !fixed_user {
        return Err(Refusal::SharedUser);
    }
    ids::check(user_id).map_err(Refusal::UserId)?;
    row.session_id.map_or(Ok(()), ids::check).map_err(Refusal::SessionId)?;
    if row.key.len() > MAX_KEY_BYTES {
        return Err(Refusal::Key(row.key.len()));
    }
    if row.metadata_bytes > max_bytes {
        return Err(Refusal::MetadataTooLong { bytes: row.metadata_bytes, max_bytes });
    }
    entry::validate_role(row.role).map_err(Refusal::Role)?;
    Ok(true)
}

/// How the entry that a row has compares with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Same user and agent.
    pub same_owner: bool,
    /// Same text to embed and index, session and role.
    pub same_content: bool,
    pub same_metadata: bool,
}

/// What becomes of the entry of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// The row is new to memory.
    Add,
    /// The row's metadata changed, and nothing that is searched.
    Relabel,
    /// A new version takes the place of the entry.
    Replace,
    /// The row belongs to another memory now: the entry ends in the one and begins in the other.
    Move,
    /// There is nothing to remember of the row any more.
    End,
}

/// What to do about a row: `wanted` says whether it is to be remembered, `known` compares it with the
/// entry that it has.
pub fn change(wanted: bool, known: Option<Comparison>) -> Change {
    match (wanted, known) {
        (false, None) => Change::Keep,
        (false, Some(_)) => Change::End,
        (true, None) => Change::Add,
        (true, Some(known)) if !known.same_owner => Change::Move,
        (true, Some(known)) if !known.same_content => Change::Replace,
        (true, Some(known)) if !known.same_metadata => Change::Relabel,
        (true, Some(_)) => Change::Keep,
    }
}

/// From when on a version of a row holds: the row's own time if it gives one (`given`), else now; but
/// never before or at the time the version before it began, whose time would vanish.
pub fn begins<T: Ord + Copy>(given: Option<T>, now: T, before: Option<T>) -> T {
    let begins = given.unwrap_or(now);
    match before {
        Some(before) if begins <= before => now.max(before),
        _ => begins,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row<'_> = Row {
        key: "[1]",
        content: Some("Ann lives in Oslo."),
        content_bytes: 18,
        user_id: Some("ann"),
        session_id: None,
        role: "user",
        metadata_bytes: 2,
    };

    #[test]
    fn a_row_with_content_and_user_is_remembered() {
        assert_eq!(admit(&ROW, 100, false), Ok(true));
        assert_eq!(admit(&Row { session_id: Some("s"), ..ROW }, 100, false), Ok(true));
    }

    #[test]
    fn without_content_or_user_there_is_nothing_to_remember() {
        for row in [
            Row { content: None, content_bytes: 0, ..ROW },
            Row { content: Some(" \n"), content_bytes: 2, ..ROW },
            Row { user_id: None, ..ROW },
        ] {
            assert_eq!(admit(&row, 100, false), Ok(false), "{row:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_without_its_content() {
        let (long, longest) = ("x".repeat(513), "x".repeat(MAX_KEY_BYTES + 1));
        let refused = [
            (Row { content: None, content_bytes: 101, ..ROW }, "has 101 bytes"),
            (Row { user_id: Some("*"), ..ROW }, "shared memory"),
            (Row { user_id: Some(" "), ..ROW }, "user id is empty or blank"),
            (Row { user_id: Some("ann "), ..ROW }, "user id begins or ends with a blank"),
            (Row { user_id: Some(&long), ..ROW }, "user id is too long"),
            (Row { session_id: Some(&long), ..ROW }, "session id is too long: 513 bytes"),
            (Row { session_id: Some("a\n"), ..ROW }, "session id has a control character"),
            (Row { role: "king", ..ROW }, "unknown role"),
            (Row { key: &longest, ..ROW }, "primary key has 1801"),
            (Row { metadata_bytes: 101, ..ROW }, "metadata has 101"),
        ];
        for (row, expected) in refused {
            let message = admit(&row, 100, false).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("Oslo"), "{message}");
        }
    }

    #[test]
    fn shared_memory_is_named_with_the_attachment_only() {
        let shared = Row { user_id: Some("*"), ..ROW };
        assert_eq!(admit(&shared, 100, true), Ok(true));
        assert_eq!(admit(&shared, 100, false), Err(Refusal::SharedUser));
    }

    #[test]
    fn only_a_changed_content_makes_a_new_version() {
        let same = Comparison { same_owner: true, same_content: true, same_metadata: true };
        assert_eq!(change(true, Some(same)), Change::Keep);
        assert_eq!(
            change(true, Some(Comparison { same_metadata: false, ..same })),
            Change::Relabel
        );
        let other = Comparison { same_content: false, same_metadata: false, ..same };
        assert_eq!(change(true, Some(other)), Change::Replace);
        assert_eq!(change(true, Some(Comparison { same_owner: false, ..same })), Change::Move);
        assert_eq!(change(true, None), Change::Add);
        assert_eq!(change(false, Some(same)), Change::End);
        assert_eq!(change(false, None), Change::Keep);
    }

    #[test]
    fn a_version_begins_after_the_one_before_it() {
        assert_eq!(begins(None, 10, None), 10);
        assert_eq!(begins(Some(3), 10, None), 3, "the row's own time");
        assert_eq!(begins(Some(3), 10, Some(3)), 10, "its time did not change with its content");
        assert_eq!(begins(Some(5), 10, Some(3)), 5, "its time did");
        assert_eq!(begins(None, 10, Some(12)), 12, "the one before begins in the future");
    }
}
