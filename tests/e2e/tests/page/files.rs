//! Export and import: what one takes along, another brings back.

use crate::reader::{Reader, read};
use crate::{database, gateway, with_life};
use memory_agent_e2e::Client;
use memory_agent_e2e::memory::{run, values};

/// Everything that files carry, in order.
fn everything(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', e.id, e.kind, e.role, e.agent_id, e.session_id, e.state, e.content, e.created_at, \
                          e.fact_key, e.confidence, e.source_ids, e.replaced_by, e.valid_to) \
           FROM memory_agent.entries e WHERE e.user_id = 'ann' \
         UNION ALL \
         SELECT concat_ws(' ', s.session_id, s.agent_id, s.level, s.content) \
           FROM memory_agent.session_summaries s WHERE s.user_id = 'ann' ORDER BY 1",
        &[],
    )
}

#[test]
fn what_was_exported_is_imported_elsewhere() {
    let mut client = with_life("files_from");
    run(
        &mut client,
        "SELECT memory_ingest('a/b', 'user', 'Hello, helper.', agent_id => 'helper/../x'); \
         SELECT memory_add('Ann likes rain.', infer => false, agent_id => 'helper/../x'); \
         SET memory_agent.user_id = 'bob'; SELECT memory_ingest('s', 'user', 'Of bob.')",
    );
    let from = gateway("files_from", Some("ann"));
    let mut reader = Reader::of(&from);
    let reply = reader.get("/ui/export");
    assert_eq!(reply.header("content-type"), Some("application/zip"));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"memory.zip\""));
    let archive = reply.body;
    let mut other = database("files_to");
    let theres = gateway("files_to", Some("ann"));
    let mut there = Reader::of(&theres);
    there.page("/ui/files");
    for _ in 0..2 {
        let reply = there.upload("/ui/import", &[("memory.zip", &archive)]);
        let text = read(reply.text());
        assert!(text.contains("files are in memory.") && !text.contains("not stored"), "{text}");
        assert_eq!(everything(&mut other), everything(&mut client));
    }
    let session = reader.get("/ui/export?session=kitchen&agent=default");
    let names = String::from_utf8_lossy(&session.body).into_owned();
    assert!(names.contains("entries/kitchen/turns/") && !names.contains("entries/moving/"));
}

#[test]
fn files_that_are_wrong_are_named_and_the_others_stored() {
    let mut client = database("files_wrong");
    let gateway = gateway("files_wrong", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let good = b"---\nrole: memory\n---\nAnn likes tea.\n".as_slice();
    let wrong = b"---\nrole: nobody\n---\nx\n".as_slice();
    let files = [("entries/s/facts/tea.md", good), ("entries/s/facts/wrong.md", wrong)];
    let text = read(reader.upload("/ui/import", &files).text());
    assert!(text.contains("1 file is in memory."), "{text}");
    assert!(text.contains("1 file was not stored: ") && text.contains("wrong.md"), "{text}");
    let stored: Vec<String> = values(&mut client, "SELECT content FROM memory_agent.entries", &[]);
    assert_eq!(stored, ["Ann likes tea."]);
    assert_eq!(reader.upload("/ui/import", &[]).status, 400);
    assert_eq!(reader.upload("/ui/import", &[("x.zip", b"PK\x03\x04nothing")]).status, 400);
    assert_eq!(reader.upload("/ui/import", &[("x.md", &[0xff, 0xfe])]).status, 400);
}
