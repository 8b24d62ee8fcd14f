//! What the worker does: rows that are there already, embeddings, what was missed.

use crate::{NOTES, PATIENCE, contents, count, remembered};
use memory_agent_e2e::memory::{recalled_texts, run, value};
use memory_agent_e2e::{Client, Cluster, Uuid, processes, retry_until, shared, wait_until};

#[track_caller]
fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('90 s')", &[]), "the queue does not drain");
}

#[test]
fn rows_that_are_there_are_taken_in() {
    let mut client = shared().database("attach_backfill").connect();
    run(
        &mut client,
        &format!(
            "{NOTES}; INSERT INTO notes (id, body, owner, chat, written_at) \
             SELECT i, CASE WHEN i % 10 > 0 THEN 'Note number ' || i END, CASE WHEN i % 3 > 0 THEN 'alice' ELSE 'bob' END, \
                    CASE WHEN i % 2 = 0 THEN 'c1' END, '2020-01-01'::timestamptz + i * interval '1 h' \
               FROM generate_series(1, 1000) i; \
             INSERT INTO notes (id, body) VALUES (2000, 'The spare key lies under the blue pot.')"
        ),
    );
    let job: Uuid = value(
        &mut client,
        "SELECT memory_attach('notes', 'body', user_id_column => 'owner', session_id_column => 'chat', \
                              created_at_column => 'written_at')",
        &[],
    );
    drain(&mut client);
    let progress = client
        .query_one(
            "SELECT kind, status, done, total, last_error FROM memory_jobs WHERE id = $1",
            &[&job],
        )
        .unwrap();
    assert_eq!(progress.get::<_, Option<String>>(4), None);
    assert_eq!(
        (
            progress.get::<_, String>(0),
            progress.get::<_, String>(1),
            progress.get::<_, i64>(2),
            progress.get::<_, i64>(3)
        ),
        ("attach".into(), "done".into(), 1001, 1001)
    );
    assert_eq!(remembered(&mut client).len(), 901);
    let wrong = "notes n FULL JOIN memory_agent.entries e ON e.source_key = jsonb_build_array(n.id) \
                 WHERE (n.body IS DISTINCT FROM e.content AND n.body IS NOT NULL) \
                    OR n.body IS NOT NULL AND (n.owner, n.chat, n.written_at) IS DISTINCT FROM (e.user_id, e.session_id, e.created_at)";
    assert_eq!(count(&mut client, wrong), 0);
    // Embedded too, by jobs of each user and session.
    wait_until(PATIENCE, "all embeddings", || {
        count(&mut client, "memory_agent.entries WHERE embedding IS NULL OR NOT token_count_exact")
            == 0
    });
    assert_eq!(
        recalled_texts(&mut client, "'Where is the spare key?', top_k => 1"),
        ["The spare key lies under the blue pot."]
    );
}

/// What was written while the triggers were off is found when the table is attached again: added,
/// changed and deleted rows; the others stay as they are.
#[test]
fn what_was_missed_is_made_up_for() {
    let mut client = shared().database("attach_missed").connect();
    let attach = "SELECT memory_attach('notes', 'body', user_id_column => 'owner', metadata_columns => '{kind}')";
    run(&mut client, &format!("{NOTES}; {attach}"));
    run(
        &mut client,
        "INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 600) i",
    );
    drain(&mut client);
    let untouched = "SELECT md5(string_agg(e::text, '|' ORDER BY id)) FROM memory_agent.entries e \
                      WHERE (source_key ->> 0)::int BETWEEN 3 AND 599";
    let before: String = value(&mut client, untouched, &[]);
    run(
        &mut client,
        "BEGIN; ALTER TABLE notes DISABLE TRIGGER USER; UPDATE notes SET body = 'changed' WHERE id = 1; \
         UPDATE notes SET kind = 'k' WHERE id = 2; DELETE FROM notes WHERE id = 600; \
         INSERT INTO notes (id, body) VALUES (601, 'added'); ALTER TABLE notes ENABLE TRIGGER USER; COMMIT",
    );
    assert_eq!(contents(&mut client)[0], "Note 1");
    run(&mut client, attach);
    drain(&mut client);
    let now = contents(&mut client);
    assert_eq!((now.len(), now[0].as_str(), now[599].as_str()), (600, "changed", "added"));
    assert_eq!(crate::metadata(&mut client, "[2]")["kind"], "k");
    assert_eq!(value::<String>(&mut client, untouched, &[]), before);
    assert_eq!(
        count(
            &mut client,
            "memory_agent.history WHERE reason IN ('its row was found changed', 'its row was found deleted')"
        ),
        2
    );
}

/// Rows are written while there is no worker, and while the only one is killed again and again.
#[test]
fn nothing_is_lost_without_the_worker() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = cluster.database("db").connect();
    run(
        &mut client,
        &format!(
            "{NOTES}; INSERT INTO notes (id, body) SELECT i, 'Before ' || i FROM generate_series(1, 3000) i; \
             SELECT memory_attach('notes', 'body', user_id_column => 'owner'); \
             INSERT INTO notes (id, body) SELECT i, 'While ' || i FROM generate_series(3001, 3300) i"
        ),
    );
    for id in 3301..3341 {
        run(&mut client, &format!("INSERT INTO notes (id, body) VALUES ({id}, 'One by one {id}')"));
    }
    assert_eq!(contents(&mut client).len(), 340, "the rest is the worker's");
    assert_eq!(count(&mut client, "memory_agent.jobs WHERE kind = 'embed'"), 41);
    cluster.alter_system("memory_agent.worker", Some("on"));
    let mut killed = 0;
    while killed < 3 {
        let worker = retry_until(PATIENCE, "a worker", || {
            processes::of_data_directory(&cluster.data())
                .into_iter()
                .find(|process| process.command.contains("memory_agent worker"))
        });
        // A terminated worker is started again; a killed one would restart the cluster.
        let ended: bool = value(&mut client, "SELECT pg_terminate_backend($1)", &[&worker.pid]);
        killed += i32::from(ended);
        wait_until(PATIENCE, "the worker to end", || {
            !processes::of_data_directory(&cluster.data())
                .iter()
                .any(|process| process.pid == worker.pid)
        });
    }
    wait_until(PATIENCE, "all rows", || contents(&mut client).len() == 3340);
    drain(&mut client);
    assert_eq!(count(&mut client, "memory_agent.entries WHERE embedding IS NULL"), 0);
    assert_eq!(count(&mut client, "memory_agent.entries"), 3340, "none twice");
    let left = "memory_agent.jobs WHERE kind = 'embed' AND status <> 'done'";
    assert_eq!(count(&mut client, left), 0);
}

/// The rows of a table are written while the worker reads them.
#[test]
fn a_table_in_use_is_taken_in() {
    let mut client = shared().database("attach_in_use").connect();
    run(
        &mut client,
        &format!(
            "{NOTES}; INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 4000) i"
        ),
    );
    run(
        &mut client,
        "SELECT memory_attach('notes', 'body', user_id_column => 'owner', embed => 'off')",
    );
    // Deterministic, and over the whole table while the job goes through it.
    for step in 0..200 {
        let id = 1 + (step * 1237) % 4000;
        let statement = match step % 4 {
            0 => format!("UPDATE notes SET body = 'changed in step {step}' WHERE id = {id}"),
            1 => format!("DELETE FROM notes WHERE id = {id}"),
            2 => format!("INSERT INTO notes (id, body) VALUES ({}, 'new {step}')", 5000 + step),
            _ => format!("UPDATE notes SET id = {} WHERE id = {id}", 10_000 + step),
        };
        run(&mut client, &statement);
    }
    drain(&mut client);
    let wrong = "notes n FULL JOIN (SELECT * FROM memory_agent.entries WHERE state = 'active') e \
                 ON e.source_key = jsonb_build_array(n.id) WHERE n.body IS DISTINCT FROM e.content";
    assert_eq!(count(&mut client, wrong), 0);
    assert_eq!(count(&mut client, "memory_agent.jobs WHERE kind = 'embed'"), 0, "embed => 'off'");
}

#[test]
fn rows_are_embedded_when_the_attachment_says() {
    let mut client = shared().database("attach_sync").connect();
    run(
        &mut client,
        &format!(
            "{NOTES}; SELECT memory_attach('notes', 'body', user_id_column => 'owner', embed => 'sync', backfill => false); \
             INSERT INTO notes (id, body) VALUES (1, 'The spare key lies under the blue pot.'), (2, 'Ann skis.')"
        ),
    );
    let lacking = "memory_agent.entries WHERE embedding IS NULL OR NOT token_count_exact";
    assert_eq!(count(&mut client, lacking), 0);
    assert_eq!(count(&mut client, "memory_agent.jobs"), 0);
}

/// A table that cannot be read ends the job with a reason, and detaching cancels what waits.
#[test]
fn jobs_of_tables_that_are_gone() {
    let mut client = shared().database("attach_gone").connect();
    run(
        &mut client,
        "ALTER DATABASE attach_gone SET memory_agent.user_id = 'alice'; CREATE TABLE notes (id int PRIMARY KEY, body text); \
         BEGIN; SELECT memory_attach('notes', 'body'); DROP TABLE notes; COMMIT",
    );
    wait_until(PATIENCE, "the job to fail", || {
        count(
            &mut client,
            "memory_jobs WHERE kind = 'attach' AND last_error LIKE '%public.notes is gone%'",
        ) == 1
    });
    run(&mut client, "SELECT memory_detach('public.notes')");
    assert_eq!(
        count(&mut client, "memory_jobs WHERE kind = 'attach' AND status IN ('pending', 'dead')"),
        0
    );
}
