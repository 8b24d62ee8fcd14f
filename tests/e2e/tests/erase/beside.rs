//! Erasing while others write: what they store is seen, what an LLM told them is dropped, and sessions
//! keep their counts.

use crate::parts::fact_of;
use crate::scene::{PATIENCE, Scene};
use crate::{erase, tables_with, talkative};
use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{Json, Uuid, expect_error, shared_without_worker, wait_until};

#[test]
fn an_old_snapshot_is_refused() {
    let mut client = shared_without_worker().database("erase_snapshot").connect();
    ingest(&mut client, "s", "I like tea.");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&mut client, &format!("BEGIN ISOLATION LEVEL {level}"));
        let message =
            expect_error(client.query("SELECT memory_erase(user_id => 'alice')", &[]), "25001");
        assert!(message.contains("READ COMMITTED"), "{message}");
        run(&mut client, "ROLLBACK");
    }
    run(&mut client, "BEGIN ISOLATION LEVEL READ COMMITTED");
    assert_eq!(erase(&mut client, "user_id => 'alice'")["entries"], 1);
    run(&mut client, "COMMIT");
}

#[test]
fn answers_that_wait_in_other_sessions_go() {
    let mut client = shared_without_worker().database("erase_answers").connect();
    let turn = ingest(&mut client, "s", "My code is zzqx77.");
    let fact = fact_of(&mut client, "Her code is zzqx77.", None, &[turn]);
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, payload, last_error) \
         SELECT gen_random_uuid(), kind, u, 'default', 'other', status, payload::jsonb, 'it said: zzqx77' \
           FROM (VALUES ('extract', 'alice', 'pending', '{\"entries\": [\"e\"], \"facts\": [\"zzqx77\"]}'), \
                        ('reflect', 'alice', 'dead', '{\"episodes\": [\"e\"], \"answer\": {\"text\": \"zzqx77\"}}'), \
                        ('summarize', 'alice', 'dead', '{\"forced\": true, \"answers\": {\"d\": \"zzqx77\"}}')) \
                v(kind, u, status, payload); \
         INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, payload) \
         VALUES (gen_random_uuid(), 'extract', 'bob', 'default', 'other', 'dead', '{\"facts\": [\"of bob\"]}')",
    );
    assert_eq!(erase(&mut client, &format!("id => '{turn}'"))["entries"], 2);
    assert_eq!(tables_with(&mut client, crate::SECRET), Vec::<String>::new(), "{fact}");
    let payloads: Vec<Json> = values(
        &mut client,
        "SELECT payload FROM memory_agent.jobs WHERE session_id = 'other' ORDER BY user_id, kind",
        &[],
    );
    let left = [
        memory_agent_e2e::json!({"entries": ["e"]}),
        memory_agent_e2e::json!({"episodes": ["e"]}),
        memory_agent_e2e::json!({"forced": true}),
        memory_agent_e2e::json!({"facts": ["of bob"]}),
    ];
    assert_eq!(payloads, left);
}

/// A turn is stored in a session whose fact goes with a turn of another one.
#[test]
fn other_sessions_are_counted_with_what_is_just_stored_there() {
    let database = shared_without_worker().database("erase_elsewhere");
    let mut client = database.connect();
    let turn = ingest(&mut client, "one", "My code is zzqx77.");
    // Its turn is gone already, or still there: either way the fact goes.
    for purged in [true, false] {
        ingest(&mut client, "two", "I like tea.");
        fact_of(&mut client, "Her code is zzqx77.", Some("two"), &[turn]);
        if purged {
            run(&mut client, &format!("DELETE FROM memory_agent.entries WHERE id = '{turn}'"));
        }
        let mut writer = database.connect();
        run(&mut writer, "BEGIN; SELECT memory_ingest('two', 'user', 'I like cake.')");
        let mut eraser = database.connect();
        let pid: i32 = value(&mut eraser, "SELECT pg_backend_pid()", &[]);
        let query = format!("id => '{turn}'");
        let erased = std::thread::spawn(move || erase(&mut eraser, &query));
        wait_until(PATIENCE, "the erasure to wait", || {
            value(
                &mut client,
                "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)",
                &[&pid],
            )
        });
        // It holds nothing that the writer may want, such as the fact.
        run(
            &mut writer,
            "SET lock_timeout = '5s'; UPDATE memory_agent.entries SET updated_at = now() WHERE session_id = 'two'; \
             COMMIT",
        );
        let counts = erased.join().expect("the erasure");
        assert_eq!(counts["entries"], if purged { 1 } else { 2 }, "{counts}");
        let wrong: i64 = value(
            &mut client,
            "SELECT count(*) FROM memory_agent.sessions s \
              CROSS JOIN LATERAL (SELECT count(*) AS entries, coalesce(sum(e.token_count), 0) AS tokens \
                                    FROM memory_agent.entries e \
                                   WHERE e.session_id = s.session_id AND e.kind = 'turn') e \
              WHERE s.session_id = 'two' AND (s.active_entries, s.active_tokens, s.unsummarized_tokens) \
                    IS DISTINCT FROM (e.entries, e.tokens, e.tokens)",
            &[],
        );
        assert_eq!(wrong, 0, "purged: {purged}");
        if purged {
            // Again, with the turn in its place.
            let again = ingest(&mut client, "one", "My code is zzqx77.");
            run(
                &mut client,
                &format!("UPDATE memory_agent.entries SET id = '{turn}' WHERE id = '{again}'"),
            );
        }
    }
}

/// Somebody is about to clear the session, holds its jobs, and thinks better of it.
#[test]
fn an_answer_that_comes_meanwhile_is_paid_for_once() {
    let mut scene = Scene::with_settings(talkative, &[("memory_agent.trace", "calls")]);
    scene.stub.hold(true);
    scene.say("I like cake.");
    scene.wait_for_calls(1);
    let mut other = scene.cluster.connect(crate::scene::DATABASE);
    run(&mut other, "SET memory_agent.user_id = 'alice'; BEGIN; SELECT memory_clear('s')");
    scene.stub.hold(false);
    let recorded = "SELECT count(*) FROM memory_agent.llm_calls WHERE request IS NULL";
    wait_until(PATIENCE, "the record of the call", || {
        value::<i64>(&mut scene.client, recorded, &[]) == 1
    });
    run(&mut other, "ROLLBACK");
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I like cake."]);
    assert_eq!(scene.stub.call_count(), 1, "it was not asked again");
    let calls: i64 = value(&mut scene.client, "SELECT count(*) FROM memory_agent.llm_calls", &[]);
    assert_eq!(calls, 1);
}

/// Every list of what is erased is long: none is gone through once for each row of another one.
#[test]
fn a_long_session_goes_in_time() {
    let mut client = shared_without_worker().database("erase_long").connect();
    let turn: Uuid = ingest(&mut client, "long", "A turn.");
    ingest(&mut client, "other", "A turn.");
    let fact = fact_of(&mut client, "A fact.", Some("long"), &[turn]);
    // 15,000 turns with a fact each, and as much history about facts of another session.
    run(
        &mut client,
        &format!(
            "CREATE TEMP TABLE numbered AS SELECT i, gen_random_uuid() AS turn, gen_random_uuid() AS fact, \
                    gen_random_uuid() AS other FROM generate_series(1, 15000) i; \
             INSERT INTO memory_agent.entries SELECT (jsonb_populate_record(e, jsonb_build_object('id', n.turn))).* \
               FROM memory_agent.entries e, numbered n WHERE e.id = '{turn}'; \
             INSERT INTO memory_agent.entries SELECT (jsonb_populate_record(e, jsonb_build_object('id', n.fact, \
                        'source_ids', ARRAY[n.turn], 'content_hash', '\\x' || md5(i::text)))).* \
               FROM memory_agent.entries e, numbered n WHERE e.id = '{fact}'; \
             INSERT INTO memory_agent.history (id, user_id, entry_id, op, body, salt, commitment) \
             SELECT gen_random_uuid(), 'alice', n.other, 'add', \
                    jsonb_build_object('session_id', 'other', 'source_ids', ARRAY[gen_random_uuid()]), '\\x00', '\\x00' \
               FROM numbered n; \
             ANALYZE memory_agent.entries; ANALYZE memory_agent.history"
        ),
    );
    // Generic plans, as after a few erasures. Step by step it takes many minutes.
    run(&mut client, "SET plan_cache_mode = force_generic_plan; SET statement_timeout = '60s'");
    let counts = erase(&mut client, "session_id => 'long'");
    assert_eq!((&counts["entries"], &counts["history"]), (&30_002.into(), &1.into()), "{counts}");
}
