//! pg_upgrade: another cluster takes over the files, with the extension in the version that it had.

use crate::catalog::{assert_same, describe};
use crate::{older_database, schema_version, update};
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::time::Duration;

const DOG: &str = "The dog is called Rex.";

fn remember(client: &mut Client) {
    ingest(client, "s", DOG);
    run(client, "SELECT memory_add('Ann lives in Rome.', infer => false, fact_key => 'home')");
    run(client, "SELECT memory_add('Ann lives in Oslo.', infer => false, fact_key => 'home')");
}

/// Rows, levels and the vector index stay; a job that waited is done.
#[test]
fn pg_upgrade_keeps_everything() {
    let preloaded = || Cluster::builder().preload(true);
    let old = preloaded().setting("memory_agent.worker", "off").start();
    run(&mut old.connect("postgres"), "CREATE ROLE moved_user LOGIN");
    let mut newest = old.database("newest").connect();
    remember(&mut newest);
    run(&mut newest, "SELECT memory_grant('moved_user'), memory_create_vector_index()");
    run(&mut newest, "SET memory_agent.embed_on_ingest = async");
    ingest(&mut newest, "s", "To be embedded later.");
    let mut older = older_database(&old, "older", "0.1.0");
    remember(&mut older);
    let before = (describe(&mut newest), describe(&mut older));
    let found = recalled_texts(&mut newest, "'Where does Ann live?', top_k => 3");
    drop((newest, older));

    let new = preloaded().start();
    new.upgrade_from(&old);
    let mut newest = new.connect("newest");
    // pg_upgrade carries the privileges on tables, not those on their row types.
    run(&mut newest, "SELECT memory_agent.renew_levels(); SET memory_agent.user_id = 'alice'");
    assert_same(&describe(&mut newest), &before.0);
    assert_eq!(recalled_texts(&mut newest, "'Where does Ann live?', top_k => 3"), found);
    let index = "SELECT state FROM memory_status() WHERE component = 'vector index'";
    assert_eq!(value::<String>(&mut newest, index, &[]), "present");
    let embedded = "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL";
    wait_until(Duration::from_secs(60), "the job that waited", || {
        value::<i64>(&mut newest, embedded, &[]) == 0
    });
    let mut user = new.connect_as("newest", "moved_user");
    ingest(&mut user, "s", "I moved along.");

    let mut older = new.connect("older");
    run(&mut older, "SET memory_agent.user_id = 'alice'");
    assert_eq!(schema_version(&mut older), "0.1.0");
    assert_same(&describe(&mut older), &before.1);
    assert_eq!(recalled_texts(&mut older, "'dog', kinds => '{turn}'"), [DOG]);
    update(&mut older);
    let fresh = describe(&mut new.database("fresh").connect());
    assert_same(&describe(&mut older), &fresh);
    assert_eq!(recalled_texts(&mut older, "'dog', kinds => '{turn}'"), [DOG]);
    let homes: Vec<String> = values(
        &mut older,
        "SELECT state FROM memory_agent.entries WHERE fact_key = 'home' ORDER BY created_at",
        &[],
    );
    assert_eq!(homes, ["inactive", "active"]);
}
