//! What can be attached, and what cannot.

use crate::{NOTES, cluster, count};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error};

#[track_caller]
fn refused(client: &mut Client, arguments: &str, sqlstate: &str) -> String {
    expect_error(client.query(&format!("SELECT memory_attach({arguments})"), &[]), sqlstate)
}

#[test]
fn relations_that_are_no_tables_of_rows() {
    let mut client = cluster().database("attach_kinds").connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int PRIMARY KEY, body text); CREATE VIEW seen AS SELECT * FROM notes; \
         CREATE MATERIALIZED VIEW kept AS SELECT * FROM notes; CREATE SEQUENCE numbers; \
         CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing; \
         CREATE FOREIGN TABLE far (id int, body text) SERVER nowhere; \
         CREATE TEMP TABLE passing (id int PRIMARY KEY, body text); \
         CREATE TABLE parent (id int PRIMARY KEY, body text); CREATE TABLE child () INHERITS (parent); \
         ALTER TABLE child ADD PRIMARY KEY (id); \
         CREATE TABLE keyless (id int UNIQUE, body text); \
         CREATE TABLE lists (ids int[] PRIMARY KEY, body text)",
    );
    for (relation, expected) in [
        ("seen", "view"),
        ("kept", "view"),
        ("far", "foreign table"),
        ("numbers", "not a table"),
        ("passing", "temporary"),
        ("parent", "inheritance"),
        ("child", "inheritance"),
        ("lists", "primary key with the column ids"),
        ("memory_agent.entries", "belongs to the system"),
        ("pg_catalog.pg_class", "belongs to the system"),
    ] {
        let message = refused(&mut client, &format!("'{relation}', 'body'"), "0A000");
        assert!(message.contains(expected), "{relation}: {message}");
    }
    let message = refused(&mut client, "'keyless', 'body'", "55000");
    assert!(message.contains("no primary key") && message.contains("ADD PRIMARY KEY"), "{message}");
    refused(&mut client, "'nowhere', 'body'", "42P01");
    refused(&mut client, "NULL, 'body'", "42704");
    assert_eq!(count(&mut client, "memory_agent.attachments"), 0);
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 0);
}

#[test]
fn arguments_are_checked() {
    let mut client = cluster().database("attach_arguments").connect();
    run(&mut client, NOTES);
    for (arguments, code, expected) in [
        ("NULL", "22004", "content_column"),
        ("'text'", "42703", "no column \"text\""),
        ("'Body'", "42703", "no column \"Body\""),
        ("'body', user_id_column => 'user'", "42703", "user_id_column"),
        ("'body', session_id_column => 'tableoid'", "42703", "session_id_column"),
        ("'body', metadata_columns => '{kind,nothing}'", "42703", "nothing"),
        ("'body', metadata_columns => ARRAY[NULL]", "22004", "NULL"),
        ("'body', created_at_column => 'kind'", "42804", "has the type text"),
        ("'body', role => 'king'", "22023", "role"),
        ("'body', embed => 'soon'", "22023", "embed"),
        ("'body', user_id => ' '", "22023", "user_id"),
        ("'body', agent_id => ''", "22023", "agent_id"),
        ("'body', user_id => 'alice', user_id_column => 'owner'", "22023", "exclude each other"),
        ("'body', metadata_columns => array_fill('kind'::text, ARRAY[49])", "22023", "at most 48"),
    ] {
        let message = refused(&mut client, &format!("'notes', {arguments}"), code);
        assert!(message.contains(expected), "{arguments}: {message}");
    }
    let message = expect_error(client.query("SELECT memory_detach('notes')", &[]), "42704");
    assert!(message.contains("not attached"), "{message}");
}

/// A stored generated column is a column like any other. A virtual one, which PostgreSQL 18 brought, has
/// a value when the table is read and none in a trigger: memory would not say what the table says.
#[test]
fn generated_columns() {
    let mut client = cluster().database("attach_generated").connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int PRIMARY KEY, title text, \
             body text GENERATED ALWAYS AS ('About ' || title) STORED); \
         INSERT INTO notes VALUES (1, 'skiing'); \
         SELECT memory_attach('notes', 'body', user_id => 'alice', backfill => false); \
         INSERT INTO notes VALUES (2, 'boats'); UPDATE notes SET title = 'snow' WHERE id = 1",
    );
    assert_eq!(crate::contents(&mut client), ["About snow", "About boats"]);
    let virtual_table = "CREATE TABLE shown (id int PRIMARY KEY, title text, \
         body text GENERATED ALWAYS AS ('About ' || title) VIRTUAL)";
    if server_version(&mut client) < 180_000 {
        expect_error(client.query(virtual_table, &[]), "42601");
        return;
    }
    run(&mut client, virtual_table);
    for arguments in ["'body'", "'title', metadata_columns => '{body}'"] {
        let message = refused(&mut client, &format!("'shown', {arguments}"), "0A000");
        assert!(message.contains("\"body\" is a virtual generated column"), "{message}");
    }
    run(&mut client, "SELECT memory_attach('shown', 'title', user_id => 'alice')");
}

/// The last column of a key WITHOUT OVERLAPS (PostgreSQL 18) is a range: JSON has no one value for it.
#[test]
fn keys_without_overlaps() {
    let mut client = cluster().database("attach_temporal").connect();
    let columns = "stays (guest int, during daterange, body text";
    let table = if server_version(&mut client) < 180_000 {
        format!("CREATE TABLE {columns}, PRIMARY KEY (guest, during))")
    } else {
        format!(
            "CREATE EXTENSION btree_gist; \
             CREATE TABLE {columns}, PRIMARY KEY (guest, during WITHOUT OVERLAPS))"
        )
    };
    run(&mut client, &table);
    let message = refused(&mut client, "'stays', 'body'", "0A000");
    assert!(message.contains("primary key with the column during"), "{message}");
}

fn server_version(client: &mut Client) -> i32 {
    value(client, "SELECT current_setting('server_version_num')::int", &[])
}

/// Attached again, a table gets what is said now, and still has each trigger once.
#[test]
fn attaching_again_changes_the_attachment() {
    let mut client = crate::notes("attach_again");
    run(&mut client, "INSERT INTO notes (id, body, kind) VALUES (1, 'Ann skis.', 'draft')");
    run(&mut client, crate::ATTACH);
    assert_eq!(count(&mut client, "memory_agent.attachments"), 1);
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 6);
    run(
        &mut client,
        "SELECT memory_attach('notes', 'kind', user_id_column => 'owner', backfill => false)",
    );
    run(&mut client, "INSERT INTO notes (id, body, kind) VALUES (2, 'not this', 'but this')");
    assert_eq!(crate::contents(&mut client), ["Ann skis.", "but this"]);
}
