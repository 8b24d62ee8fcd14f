//! Locks of roles that have nothing to do with memory: none stands between a user and erasure, a chat or a
//! fact, whether its key is guessed or read in `pg_locks`.

use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, wait_until};

/// The keys of the advisory locks that were taken once.
const KEYS: &str = "VALUES (hashtextextended('memory_agent.erase:alice', 0)), \
    (hashtextextended('memory_agent.facts:alice', hashtextextended('default', 0)))";
const ADD: &str = "SELECT memory_add('Her code is zzqx77.', infer => false)";
/// What a user does that others must not hold up.
const CALLS: [&str; 4] = [
    ADD,
    "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"What is my code?\"}]', 'chat')",
    "SELECT memory_erase(session_id => 'chat')",
    "SELECT memory_erase(user_id => 'alice')",
];

fn scene() -> Scene {
    let repeat = |call: &memory_agent_e2e::llm::Call| call.body["messages"].to_string();
    let mut scene = Scene::with_settings(repeat, &[("memory_agent.extraction", "off")]);
    run(&mut scene.client, "CREATE ROLE outsider LOGIN; SET lock_timeout = '5s'");
    scene
}

#[test]
fn keys_that_are_known_from_before() {
    let mut scene = scene();
    let mut outsider = scene.cluster.connect_as(DATABASE, "outsider");
    for lock in ["pg_advisory_lock_shared", "pg_advisory_lock"] {
        run(&mut outsider, &format!("SELECT {lock}(key) FROM ({KEYS}) k(key)"));
        for call in CALLS {
            run(&mut scene.client, call);
        }
        run(&mut outsider, "SELECT pg_advisory_unlock_all()");
    }
}

#[test]
fn keys_that_pg_locks_shows() {
    let mut scene = scene();
    let mut outsider = scene.cluster.connect_as(DATABASE, "outsider");
    run(&mut scene.client, ADD);
    run(&mut scene.client, "BEGIN; SELECT memory_erase(user_id => 'alice')");
    let pid: i32 = value(&mut scene.client, "SELECT pg_backend_pid()", &[]);
    let shown: Vec<String> = values(
        &mut outsider,
        "SELECT format('SELECT pg_advisory_lock(%s), pg_advisory_lock(%s, %s), pg_advisory_lock(%s, %s)', \
                       (classid::int8 << 32) | objid::int8, ((classid::int8 << 32) >> 32)::int4, \
                       ((objid::int8 << 32) >> 32)::int4, ((objid::int8 << 32) >> 32)::int4, objsubid) \
           FROM pg_locks WHERE pid = $1 AND objid IS NOT NULL",
        &[&pid],
    );
    assert!(shown.len() >= 2, "locks of the erasure and of the facts: {shown:?}");
    run(&mut scene.client, "ROLLBACK");
    for lock in shown {
        run(&mut outsider, &lock);
    }
    for call in CALLS {
        run(&mut scene.client, call);
    }
}

/// Who erases waits for the facts that are being written, and erases them.
#[test]
fn writers_of_facts_wait_for_each_other_and_erasure_for_them() {
    let mut scene = scene();
    run(&mut scene.client, &ADD.replace("Her code", "The key of her door"));
    run(&mut scene.client, "BEGIN");
    run(&mut scene.client, ADD);
    let waiting = |what: &'static str| {
        let mut client: Client = scene.cluster.connect(DATABASE);
        run(&mut client, "SET memory_agent.user_id = 'alice'");
        let pid: i32 = value(&mut client, "SELECT pg_backend_pid()", &[]);
        (pid, std::thread::spawn(move || run(&mut client, what)))
    };
    let (writer, written) = waiting(ADD);
    // Nor does another agent, until there is an erasure.
    let mut agent = scene.cluster.connect(DATABASE);
    run(&mut agent, "SET lock_timeout = '5s'; SET memory_agent.user_id = 'alice'");
    run(&mut agent, "SET memory_agent.agent_id = 'other'");
    run(&mut agent, &ADD.replace("Her code", "The other code"));
    let (eraser, erased) = waiting("SELECT memory_erase(user_id => 'alice')");
    // Another user does not wait.
    let mut other = scene.cluster.connect(DATABASE);
    run(&mut other, "SET lock_timeout = '5s'; SET memory_agent.user_id = 'bob'");
    run(&mut other, ADD);
    run(&mut other, "SELECT memory_erase(user_id => 'bob')");
    wait_until(PATIENCE, "both to wait", || {
        let query = "SELECT count(*) FROM pg_locks WHERE pid IN ($1, $2) AND NOT granted";
        value::<i64>(&mut other, query, &[&writer, &eraser]) == 2
    });
    run(&mut scene.client, "COMMIT");
    written.join().expect("the second writer");
    erased.join().expect("the erasure");
    let left: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries WHERE agent_id = 'default'",
        &[],
    );
    // The second writer came before the erasure and found the fact, or after it and stored its own.
    assert!(left <= 1, "{left}");
}
