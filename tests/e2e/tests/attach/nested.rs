//! Rows that are changed again before their statement ends: by triggers of the application, by foreign
//! keys, by another part of the same statement. Memory has what the table has in the end.

use crate::{contents, notes, remembered};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, shared};

/// Whether memory says of `notes` what the table says, in contents and metadata.
#[track_caller]
fn expect_agreement(client: &mut Client, after: &str) {
    let differing = "SELECT coalesce(string_agg(format('%s: %s, memory %s', n.key, n.body, e.content), '; '), '') \
           FROM (SELECT jsonb_build_array(id) AS key, * FROM notes) n \
           FULL JOIN (SELECT * FROM memory_agent.entries WHERE state = 'active') e ON e.source_key = n.key \
          WHERE (n.body, n.owner, n.kind) IS DISTINCT FROM (e.content, e.user_id, e.metadata ->> 'kind')";
    let differing: String = value(client, differing, &[]);
    assert_eq!(differing, "", "after {after}");
}

/// A trigger of the table that runs `body`, a statement of PL/pgSQL.
fn trigger(event: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NULL; END $$; \
         CREATE TRIGGER a_change {event} ON notes FOR EACH ROW EXECUTE FUNCTION change()"
    )
}

#[test]
fn a_trigger_that_changes_the_row_that_was_inserted() {
    let mut client = notes("attach_nested_insert");
    let body = "UPDATE notes SET body = NEW.body || ' (checked)' WHERE id = NEW.id AND id % 2 = 0; \
                DELETE FROM notes WHERE id = NEW.id AND id % 3 = 0";
    run(&mut client, &trigger("AFTER INSERT", body));
    let statement =
        "INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 9) i";
    run(&mut client, statement);
    expect_agreement(&mut client, statement);
    assert_eq!(
        contents(&mut client),
        ["Note 1", "Note 2 (checked)", "Note 4 (checked)", "Note 5", "Note 7", "Note 8 (checked)"]
    );
}

#[test]
fn a_trigger_that_changes_what_was_updated_or_deleted() {
    let mut client = notes("attach_nested_update");
    let body = "UPDATE notes SET body = upper(body) WHERE id = NEW.id AND body <> upper(body)";
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two')");
    run(&mut client, &trigger("AFTER UPDATE", body));
    run(&mut client, "UPDATE notes SET body = body || '!'");
    expect_agreement(&mut client, "an update of an update");
    assert_eq!(contents(&mut client), ["ONE!", "TWO!"]);

    let body = "INSERT INTO notes (id, body) VALUES (OLD.id, 'back again')";
    run(&mut client, &format!("DROP FUNCTION change CASCADE; {}", trigger("AFTER DELETE", body)));
    run(&mut client, "DELETE FROM notes WHERE id = 1");
    expect_agreement(&mut client, "a row that comes back");
    assert_eq!(contents(&mut client), ["back again", "TWO!"]);
}

/// A function that a statement calls changes rows which the statement changes too, or has changed.
#[test]
fn a_function_that_changes_other_rows() {
    let mut client = notes("attach_nested_function");
    run(
        &mut client,
        "CREATE FUNCTION also(key int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO notes (id, body) VALUES (key, 'from the function') ON CONFLICT (id) DO UPDATE SET body = 'twice'; \
             RETURN 'from the statement'; END $$; \
         INSERT INTO notes (id, body) SELECT i, also(i + 1) FROM generate_series(1, 9, 2) i",
    );
    expect_agreement(&mut client, "an insert within an insert");
    run(&mut client, "UPDATE notes SET body = also(id::int + 1) WHERE id IN (1, 5)");
    expect_agreement(&mut client, "an insert within an update");
    run(&mut client, "DELETE FROM notes WHERE id IN (1, 3) AND also(5) IS NOT NULL");
    expect_agreement(&mut client, "an update within a delete");
}

/// What WITH, MERGE and ON CONFLICT do to one key in one statement.
#[test]
fn parts_of_one_statement() {
    let mut client = notes("attach_parts");
    run(
        &mut client,
        "INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 6) i",
    );
    for statement in [
        // Only one row of what is deleted is read before the INSERT is over.
        "WITH gone AS (DELETE FROM notes WHERE id < 4 RETURNING *) \
         INSERT INTO notes (id, body) SELECT id, 'again' FROM gone LIMIT 1",
        "WITH gone AS (DELETE FROM notes WHERE id = 4 RETURNING *), kept AS (UPDATE notes SET body = 'kept' WHERE id = 5) \
         INSERT INTO notes (id, body) SELECT id, 'four' FROM gone",
        "MERGE INTO notes n USING (VALUES (5, 'gone'), (6, 'changed'), (5, 'new')) v(id, body) \
            ON n.id = v.id AND v.body <> 'new' \
          WHEN MATCHED AND v.body = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET body = v.body \
          WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)",
        "WITH one AS (UPDATE notes SET kind = 'k' WHERE id = 6), two AS (UPDATE notes SET body = 'six' WHERE id = 6) \
         INSERT INTO notes (id, body) VALUES (6, 'sechs'), (7, 'sieben') ON CONFLICT (id) DO UPDATE SET owner = 'bob'",
    ] {
        // One of them may touch a row that another part of it touched, which is an error.
        if let Err(error) = client.batch_execute(statement) {
            assert_eq!(memory_agent_e2e::sqlstate(&error), "21000", "{statement}: {error}");
        }
        expect_agreement(&mut client, statement);
    }
    assert!(contents(&mut client).contains(&"again".to_owned()));
}

/// Two foreign keys change a row one after the other, within one statement.
#[test]
fn foreign_keys_that_change_a_row_twice() {
    let mut client = notes("attach_cascades");
    run(
        &mut client,
        "CREATE TABLE people (id text PRIMARY KEY, boss text REFERENCES people ON UPDATE CASCADE); \
         INSERT INTO people VALUES ('ann'), ('bob'); \
         ALTER TABLE notes ADD FOREIGN KEY (owner) REFERENCES people ON UPDATE CASCADE, \
                           ADD FOREIGN KEY (kind) REFERENCES people ON UPDATE CASCADE ON DELETE SET NULL; \
         INSERT INTO notes (id, body, owner, kind) VALUES (1, 'one', 'ann', 'ann'), (2, 'two', 'bob', 'ann')",
    );
    for statement in
        ["UPDATE people SET id = id || '!'", "UPDATE people SET id = 'carol' WHERE id = 'ann!'"]
    {
        run(&mut client, statement);
        expect_agreement(&mut client, statement);
    }
    assert_eq!(
        remembered(&mut client),
        [("[1]".into(), "carol".into(), "one".into()), ("[2]".into(), "bob!".into(), "two".into())]
    );
}

/// With a deferrable key, rows exchange their keys in one statement, and one key is there twice for a
/// while. What is there in the end counts.
#[test]
fn deferrable_keys() {
    let mut client = notes("attach_deferred");
    run(
        &mut client,
        "ALTER TABLE notes DROP CONSTRAINT notes_pkey, ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED; \
         INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 8) i",
    );
    for statements in [
        "UPDATE notes SET id = 9 - id",
        "UPDATE notes SET id = id + 1",
        "BEGIN; UPDATE notes SET id = 3 WHERE id = 2; UPDATE notes SET id = 2 WHERE body = 'Note 6'; COMMIT",
        "BEGIN; INSERT INTO notes (id, body) VALUES (4, 'vier'); DELETE FROM notes WHERE id = 4 AND body <> 'vier'; COMMIT",
        "BEGIN; INSERT INTO notes (id, body) VALUES (4, 'cuatro'); DELETE FROM notes WHERE body = 'cuatro'; COMMIT",
        "BEGIN; INSERT INTO notes (id, body, owner) VALUES (5, 'cinco', 'bob'); UPDATE notes SET body = body || '!'; \
         SAVEPOINT s; DELETE FROM notes WHERE body = 'cinco!'; ROLLBACK TO s; DELETE FROM notes WHERE id = 5 AND owner = 'alice'; COMMIT",
        "BEGIN; INSERT INTO notes (id, body) VALUES (6, 'sechs'); UPDATE notes SET id = 16 WHERE body = 'sechs'; COMMIT",
        "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; UPDATE notes SET id = 1 - id; COMMIT",
    ] {
        // A key that stays double is an error at the end, and everything is as it was.
        if let Err(error) = client.batch_execute(statements) {
            assert_eq!(memory_agent_e2e::sqlstate(&error), "23505", "{statements}: {error}");
            run(&mut client, "ROLLBACK");
        }
        expect_agreement(&mut client, statements);
    }
    assert!(contents(&mut client).contains(&"cinco!".to_owned()));
}

/// A key is double for one transaction only, because another one is about to take its row away. Neither
/// sees the row that is there in the end without the other.
#[test]
fn a_key_that_is_double_between_transactions() {
    let database = shared().database("attach_double");
    let (mut one, mut other) = (database.connect(), database.connect());
    run(
        &mut one,
        "CREATE TABLE notes (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, body text, owner text, kind text); \
         SELECT memory_attach('notes', 'body', user_id_column => 'owner', metadata_columns => '{kind}', embed => 'off'); \
         INSERT INTO notes VALUES (1, 'old', 'alice')",
    );
    run(&mut one, "BEGIN; DELETE FROM notes");
    run(&mut other, "BEGIN; INSERT INTO notes VALUES (1, 'new', 'bob')");
    run(&mut one, "COMMIT");
    run(&mut other, "COMMIT");
    assert!(value::<bool>(&mut one, "SELECT memory_wait('60 s')", &[]));
    expect_agreement(&mut one, "a commit of both");
    assert_eq!(contents(&mut one), ["new"]);
}
