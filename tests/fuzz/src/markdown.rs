//! Memories as Markdown files. The first line of an input is the path. A memory that was read and is
//! written is, from then on, the same file each time.

use memory_agent_core::files::markdown::{Memory, VERSION};

pub fn check(data: &[u8]) {
    let (path, text) = crate::two_texts(data);
    crate::linear(path.len() + text.len(), || {
        let (mut memory, body) = match Memory::read(&path, &text) {
            Ok(read) => read,
            Err(error) => return crate::short(error),
        };
        assert!(body.len() <= text.len());
        match &mut memory {
            Memory::Entry(entry) => entry.memory_agent = VERSION,
            Memory::Summary(summary) => summary.memory_agent = VERSION,
        }
        // What the path tells is in the file from then on.
        let once = written_again(&memory.write(&body, |_| false), &body);
        assert_eq!(written_again(&once, &body), once);
    });
}

/// The file that is made of a file that was written here.
fn written_again((path, text): &(String, String), body: &str) -> (String, String) {
    assert!(path.is_ascii() && !path.split('/').any(|part| matches!(part, "" | "." | "..")));
    let (memory, read) = Memory::read(path, text).expect("what was written can be read");
    assert_eq!(read, body);
    memory.write(&read, |_| false)
}
