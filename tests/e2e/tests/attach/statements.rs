//! Every kind of statement that changes a table.

use crate::{cluster, contents, count, notes, remembered};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Uuid};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[test]
fn a_row_is_an_entry_from_its_insert_to_its_delete() {
    let mut client = notes("attach_life");
    run(
        &mut client,
        "INSERT INTO notes (id, body, chat, kind, tags) VALUES (7, 'Ann lives in Oslo.', 'c1', 'fact', '{a,b}')",
    );
    let row = client
        .query_one(
            "SELECT user_id, agent_id, session_id, kind, role, content, metadata::text, source_relation, \
                    source_key::text, state, embedding IS NULL, token_count > 0, id \
               FROM memory_agent.entries",
            &[],
        )
        .unwrap();
    let texts: Vec<String> = (0..10).map(|column| row.get(column)).collect();
    assert_eq!(
        texts,
        [
            "alice",
            "default",
            "c1",
            "turn",
            "user",
            "Ann lives in Oslo.",
            r#"{"kind": "fact", "tags": ["a", "b"]}"#,
            "public.notes",
            "[7]",
            "active",
        ]
    );
    assert!(row.get::<_, bool>(10) && row.get::<_, bool>(11));
    let first: Uuid = row.get(12);

    run(&mut client, "UPDATE notes SET body = 'Ann lives in Rome.' WHERE id = 7");
    assert_eq!(contents(&mut client), ["Ann lives in Rome."]);
    let replaced: (String, String, bool) = {
        let row = client
            .query_one(
                "SELECT o.state, o.state_reason, o.valid_to = n.created_at FROM memory_agent.entries o \
                   JOIN memory_agent.entries n ON n.id = o.replaced_by WHERE o.id = $1",
                &[&first],
            )
            .unwrap();
        (row.get(0), row.get(1), row.get(2))
    };
    assert_eq!(replaced, ("inactive".into(), "superseded".into(), true));

    run(&mut client, "DELETE FROM notes");
    assert_eq!(contents(&mut client), [""; 0]);
    let reasons: Vec<String> = values(
        &mut client,
        "SELECT op || ': ' || reason FROM memory_agent.history ORDER BY id",
        &[],
    );
    assert_eq!(reasons, ["supersede: its row was updated", "delete: its row was deleted"]);
}

/// Ten thousand rows by COPY and by INSERT: each an entry, and one job for the user of each statement.
#[test]
fn bulk_loads() {
    let mut client = notes("attach_bulk");
    let mut copy = client.copy_in("COPY notes (id, body) FROM STDIN").unwrap();
    for id in 0..5000 {
        writeln!(copy, "{id}\tNote number {id} of the load.").unwrap();
    }
    copy.finish().unwrap();
    assert_eq!(count(&mut client, "memory_agent.jobs WHERE kind = 'embed'"), 1);
    run(
        &mut client,
        "INSERT INTO notes (id, body, owner) SELECT i, 'Note number ' || i, 'user ' || i % 3 \
           FROM generate_series(5000, 5999) i",
    );
    assert_eq!(remembered(&mut client).len(), 6000);
    let wrong = "notes n FULL JOIN (SELECT * FROM memory_agent.entries WHERE state = 'active') e \
                 ON e.source_key = jsonb_build_array(n.id) \
                 WHERE n.body IS DISTINCT FROM e.content OR n.owner IS DISTINCT FROM e.user_id";
    assert_eq!(count(&mut client, wrong), 0);

    run(&mut client, "UPDATE notes SET body = body || ' (checked)' WHERE id % 2 = 0");
    assert_eq!(count(&mut client, wrong), 0);
    assert_eq!(count(&mut client, "memory_agent.entries WHERE state_reason = 'superseded'"), 3000);
    run(&mut client, "DELETE FROM notes WHERE id < 3000");
    assert_eq!(count(&mut client, wrong), 0);
    run(&mut client, "TRUNCATE notes");
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(count(&mut client, "memory_agent.history WHERE op = 'delete'"), 6000);
}

/// What is stored of entries, jobs and history, to see that nothing was touched.
fn everything(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT e.xmin || ' ' || e::text FROM memory_agent.entries e \
         UNION ALL SELECT j.xmin || ' ' || j::text FROM memory_agent.jobs j \
         UNION ALL SELECT h.xmin || ' ' || h::text FROM memory_agent.history h ORDER BY 1",
        &[],
    )
}

#[test]
fn updates_of_other_columns_touch_nothing() {
    let mut client = notes("attach_other");
    run(
        &mut client,
        "INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series(1, 300) i",
    );
    let before = everything(&mut client);
    run(&mut client, "UPDATE notes SET views = views + 1, written_at = now()");
    run(&mut client, "UPDATE notes SET body = body, kind = kind");
    run(&mut client, "UPDATE notes SET views = 9 WHERE false");
    assert_eq!(everything(&mut client), before);
}

#[test]
fn metadata_changes_in_place() {
    let mut client = notes("attach_metadata");
    run(&mut client, "INSERT INTO notes (id, body, kind) VALUES (1, 'Ann skis.', 'draft')");
    let id: Uuid = value(&mut client, "SELECT id FROM memory_agent.entries", &[]);
    run(&mut client, "UPDATE notes SET kind = 'final'");
    assert_eq!(crate::metadata(&mut client, "[1]")["kind"], "final");
    assert_eq!(value::<Uuid>(&mut client, "SELECT id FROM memory_agent.entries", &[]), id);
}

#[test]
fn a_changed_key_is_another_row() {
    let mut client = notes("attach_key");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two')");
    run(&mut client, "UPDATE notes SET id = id + 10, body = body || '!' WHERE id = 1");
    assert_eq!(
        remembered(&mut client),
        [
            ("[2]".into(), "alice".into(), "two".into()),
            ("[11]".into(), "alice".into(), "one!".into())
        ]
    );
    let ended = "memory_agent.entries WHERE source_key = '[1]' AND state_reason = 'deleted'";
    assert_eq!(count(&mut client, ended), 1);
}

#[test]
fn upserts_and_merges() {
    let mut client = notes("attach_upsert");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two')");
    run(
        &mut client,
        "INSERT INTO notes (id, body) VALUES (2, 'zwei'), (3, 'drei') \
             ON CONFLICT (id) DO UPDATE SET body = excluded.body; \
         INSERT INTO notes (id, body) VALUES (3, 'tres') ON CONFLICT DO NOTHING",
    );
    assert_eq!(contents(&mut client), ["one", "zwei", "drei"]);
    run(
        &mut client,
        "MERGE INTO notes n USING (VALUES (1, NULL), (2, 'due'), (4, 'quattro')) v(id, body) ON v.id = n.id \
           WHEN MATCHED AND v.body IS NULL THEN DELETE \
           WHEN MATCHED THEN UPDATE SET body = v.body \
           WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)",
    );
    assert_eq!(contents(&mut client), ["due", "drei", "quattro"]);
}

#[test]
fn cascades_reach_memory() {
    let mut client = notes("attach_cascade");
    run(
        &mut client,
        "CREATE TABLE people (name text PRIMARY KEY); INSERT INTO people VALUES ('alice'), ('bob'); \
         ALTER TABLE notes ADD FOREIGN KEY (owner) REFERENCES people ON DELETE CASCADE ON UPDATE CASCADE; \
         INSERT INTO notes (id, body, owner) VALUES (1, 'hers', 'alice'), (2, 'his', 'bob')",
    );
    run(&mut client, "UPDATE people SET name = 'ann' WHERE name = 'alice'");
    assert_eq!(
        remembered(&mut client),
        [("[1]".into(), "ann".into(), "hers".into()), ("[2]".into(), "bob".into(), "his".into())]
    );
    run(&mut client, "DELETE FROM people WHERE name = 'bob'");
    assert_eq!(contents(&mut client), ["hers"]);
}

#[test]
fn a_rollback_takes_memory_back() {
    let mut client = notes("attach_rollback");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one')");
    let before = everything(&mut client);
    run(
        &mut client,
        "BEGIN; UPDATE notes SET body = 'uno'; INSERT INTO notes (id, body) VALUES (2, 'due'); TRUNCATE notes; \
         ROLLBACK",
    );
    assert_eq!(everything(&mut client), before);
    run(
        &mut client,
        "BEGIN; INSERT INTO notes (id, body) VALUES (2, 'due'); SAVEPOINT s; \
         DELETE FROM notes; ROLLBACK TO s; UPDATE notes SET body = 'uno' WHERE id = 1; COMMIT",
    );
    assert_eq!(contents(&mut client), ["uno", "due"]);
}

/// Statements of one transaction follow each other in memory as they do in the table.
#[test]
fn statements_of_one_transaction() {
    let mut client = notes("attach_transaction");
    run(
        &mut client,
        "BEGIN; INSERT INTO notes (id, body) VALUES (1, 'a'); UPDATE notes SET body = 'b'; \
         UPDATE notes SET body = 'c'; DELETE FROM notes; INSERT INTO notes (id, body) VALUES (1, 'd'); COMMIT",
    );
    assert_eq!(contents(&mut client), ["d"]);
    run(
        &mut client,
        "WITH gone AS (DELETE FROM notes RETURNING id, body) \
         INSERT INTO notes (id, body) SELECT id + 1, body || '!' FROM gone",
    );
    assert_eq!(contents(&mut client), ["d!"]);
}

/// Rows that are frozen, into a table that the same transaction emptied.
#[test]
fn a_copy_that_freezes_its_rows() {
    let mut client = notes("attach_freeze");
    run(&mut client, "INSERT INTO notes (id, body) VALUES (1, 'one'), (2, 'two')");
    run(
        &mut client,
        "BEGIN; TRUNCATE notes; \
         COPY notes (id, body) FROM PROGRAM 'echo 1,uno; echo 3,tre' (FORMAT csv, FREEZE); COMMIT",
    );
    assert_eq!(contents(&mut client), ["uno", "tre"]);
}

/// Two sessions that write rows of one user do not wait for each other.
#[test]
fn writers_of_one_user_do_not_wait() {
    let mut one = notes("attach_writers");
    let mut other = cluster_session("attach_writers");
    run(&mut one, "BEGIN; INSERT INTO notes (id, body) VALUES (1, 'one')");
    run(&mut other, "SET lock_timeout = '5s'; INSERT INTO notes (id, body) VALUES (2, 'two')");
    run(&mut other, "UPDATE notes SET body = 'due' WHERE id = 2");
    run(&mut one, "COMMIT");
    assert_eq!(contents(&mut one), ["one", "due"]);
}

fn cluster_session(database: &str) -> Client {
    crate::cluster().connect(database)
}

/// A nested loop over both lists would compare each row with each: a statement's time would be its square.
#[test]
fn rows_are_not_compared_with_each_other() {
    let mut client = notes("attach_linear");
    let insert = "INSERT INTO notes (id, body) SELECT i, 'Note ' || i FROM generate_series($1::int, $1 + 999) i";
    for first in [0, 1000, 2000] {
        client.execute(insert, &[&first]).expect("rows");
        // Plans are made anew for what is known of the table by now.
        run(&mut client, "ANALYZE memory_agent.entries");
    }
    let database: String = value(&mut client, "SELECT current_database()", &[]);
    let plans = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&plans);
    let mut client = cluster()
        .config(&database)
        .notice_callback(move |notice| seen.lock().unwrap().push(notice.message().to_owned()))
        .connect(postgres::NoTls)
        .expect("a connection");
    run(
        &mut client,
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_level = notice; \
         SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on",
    );
    for statement in [
        "UPDATE notes SET body = body || '!'",
        "UPDATE notes SET kind = 'changed'",
        "UPDATE notes SET body = body || '!'",
        "DELETE FROM notes",
    ] {
        run(&mut client, statement);
    }
    let plans = plans.lock().unwrap();
    let joins = plans.iter().filter(|plan| plan.contains("Join")).count();
    assert!(joins > 20, "{joins} of {} plans join", plans.len());
    let is_quadratic = |plan: &&String| {
        let removed = plan.split("Rows Removed by Join Filter: ").nth(1);
        removed.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0) > 1000
    };
    let quadratic: Vec<_> = plans.iter().filter(is_quadratic).collect();
    assert!(quadratic.is_empty(), "{}", quadratic[0]);
}
