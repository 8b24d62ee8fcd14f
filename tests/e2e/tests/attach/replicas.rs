//! Rows that come by logical replication, and others that are written with `session_replication_role = replica`:
//! no trigger fires for them but those of replicas, row by row.

use crate::{PATIENCE, cluster, contents, count, status};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, wait_until};

/// The application's tables.
const TABLES: &str = "CREATE TABLE notes (id int PRIMARY KEY, body text, owner text, hidden boolean NOT NULL DEFAULT false); \
    CREATE TABLE parts (region text, id int, body text, PRIMARY KEY (region, id)) PARTITION BY LIST (region); \
    CREATE TABLE parts_x PARTITION OF parts FOR VALUES IN ('x'); \
    CREATE TABLE parts_y PARTITION OF parts FOR VALUES IN ('y')";
const ATTACH: &str = "SELECT memory_attach('notes', 'body', user_id_column => 'owner', condition => 'NOT hidden'), \
                             memory_attach('parts', 'body', user_id => 'ann')";

/// The application's database is managed by others, and memory lives beside it: in a database that subscribes to
/// its tables, with a worker.
#[test]
fn a_subscriber_remembers_what_comes() {
    let publisher = Cluster::builder().setting("wal_level", "logical").start();
    let subscriber = Cluster::builder().preload(true).start();
    let mut source = publisher.database("db").connect();
    let mut target = subscriber.database("db").connect();
    run(&mut source, &format!("{TABLES}; CREATE PUBLICATION app FOR TABLE notes, parts"));
    run(&mut source, "INSERT INTO notes VALUES (1, 'The first copy has this row.', 'ann')");
    run(&mut target, &format!("{TABLES}; {ATTACH}"));
    let connection =
        format!("host={} user=postgres dbname=db", publisher.socket_directory().display());
    run(&mut target, &format!("CREATE SUBSCRIPTION app CONNECTION '{connection}' PUBLICATION app"));
    let mut becomes = |source: &mut Client, statement: &str, expected: &[&str]| {
        run(source, statement);
        wait_until(PATIENCE, statement, || contents(&mut target) == expected);
    };
    becomes(&mut source, "", &["The first copy has this row."]);
    becomes(
        &mut source,
        "INSERT INTO notes VALUES (2, 'The ferry to Brest leaves at nine.', 'bob', false), (3, 'Hidden.', 'ann', true)",
        &["The first copy has this row.", "The ferry to Brest leaves at nine."],
    );
    becomes(
        &mut source,
        "UPDATE notes SET body = 'uno' WHERE id = 1; UPDATE notes SET hidden = NOT hidden WHERE id > 1",
        &["uno", "Hidden."],
    );
    becomes(
        &mut source,
        "UPDATE notes SET id = 9, hidden = false WHERE id = 2; DELETE FROM notes WHERE id = 1",
        &["Hidden.", "The ferry to Brest leaves at nine."],
    );
    // Keys of two columns come last.
    becomes(
        &mut source,
        "DELETE FROM notes WHERE id = 3; INSERT INTO parts VALUES ('x', 1, 'In x.'), ('y', 1, 'In y.'); \
         UPDATE parts SET region = 'y', id = 2 WHERE region = 'x'",
        &["The ferry to Brest leaves at nine.", "In y.", "In x."],
    );
    becomes(&mut source, "TRUNCATE parts", &["The ferry to Brest leaves at nine."]);
    // The worker of the subscriber embeds what came.
    wait_until(PATIENCE, "the embedding", || {
        count(&mut target, "memory_agent.entries WHERE state = 'active' AND embedding IS NOT NULL")
            == 1
    });
    let found: Vec<String> = values(
        &mut target,
        "SELECT content FROM memory_recall('When does the boat sail?', user_id => 'bob')",
        &[],
    );
    assert_eq!(found, ["The ferry to Brest leaves at nine."]);
    let failed: Vec<String> = values(
        &mut target,
        "SELECT concat_ws(' ', kind, status, last_error) FROM memory_agent.jobs WHERE status = 'dead'",
        &[],
    );
    assert_eq!(failed, [""; 0]);
    // A slot that nobody reads would keep the publisher's log for ever.
    run(&mut target, "DROP SUBSCRIPTION app");
}

#[test]
fn a_session_that_replicates() {
    let mut client = cluster().database("attach_replica_role").connect();
    run(&mut client, &format!("{TABLES}; {ATTACH}"));
    run(
        &mut client,
        "SET session_replication_role = replica; \
         INSERT INTO notes SELECT n, 'note ' || n, 'ann' FROM generate_series(1, 3) n; \
         INSERT INTO notes VALUES (2, 'again', 'ann') ON CONFLICT (id) DO UPDATE SET body = excluded.body; \
         UPDATE notes SET id = 10 - id; \
         INSERT INTO parts VALUES ('x', 1, 'in x'), ('y', 2, 'in y'); UPDATE parts SET region = 'y' WHERE id = 1",
    );
    let expected = ["note 3", "again", "note 1", "in x", "in y"];
    assert_eq!(contents(&mut client), expected);
    run(&mut client, "DELETE FROM notes WHERE id > 7; TRUNCATE parts_y");
    assert_eq!(contents(&mut client), ["note 3"]);
    // In other sessions these triggers do nothing.
    run(
        &mut client,
        "RESET session_replication_role; UPDATE notes SET body = 'uno'; TRUNCATE parts",
    );
    assert_eq!(contents(&mut client), ["uno"]);
    assert_eq!(count(&mut client, "memory_agent.entries WHERE content = 'uno'"), 1);
    let states: Vec<String> = values(
        &mut client,
        "SELECT state FROM memory_status() WHERE component = 'attached table'",
        &[],
    );
    assert_eq!(states, ["attached", "attached"]);
    run(&mut client, "SELECT memory_detach('parts')");
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 6);
    // As a load does; then each of these triggers is like any other.
    run(
        &mut client,
        "ALTER TABLE notes DISABLE TRIGGER ALL; ALTER TABLE notes ENABLE TRIGGER ALL; \
         INSERT INTO notes VALUES (20, 'twenty', 'ann'), (21, 'twenty-one', 'ann')",
    );
    assert_eq!(contents(&mut client), ["uno", "twenty", "twenty-one"]);
    run(&mut client, "ALTER TABLE notes DISABLE TRIGGER memory_agent_update");
    assert_eq!(status(&mut client).0, "incomplete");
    assert!(value::<bool>(&mut client, "SELECT memory_detach('notes') = 0", &[]));
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 0);
}
