//! An id belongs to one user, not to the database: a Markdown file brings any. An entry of somebody else's
//! with the id of a row's entry is never taken for it, whatever becomes of the row.

use crate::{cluster, contents, remembered};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Uuid};

/// `app.notes` as the application attaches it, one row of ann's, and the id of its entry.
fn anns_row(name: &str) -> (Client, Client, Uuid) {
    let mut superuser = cluster().database(name).connect();
    let (ann, bob) = (format!("{name}_ann"), format!("{name}_bob"));
    run(
        &mut superuser,
        &format!(
            "CREATE ROLE {ann} LOGIN; CREATE ROLE {bob} LOGIN; \
             SELECT memory_grant('{ann}', 'user'), memory_grant('{bob}', 'user'); \
             CREATE SCHEMA app; CREATE TABLE app.notes (id int PRIMARY KEY, body text); \
             GRANT USAGE ON SCHEMA app TO {ann}; GRANT ALL ON app.notes TO {ann}; \
             SELECT memory_attach('app.notes', 'body', backfill => false)"
        ),
    );
    let mut ann = cluster().connect_as(name, &ann);
    run(&mut ann, "INSERT INTO app.notes VALUES (1, 'Ann skis.')");
    let id = value(
        &mut superuser,
        "SELECT id FROM memory_agent.entries WHERE source_key IS NOT NULL",
        &[],
    );
    let mut bob = cluster().connect_as(name, &bob);
    run(
        &mut bob,
        &format!(
            "SELECT memory_import_markdown('x/y.md', E'---\\nid: {id}\\nrole: user\\nkind: turn\\n\
             created_at: 2001-01-01T00:00:00Z\\n---\\np')"
        ),
    );
    (superuser, ann, id)
}

/// All that is stored of bob.
fn bobs(superuser: &mut Client, name: &str) -> Vec<String> {
    let query = format!(
        "SELECT concat_ws(' ', id, state, content, metadata, xmin) FROM memory_agent.entries \
          WHERE user_id = '{name}_bob' UNION ALL \
         SELECT s::text FROM memory_agent.sessions s WHERE user_id = '{name}_bob' UNION ALL \
         SELECT h.op FROM memory_agent.history h WHERE user_id = '{name}_bob'"
    );
    memory_agent_e2e::memory::values(superuser, &query, &[])
}

/// A statement about ann's row, and what memory has of the table afterwards.
#[track_caller]
fn leaves_bob_alone(name: &str, statement: &str, left: &[&str]) {
    let (mut superuser, mut ann, id) = anns_row(name);
    let before = bobs(&mut superuser, name);
    assert_eq!(before.len(), 2, "an entry and its session: {before:?}");
    run(&mut ann, statement);
    assert_eq!(contents(&mut superuser), left, "{statement}");
    assert_eq!(bobs(&mut superuser, name), before, "{statement}");
    let all_anns = remembered(&mut superuser).iter().all(|(_, user, _)| user.ends_with("_ann"));
    assert!(all_anns, "{statement}");
    let ended: bool = value(
        &mut superuser,
        "SELECT bool_or(state = 'inactive') FROM memory_agent.entries \
          WHERE id = $1 AND source_key IS NOT NULL",
        &[&id],
    );
    assert!(ended, "{statement}: the row's first entry is over");
}

#[test]
fn an_update_replaces_the_rows_own_entry() {
    leaves_bob_alone(
        "attach_id_update",
        "UPDATE app.notes SET body = 'Ann skates.'",
        &["Ann skates."],
    );
}

#[test]
fn a_delete_ends_the_rows_own_entry() {
    leaves_bob_alone("attach_id_delete", "DELETE FROM app.notes", &[]);
}

#[test]
fn a_moved_key_moves_the_rows_own_entry() {
    leaves_bob_alone("attach_id_key", "UPDATE app.notes SET id = 2", &["Ann skis."]);
}

#[test]
fn a_truncate_ends_the_rows_own_entry() {
    leaves_bob_alone("attach_id_truncate", "TRUNCATE app.notes", &[]);
}

/// What only changes the metadata keeps the entry, and gives it to the right one.
#[test]
fn new_metadata_goes_to_the_rows_own_entry() {
    let (mut superuser, mut ann, id) = anns_row("attach_id_metadata");
    run(
        &mut superuser,
        "ALTER TABLE app.notes ADD COLUMN tag text; \
         SELECT memory_attach('app.notes', 'body', metadata_columns => '{tag}', backfill => false)",
    );
    let before = bobs(&mut superuser, "attach_id_metadata");
    run(&mut ann, "UPDATE app.notes SET tag = 'sport'");
    assert_eq!(bobs(&mut superuser, "attach_id_metadata"), before);
    let tag: String = value(
        &mut superuser,
        "SELECT metadata ->> 'tag' FROM memory_agent.entries WHERE id = $1 AND source_key IS NOT NULL",
        &[&id],
    );
    assert_eq!(tag, "sport");
}

/// Both users have rows in one statement, and each has an entry with the other's id.
#[test]
fn ids_that_cross_within_one_statement() {
    let mut client = crate::notes("attach_id_crossed");
    run(
        &mut client,
        "INSERT INTO notes (id, body, owner) VALUES (1, 'Ann skis.', 'ann'), (2, 'Bob talks.', 'bob')",
    );
    let import = |client: &mut Client, of: &str, to: &str| {
        let id: Uuid = value(
            client,
            "SELECT id FROM memory_agent.entries WHERE user_id = $1 AND source_key IS NOT NULL",
            &[&of],
        );
        let file = format!("---\nid: {id}\nrole: user\nkind: turn\n---\np");
        client
            .execute("SELECT memory_import_markdown('x/y.md', $1, user_id => $2)", &[&file, &to])
            .expect("an import");
    };
    import(&mut client, "ann", "bob");
    import(&mut client, "bob", "ann");
    run(&mut client, "UPDATE notes SET body = body || ' Now.'");
    assert_eq!(contents(&mut client), ["Ann skis. Now.", "Bob talks. Now."]);
    let imported = "memory_agent.entries WHERE content = 'p' AND state = 'active'";
    assert_eq!(crate::count(&mut client, imported), 2);
    run(&mut client, "DELETE FROM notes");
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(crate::count(&mut client, imported), 2);
}
