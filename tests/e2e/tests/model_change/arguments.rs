//! Who may change the model, and to what.

use crate::{MINILM, use_model};
use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{expect_error, shared, shared_without_worker};

#[test]
fn only_an_embedder_that_can_be_loaded_is_used() {
    let mut client = shared().database("change_arguments").connect();
    for (name, code) in [
        ("NULL", "22023"),
        ("''", "22023"),
        ("'../memory-embed-small'", "22023"),
        ("'with blank'", "22023"),
        ("'ms-marco-MiniLM-L-12-v2'", "42809"),
        ("'no-such-model'", "58000"),
    ] {
        let call = format!("SELECT memory_use_embedding_model({name})");
        let message = expect_error(client.query(&call, &[]), code);
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{name}: {message}");
    }
    let registered: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.models", &[]);
    assert_eq!(registered, 0, "nothing is left of what was refused");
    run(&mut client, "BEGIN READ ONLY");
    let call = format!("SELECT memory_use_embedding_model('{MINILM}')");
    expect_error(client.query(&call, &[]), "25006");
    run(&mut client, "ROLLBACK");
}

#[test]
fn the_model_is_for_admins() {
    let database = shared_without_worker().database("change_levels");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE change_admin LOGIN; CREATE ROLE change_user LOGIN;
         SELECT memory_grant('change_admin', 'admin'); SELECT memory_grant('change_user', 'user')",
    );
    let mut user = database.connect_as("change_user");
    let call = format!("SELECT memory_use_embedding_model('{MINILM}')");
    expect_error(user.query(&call, &[]), "42501");
    let mut admin = database.connect_as("change_admin");
    let job = use_model(&mut admin, MINILM);
    // Its progress is everybody's business.
    let status = "SELECT status FROM memory_jobs WHERE id = $1";
    assert_eq!(value::<String>(&mut admin, status, &[&job]), "pending");
    assert_eq!(value::<String>(&mut user, status, &[&job]), "pending");
}

/// The model that the settings name is kept in the table, so that the settings may change meanwhile.
#[test]
fn the_model_in_use_is_registered() {
    let mut client = shared_without_worker().database("change_registered").connect();
    ingest(&mut client, "s", "My cat sleeps.");
    use_model(&mut client, MINILM);
    let models: Vec<String> = memory_agent_e2e::memory::values(
        &mut client,
        "SELECT concat_ws(' ', name, dimension, active) FROM memory_agent.models ORDER BY name",
        &[],
    );
    assert_eq!(models, [format!("{MINILM} 384 f"), "memory-embed-small 384 t".to_owned()]);
}
