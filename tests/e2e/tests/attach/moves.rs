//! Attached tables in dumps. Triggers belong to the application's tables, and the attachment to memory:
//! both arrive, whatever comes first.

use crate::{cluster, contents, count, status};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Cluster, Programs, wait_until};
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
