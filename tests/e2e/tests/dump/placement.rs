//! Where the objects are: public functions and pgvector in schemas of their own, and the extension
//! dropped and created again.

use crate::cluster;
use crate::snapshot::{Snapshot, fill, recall};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error};

fn count(client: &mut Client, query: &str) -> i64 {
    value(client, query, &[])
}

/// Functions live where CREATE EXTENSION said, and work for callers that do not look there.
#[test]
fn functions_in_another_schema() {
    let mut superuser = cluster().plain_database("placement_functions");
    run(
        &mut superuser,
        "CREATE SCHEMA \"Agent Memory\"; CREATE EXTENSION memory_agent SCHEMA \"Agent Memory\" CASCADE",
    );
    assert_eq!(
        count(
            &mut superuser,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
             AND proname LIKE 'memory%'"
        ),
        0
    );
    run(&mut superuser, "CREATE ROLE placed_user LOGIN; CREATE ROLE placed_admin LOGIN");
    run(
        &mut superuser,
        "SELECT \"Agent Memory\".memory_grant('placed_user'), \
                \"Agent Memory\".memory_grant('placed_admin', 'admin')",
    );
    let mut user = cluster().connect_as("placement_functions", "placed_user");
    run(&mut user, "SELECT \"Agent Memory\".memory_ingest('s', 'user', 'The dog is called Rex.')");
    let dog =
        "SELECT r.content FROM \"Agent Memory\".memory_recall('What is the name of the dog?') r";
    assert_eq!(value::<String>(&mut user, dog, &[]), "The dog is called Rex.");
    assert_eq!(count(&mut user, "SELECT count(*) FROM \"Agent Memory\".memory_entries"), 1);
    run(&mut user, "SELECT \"Agent Memory\".memory_context('s', 'Which dog?')");
    expect_error(
        user.batch_execute("SELECT \"Agent Memory\".memory_register_model('m', 'embedder')"),
        "42501",
    );
    let mut admin = cluster().connect_as("placement_functions", "placed_admin");
    run(&mut admin, "SELECT \"Agent Memory\".memory_create_vector_index()");
    run(&mut admin, "SET memory_agent.exact_scan_rows = 0");
    let of_user = dog.replace("')", "', user_id => 'placed_user')");
    assert_eq!(value::<String>(&mut admin, &of_user, &[]), "The dog is called Rex.");
    assert!(value::<bool>(
        &mut superuser,
        "SELECT \"Agent Memory\".memory_revoke('placed_user')",
        &[]
    ));
    expect_error(user.batch_execute(dog), "42501");
}

/// pgvector may be anywhere, and may move while sessions have their plans already.
#[test]
fn pgvector_in_another_schema() {
    let mut superuser = cluster().plain_database("placement_vector");
    run(
        &mut superuser,
        "CREATE SCHEMA \"Vec tors\"; CREATE EXTENSION vector SCHEMA \"Vec tors\"; \
         CREATE EXTENSION memory_agent",
    );
    run(&mut superuser, "CREATE ROLE vector_user LOGIN");
    run(&mut superuser, "SELECT memory_grant('vector_user', 'admin')");
    let mut user = cluster().connect_as("placement_vector", "vector_user");
    let remember_and_ask = |user: &mut Client, text: &str| {
        user.execute("SELECT memory_ingest('s', 'user', $1)", &[&text]).unwrap();
        let similarities = "SELECT count(r.similarity) FROM memory_recall('dog', top_k => 10) r";
        count(user, similarities)
    };
    assert_eq!(remember_and_ask(&mut user, "The dog is called Rex."), 1);
    run(&mut user, "SELECT memory_create_vector_index()");
    run(&mut user, "SET memory_agent.exact_scan_rows = 0");
    assert_eq!(remember_and_ask(&mut user, "The dog is old."), 2);
    run(&mut superuser, "CREATE SCHEMA elsewhere; ALTER EXTENSION vector SET SCHEMA elsewhere");
    assert_eq!(remember_and_ask(&mut user, "The dog sleeps."), 3);
    run(&mut user, "RESET memory_agent.exact_scan_rows");
    assert_eq!(remember_and_ask(&mut user, "The dog barks."), 4);
    run(&mut user, "SELECT memory_add('Rex is a dog.', infer => false)");
}

#[test]
fn dropped_with_its_memory_and_created_again() {
    let database = cluster().database("placement_drop");
    let mut superuser = database.connect();
    fill(&mut superuser);
    let mut open_session = database.connect();
    recall(&mut open_session);
    run(&mut superuser, "CREATE VIEW public.mine AS SELECT content FROM memory_entries");
    expect_error(superuser.batch_execute("DROP EXTENSION memory_agent"), "2BP01");
    expect_error(superuser.batch_execute("DROP EXTENSION vector"), "2BP01");
    expect_error(superuser.batch_execute("DROP SCHEMA memory_agent CASCADE"), "2BP01");
    // A rollback brings everything back.
    let before = Snapshot::take(&mut superuser);
    run(&mut superuser, "BEGIN; DROP EXTENSION memory_agent CASCADE; ROLLBACK");
    assert_eq!(Snapshot::take(&mut superuser), before);
    run(&mut superuser, "DROP EXTENSION memory_agent CASCADE");
    assert_eq!(
        count(&mut superuser, "SELECT count(*) FROM pg_namespace WHERE nspname = 'memory_agent'"),
        0
    );
    run(&mut superuser, "CREATE EXTENSION memory_agent");
    assert_eq!(count(&mut superuser, "SELECT count(*) FROM memory_agent.entries"), 0);
    // Sessions that knew the old tables use the new ones.
    for session in [&mut superuser, &mut open_session] {
        fill(session);
        recall(session);
        run(session, "DROP EXTENSION memory_agent; CREATE EXTENSION memory_agent");
    }
    run(&mut superuser, "DROP EXTENSION vector CASCADE");
    assert_eq!(
        count(&mut superuser, "SELECT count(*) FROM pg_extension WHERE extname = 'memory_agent'"),
        0
    );
}
