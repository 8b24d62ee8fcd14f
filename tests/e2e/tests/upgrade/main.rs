//! `ALTER EXTENSION memory_agent UPDATE` from every released version, and the three promises about it:
//! an updated schema is the same as a fresh one (`catalog`, `privileges`), the library serves databases
//! that were not updated (`older`), and what older versions wrote is still there (`rows`)
//! and found (`forms`).

mod binary;
mod calls;
mod catalog;
mod forms;
mod global;
mod ids;
#[path = "../common/impostors.rs"]
mod impostors;
mod locks;
mod older;
mod privileges;
mod refusals;
mod rows;
mod sessions;

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster};

/// Every version that was released; its script is frozen in sql/install.
const RELEASED: [&str; 2] = ["0.1.0", "0.2.0"];

/// A database with the schema of an older version, and a superuser's session whose identity is `alice`.
fn older_database(cluster: &Cluster, name: &str, version: &str) -> Client {
    let mut client = cluster.plain_database(name);
    run(&mut client, &format!("CREATE EXTENSION memory_agent VERSION '{version}' CASCADE"));
    assert_eq!(schema_version(&mut client), version);
    run(&mut client, "LOAD 'memory_agent'; SET memory_agent.user_id = 'alice'");
    client
}

fn update(client: &mut Client) {
    run(client, "ALTER EXTENSION memory_agent UPDATE");
}

fn schema_version(client: &mut Client) -> String {
    value(client, "SELECT extversion FROM pg_extension WHERE extname = 'memory_agent'", &[])
}

/// The version that CREATE EXTENSION installs.
fn newest_version(client: &mut Client) -> String {
    let query = "SELECT default_version FROM pg_available_extensions WHERE name = 'memory_agent'";
    value(client, query, &[])
}
