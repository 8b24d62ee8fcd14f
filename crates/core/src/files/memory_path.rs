//! Where a memory's Markdown file lies: agent-cli's layout,
//! `entries/<conversation>/{facts,turns/<role>,summaries/<level>}/...`, and what a path tells about
//! a file that does not say it itself.
//!
//! A conversation is one directory, whatever its name: everything but ASCII letters, digits, `-`,
//! `_` and `.` is written as `%` and two hexadecimal digits a byte.

use sha2::{Digest, Sha256};

use crate::text::entry::{GLOBAL, ROLES};

/// Names that mean something in the layout, so a session of that name is escaped.
const RESERVED: [&str; 3] = [GLOBAL, DELETED, ENTRIES];
const ENTRIES: &str = "entries";
const DELETED: &str = "deleted";
const FACTS: &str = "facts";
const TURNS: &str = "turns";
const DOCUMENTS: &str = "documents";
const SOURCES: &str = "sources";
const SUMMARIES: &str = "summaries";

/// Longest name of a directory, in bytes; file systems allow 255.
const MAX_NAME_BYTES: usize = 200;

/// What a path says about the memory in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    pub conversation: Option<String>,
    pub is_deleted: bool,
    /// `user`, `assistant`, .. of a turn, `memory` of a fact, `summary` of a summary.
    pub role: Option<&'static str>,
    pub is_document: bool,
    /// `L1`, `L2` or `L3` of a summary, and its number.
    pub level: Option<&'static str>,
    pub ordinal: Option<i32>,
    /// The id in the file's name.
    pub id: Option<String>,
}

/// The kind of directory that an entry's file lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    Fact,
    Turn,
    Document,
    /// A turn that is nothing but the source of facts.
    Source,
}

/// The directory of a session; of the user's global memory without one.
pub fn conversation_directory(session_id: Option<&str>) -> String {
    let Some(session_id) = session_id else { return format!("{ENTRIES}/{GLOBAL}") };
    let is_reserved = RESERVED.contains(&session_id);
    let last = session_id.len().saturating_sub(1);
    let mut name = String::with_capacity(session_id.len());
    for (at, byte) in session_id.bytes().enumerate() {
        let is_plain = match byte {
            // A dot at an end would hide the directory, or be no name of its own.
            b'.' => at != 0 && at != last,
            _ => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        };
        if is_plain && !(is_reserved && at == 0) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.len() > MAX_NAME_BYTES {
        // It can no longer be read back; the front matter has the id.
        let digest = Sha256::digest(session_id.as_bytes());
        let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        name.truncate(MAX_NAME_BYTES - digest.len() - 1);
        name = format!("{name}~{digest}");
    }
    format!("{ENTRIES}/{name}")
}

/// The path of a turn, fact or document. `created_at` in ISO 8601.
pub fn of_entry(
    session_id: Option<&str>,
    shelf: Shelf,
    role: &str,
    created_at: &str,
    id: &str,
    is_deleted: bool,
) -> String {
    let shelf = match shelf {
        Shelf::Fact => FACTS.to_owned(),
        Shelf::Turn => format!("{TURNS}/{}", token(role)),
        Shelf::Document => DOCUMENTS.to_owned(),
        Shelf::Source => SOURCES.to_owned(),
    };
    let name = format!("{}__{}.md", token(created_at), token(id));
    in_directory(session_id, is_deleted, &format!("{shelf}/{name}"))
}

/// The path of the summary that is in force: one per level and number.
pub fn of_active_summary(session_id: &str, level: &str, ordinal: i32) -> String {
    let name = match level {
        "L1" => format!("chunk_{ordinal}.md"),
        "L2" => format!("group_{ordinal}.md"),
        _ => "final.md".to_owned(),
    };
    in_directory(Some(session_id), false, &format!("{SUMMARIES}/{}/{name}", token(level)))
}

/// The path of a summary that was replaced or deleted, or whose other path is taken.
pub fn of_summary(
    session_id: &str,
    level: &str,
    created_at: &str,
    id: &str,
    is_deleted: bool,
) -> String {
    let name = format!("{}__{}.md", token(created_at), token(id));
    in_directory(Some(session_id), is_deleted, &format!("{SUMMARIES}/{}/{name}", token(level)))
}

fn in_directory(session_id: Option<&str>, is_deleted: bool, rest: &str) -> String {
    let directory = conversation_directory(session_id);
    if is_deleted { format!("{directory}/{DELETED}/{rest}") } else { format!("{directory}/{rest}") }
}

/// A name without anything that separates directories, as agent-cli makes it.
fn token(text: &str) -> String {
    let is_plain = |at: usize, character: char| match character {
        '.' => at > 0,
        _ => character.is_ascii_alphanumeric() || matches!(character, '-' | '_'),
    };
    let characters = text.char_indices();
    characters
        .map(|(at, character)| if is_plain(at, character) { character } else { '-' })
        .collect()
}

/// What a path tells; nothing when it is in no known layout. Read from its end, so it may begin
/// anywhere. Both places of `deleted` are known: below the conversation, and above.
pub fn read(path: &str) -> Place {
    let mut parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let mut place = Place::default();
    let Some(file) = parts.pop() else { return place };
    let stem = file.strip_suffix(".md").unwrap_or(file);
    place.id = stem.rsplit_once("__").map(|(_, id)| id.to_owned());
    match parts.as_slice() {
        [.., TURNS, role] => {
            place.role = ROLES.into_iter().find(|known| known == role);
            parts.truncate(parts.len() - 2);
        }
        [.., SUMMARIES, level] if ["L1", "L2", "L3"].contains(level) => {
            place.role = Some("summary");
            place.level = ["L1", "L2", "L3"].into_iter().find(|known| known == level);
            let number = stem.strip_prefix("chunk_").or_else(|| stem.strip_prefix("group_"));
            place.ordinal = number.and_then(|number| number.parse().ok());
            parts.truncate(parts.len() - 2);
        }
        [.., SUMMARIES] => {
            (place.role, place.level) = (Some("summary"), Some("L3"));
            parts.pop();
        }
        [.., FACTS] => {
            place.role = Some("memory");
            parts.pop();
        }
        [.., DOCUMENTS] => {
            place.is_document = true;
            parts.pop();
        }
        [.., SOURCES] => {
            place.role = Some("user");
            parts.pop();
        }
        _ => return place,
    }
    let conversation = match parts.as_slice() {
        // A conversation of that name in a file tree that is not ours.
        [.., ENTRIES, DELETED] | [DELETED] => Some(DELETED),
        [.., conversation, DELETED] | [.., DELETED, conversation] => {
            place.is_deleted = true;
            Some(*conversation)
        }
        [.., conversation] => Some(*conversation),
        [] => None,
    };
    place.conversation = conversation.and_then(unescape);
    place
}

/// A directory's name with its escapes taken back; `None` for one that was too long to be whole.
fn unescape(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'~', _) => return None,
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(high)? << 4 | digit(low)?) as u8);
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_that_of_agent_cli() {
        let at = "2026-01-31T10:00:00.5Z";
        for (shelf, role, deleted, path) in [
            (Shelf::Fact, "memory", false, "entries/s1/facts/2026-01-31T10-00-00.5Z__7.md"),
            (Shelf::Turn, "user", false, "entries/s1/turns/user/2026-01-31T10-00-00.5Z__7.md"),
            (Shelf::Fact, "memory", true, "entries/s1/deleted/facts/2026-01-31T10-00-00.5Z__7.md"),
            (Shelf::Document, "user", false, "entries/s1/documents/2026-01-31T10-00-00.5Z__7.md"),
        ] {
            assert_eq!(of_entry(Some("s1"), shelf, role, at, "7", deleted), path);
        }
        assert_eq!(of_active_summary("s1", "L1", 3), "entries/s1/summaries/L1/chunk_3.md");
        assert_eq!(of_active_summary("s1", "L2", 0), "entries/s1/summaries/L2/group_0.md");
        assert_eq!(of_active_summary("s1", "L3", 0), "entries/s1/summaries/L3/final.md");
        assert_eq!(
            of_summary("s1", "L3", at, "7", true),
            "entries/s1/deleted/summaries/L3/2026-01-31T10-00-00.5Z__7.md"
        );
        assert_eq!(conversation_directory(None), "entries/global");
    }

    #[test]
    fn a_session_is_one_directory_whatever_its_name() {
        for (session_id, name) in [
            ("a b", "a%20b"),
            ("../../etc", "%2E.%2F..%2Fetc"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("a.b", "a.b"),
            ("a/b\\c", "a%2Fb%5Cc"),
            ("global", "%67lobal"),
            ("deleted", "%64eleted"),
            ("entries", "%65ntries"),
            ("100%", "100%25"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(conversation_directory(Some(session_id)), format!("entries/{name}"));
        }
        let (long, other) = ("é".repeat(256), format!("{}e", "é".repeat(255)));
        let directory = conversation_directory(Some(&long));
        assert_eq!(directory.len(), "entries/".len() + MAX_NAME_BYTES);
        assert_ne!(directory, conversation_directory(Some(&other)));
    }

    #[test]
    fn a_path_tells_what_a_file_does_not_say() {
        let fact = read("/home/me/memory/entries/s1/facts/2026-01-31__7f.md");
        assert_eq!((fact.conversation.as_deref(), fact.role), (Some("s1"), Some("memory")));
        assert_eq!((fact.id.as_deref(), fact.is_deleted), (Some("7f"), false));
        for deleted in ["entries/s1/deleted/facts/t__7.md", "entries/deleted/s1/facts/t__7.md"] {
            let place = read(deleted);
            assert!(place.is_deleted, "{deleted}");
            assert_eq!(place.conversation.as_deref(), Some("s1"), "{deleted}");
        }
        let chunk = read("entries/s1/summaries/L1/chunk_4.md");
        assert_eq!((chunk.level, chunk.ordinal), (Some("L1"), Some(4)));
        assert_eq!(read("entries/s1/summaries/summary.md").level, Some("L3"));
        assert_eq!(read("turns/assistant/x.md").role, Some("assistant"));
        assert!(read("entries/s1/documents/x.md").is_document);
        for nothing in ["", "notes.md", "/", "a/b/c.md"] {
            assert_eq!(read(nothing), Place::default(), "{nothing:?}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_its_directory(
            session_id in any::<String>(),
            role in any::<String>(),
            id in any::<String>(),
        ) {
            let path = of_entry(Some(&session_id), Shelf::Turn, &role, "t", &id, false);
            let parts: Vec<&str> = path.split('/').collect();
            prop_assert_eq!(parts.len(), 5);
            prop_assert_eq!((parts[0], parts[2]), ("entries", "turns"));
            prop_assert!(parts.iter().all(|part| *part != ".." && *part != "." && part.is_ascii()));
        }

        #[test]
        fn a_session_is_read_from_its_path(session_id in "\\PC{1,20}", is_deleted: bool) {
            let path = of_entry(Some(&session_id), Shelf::Fact, "memory", "t", "7", is_deleted);
            let place = read(&path);
            prop_assert_eq!(place.conversation, Some(session_id));
            prop_assert_eq!(place.is_deleted, is_deleted);
        }
    }
}
