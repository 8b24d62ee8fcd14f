//! Paths of Markdown files: none leaves its directory, and a session is read from its own.

use memory_agent_core::files::memory_path::{Shelf, of_entry, of_summary, read};

/// What a directory's name of 200 bytes certainly has room for.
const SHORT: usize = 66;

pub fn check(data: &[u8]) {
    let (session, rest) = crate::two_texts(data);
    crate::linear(session.len() + rest.len(), || {
        let place = read(&rest);
        let conversation = place.conversation.iter().map(String::len).sum::<usize>();
        let id = place.id.iter().map(String::len).sum::<usize>();
        assert!(conversation.max(id) <= rest.len());

        for (shelf, is_deleted) in [(Shelf::Turn, false), (Shelf::Fact, true)] {
            let path = of_entry(Some(&session), shelf, &rest, &rest, &rest, is_deleted);
            assert!(path.is_ascii() && path.ends_with(".md"));
            assert!(path.split('/').all(|part| !matches!(part, "." | "..")));
        }
        if !session.is_empty() && session.len() <= SHORT {
            let path = of_entry(Some(&session), Shelf::Fact, "memory", "t", "7", true);
            let place = read(&path);
            assert_eq!(place.conversation.as_deref(), Some(session.as_str()));
            assert!(place.is_deleted);
            let path = of_summary(&session, "L2", "t", "7", false);
            assert_eq!(read(&path).conversation.as_deref(), Some(session.as_str()));
        }
    });
}
