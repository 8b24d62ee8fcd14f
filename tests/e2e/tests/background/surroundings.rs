//! Settings and shortages that surround the workers: what an administrator set for a database's sessions
//! must not stop its jobs.

use crate::activity::{drain, facts, reconnect, start, start_with, worker, workers};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::wait_until;

/// The next worker connects anew, with the settings of the database.
fn replace_worker(scene: &mut Scene) {
    scene.cluster.alter_system("memory_agent.worker", Some("off"));
    wait_until(PATIENCE, "the worker to leave", || workers(&mut scene.client, DATABASE).is_empty());
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    worker(&mut scene.client, DATABASE);
}

#[test]
fn settings_of_a_database_do_not_stop_its_worker() {
    let mut scene = start(echo);
    worker(&mut scene.client, DATABASE);
    let mut admin = scene.cluster.connect("postgres");
    for (number, setting) in [
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
        "search_path = ''",
        "row_security = off",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '1ms'",
        "memory_agent.user_id = 'mallory'",
        "memory_agent.agent_id = 'another'",
        "memory_agent.embed_on_ingest = off",
        "datestyle = 'German'",
        "timezone = 'Asia/Tokyo'",
        "bytea_output = 'escape'",
        "extra_float_digits = -15",
        "session_replication_role = 'replica'",
        "transform_null_equals = on",
        "standard_conforming_strings = off",
        "check_function_bodies = off",
        "work_mem = '64kB'",
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut admin, &format!("ALTER DATABASE agent SET {setting}"));
        replace_worker(&mut scene);
        scene.say(&format!("Sentence {number}."));
        scene.drain();
        let name = setting.split(' ').next().unwrap_or_default();
        run(&mut admin, &format!("ALTER DATABASE agent RESET {name}"));
        let jobs = scene.jobs();
        assert!(
            jobs.iter().all(|job| job.status == "done" && job.attempts == 0),
            "{setting}: {jobs:#?}"
        );
        assert_eq!(scene.facts().len(), number + 1, "{setting}");
    }
}

/// The model server's supervisor and the launcher take the only two places.
#[test]
fn a_lack_of_processes_is_said_once_and_loses_nothing() {
    let settings = [("max_worker_processes", "2"), ("max_logical_replication_workers", "0")];
    let mut scene = start_with(echo, &settings);
    scene.say("I live in Oslo.");
    let said = "no background worker slot is free for a job worker";
    wait_until(PATIENCE, "the launcher to say why", || scene.cluster.log().contains(said));
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('3 s')", &[]));
    let status = scene.status("worker");
    assert!(
        status.contains("not running") && status.contains("Raise max_worker_processes"),
        "{status}"
    );
    // Nothing else waits for it.
    drop(scene.cluster.database("another").connect());
    run(&mut scene.client, "SELECT memory_recall('Where do I live?')");
    let log = scene.cluster.log();
    assert_eq!(log.matches(said).count(), 1);
    assert!(log.contains("Raise max_worker_processes"));
    // As an administrator would; the last line of the file counts.
    let path = scene.cluster.data().join("postgresql.conf");
    let text = std::fs::read_to_string(&path).expect("postgresql.conf");
    std::fs::write(&path, text + "\nmax_worker_processes = 8\n").expect("postgresql.conf");
    scene.cluster.restart();
    reconnect(&mut scene);
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}

/// The only place is another database's; as soon as it is free it is taken, without a restart.
#[test]
fn a_place_that_becomes_free_is_taken() {
    let settings = [("max_worker_processes", "3"), ("max_logical_replication_workers", "0")];
    let mut scene = start_with(echo, &settings);
    worker(&mut scene.client, DATABASE);
    let mut second = scene.cluster.database("second").connect();
    run(&mut second, "SELECT memory_ingest('s', 'user', 'I live in Rome.')");
    let hint = "SELECT concat(state, ' ', hint) FROM memory_status() WHERE component = 'worker'";
    wait_until(PATIENCE, "the hint", || {
        value::<String>(&mut second, hint, &[]).contains("not running Raise max_worker_processes")
    });
    run(&mut scene.client, "DROP EXTENSION memory_agent");
    drain(&mut second);
    assert_eq!(facts(&mut second), ["Noted: I live in Rome."]);
    wait_until(PATIENCE, "the hint to go", || {
        value::<String>(&mut second, hint, &[]).trim() == "running"
    });
}
