//! Settings and shortages that surround the workers: what an administrator set for a database's sessions
//! must not stop its jobs.

use crate::activity::{worker, workers};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::wait_until;

/// The next worker connects anew, with the settings of the database.
fn replace_worker(scene: &mut Scene) {
    scene.cluster.alter_system("memory_agent.worker", Some("off"));
    wait_until(PATIENCE, "the worker to leave", || {
        workers(&mut scene.client, DATABASE).is_empty()
    });
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    worker(&mut scene.client, DATABASE);
}

#[test]
fn settings_of_a_database_do_not_stop_its_worker() {
    let mut scene = Scene::start(echo);
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
        println!("{setting}");
        if !memory_agent_e2e::memory::value::<bool>(&mut scene.client, "SELECT memory_wait('5 s')", &[]) {
            println!("{:#?} {}", scene.jobs(), scene.status(""));
        }
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
