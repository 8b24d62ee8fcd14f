//! Attached tables: rows of an application's own tables that are memory. Whatever statement changes
//! them, memory says the same as the table; and no statement fails because of memory.

mod agreement;
mod conditions;
mod foreign_code;
mod frameworks;
mod ids;
mod kinds;
mod moves;
mod nested;
mod partitions;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "every suite uses its own part of this module")]
mod random;
mod random_statements;
mod reentrance;
mod replicas;
mod secrets;
mod snapshots;
mod statements;
mod tables;
mod values;
mod work;
mod writers;

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Json, shared_without_worker};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where nobody but the test changes a row, and jobs stay queued.
fn cluster() -> &'static Cluster {
    shared_without_worker()
}

/// A table with a column for everything that an attachment can name.
const NOTES: &str = "CREATE TABLE notes (
    id bigint PRIMARY KEY, body text, owner text DEFAULT 'alice', chat text, kind text,
    tags text[], views int DEFAULT 0, written_at timestamptz DEFAULT now())";
/// How most tests attach it.
const ATTACH: &str = "SELECT memory_attach('notes', 'body', user_id_column => 'owner', \
    session_id_column => 'chat', metadata_columns => '{kind,tags}', backfill => false)";

/// A database with the table `notes`, attached, and a superuser's session.
fn notes(name: &str) -> Client {
    let mut client = cluster().database(name).connect();
    run(&mut client, NOTES);
    run(&mut client, ATTACH);
    client
}

/// What memory holds of attached tables, as (key, user, content).
fn remembered(client: &mut Client) -> Vec<(String, String, String)> {
    let rows = client.query(
        "SELECT e.source_key::text, e.user_id, e.content FROM memory_agent.entries e \
          WHERE e.source_key IS NOT NULL AND e.state = 'active' ORDER BY e.source_key, e.source_relation",
        &[],
    );
    rows.expect("entries").iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// The contents that memory holds of attached tables, in the order of their keys.
fn contents(client: &mut Client) -> Vec<String> {
    remembered(client).into_iter().map(|(_, _, content)| content).collect()
}

/// How many rows a query counts.
fn count(client: &mut Client, from: &str) -> i64 {
    value(client, &format!("SELECT count(*) FROM {from}"), &[])
}

/// The state and detail of the only attached table.
fn status(client: &mut Client) -> (String, String) {
    let row = client.query_one(
        "SELECT state, detail FROM memory_status() WHERE component = 'attached table'",
        &[],
    );
    let row = row.expect("one attached table");
    (row.get(0), row.get(1))
}

/// A superuser's session in an existing database, and the warnings that it gets.
fn with_warnings(cluster: &Cluster, database: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&warnings);
    let mut client = cluster
        .config(database)
        .notice_callback(move |notice| {
            if notice.severity() == "WARNING" {
                seen.lock().unwrap().push(notice.message().to_owned());
            }
        })
        .connect(postgres::NoTls)
        .expect("a connection");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    (client, warnings)
}

/// The metadata of the entry of a row.
fn metadata(client: &mut Client, key: &str) -> Json {
    value(
        client,
        "SELECT metadata FROM memory_agent.entries WHERE source_key = $1::text::jsonb AND state = 'active'",
        &[&key],
    )
}
