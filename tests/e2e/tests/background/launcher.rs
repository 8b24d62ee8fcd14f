//! The launcher gives each database with the extension its workers, and takes and gives back places
//! when settings, extensions and processes come and go.

use crate::activity::{
    drain, facts, launcher, noted_sentences, reconnect, say_in_sessions, start, start_with, worker,
    worker_other_than, workers,
};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{StopMode, wait_until};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How often two databases ask for the one place at once.
const ROUNDS: usize = 12;

#[test]
fn there_is_a_worker_after_create_extension_and_after_every_start() {
    let mut scene = start(echo);
    let mut last = worker(&mut scene.client, DATABASE);
    let shown = launcher(&mut scene.client);
    assert!(scene.status("launcher").contains(&format!("running: pid {shown}")));
    wait_until(PATIENCE, "memory_status() to show the worker", || {
        scene.status("worker").contains(&format!("running: slot 0, pid {last}"))
    });
    for stop in [StopMode::Fast, StopMode::Immediate] {
        scene.cluster.stop(stop);
        scene.cluster.start();
        reconnect(&mut scene);
        let next = worker(&mut scene.client, DATABASE);
        assert_ne!(next, last);
        last = next;
        scene.say_and_wait(&format!("Said after a {stop:?} stop."));
    }
    assert_eq!(scene.facts().len(), 2);
    assert_eq!(workers(&mut scene.client, DATABASE).len(), 1);
}

#[test]
fn the_extension_can_be_dropped_and_made_again() {
    let mut scene = start(echo);
    for busy in [false, true] {
        let before = worker(&mut scene.client, DATABASE);
        if busy {
            scene.stub.hold(true);
            scene.say("Forgotten with the extension.");
            wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
        }
        let started = Instant::now();
        run(&mut scene.client, "DROP EXTENSION memory_agent");
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        wait_until(PATIENCE, "the worker to leave", || {
            workers(&mut scene.client, DATABASE).is_empty()
        });
        wait_until(PATIENCE, "the call to be given up", || scene.stub.in_flight() == 0);
        scene.stub.hold(false);
        run(&mut scene.client, "CREATE EXTENSION memory_agent");
        worker_other_than(&mut scene.client, DATABASE, &[before]);
        scene.say_and_wait("Said to the new one.");
        assert_eq!(scene.facts(), ["Noted: Said to the new one."]);
    }
    assert!(!scene.cluster.log().contains("PANIC"));
}

/// The worker that asked for the facts of a turn goes on in the new extension, which has never
/// heard of the turn.
#[test]
fn an_extension_that_is_replaced_at_once_gets_no_old_facts() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("Forgotten with the extension.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(
        &mut scene.client,
        "BEGIN; DROP EXTENSION memory_agent; CREATE EXTENSION memory_agent; COMMIT",
    );
    scene.stub.hold(false);
    scene.say_and_wait("Said to the new one.");
    assert_eq!(scene.facts(), ["Noted: Said to the new one."]);
}

#[test]
fn two_workers_share_the_jobs_of_a_database() {
    let settings = [("memory_agent.job_workers", "2"), ("memory_agent.llm_concurrency", "1")];
    let mut scene = start_with(echo, &settings);
    wait_until(PATIENCE, "two workers", || workers(&mut scene.client, DATABASE).len() == 2);
    scene.stub.hold(true);
    say_in_sessions(&mut scene.client, 6);
    wait_until(PATIENCE, "a call of each worker", || scene.stub.in_flight() == 2);
    let slots: i64 = value(
        &mut scene.client,
        "SELECT count(DISTINCT split_part(leased_by, ' ', 2)) FROM memory_agent.jobs \
          WHERE status = 'running'",
        &[],
    );
    assert_eq!(slots, 2);
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.stub.max_in_flight(), 2);
    assert_eq!(scene.facts(), noted_sentences(6));
    assert_eq!(scene.stub.call_count(), 6, "no turn was extracted from twice");

    scene.cluster.alter_system("memory_agent.job_workers", Some("1"));
    wait_until(PATIENCE, "the second worker to leave", || {
        workers(&mut scene.client, DATABASE).len() == 1
    });
}

#[test]
fn four_databases_share_two_workers() {
    const DATABASES: [&str; 4] = ["agent", "second", "third", "fourth"];
    let scene = start_with(echo, &[("memory_agent.max_workers", "2")]);
    let mut clients: Vec<_> = DATABASES
        .iter()
        .map(|name| match *name {
            DATABASE => scene.cluster.connect(DATABASE),
            name => scene.cluster.database(name).connect(),
        })
        .collect();
    for client in &mut clients {
        run(client, "SET memory_agent.user_id = 'alice'");
        say_in_sessions(client, 3);
    }
    let mut observer = scene.cluster.connect("postgres");
    let mut most = 0;
    wait_until(PATIENCE, "the jobs of all databases", || {
        // A look into a database without the extension takes a place as well.
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'memory_agent worker'";
        most = most.max(value::<i64>(&mut observer, sql, &[]));
        clients.iter_mut().all(|client| value::<bool>(client, "SELECT memory_wait('10 ms')", &[]))
    });
    assert_eq!(most, 2);
    for client in &mut clients {
        assert_eq!(facts(client), noted_sentences(3));
    }
}

/// A worker that is told to make room in the moment in which it is left a job: either it does the job, or the
/// launcher knows that there is one. Nobody else commits in that database afterwards, so that a job without
/// either waits for the launcher's next look, a minute later.
#[test]
fn who_makes_room_forgets_no_job() {
    let scene = start_with(echo, &[("memory_agent.max_workers", "1")]);
    let mut clients = [scene.cluster.connect(DATABASE), scene.cluster.database("second").connect()];
    let mut observer = scene.cluster.connect("postgres");
    for client in &mut clients {
        run(client, "SET memory_agent.user_id = 'alice'");
    }
    for round in 0..ROUNDS {
        // Who has been there for a second is asked as soon as somebody wants its place.
        wait_until(PATIENCE, "a worker that may be asked to leave", || {
            let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'memory_agent worker' \
                        AND backend_start < clock_timestamp() - interval '1 s')";
            value(&mut observer, sql, &[])
        });
        let at_once = Barrier::new(clients.len());
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| {
                    at_once.wait();
                    say_in_sessions(client, 1);
                });
            }
        });
        for client in &mut clients {
            assert!(value::<bool>(client, "SELECT memory_wait('30 s')", &[]), "round {round}");
        }
    }
}

/// A worker begins nothing while its database is restored, and does not take that for having nothing to do.
#[test]
fn who_makes_room_during_a_restore_comes_back() {
    let mut scene = start_with(echo, &[("memory_agent.max_workers", "1")]);
    let mut restore = scene.cluster.connect(DATABASE);
    run(&mut restore, "SET application_name = 'pg_restore'");
    wait_until(PATIENCE, "the worker to rest", || {
        // Whatever wakes it has it look.
        scene.say("Said to a worker that may not have seen the restore yet.");
        scene.status("worker").contains("resting")
    });
    scene.say("Said to one that rests.");
    let mut other = scene.cluster.database("second").connect();
    run(&mut other, "SET memory_agent.user_id = 'alice'");
    say_in_sessions(&mut other, 1);
    assert!(value::<bool>(&mut other, "SELECT memory_wait('30 s')", &[]));
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('10 ms')", &[]));
    drop(restore);
    assert!(value::<bool>(&mut scene.client, "SELECT memory_wait('30 s')", &[]));
}

#[test]
fn workers_are_switched_off_and_on_by_a_reload() {
    let mut scene = start(echo);
    worker(&mut scene.client, DATABASE);
    scene.stub.hold(true);
    scene.say("Begun before the switch.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    scene.cluster.alter_system("memory_agent.worker", Some("off"));
    scene.say("Said after the switch.");
    // What was begun may be finished.
    scene.stub.hold(false);
    wait_until(PATIENCE, "the worker to leave", || workers(&mut scene.client, DATABASE).is_empty());
    assert_eq!(scene.facts(), ["Noted: Begun before the switch."]);
    assert!(scene.status("launcher").contains("memory_agent.worker is off"));
    assert!(scene.status("worker").contains("not running"));
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('100 ms')", &[]));
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    scene.drain();
    assert_eq!(scene.facts().len(), 2);
}

#[test]
fn a_terminated_worker_ends_at_once_and_its_jobs_go_on() {
    let mut scene = start(echo);
    let mut fastest = Duration::MAX;
    for round in 0..3 {
        let session = format!("round {round}");
        scene.stub.hold(true);
        scene.client.execute("SELECT memory_ingest($1, 'user', $1)", &[&session]).expect("ingest");
        wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
        let ended = worker(&mut scene.client, DATABASE);
        let started = Instant::now();
        assert!(value::<bool>(
            &mut scene.client,
            "SELECT pg_terminate_backend($1, 10000)",
            &[&ended]
        ));
        fastest = fastest.min(started.elapsed());
        wait_until(PATIENCE, "the call to be given up", || scene.stub.in_flight() == 0);
        scene.stub.hold(false);
        drain(&mut scene.client);
        assert_ne!(worker(&mut scene.client, DATABASE), ended);
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    println!("a worker with a call in flight ends after {fastest:?}");
    assert_eq!(scene.facts(), ["Noted: round 0", "Noted: round 1", "Noted: round 2"]);
    let jobs = scene.jobs();
    assert!(jobs.iter().all(|job| job.attempts == 0), "not the jobs' own fault: {jobs:#?}");
}

#[test]
fn a_terminated_launcher_comes_back_and_leaves_the_workers_alone() {
    let mut scene = start(echo);
    let kept = worker(&mut scene.client, DATABASE);
    let ended = launcher(&mut scene.client);
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&ended]));
    // While there is none, the worker goes on.
    scene.say_and_wait("Said without a launcher.");
    wait_until(PATIENCE, "another launcher", || launcher(&mut scene.client) != ended);
    assert_eq!(workers(&mut scene.client, DATABASE), [kept]);
    // It looks after a worker that it did not start.
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&kept]));
    worker_other_than(&mut scene.client, DATABASE, &[kept]);
    scene.say_and_wait("Said to the new worker.");
    assert_eq!(scene.facts().len(), 2);
}
