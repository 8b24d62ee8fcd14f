//! What happens to an attached table itself: it is renamed, loses a column, is dropped, detached.

use crate::{cluster, contents, count, metadata, notes, status, with_warnings};
use memory_agent_e2e::memory::{run, value, values};

#[test]
fn renamed_columns_are_followed() {
    let mut client = notes("attach_rename");
    run(&mut client, "INSERT INTO notes (id, body, kind) VALUES (1, 'one', 'a')");
    run(
        &mut client,
        "ALTER TABLE notes RENAME body TO content; ALTER TABLE notes RENAME owner TO body; \
         ALTER TABLE notes RENAME kind TO sort; ALTER TABLE notes RENAME id TO number",
    );
    run(&mut client, "INSERT INTO notes (number, content, sort) VALUES (2, 'two', 'b')");
    run(&mut client, "UPDATE notes SET content = 'uno' WHERE number = 1");
    assert_eq!(contents(&mut client), ["uno", "two"]);
    assert_eq!(metadata(&mut client, "[2]")["kind"], "b", "the key is that of the attachment");
    assert_eq!(status(&mut client).0, "attached");
    run(&mut client, "DELETE FROM notes WHERE number = 1");
    assert_eq!(contents(&mut client), ["two"]);
}

#[test]
fn a_renamed_table_is_followed() {
    let mut client = notes("attach_rename_table");
    run(
        &mut client,
        "INSERT INTO notes (id, body) VALUES (1, 'one'); CREATE SCHEMA app; \
         ALTER TABLE notes RENAME TO memos; ALTER TABLE memos SET SCHEMA app; \
         UPDATE app.memos SET body = 'uno'; INSERT INTO app.memos (id, body) VALUES (2, 'due')",
    );
    assert_eq!(contents(&mut client), ["uno", "due"]);
    let (state, detail) = status(&mut client);
    assert_eq!(state, "attached");
    assert!(detail.contains("public.notes") && detail.contains("app.memos"), "{detail}");
    // A new table of the old name cannot have the entries of the other one.
    run(&mut client, crate::NOTES);
    let refused = client.query("SELECT memory_attach('notes', 'body')", &[]);
    let message = memory_agent_e2e::expect_error(refused, "42710");
    assert!(message.contains("was renamed"), "{message}");
    assert_eq!(
        value::<i64>(&mut client, "SELECT memory_detach('app.memos', forget => true)", &[]),
        2
    );
    run(&mut client, "SELECT memory_attach('notes', 'body')");
}

/// The application goes on; memory says what it misses.
#[test]
fn a_dropped_column() {
    let database = "attach_drop_column";
    drop(notes(database));
    let (mut client, warnings) = with_warnings(cluster(), database);
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'); ALTER TABLE notes DROP tags");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (2, 'two')");
    assert_eq!(count(&mut client, "notes"), 2);
    assert_eq!(contents(&mut client), ["one"]);
    let told = warnings.lock().unwrap().join("\n");
    assert!(told.contains("its column \"tags\" is gone"), "{told}");
    let (state, detail) = status(&mut client);
    assert_eq!(state, "broken");
    assert!(detail.contains("tags"), "{detail}");
    run(
        &mut client,
        "SELECT memory_attach('notes', 'body', user_id_column => 'owner', backfill => false)",
    );
    assert_eq!(status(&mut client).0, "attached");
    run(&mut client, "ALTER TABLE notes DROP CONSTRAINT notes_pkey; DELETE FROM notes");
    assert_eq!(status(&mut client).0, "broken");
    assert_eq!(count(&mut client, "notes"), 0);
}

#[test]
fn a_dropped_table() {
    let mut client = notes("attach_drop");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'); DROP TABLE notes");
    assert_eq!(contents(&mut client), ["one"], "nothing is lost by itself");
    let (state, detail) = status(&mut client);
    assert_eq!((state.as_str(), detail.contains("public.notes")), ("gone", true));
    run(&mut client, crate::NOTES);
    let refused = client.query("SELECT memory_attach('notes', 'body')", &[]);
    let message = memory_agent_e2e::expect_error(refused, "42710");
    assert!(message.contains("memory_detach"), "{message}");
    assert_eq!(
        value::<i64>(&mut client, "SELECT memory_detach('public.notes', forget => true)", &[]),
        1
    );
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(count(&mut client, "memory_agent.attachments"), 0);
}

#[test]
fn a_detached_table_is_its_own_again() {
    let mut client = notes("attach_detach");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two')");
    assert_eq!(value::<i64>(&mut client, "SELECT memory_detach('notes')", &[]), 0);
    assert_eq!(contents(&mut client), ["one", "two"], "memory stays");
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 0);
    run(
        &mut client,
        "DELETE FROM notes WHERE id = 1; INSERT INTO notes (id, body) VALUES (3, 'three')",
    );
    assert_eq!(contents(&mut client), ["one", "two"]);
    run(&mut client, crate::ATTACH);
    assert_eq!(value::<i64>(&mut client, "SELECT memory_detach('notes', forget => true)", &[]), 2);
    assert_eq!(contents(&mut client), [""; 0]);
}

/// The triggers go with the extension, and the table goes on without.
#[test]
fn without_the_extension() {
    let mut client = notes("attach_drop_extension");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one')");
    let refused = client.batch_execute("DROP EXTENSION memory_agent");
    memory_agent_e2e::expect_error(refused, "2BP01");
    run(
        &mut client,
        "DROP EXTENSION memory_agent CASCADE; INSERT INTO notes (id, body) VALUES (2, 'two')",
    );
    assert_eq!(count(&mut client, "notes"), 2);
    run(&mut client, &format!("CREATE EXTENSION memory_agent; {}", crate::ATTACH));
    run(&mut client, "UPDATE notes SET body = 'uno' WHERE id = 1");
    assert_eq!(contents(&mut client), ["uno"]);
}

/// memory_clear is about what was said in a session; rows are what their table says.
#[test]
fn clearing_a_session_leaves_rows() {
    let mut client = notes("attach_clear");
    run(&mut client, "INSERT INTO notes (id, body, chat) VALUES (1, 'one', 'c1')");
    run(&mut client, "SELECT memory_ingest('c1', 'user', 'said')");
    let loaded: i64 = value(&mut client, "SELECT count(*) FROM memory_load('c1')", &[]);
    assert_eq!(loaded, 2, "rows of a session are turns of it");
    let counted: (i64, i64) = {
        let row = client
            .query_one("SELECT active_entries, turn_count FROM memory_agent.sessions", &[])
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(counted, (1, 1), "limits do not count them");
    run(&mut client, "SELECT memory_reserve_tokens('c1', 1, summarize => false)");
    let loaded: Vec<String> = values(&mut client, "SELECT content FROM memory_load('c1')", &[]);
    assert_eq!(loaded, ["one"], "the turn gave up its place, the row did not");
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('c1')", &[]), 1);
    assert_eq!(contents(&mut client), ["one"]);
}
