//! `memory_wait`, `memory_retry` and the view `memory_jobs`: what users see of the queue, and what they
//! can do about it.

use crate::activity::{start, start_with};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::{Fault, FaultPlan};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, let_cancel_pass, wait_until};
use std::time::{Duration, Instant};

fn waits(client: &mut Client, arguments: &str) -> bool {
    value(client, &format!("SELECT memory_wait({arguments})"), &[])
}

/// A session of a role with the level `user`.
fn user_session(scene: &mut Scene, role: &str, user_id: &str) -> Client {
    run(
        &mut scene.client,
        &format!("CREATE ROLE {role} LOGIN; SELECT memory_grant('{role}', 'user')"),
    );
    let mut client = scene.cluster.connect_as(DATABASE, role);
    run(&mut client, &format!("SET memory_agent.user_id = '{user_id}'"));
    client
}

#[test]
fn waiting_ends_with_the_jobs_of_whom_it_is_about() {
    let mut scene = start(echo);
    assert!(waits(&mut scene.client, ""), "an empty queue");
    scene.stub.hold(true);
    run(
        &mut scene.client,
        "SELECT memory_ingest('of bob', 'user', 'I live in Oslo.', user_id => 'bob'); \
         SELECT memory_ingest('of bob', 'user', 'I live in Rome.', user_id => 'bob', agent_id => 'other')",
    );
    let mut alice = user_session(&mut scene, "app_alice", "alice");
    let mut bob = user_session(&mut scene, "app_bob", "bob");
    // Administrators wait for all users, others for themselves.
    assert!(!waits(&mut scene.client, "'50 ms'"));
    assert!(waits(&mut scene.client, "'50 ms', user_id => 'alice'"));
    assert!(!waits(&mut scene.client, "'50 ms', user_id => 'bob'"));
    assert!(!waits(&mut scene.client, "'50 ms', 'of bob', 'bob'"));
    assert!(waits(&mut alice, "'50 ms'"));
    assert!(waits(&mut alice, "'50 ms', 'of bob'"));
    assert!(!waits(&mut bob, "'50 ms'"));
    assert!(!waits(&mut bob, "'50 ms', 'of bob'"));
    assert!(waits(&mut bob, "'50 ms', 'another'"));
    assert!(!waits(&mut bob, "'0'"));
    expect_error(alice.query("SELECT memory_wait('1 s', user_id => 'bob')", &[]), "42501");

    // It ends soon after the last job, long before its timeout.
    let waiting = std::thread::spawn(move || (waits(&mut bob, "'80 s'"), Instant::now()));
    wait_until(PATIENCE, "a waiting session", || {
        value(
            &mut scene.client,
            "SELECT EXISTS (SELECT FROM pg_stat_activity \
                             WHERE usename = 'app_bob' AND state = 'active' AND query LIKE '%memory_wait%')",
            &[],
        )
    });
    scene.stub.hold(false);
    let (drained, _) = waiting.join().unwrap();
    assert!(drained);
    assert_eq!(scene.jobs().iter().filter(|job| job.status == "done").count(), 2);
}

#[test]
fn waiting_in_vain_is_refused() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    let mut transaction = scene.client.transaction().expect("a transaction");
    transaction.execute("SELECT memory_ingest('s', 'user', 'Mine.')", &[]).expect("ingest");
    let message = expect_error(transaction.query("SELECT memory_wait('1 s')", &[]), "25001");
    assert!(message.contains("Commit"), "{message}");
    transaction.rollback().expect("ROLLBACK");
    assert!(waits(&mut scene.client, "'0'"), "the transaction that queued jobs is over");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&mut scene.client, &format!("BEGIN ISOLATION LEVEL {level}"));
        let message = expect_error(scene.client.query("SELECT memory_wait()", &[]), "25001");
        assert!(message.contains("READ COMMITTED"), "{message}");
        run(&mut scene.client, "ROLLBACK");
    }
    // In a transaction that queued nothing it is fine, and sees what others do meanwhile.
    scene.say("I live in Oslo.");
    run(&mut scene.client, "BEGIN; SELECT count(*) FROM memory_jobs");
    assert!(!waits(&mut scene.client, "'50 ms'"));
    scene.stub.hold(false);
    assert!(waits(&mut scene.client, "'60 s'"));
    run(&mut scene.client, "COMMIT");
    for (arguments, code) in
        [("'-1 s'", "22023"), ("'100 years'", "22023"), ("'1 s', ''", "22023"), ("'soon'", "22007")]
    {
        let result = scene.client.query(&format!("SELECT memory_wait({arguments})"), &[]);
        expect_error(result, code);
    }
}

#[test]
fn nobody_waits_on_a_standby() {
    let mut scene = start(echo);
    scene.say_and_wait("I live in Oslo.");
    let standby = scene.cluster.standby();
    scene.cluster.wait_for_replay(&standby);
    let mut reader = standby.connect(DATABASE);
    let message = expect_error(reader.query("SELECT memory_wait('1 s')", &[]), "55000");
    assert!(message.contains("standby"), "{message}");
    let done: i64 =
        value(&mut reader, "SELECT count(*) FROM memory_jobs WHERE status = 'done'", &[]);
    assert_eq!(done, 1, "what was done can be seen there");
    let workers: i64 = value(
        &mut reader,
        "SELECT count(*) FROM pg_stat_activity \
          WHERE backend_type IN ('memory_agent worker', 'memory_agent launcher')",
        &[],
    );
    assert_eq!(workers, 0);
}

#[test]
fn waiting_can_be_stopped() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    let started = Instant::now();
    run(&mut scene.client, "SET statement_timeout = '300 ms'");
    expect_error(scene.client.query("SELECT memory_wait('80 s')", &[]), "57014");
    run(&mut scene.client, "RESET statement_timeout");
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let token = scene.client.cancel_token();
        let mut observer = scene.cluster.connect("postgres");
        let canceller = std::thread::spawn(move || {
            wait_until(PATIENCE, "a waiting session", || {
                let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' \
                            AND query = 'SELECT memory_wait(''80 s'')' AND wait_event_type = 'Extension')";
                value(&mut observer, sql, &[])
            });
            let at = Instant::now();
            token.cancel_query(postgres::NoTls).expect("a cancel request");
            at
        });
        expect_error(scene.client.query("SELECT memory_wait('80 s')", &[]), "57014");
        fastest = fastest.min(canceller.join().unwrap().elapsed());
        let_cancel_pass(&mut scene.client);
    }
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
    assert!(started.elapsed() < Duration::from_secs(60));
    println!("memory_wait is cancelled after {fastest:?}");
}

#[test]
fn a_dead_job_is_retried_once_by_whom_it_belongs_to() {
    let mut scene = start_with(echo, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::WrongSchema));
    scene.say_and_wait("I live in Oslo.");
    let dead = scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert_eq!(dead.attempts, 1);
    assert!(scene.status("queue").contains("memory_retry"), "{}", scene.status("queue"));
    let calls = scene.stub.call_count();
    let mut bob = user_session(&mut scene, "app_bob", "bob");
    let mut alice = user_session(&mut scene, "app_alice", "alice");
    let retry =
        |client: &mut Client, id: Uuid| value::<bool>(client, "SELECT memory_retry($1)", &[&id]);
    assert!(!retry(&mut bob, dead.id));
    assert!(!retry(&mut alice, Uuid::from_u128(1)));
    expect_error(alice.query("SELECT memory_retry(NULL)", &[]), "22004");
    assert_eq!(scene.stub.call_count(), calls, "a dead job stays dead until somebody retries it");

    scene.stub.faults(FaultPlan::none());
    scene.stub.hold(true);
    assert!(retry(&mut alice, dead.id));
    assert!(!retry(&mut alice, dead.id), "it is not dead any more");
    scene.stub.hold(false);
    scene.drain();
    assert!(!retry(&mut alice, dead.id), "it is done");
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
    let job = scene.wait_for_job("the job", |job| job.id == dead.id);
    assert_eq!((job.status.as_str(), job.attempts), ("done", 0));
}

#[test]
fn users_see_their_own_jobs() {
    let mut scene = start(echo);
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'Of alice.'); \
         SELECT memory_ingest('s', 'user', 'Of bob.', user_id => 'bob')",
    );
    scene.drain();
    let mut bob = user_session(&mut scene, "app_bob", "bob");
    let seen: Vec<String> = values(&mut bob, "SELECT DISTINCT user_id FROM memory_jobs", &[]);
    assert_eq!(seen, ["bob"]);
    let shown: String = value(
        &mut bob,
        "SELECT concat_ws('|', kind, session_id, status, attempts, done, total, last_error, \
                          finished_at >= created_at) FROM memory_jobs WHERE kind = 'extract'",
        &[],
    );
    assert_eq!(shown, "extract|s|done|0|t");
    // Payloads hold texts, and leases are nobody's business.
    expect_error(bob.query("SELECT payload FROM memory_jobs", &[]), "42703");
    let all: Vec<String> =
        values(&mut scene.client, "SELECT DISTINCT user_id FROM memory_jobs ORDER BY 1", &[]);
    assert_eq!(all, ["alice", "bob"]);
    for command in ["DELETE FROM memory_agent.jobs", "UPDATE memory_agent.jobs SET status = 'done'"]
    {
        expect_error(bob.batch_execute(command), "42501");
    }
}
