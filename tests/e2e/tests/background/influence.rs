//! Who can influence background work, and who cannot: what docs/security.md says about it.

use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{expect_error, shared, wait_until};

/// The owner of a database may set settings for all its sessions, and the worker's is one of them: it is a
/// superuser's, and finds no function of theirs in PostgreSQL's place.
#[test]
fn the_owner_of_a_database_does_not_run_code_in_the_worker() {
    let mut scene = Scene::start(echo);
    run(
        &mut scene.client,
        &format!(
            "CREATE ROLE dora LOGIN; ALTER DATABASE {DATABASE} OWNER TO dora; \
             GRANT CREATE ON DATABASE {DATABASE} TO dora"
        ),
    );
    let mut dora = scene.cluster.connect_as(DATABASE, "dora");
    run(
        &mut dora,
        &format!(
            "CREATE SCHEMA evil; CREATE TABLE evil.proof (who text); \
             GRANT USAGE ON SCHEMA evil TO PUBLIC; \
             CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
                $$ INSERT INTO evil.proof VALUES (current_user); SELECT pg_catalog.clock_timestamp() $$; \
             ALTER DATABASE {DATABASE} SET search_path = evil, pg_catalog; \
             ALTER DATABASE {DATABASE} SET default_transaction_read_only = on; \
             ALTER DATABASE {DATABASE} SET gin_fuzzy_search_limit = 1; \
             ALTER DATABASE {DATABASE} SET session_authorization = 'dora'; \
             ALTER DATABASE {DATABASE} SET role = 'dora'"
        ),
    );
    // The worker's next life has these settings.
    let worker = "SELECT coalesce(max(pid), 0) FROM pg_catalog.pg_stat_activity \
                   WHERE backend_type = 'memory_agent worker' AND datname = current_database()";
    let before: i32 = value(&mut scene.client, worker, &[]);
    value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&before]);
    wait_until(PATIENCE, "the next worker", || {
        let now: i32 = value(&mut scene.client, worker, &[]);
        now != 0 && now != before
    });
    // What a call cost whose transaction was rolled back is recorded by the worker.
    run(&mut scene.client, "BEGIN");
    value::<String>(
        &mut scene.client,
        "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello.\"}]', 's')::text",
        &[],
    );
    run(&mut scene.client, "ROLLBACK");
    let calls = "SELECT count(*) FROM memory_agent.llm_calls WHERE purpose = 'chat'";
    wait_until(PATIENCE, "the call's row", || value::<i64>(&mut scene.client, calls, &[]) == 1);
    let proof = "SELECT coalesce(string_agg(who, ','), '') FROM evil.proof";
    assert_eq!(value::<String>(&mut scene.client, proof, &[]), "");
}

/// Only superusers may signal the processes of background work, members of pg_signal_backend neither.
#[test]
fn outsiders_do_not_signal_background_work() {
    let database = shared().database("signals");
    let mut client = database.connect();
    run(&mut client, "CREATE ROLE sam LOGIN IN ROLE pg_signal_backend");
    let processes = "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'memory_agent %'";
    wait_until(PATIENCE, "launcher and worker", || {
        client.query(processes, &[]).unwrap().len() >= 2
    });
    let mut sam = database.connect_as("sam");
    for row in client.query(processes, &[]).unwrap() {
        for function in ["pg_terminate_backend", "pg_cancel_backend"] {
            let sql = format!("SELECT {function}({})", row.get::<_, i32>(0));
            expect_error(sam.query(&sql, &[]), "42501");
        }
    }
}
