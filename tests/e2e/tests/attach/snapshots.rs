//! Transactions that see an older state than the one memory is in: with one snapshot for all their
//! statements, or because they waited for a lock. Their rows get into memory like all others.

use crate::{NOTES, PATIENCE, cluster, contents, count, remembered, with_warnings};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, shared, wait_until};

const ATTACH: &str = "SELECT memory_attach('notes', 'body', user_id_column => 'owner')";
const ROWS: &str = "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two'), (3, 'three')";
/// The levels at which one snapshot holds for all statements.
const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

#[track_caller]
fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('90 s')", &[]), "the queue does not drain");
}

/// A transaction with one snapshot for all its statements does not see the entries of rows that others
/// stored since then, and takes them away with their rows all the same.
#[test]
fn transactions_with_an_old_snapshot() {
    let database = shared().database("attach_snapshot");
    let (mut client, mut old) = (database.connect(), database.connect());
    let only_attach = ATTACH.replace("'owner')", "'owner', backfill => false)");
    run(&mut client, &format!("{NOTES}; {ROWS}; {only_attach}"));
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM notes";
    run(&mut old, begin);
    run(&mut client, ATTACH);
    drain(&mut client);
    assert_eq!(contents(&mut client).len(), 3);
    run(&mut old, "DELETE FROM notes WHERE id = 1; UPDATE notes SET id = 22 WHERE id = 2; COMMIT");
    drain(&mut client);
    assert_eq!(contents(&mut client), ["three", "two"]);

    run(&mut old, begin);
    run(&mut client, "INSERT INTO notes (id, body) VALUES (4, 'four')");
    run(&mut old, "TRUNCATE notes; COMMIT");
    drain(&mut client);
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(count(&mut client, "notes"), 0);
}

/// The table is attached after the transaction's snapshot was taken: its rows are taken in all the same.
#[test]
fn a_transaction_that_is_older_than_the_attachment() {
    for (number, level) in LEVELS.into_iter().enumerate() {
        let name = format!("attach_older_{number}");
        let database = cluster().database(&name);
        let mut client = database.connect();
        run(&mut client, &format!("{NOTES}; {ROWS}"));
        let (mut old, warnings) = with_warnings(cluster(), &name);
        run(&mut old, &format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM notes"));
        run(&mut client, &ATTACH.replace("'owner')", "'owner', backfill => false)"));
        run(
            &mut old,
            "INSERT INTO notes (id, body) VALUES (4, 'four'); UPDATE notes SET body = 'due' WHERE id = 2; \
             DELETE FROM notes WHERE id = 3; COMMIT",
        );
        assert_eq!(contents(&mut client), ["due", "four"], "{level}");
        assert_eq!(*warnings.lock().unwrap(), [""; 0], "{level}");
    }
}

/// Entries that others touched since the snapshot are no reason for a serialization failure: nobody
/// touched the rows. They are looked at again after the commit.
#[test]
fn entries_that_changed_since_the_snapshot() {
    for (number, level) in LEVELS.into_iter().enumerate() {
        let database = format!("attach_since_{number}");
        let database = shared().database(&database);
        let (mut client, mut old) = (database.connect(), database.connect());
        run(&mut client, &format!("{NOTES}; {ROWS}; {ATTACH}"));
        drain(&mut client);
        run(&mut old, &format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM notes"));
        // As the worker does when it embeds them.
        run(&mut client, "UPDATE memory_agent.entries SET updated_at = now()");
        run(
            &mut old,
            "UPDATE notes SET body = 'uno' WHERE id = 1; UPDATE notes SET kind = 'k', id = 22 WHERE id = 2; \
             DELETE FROM notes WHERE id = 3; INSERT INTO notes (id, body) VALUES (4, 'four'); COMMIT",
        );
        drain(&mut client);
        assert_eq!(contents(&mut client), ["uno", "four", "two"], "{level}");
    }
}

/// What is left to a job belongs to the user who wrote it, not to the role that all of them connect as, and
/// not to the user of the row that had the key before.
#[test]
fn rows_left_to_a_job_are_their_writers() {
    let database = shared().database("attach_since_whose");
    let (mut client, mut old) = (database.connect(), database.connect());
    run(
        &mut client,
        "CREATE TABLE jottings (id int PRIMARY KEY, body text); \
         SELECT memory_attach('jottings', 'body', backfill => false); SET memory_agent.user_id = 'ann'; \
         INSERT INTO jottings VALUES (1, 'of ann'), (2, 'of ann, too'), (3, 'still of ann')",
    );
    drain(&mut client);
    run(
        &mut old,
        "SET memory_agent.user_id = 'bob'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jottings",
    );
    run(&mut client, "UPDATE memory_agent.entries SET updated_at = now()");
    run(
        &mut old,
        "DELETE FROM jottings WHERE id <= 2; INSERT INTO jottings VALUES (1, 'of bob'); \
         UPDATE jottings SET body = 'changed' WHERE id = 3; COMMIT",
    );
    let waited = "SELECT memory_wait('90 s', user_id => $1)";
    for user in ["ann", "bob", "postgres"] {
        assert!(value::<bool>(&mut client, waited, &[&user]), "the jobs of {user} do not end");
    }
    let expected = [
        ("[1]".into(), "bob".into(), "of bob".into()),
        ("[3]".into(), "ann".into(), "changed".into()),
    ];
    assert_eq!(remembered(&mut client), expected);
}

/// A COPY takes its snapshot before it waits for the table.
#[test]
fn a_copy_that_waits_for_the_attachment() {
    let mut client = cluster().database("attach_copy_waits").connect();
    run(&mut client, NOTES);
    let attach = ATTACH.replace("'owner')", "'owner', backfill => false)");
    run(&mut client, &format!("BEGIN; {attach}"));
    let copy = std::thread::spawn(|| {
        let copy =
            "COPY notes (id, body) FROM PROGRAM 'echo \"1,one\"; echo \"2,two\"' (FORMAT csv)";
        run(&mut cluster().connect("attach_copy_waits"), copy);
    });
    wait_until(PATIENCE, "COPY to wait", || {
        count(&mut client, "pg_locks WHERE NOT granted AND relation = 'notes'::regclass") == 1
    });
    run(&mut client, "COMMIT");
    copy.join().unwrap();
    assert_eq!(contents(&mut client), ["one", "two"]);
}
