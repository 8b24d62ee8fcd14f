//! Without the library preloaded nothing runs after the server's start: the transaction that queues the first
//! job starts the launcher.

use crate::activity::{
    drain, facts, in_session, launcher, launchers, noted_sentences, reconnect, say_in_sessions,
    start_with, worker, workers,
};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Cluster, wait_until};

fn without_preload(settings: &[(&str, &str)]) -> Scene {
    let mut all = vec![("shared_preload_libraries", "")];
    all.extend_from_slice(settings);
    start_with(echo, &all)
}

/// A session of a program that has nothing to do with the extension.
fn drop_from_a_stranger(cluster: &Cluster, command: &str) {
    let mut stranger = cluster.connect("postgres");
    run(&mut stranger, command);
    let settings: i64 = value(
        &mut stranger,
        "SELECT count(*) FROM pg_settings WHERE name LIKE 'memory\\_agent.%' AND source = 'default'",
        &[],
    );
    assert_eq!(settings, 0, "the library was loaded");
}

#[test]
fn the_first_job_starts_launcher_and_worker() {
    let mut scene = without_preload(&[]);
    assert!(scene.status("launcher").contains("on demand"));
    assert!(scene.status("worker").contains("not running"));
    scene
        .client
        .batch_execute("BEGIN; SELECT memory_ingest('s', 'user', 'Taken back.'); ROLLBACK")
        .unwrap();
    assert_eq!(launchers(&mut scene.client).len(), 0, "nobody queued a job");
    assert_eq!(workers(&mut scene.client, DATABASE).len(), 0, "nobody queued a job");
    scene.say_and_wait("I live in Oslo.");
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
    let shown = launcher(&mut scene.client);
    assert!(scene.status("launcher").contains(&format!("running: pid {shown}")));
    let first = worker(&mut scene.client, DATABASE);
    assert!(scene.status("worker").contains(&format!("pid {first}")));

    // It is the worker of all sessions.
    let mut other = scene.cluster.connect(DATABASE);
    run(&mut other, "SET memory_agent.user_id = 'alice'");
    say_in_sessions(&mut other, 3);
    drain(&mut other);
    assert_eq!(workers(&mut scene.client, DATABASE), [first]);

    // Both come back when they are ended.
    for ended in [first, shown] {
        assert!(value::<bool>(
            &mut scene.client,
            "SELECT pg_terminate_backend($1, 10000)",
            &[&ended]
        ));
    }
    scene.say_and_wait("I live in Rome.");
    wait_until(PATIENCE, "another launcher", || launcher(&mut scene.client) != shown);
    assert_ne!(worker(&mut scene.client, DATABASE), first);
    assert_eq!(scene.facts().len(), 5);
}

/// After a restart the jobs of all databases run again as soon as one is queued in any of them.
#[test]
fn the_first_job_after_a_restart_brings_those_of_all_databases() {
    let mut scene = without_preload(&[]);
    drop(scene.cluster.database("second").connect());
    scene.stub.hold(true);
    say_in_sessions(&mut scene.client, 1);
    scene.cluster.restart();
    scene.stub.hold(false);
    reconnect(&mut scene);
    assert!(scene.status("launcher").contains("on demand"));
    assert_eq!(launchers(&mut scene.client).len(), 0);
    let mut second = scene.cluster.connect("second");
    run(&mut second, "SET memory_agent.user_id = 'alice'");
    say_in_sessions(&mut second, 1);
    scene.drain();
    assert_eq!(scene.facts(), noted_sentences(1));
}

#[test]
fn the_launcher_leaves_with_the_last_extension() {
    let mut scene = without_preload(&[]);
    scene.say_and_wait("I live in Oslo.");
    let before = launcher(&mut scene.client);
    run(&mut scene.client, "DROP EXTENSION memory_agent");
    wait_until(PATIENCE, "the launcher to leave", || launchers(&mut scene.client).is_empty());
    run(&mut scene.client, "CREATE EXTENSION memory_agent");
    scene.say_and_wait("I live in Rome.");
    assert_eq!(scene.facts(), ["Noted: I live in Rome."]);
    assert_ne!(launcher(&mut scene.client), before);
}

#[test]
fn sessions_that_queue_at_once_start_one_launcher() {
    let mut scene = without_preload(&[]);
    let clients: Vec<_> = (0..6).map(|_| scene.cluster.connect(DATABASE)).collect();
    let threads: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| {
            std::thread::spawn(move || {
                run(&mut client, "SET memory_agent.user_id = 'alice'");
                let (session, text) = (format!("session {number}"), format!("Sentence {number}."));
                client
                    .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
                    .map(|_| client)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().expect("ingest");
    }
    scene.drain();
    assert_eq!(scene.facts(), noted_sentences(6));
    wait_until(PATIENCE, "launchers that came late to leave", || {
        launchers(&mut scene.client).len() == 1
    });
    assert_eq!(workers(&mut scene.client, DATABASE).len(), 1);
}

#[test]
fn a_database_can_be_dropped_by_sessions_without_the_library() {
    let Scene { client, cluster, stub } = without_preload(&[]);
    drop(client);
    in_session(&cluster, DATABASE, |client| {
        say_in_sessions(client, 1);
        drain(client);
    });
    worker(&mut cluster.connect("postgres"), DATABASE);
    drop_from_a_stranger(&cluster, "DROP DATABASE agent");

    let second = cluster.database("second");
    drop(second.connect());
    stub.hold(true);
    in_session(&cluster, "second", |client| say_in_sessions(client, 1));
    wait_until(PATIENCE, "a call", || stub.in_flight() == 1);
    drop_from_a_stranger(&cluster, "DROP DATABASE second");
    wait_until(PATIENCE, "the call to be given up", || stub.in_flight() == 0);
}

/// The only place goes to the database that waits once the other has nothing to do.
#[test]
fn two_databases_share_one_place() {
    let mut scene = without_preload(&[("memory_agent.max_workers", "1")]);
    say_in_sessions(&mut scene.client, 2);
    drain(&mut scene.client);
    let mut second = scene.cluster.database("second").connect();
    say_in_sessions(&mut second, 2);
    drain(&mut second);
    assert_eq!(facts(&mut second), noted_sentences(2));
    // And back again.
    scene.say_and_wait("I live in Oslo.");
    assert_eq!(scene.facts().len(), 3);
}

#[test]
fn nobody_starts_workers_while_they_are_off() {
    let mut scene = without_preload(&[("memory_agent.worker", "off")]);
    say_in_sessions(&mut scene.client, 1);
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('200 ms')", &[]));
    assert_eq!(workers(&mut scene.client, DATABASE).len(), 0);
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    // The next job wakes those that wait.
    wait_until(PATIENCE, "the session to hear of the reload", || {
        value::<String>(&mut scene.client, "SHOW memory_agent.worker", &[]) == "on"
    });
    scene.say_and_wait("I live in Oslo.");
    assert_eq!(scene.facts().len(), 2);
}
