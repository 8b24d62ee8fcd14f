//! Attached tables in dumps. Triggers belong to the application's tables, and the attachment to memory:
//! both arrive, whatever comes first.

use crate::{cluster, contents, count, status};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Programs, shared, wait_until};
use std::time::Duration;

/// Two attached tables, whose schemas sort before and after ours; one lost a column before, so that the
/// numbers of its columns are others after a restore.
fn source(name: &str) -> Client {
    let mut client = cluster().database(name).connect();
    run(
        &mut client,
        "CREATE SCHEMA app; \
         CREATE TABLE app.notes (gone int, id int PRIMARY KEY, body text, owner text); ALTER TABLE app.notes DROP gone; \
         CREATE TABLE public.wishes (id int PRIMARY KEY, wish text, extra text) PARTITION BY RANGE (id); \
         CREATE TABLE public.wishes_low PARTITION OF wishes FOR VALUES FROM (0) TO (100); \
         SELECT memory_attach('app.notes', 'body', user_id_column => 'owner', backfill => false); \
         SELECT memory_attach('wishes', 'wish', user_id => 'alice', metadata_columns => '{extra}', backfill => false); \
         INSERT INTO app.notes VALUES (1, 'a note', 'alice'), (2, 'another', 'bob'); \
         INSERT INTO wishes VALUES (1, 'a wish', 'x'), (2, 'old wish', 'y'); UPDATE wishes SET wish = 'new wish' WHERE id = 2; \
         ALTER TABLE wishes ADD was text; ALTER TABLE wishes DROP was",
    );
    client
}

/// Memory is what it was, and goes on following the tables.
fn assert_restored(target: &mut Client) {
    let entries = "memory_agent.entries";
    assert_eq!(contents(target), ["a note", "a wish", "another", "new wish"]);
    assert_eq!(count(target, entries), 5);
    run(
        target,
        "SET memory_agent.user_id = 'alice'; UPDATE app.notes SET body = 'changed' WHERE id = 1; \
         INSERT INTO wishes_low VALUES (3, 'third wish', 'z'); UPDATE wishes SET wish = 'newest wish' WHERE id = 2; \
         DELETE FROM app.notes WHERE id = 2",
    );
    let mut now = contents(target);
    now.sort();
    assert_eq!(now, ["a wish", "changed", "newest wish", "third wish"]);
    assert_eq!(
        count(target, "memory_status() WHERE component = 'attached table' AND state = 'attached'"),
        2
    );
}

#[test]
fn a_full_dump() {
    drop(source("attach_dump_source"));
    let programs = Programs::of(cluster());
    for (format, arguments) in [("custom", ["-Fc"]), ("plain", ["-Fp"])] {
        let target = format!("attach_dump_{format}");
        let file = programs.file(&target);
        let mut client = cluster().plain_database(&target);
        programs.dump("attach_dump_source", &[&arguments[..], &["-f", &file]].concat());
        match format {
            "plain" => programs.execute(&target, &file),
            _ => programs.restore(&target, &[], &file),
        }
        assert_restored(&mut client);
    }
}

/// The rows arrive twice: with their table, whose triggers fire, and as entries.
#[test]
fn a_data_only_dump_is_idempotent() {
    drop(source("attach_data_source"));
    let programs = Programs::of(cluster());
    let (schema, data) = (programs.file("attach_schema"), programs.file("attach_data"));
    programs.dump("attach_data_source", &["-Fc", "-s", "-f", &schema]);
    programs.dump("attach_data_source", &["-Fc", "-a", "-f", &data]);
    let mut client = cluster().plain_database("attach_data_target");
    programs.restore("attach_data_target", &[], &schema);
    run(&mut client, "TRUNCATE memory_agent.models");
    programs.restore("attach_data_target", &[], &data);
    assert_restored(&mut client);
}

/// As above with several sessions, which load tables side by side, the largest first: small ones are there
/// while their entries are still on their way.
#[test]
fn a_data_only_dump_in_parallel() {
    let mut client = source("attach_jobs_source");
    run(
        &mut client,
        "CREATE TABLE app.long (id int PRIMARY KEY, body text, owner text); \
         SELECT memory_attach('app.long', 'body', user_id_column => 'owner', embed => 'off', backfill => false); \
         INSERT INTO app.long SELECT i, 'Number ' || i || repeat(' of many', 100), 'carol' FROM generate_series(1, 3000) i; \
         /* The entries of the small tables are the last in the dump. */ \
         UPDATE memory_agent.entries SET updated_at = now() WHERE source_relation <> 'app.long'",
    );
    drop(client);
    let programs = Programs::of(cluster());
    let (schema, data) = (programs.file("attach_jobs_schema"), programs.file("attach_jobs_data"));
    programs.dump("attach_jobs_source", &["-Fc", "-s", "-f", &schema]);
    programs.dump("attach_jobs_source", &["-Fc", "-a", "-f", &data]);
    for round in 0..3 {
        let target = format!("attach_jobs_target_{round}");
        let mut client = cluster().plain_database(&target);
        programs.restore(&target, &[], &schema);
        run(&mut client, "TRUNCATE memory_agent.models");
        programs.restore(&target, &["--jobs=4"], &data);
        assert_eq!(count(&mut client, "memory_agent.entries"), 3005, "round {round}");
        run(
            &mut client,
            "SELECT memory_detach('app.long', forget => true); \
             DELETE FROM memory_agent.entries WHERE state = 'inactive' AND content <> 'old wish'",
        );
        assert_restored(&mut client);
    }
}

/// Rows that are restored without their entries are the worker's, once pg_restore is gone.
#[test]
fn the_rows_of_a_table_are_restored() {
    let mut client = shared().database("attach_table_restored").connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, owner text); \
         SELECT memory_attach('notes', 'body', user_id_column => 'owner', embed => 'off', backfill => false); \
         INSERT INTO notes VALUES (1, 'one', 'alice'), (2, 'two', 'bob'), (3, 'three', 'carol')",
    );
    let programs = Programs::of(shared());
    let file = programs.file("attach_table");
    programs.dump("attach_table_restored", &["-Fc", "-a", "-t", "notes", "-f", &file]);
    run(&mut client, "TRUNCATE notes; INSERT INTO notes VALUES (4, 'four', 'alice')");
    programs.restore("attach_table_restored", &[], &file);
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(contents(&mut client), ["one", "two", "three", "four"]);
}

/// A renamed column is called by its new name after a restore.
#[test]
fn renamed_columns_in_a_dump() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.sweep_interval", "1s").start();
    let mut client = cluster.database("db").connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, kind text); \
         SELECT memory_attach('notes', 'body', user_id => 'alice', metadata_columns => '{kind}'); \
         ALTER TABLE notes RENAME body TO content; ALTER TABLE notes RENAME kind TO sort",
    );
    wait_until(Duration::from_secs(60), "the sweep", || {
        count(
            &mut client,
            "memory_agent.attachments WHERE content_column = 'content' AND metadata_columns = '{sort}'",
        ) == 1
    });
    assert_eq!(status(&mut client).0, "attached");
}
