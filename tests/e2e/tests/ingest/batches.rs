//! `memory_ingest_batch`: order, defaults, all or nothing, and batches that meet.

use memory_agent_e2e::memory::{ingest_all, run, value, values};
use memory_agent_e2e::{Json, Uuid, expect_error, json, shared};
use std::sync::Barrier;

#[test]
fn ids_come_in_the_order_of_the_turns() {
    let mut client = shared().database("batch_order").connect();
    let turns: Vec<Json> = (0..30)
        .map(|n| json!({"role": "user", "content": format!("turn {n}"), "session_id": format!("s{}", n % 4)}))
        .collect();
    let ids: Vec<Uuid> =
        values(&mut client, "SELECT memory_ingest_batch($1)", &[&Json::from(turns)]);
    for (n, id) in ids.iter().enumerate() {
        let stored: String = value(
            &mut client,
            "SELECT session_id || ': ' || content FROM memory_agent.entries WHERE id = $1",
            &[id],
        );
        assert_eq!(stored, format!("s{}: turn {n}", n % 4));
    }
    let in_session: Vec<String> = values(
        &mut client,
        "SELECT content FROM memory_agent.entries WHERE session_id = 's1' ORDER BY created_at, id",
        &[],
    );
    let expected: Vec<String> =
        (0..30).filter(|n| n % 4 == 1).map(|n| format!("turn {n}")).collect();
    assert_eq!(in_session, expected, "turns of one moment are sorted by their ids");
}

#[test]
fn every_key_is_stored_and_null_means_not_given() {
    let mut client = shared().database("batch_keys").connect();
    run(
        &mut client,
        r#"SELECT memory_ingest_batch('[
            {"role": "assistant", "content": "all", "session_id": "own", "metadata": {"a": 1e400},
             "markers": ["goal"], "created_at": "2024-05-01T10:00:00+02:00", "ttl": "3 days"},
            {"role": "user", "content": "none", "session_id": null, "metadata": null, "markers": null,
             "created_at": null, "ttl": null}]', 'common', agent_id => 'coder')"#,
    );
    let all: String = value(
        &mut client,
        "SELECT concat_ws('|', user_id, agent_id, session_id, role, metadata->>'a' = '1' || repeat('0', 400), \
                          markers, created_at = '2024-05-01 08:00+00', expires_at - recorded_at) \
           FROM memory_agent.entries WHERE content = 'all'",
        &[],
    );
    assert_eq!(all, "alice|coder|own|assistant|t|{goal}|t|3 days");
    let none: String = value(
        &mut client,
        "SELECT concat_ws('|', session_id, metadata, markers, created_at = recorded_at, expires_at IS NULL) \
           FROM memory_agent.entries WHERE content = 'none'",
        &[],
    );
    assert_eq!(none, "common|{}|{}|t|t");
}

#[test]
fn session_counters_count_a_batch() {
    let mut client = shared().database("batch_counters").connect();
    ingest_all(&mut client, "s", &["hello world"; 5]);
    ingest_all(&mut client, "s", &["hello world"; 2]);
    let counters: String = value(
        &mut client,
        "SELECT concat_ws('/', turn_count, active_tokens, active_entries) FROM memory_agent.sessions",
        &[],
    );
    assert_eq!(counters, "7/14/7");
}

#[test]
fn one_bad_turn_stores_nothing() {
    let mut client = shared().database("batch_atomic").connect();
    let good = r#"{"role": "user", "content": "good"}"#;
    for bad in [
        r#"{"role": "user", "content": ""}"#,
        r#"{"role": "robot", "content": "x"}"#,
        r#"{"role": "user"}"#,
        r#"{"content": "x"}"#,
        r#"{"role": "user", "content": "x", "session_id": ""}"#,
        r#"{"role": "user", "content": "x", "markers": ["nope"]}"#,
        r#"{"role": "user", "content": "x", "markers": [null]}"#,
        r#"{"role": "user", "content": "x", "metadata": [1]}"#,
        r#"{"role": "user", "content": 7}"#,
        r#"{"role": "user", "content": "x", "text": "unknown key"}"#,
        r#"{"role": "user", "content": "x", "ttl": "-1 hour"}"#,
        r#"{"role": "user", "content": "x", "created_at": "infinity"}"#,
        r#"{"role": "user", "content": "x", "created_at": "gestern"}"#,
        r#"{"role": "user", "content": "x", "ttl": "soon"}"#,
        r#""no object""#,
        "null",
    ] {
        let turns: Json = serde_json::from_str(&format!("[{good}, {bad}]")).unwrap();
        let result = client.query("SELECT memory_ingest_batch($1, 's')", &[&turns]);
        let code = if bad.contains("[null]") { "22004" } else { "22023" };
        let message = expect_error(result, code);
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{bad}: {message}");
    }
    assert!(super::row_counts(&mut client).iter().all(|(_, rows)| *rows == 0));
}

#[test]
fn what_is_no_array_is_refused_and_an_empty_one_stores_nothing() {
    let mut client = shared().database("batch_no_array").connect();
    for turns in ["'{}'", "'\"text\"'", "'null'", "NULL"] {
        let statement = format!("SELECT memory_ingest_batch({turns}, 's')");
        expect_error(client.query(&statement, &[]), "22023");
    }
    let none: Vec<Uuid> = values(&mut client, "SELECT memory_ingest_batch('[]', 's')", &[]);
    assert!(none.is_empty());
    assert!(super::row_counts(&mut client).iter().all(|(_, rows)| *rows == 0));
}

#[test]
fn a_batch_larger_than_one_request_keeps_text_and_embedding_together() {
    let mut client = shared().database("batch_large").connect();
    let contents: Vec<String> =
        (0..300).map(|n| format!("Locker {n} holds parcel {}", 1000 - n)).collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    let ids = ingest_all(&mut client, "s", &contents);
    assert_eq!(ids.len(), 300);
    for n in [0, 1, 254, 255, 256, 257, 299] {
        let cosine: f64 = value(
            &mut client,
            "SELECT 1 - (embedding <=> memory_embed(content, 'document')) FROM memory_agent.entries \
              WHERE id = $1 AND content = $2",
            &[&ids[n], &contents[n]],
        );
        assert!(cosine > 0.9999, "turn {n}: {cosine}");
    }
    let exact: bool =
        value(&mut client, "SELECT bool_and(token_count_exact) FROM memory_agent.entries", &[]);
    assert!(exact);
}

#[test]
fn batches_over_the_same_sessions_in_opposite_order_do_not_deadlock() {
    let database = shared().database("batch_deadlock");
    const ROUNDS: usize = 8;
    let sessions: Vec<usize> = (0..60).collect();
    let forward: Vec<Json> = sessions
        .iter()
        .map(|n| json!({"role": "user", "content": "x", "session_id": format!("s{n}")}))
        .collect();
    let backward: Vec<Json> = forward.iter().rev().cloned().collect();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for turns in [Json::from(forward), Json::from(backward)] {
            let start = &start;
            scope.spawn(move || {
                let mut client = database.connect();
                run(
                    &mut client,
                    "SET memory_agent.embed_on_ingest = off; SET deadlock_timeout = '100ms'",
                );
                for _ in 0..ROUNDS {
                    start.wait();
                    values::<Uuid>(&mut client, "SELECT memory_ingest_batch($1)", &[&turns]);
                }
            });
        }
    });
    let complete: bool = value(
        &mut database.connect(),
        "SELECT count(*) = 60 AND bool_and(turn_count = 16) FROM memory_agent.sessions",
        &[],
    );
    assert!(complete);
}
