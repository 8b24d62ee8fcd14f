//! Updates that have to fail do so as a whole.

use crate::catalog::{assert_same, describe};
use crate::impostors::IMPOSTORS;
use crate::{older_database, schema_version, update};
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value};
use memory_agent_e2e::{expect_error, shared};

/// Somebody else's function in the place of a new one is neither adopted nor replaced.
#[test]
fn what_others_own_is_not_adopted() {
    let mut client = older_database(shared(), "refusals_squatter", "0.1.0");
    run(&mut client, "CREATE ROLE upgrade_squatter");
    let before = describe(&mut client);
    run(
        &mut client,
        "CREATE FUNCTION memory_agent.renew_levels() RETURNS void LANGUAGE sql AS 'SELECT'; \
         ALTER FUNCTION memory_agent.renew_levels() OWNER TO upgrade_squatter",
    );
    let error = expect_error(client.batch_execute("ALTER EXTENSION memory_agent UPDATE"), "42723");
    assert!(error.contains("renew_levels"), "{error}");
    assert_eq!(schema_version(&mut client), "0.1.0");
    assert_same(&describe(&mut client), &before);
    run(&mut client, "DROP FUNCTION memory_agent.renew_levels()");
    update(&mut client);
}

/// The script names what it means, also where somebody put impostors beside the public functions.
#[test]
fn impostors_are_not_called() {
    run(&mut shared().plain_database("refusals_evil"), IMPOSTORS);
    let mut client = shared().connect("refusals_evil");
    run(
        &mut client,
        "CREATE FUNCTION evil.string_agg(text, text) RETURNS text LANGUAGE sql AS 'SELECT evil.trap(); SELECT NULL::text'; \
         CREATE FUNCTION evil.concat(oid, text, oid) RETURNS text LANGUAGE sql AS 'SELECT evil.trap(); SELECT NULL::text'; \
         CREATE FUNCTION evil.concat(text, text, text, text) RETURNS text LANGUAGE sql \
             AS 'SELECT evil.trap(); SELECT NULL::text'; \
         CREATE FUNCTION evil.renew_levels() RETURNS void LANGUAGE sql AS 'SELECT evil.trap()'; \
         ALTER DATABASE refusals_evil SET search_path = evil, pg_catalog, public",
    );
    let mut client = shared().connect("refusals_evil");
    run(&mut client, "CREATE EXTENSION memory_agent VERSION '0.1.0'");
    run(&mut client, "CREATE ROLE upgrade_evil; SELECT evil.memory_grant('upgrade_evil')");
    update(&mut client);
    run(&mut client, "SELECT evil.memory_ingest('s', 'user', 'The dog is called Rex.')");
    let dog = "SELECT r.content FROM evil.memory_recall('dog') r";
    assert_eq!(value::<String>(&mut client, dog, &[]), "The dog is called Rex.");
}

/// A transaction that updates may be rolled back, and sessions go on either way.
#[test]
fn an_update_that_is_rolled_back_leaves_nothing() {
    let mut client = older_database(shared(), "refusals_rollback", "0.1.0");
    ingest(&mut client, "s", "The dog is called Rex.");
    let before = describe(&mut client);
    run(&mut client, "BEGIN; ALTER EXTENSION memory_agent UPDATE");
    ingest(&mut client, "s", "The cat is called Tom.");
    run(&mut client, "ROLLBACK");
    assert_same(&describe(&mut client), &before);
    assert_eq!(
        recalled_texts(&mut client, "'What is the name of the dog?'"),
        ["The dog is called Rex."]
    );
    ingest(&mut client, "s", "The bird is called Max.");
}

/// Only superusers may, as with CREATE EXTENSION.
#[test]
fn a_level_is_not_enough() {
    let mut client = older_database(shared(), "refusals_level", "0.1.0");
    run(
        &mut client,
        "CREATE ROLE upgrade_level LOGIN; SELECT memory_grant('upgrade_level', 'admin')",
    );
    let mut admin = shared().connect_as("refusals_level", "upgrade_level");
    expect_error(admin.batch_execute("ALTER EXTENSION memory_agent UPDATE"), "42501");
}
