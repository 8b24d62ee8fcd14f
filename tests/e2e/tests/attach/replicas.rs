//! Rows that come by logical replication: PostgreSQL fires no statement triggers for them, so a
//! subscriber's table is brought in line by attaching it again.

use crate::{contents, count};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Cluster, wait_until};
use std::time::Duration;

#[test]
fn rows_of_a_subscription() {
    let publisher = Cluster::builder().setting("wal_level", "logical").start();
    let subscriber = Cluster::builder().preload(true).start();
    let mut source = publisher.database("db").connect();
    let mut target = subscriber.database("db").connect();
    let table = "CREATE TABLE notes (id int PRIMARY KEY, body text)";
    run(&mut source, &format!("{table}; CREATE PUBLICATION notes FOR TABLE notes"));
    run(
        &mut target,
        &format!("{table}; SELECT memory_attach('notes', 'body', user_id => 'alice')"),
    );
    let connection =
        format!("host={} user=postgres dbname=db", publisher.socket_directory().display());
    run(
        &mut target,
        &format!("CREATE SUBSCRIPTION notes CONNECTION '{connection}' PUBLICATION notes"),
    );
    run(
        &mut source,
        "INSERT INTO notes VALUES (1, 'one'), (2, 'two'); UPDATE notes SET body = 'due' WHERE id = 2",
    );
    wait_until(Duration::from_secs(60), "the rows", || {
        count(&mut target, "notes WHERE body IN ('one', 'due')") == 2
    });
    run(&mut target, "SELECT memory_attach('notes', 'body', user_id => 'alice')");
    assert!(value::<bool>(&mut target, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(contents(&mut target), ["one", "due"]);
    // A slot that nobody reads would keep the publisher's log for ever.
    run(&mut target, "DROP SUBSCRIPTION notes");
}
