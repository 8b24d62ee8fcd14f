//! What the worker does to entries as time passes: late embeddings, full windows, expiry, purging.

use memory_agent_e2e::memory::{ingest, ingest_all, recall, run, value, values};
use memory_agent_e2e::{Client, Cluster, shared, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until nothing is left to do.
#[track_caller]
fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('60 s')", &[]), "the queue does not drain");
}

#[test]
fn what_was_stored_async_is_embedded_by_the_worker() {
    let mut client = shared().database("aging_async").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    let long = "The gardener planted lavender and roses behind the cottage. ".repeat(100);
    ingest_all(&mut client, "s", &["Blue whales sing.", &long]);
    run(&mut client, "SELECT memory_add('Anna likes tea', infer => false)");
    drain(&mut client);
    let row: String = value(
        &mut client,
        "SELECT concat_ws('/', count(embedding), count(DISTINCT embedding_model), \
                          (SELECT count(*) > 0 FROM memory_agent.entry_windows)) \
           FROM memory_agent.entries",
        &[],
    );
    assert_eq!(row, "3/1/t");
    let jobs: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', kind, status, attempts, done, total) FROM memory_jobs ORDER BY total",
        &[],
    );
    assert_eq!(jobs, ["embed done 0 1 1", "embed done 0 2 2"]);
    // The same embedding as if it had been stored at once.
    let same: bool = value(
        &mut client,
        "SELECT embedding <=> memory_embed(content, 'document') < 1e-6 \
           FROM memory_agent.entries WHERE content = 'Blue whales sing.'",
        &[],
    );
    assert!(same);
}

#[test]
fn the_oldest_leave_a_full_window() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.max_entries", 3).start();
    let mut client = cluster.database("aging_window").connect();
    for turn in 0..4 {
        ingest(&mut client, "s", &format!("turn {turn}"));
    }
    run(&mut client, "SELECT memory_add('Anna likes tea', 's', infer => false)");
    ingest(&mut client, "other", "turn of another session");
    drain(&mut client);
    let states: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', content, state, state_reason) FROM memory_agent.entries \
          WHERE session_id = 's' ORDER BY created_at, id",
        &[],
    );
    let expected = [
        "turn 0 archived evicted",
        "turn 1 archived evicted",
        "turn 2 active",
        "turn 3 active",
        "Anna likes tea active",
    ];
    assert_eq!(states, expected);
    let counters: String = value(
        &mut client,
        "SELECT concat_ws('/', s.turn_count, s.active_entries, \
                s.active_tokens = (SELECT sum(e.token_count) FROM memory_agent.entries e \
                                    WHERE e.session_id = 's' AND e.kind = 'turn' AND e.state = 'active')) \
           FROM memory_agent.sessions s WHERE s.session_id = 's'",
        &[],
    );
    assert_eq!(counters, "4/3/t");
    assert_eq!(recall(&mut client, "'turn', 's', kinds => '{turn}'").len(), 4, "still memory");
    run(&mut client, "SET memory_agent.recall_scope = active");
    assert_eq!(recall(&mut client, "'turn', 's', kinds => '{turn}'").len(), 2);
}

/// The sweep runs by itself: nobody calls anything meanwhile.
#[test]
fn what_expired_becomes_inactive_and_is_purged_when_told() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.sweep_interval", "1s").start();
    let mut client = cluster.database("aging_expiry").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', repeat('The gardener planted roses. ', 200), ttl => '1 second');
         SELECT memory_add('Anna likes tea', 's', infer => false, ttl => '1 second');
         SELECT memory_add('Anna lives in Rome', 's', infer => false, fact_key => 'home');
         SELECT memory_add('Anna lives in Oslo', 's', infer => false, fact_key => 'home')",
    );
    let expired = "SELECT count(*) FROM memory_agent.entries \
                    WHERE state = 'inactive' AND state_reason = 'expired' AND valid_to = expires_at";
    wait_until(PATIENCE, "the sweep", || value::<i64>(&mut client, expired, &[]) == 2);
    let counters: String = value(
        &mut client,
        "SELECT concat_ws('/', active_entries, active_tokens) FROM memory_agent.sessions",
        &[],
    );
    assert_eq!(counters, "1/0");
    let history: Vec<String> = values(
        &mut client,
        "SELECT body->>'content' FROM memory_agent.history WHERE op = 'expire'",
        &[],
    );
    assert_eq!(history, ["Anna likes tea"]);
    // Nothing is deleted until somebody says so; then what was replaced goes as well.
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]), 4);
    cluster.alter_system("memory_agent.purge_after", Some("1s"));
    let left = "SELECT array_agg(content) FROM memory_agent.entries";
    wait_until(PATIENCE, "the purge", || {
        value::<Vec<String>>(&mut client, left, &[]) == ["Anna lives in Oslo"]
    });
    let windows = "SELECT count(*) FROM memory_agent.entry_windows";
    assert_eq!(value::<i64>(&mut client, windows, &[]), 0);
}
