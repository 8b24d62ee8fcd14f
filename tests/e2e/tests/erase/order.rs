//! Who writes and who erases lock in one order, so none of them ends with a deadlock (40P01).

use crate::scene::PATIENCE;
use crate::tables_with;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, shared_without_worker, sqlstate, wait_until};
use std::thread::JoinHandle;

const DATABASE: &str = "erase_order";
/// What the test holds while somebody is to stop in the middle of storing a turn.
const GATE: i64 = 4711;

fn connect(cluster: &Cluster, database: &str) -> Client {
    let mut client = cluster.connect(database);
    run(
        &mut client,
        "SET memory_agent.user_id = 'alice'; SET memory_agent.embed_on_ingest = async; SET statement_timeout = '60s'",
    );
    client
}

/// Calls, one after the other, in a thread; with the process that runs them.
fn calling(cluster: &'static Cluster, calls: &'static [&'static str]) -> (i32, JoinHandle<()>) {
    let mut client = connect(cluster, DATABASE);
    let pid = value(&mut client, "SELECT pg_backend_pid()", &[]);
    let called = std::thread::spawn(move || {
        for call in calls {
            let outcome = client.batch_execute(call);
            outcome.unwrap_or_else(|error| panic!("{call}: {error:?}"));
        }
    });
    (pid, called)
}

/// An erasure has locked the sessions it knows when a turn makes a new one, and a job for it. While the erasure
/// takes the job away, a second turn holds the session and is about to touch the job.
#[test]
fn a_session_that_is_new_to_an_erasure() {
    let cluster = shared_without_worker();
    let mut client = cluster.database(DATABASE).connect();
    run(
        &mut client,
        &format!(
            "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF NEW.content = 'Stop here.' THEN PERFORM pg_advisory_xact_lock({GATE}); END IF; \
                 RETURN NEW; END $$; \
             CREATE TRIGGER stop BEFORE INSERT ON memory_agent.entries FOR EACH ROW EXECUTE FUNCTION stop(); \
             SELECT pg_advisory_lock({GATE})"
        ),
    );
    let mut first = connect(cluster, DATABASE);
    run(&mut first, "SELECT memory_add('My code is zzqx77.', infer => false)");
    run(&mut first, "BEGIN; SELECT memory_add('Her code is zzqx77.', infer => false)");
    let mut waits = |pid: i32| -> bool {
        let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
        value(&mut client, waiting, &[&pid])
    };
    let (eraser, erased) = calling(cluster, &["SELECT memory_erase(user_id => 'alice')"]);
    wait_until(PATIENCE, "the erasure to wait for what is being stored", || waits(eraser));
    let turns = [
        "SELECT memory_ingest('new', 'user', 'One.')",
        "SELECT memory_ingest('new', 'user', 'Stop here.')",
    ];
    let (writer, written) = calling(cluster, Box::leak(Box::new(turns)));
    wait_until(PATIENCE, "a turn to stop or wait", || waits(writer));
    run(&mut first, "COMMIT");
    wait_until(PATIENCE, "the erasure to end or wait", || erased.is_finished() || waits(eraser));
    run(&mut client, &format!("SELECT pg_advisory_unlock({GATE})"));
    erased.join().expect("the erasure");
    written.join().expect("the turns");
    assert_eq!(tables_with(&mut client, crate::SECRET), Vec::<String>::new());
    let left: Vec<String> =
        values(&mut client, "SELECT content FROM memory_agent.entries ORDER BY created_at", &[]);
    assert_eq!(left, ["One.", "Stop here."]);
}

/// A statement may write the memory of more users than the server's table of locks has room for.
#[test]
fn many_users_at_once() {
    let mut client = shared_without_worker().database("erase_users").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; BEGIN");
    let stores = "SELECT count(memory_ingest('s' || t, 'user', 'x', user_id => 'u' || n)) \
                    FROM generate_series(1, $1::int) n, generate_series(1, 2) t";
    let held =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'userlock' AND pid = pg_backend_pid()";
    for (users, locks) in [(10, 10), (300, 64)] {
        assert_eq!(value::<i64>(&mut client, stores, &[&users]), 2 * i64::from(users));
        assert_eq!(value::<i64>(&mut client, held, &[]), locks);
    }
    run(&mut client, "COMMIT");
    assert_eq!(value::<i64>(&mut client, stores, &[&1]), 2);
    assert_eq!(value::<i64>(&mut client, held, &[]), 0);
}

/// Sessions and facts come and go while they are written.
#[test]
fn many_calls_at_once() {
    const THREADS: usize = 6;
    const CALLS: usize = 120;
    let cluster = shared_without_worker();
    let mut client = cluster.database("erase_many").connect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut client = connect(cluster, "erase_many");
                for number in 0..CALLS {
                    let drawn = number * 7 + thread * 3;
                    let session = drawn % 3;
                    let call = match drawn % 8 {
                        0..=2 => format!("SELECT memory_ingest('s{session}', 'user', 'I say {number}.')"),
                        3 => format!(
                            "SELECT memory_add('Fact {thread} {number}.', infer => false, fact_key => 'k{session}')"
                        ),
                        4 => format!(
                            "SELECT memory_add('Fact {thread} {number}.', 's{session}', infer => false, fact_key => 'k')"
                        ),
                        5 => format!("SELECT memory_erase(session_id => 's{session}')"),
                        6 => format!("SELECT memory_clear('s{session}')"),
                        _ => "SELECT memory_erase(user_id => 'alice')".to_owned(),
                    };
                    if let Err(error) = client.batch_execute(&call) {
                        panic!("{call}: {} {error:?}", sqlstate(&error));
                    }
                }
            });
        }
    });
    run(&mut client, "SELECT memory_erase(user_id => 'alice')");
    let left = "SELECT (SELECT count(*) FROM memory_agent.entries) + (SELECT count(*) FROM memory_agent.jobs)";
    assert_eq!(value::<i64>(&mut client, left, &[]), 0);
}
