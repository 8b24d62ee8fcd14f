//! An update beside sessions that have read and will write: it holds nothing that they wait for.

use crate::{RELEASED, newest_version, older_database, schema_version, update};
use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{Client, expect_error, shared, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const TABLES: [&str; 4] = ["sessions", "entries", "history", "jobs"];

/// A transaction that has read the tables, as a worker's has before it writes.
fn reader(client: &mut Client) {
    run(client, "BEGIN");
    for table in TABLES {
        run(client, &format!("SELECT FROM memory_agent.{table} LIMIT 1"));
    }
}

#[test]
fn a_session_that_has_read_may_write() {
    for (number, version) in RELEASED.into_iter().enumerate() {
        let name = format!("locks_writer_{number}");
        let mut client = older_database(shared(), &name, version);
        ingest(&mut client, "s", "The dog is called Rex.");
        let mut writer = shared().connect(&name);
        reader(&mut writer);
        let mut updater = shared().connect(&name);
        let pid: i32 = value(&mut updater, "SELECT pg_backend_pid()", &[]);
        let updated = std::thread::spawn(move || update(&mut updater));
        wait_until(PATIENCE, "the update to wait", || {
            value(
                &mut client,
                "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)",
                &[&pid],
            )
        });
        // Each waits for an attempt of the update at the most.
        for table in TABLES.into_iter().rev() {
            run(&mut writer, &format!("LOCK TABLE memory_agent.{table} IN ROW EXCLUSIVE MODE"));
        }
        run(&mut writer, "COMMIT");
        updated.join().expect("the update");
        let newest = newest_version(&mut client);
        assert_eq!(schema_version(&mut client), newest);
    }
}

#[test]
fn it_gives_up_after_lock_timeout() {
    for (number, version) in RELEASED.into_iter().enumerate() {
        let name = format!("locks_timeout_{number}");
        let mut client = older_database(shared(), &name, version);
        let mut writer = shared().connect(&name);
        reader(&mut writer);
        run(&mut client, "SET lock_timeout = '20ms'");
        expect_error(client.batch_execute("ALTER EXTENSION memory_agent UPDATE"), "55P03");
        assert_eq!(value::<String>(&mut client, "SHOW lock_timeout", &[]), "20ms");
        assert_eq!(schema_version(&mut client), version);
        run(&mut writer, "COMMIT");
        run(&mut client, "RESET lock_timeout");
        update(&mut client);
    }
}
