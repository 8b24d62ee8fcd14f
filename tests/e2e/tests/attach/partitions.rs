//! Partitioned tables: a statement on a partition does not fire the triggers of the whole, so each has
//! its own.

use crate::{PATIENCE, cluster, contents, count, remembered, status, with_warnings};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, shared, wait_until};

const LOG: &str = "
    CREATE TABLE log (year int, id int, body text, PRIMARY KEY (year, id)) PARTITION BY RANGE (year);
    CREATE TABLE log_2024 PARTITION OF log FOR VALUES FROM (2024) TO (2025);
    -- Columns in another order, and one that is gone.
    CREATE TABLE log_2025 (gone int, body text, id int NOT NULL, year int NOT NULL, PRIMARY KEY (year, id));
    ALTER TABLE log_2025 DROP gone;
    ALTER TABLE log ATTACH PARTITION log_2025 FOR VALUES FROM (2025) TO (2026);
    CREATE TABLE log_later PARTITION OF log FOR VALUES FROM (2026) TO (2100) PARTITION BY RANGE (id);
    CREATE TABLE log_later_low PARTITION OF log_later FOR VALUES FROM (0) TO (100)";
const ATTACH: &str = "SELECT memory_attach('log', 'body', user_id => 'alice', backfill => false)";

fn log(name: &str) -> Client {
    let mut client = cluster().database(name).connect();
    run(&mut client, &format!("{LOG}; {ATTACH}"));
    client
}

#[test]
fn statements_on_the_whole_and_on_partitions() {
    let mut client = log("attach_partitions");
    run(
        &mut client,
        "INSERT INTO log VALUES (2024, 1, 'a'), (2025, 1, 'b'), (2026, 1, 'c'); \
         INSERT INTO log_2024 VALUES (2024, 2, 'd'); \
         INSERT INTO log_2025 (year, id, body) VALUES (2025, 2, 'e'); \
         INSERT INTO log_later VALUES (2026, 2, 'f'); INSERT INTO log_later_low VALUES (2026, 3, 'g')",
    );
    assert_eq!(contents(&mut client), ["a", "d", "b", "e", "c", "f", "g"]);
    run(
        &mut client,
        "UPDATE log SET body = upper(body) WHERE id = 1; UPDATE log_2025 SET body = 'E' WHERE id = 2; \
         DELETE FROM log_later WHERE id = 2",
    );
    assert_eq!(contents(&mut client), ["A", "d", "B", "E", "C", "g"]);
    // A row moves to another partition: another key, for the partition is part of it.
    run(&mut client, "UPDATE log SET year = 2030, body = 'moved' WHERE year = 2024 AND id = 1");
    let moved = remembered(&mut client).into_iter().find(|(_, _, content)| content == "moved");
    assert_eq!(moved.map(|(key, ..)| key), Some("[2030, 1]".to_owned()));
    assert_eq!(remembered(&mut client).len(), 6);
    run(&mut client, "TRUNCATE log_later");
    assert_eq!(contents(&mut client), ["d", "B", "E"]);
    run(&mut client, "TRUNCATE log_2025");
    assert_eq!(contents(&mut client), ["d"]);
    run(&mut client, "TRUNCATE log");
    assert_eq!(contents(&mut client), [""; 0]);
}

#[test]
fn a_partition_that_comes_later() {
    let mut client = log("attach_later");
    run(
        &mut client,
        "CREATE TABLE log_2023 PARTITION OF log FOR VALUES FROM (2023) TO (2024); \
         INSERT INTO log VALUES (2023, 1, 'through the whole'); INSERT INTO log_2023 VALUES (2023, 2, 'unnoticed')",
    );
    assert_eq!(contents(&mut client), ["through the whole"]);
    let (state, detail) = status(&mut client);
    assert_eq!(state, "incomplete");
    assert!(detail.contains("log_2023"), "{detail}");
    run(&mut client, ATTACH);
    assert_eq!(status(&mut client).0, "attached");
    run(&mut client, "INSERT INTO log_2023 VALUES (2023, 3, 'noticed')");
    assert_eq!(contents(&mut client), ["through the whole", "noticed"]);
    run(&mut client, "ALTER TABLE log_2023 DISABLE TRIGGER memory_agent_delete");
    assert_eq!(status(&mut client).0, "incomplete");
}

#[test]
fn a_partition_that_is_taken_out() {
    let database = "attach_taken_out";
    drop(log(database));
    let (mut client, warnings) = with_warnings(cluster(), database);
    run(
        &mut client,
        "INSERT INTO log VALUES (2024, 1, 'a'), (2025, 1, 'b'); ALTER TABLE log DETACH PARTITION log_2024; \
         INSERT INTO log_2024 VALUES (2024, 2, 'of no concern')",
    );
    assert_eq!(contents(&mut client), ["a", "b"]);
    let told = warnings.lock().unwrap().join("\n");
    assert!(told.contains("not part of public.log any more"), "{told}");
    run(&mut client, "SELECT memory_detach('log')");
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 0);
}

/// From PostgreSQL 16 on the transition table of such an update holds rows that the same MERGE inserted before.
#[test]
fn one_merge_inserts_and_updates() {
    let mut client = log("attach_merge");
    let mut expected = vec!["c".to_owned()];
    run(&mut client, "SET enable_hashjoin = off; SET enable_mergejoin = off");
    for (round, order) in ["", "DESC"].into_iter().enumerate() {
        let n = round * 20;
        run(
            &mut client,
            &format!(
                "INSERT INTO log SELECT 2024 + i, {n} + i, 'old' FROM generate_series(0, 2) i; \
                 MERGE INTO log t USING (SELECT 2024 + i % 3, {n} + i, 'row ' || {n} + i FROM generate_series(0, 9) i \
                                          WHERE i <> 1 ORDER BY i {order}) v(year, id, body) \
                    ON t.year = v.year AND t.id = v.id \
                  WHEN MATCHED THEN UPDATE SET body = v.body \
                  WHEN NOT MATCHED THEN INSERT VALUES (v.year, v.id, v.body); \
                 UPDATE log SET body = 'c' WHERE id = {n} + 1"
            ),
        );
        expected.extend((0..10).filter(|i| *i != 1).map(|i| format!("row {}", n + i)));
        let mut found = contents(&mut client);
        found.sort();
        found.dedup();
        expected.sort();
        assert_eq!(found, expected, "{order}");
    }
}

/// Of a row that such a MERGE moves to another key, nothing tells the new one: a job looks for it.
#[test]
fn one_merge_inserts_and_changes_keys() {
    let mut client = shared().database("attach_merge_keys").connect();
    let attach = ATTACH.replace(", backfill => false", ", embed => 'off'");
    run(&mut client, &format!("{LOG}; {attach}"));
    run(&mut client, "SET enable_hashjoin = off; SET enable_mergejoin = off");
    let mut expected = Vec::new();
    for (round, order) in ["", "DESC"].into_iter().enumerate() {
        let n = round * 20;
        run(
            &mut client,
            &format!(
                "INSERT INTO log SELECT 2024 + i, {n} + i, 'row ' || {n} + i FROM generate_series(0, 2) i; \
                 MERGE INTO log t USING (SELECT 2024 + i % 3, {n} + i FROM generate_series(0, 9) i \
                                          ORDER BY i {order}) v(year, id) \
                    ON t.year = v.year AND t.id = v.id \
                  WHEN MATCHED THEN UPDATE SET id = t.id + 50 \
                  WHEN NOT MATCHED THEN INSERT VALUES (v.year, v.id, 'row ' || v.id)"
            ),
        );
        assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
        expected.extend((0..10).map(|i| format!("row {}", n + i)));
        expected.sort();
        let mut found = contents(&mut client);
        found.sort();
        assert_eq!(found, expected, "{order}");
    }
}

/// What comes and goes with partitions, and what is rewritten, fires no trigger: attaching again finds it.
#[test]
fn what_no_trigger_tells_is_found_by_attaching_again() {
    let mut client = shared().database("attach_untold").connect();
    let attach = ATTACH.replace(", backfill => false", ", embed => 'off'");
    run(&mut client, &format!("{LOG}; {attach}"));
    // The intake of what was there would find what comes untold, too.
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    run(
        &mut client,
        "INSERT INTO log VALUES (2024, 1, 'a'), (2025, 1, 'b'), (2026, 1, 'c'); \
         CREATE TABLE log_2023 (year int, id int, body text, PRIMARY KEY (year, id)); \
         INSERT INTO log_2023 VALUES (2023, 1, 'brought along'); \
         ALTER TABLE log ATTACH PARTITION log_2023 FOR VALUES FROM (2023) TO (2024)",
    );
    run(&mut client, "ALTER TABLE log DETACH PARTITION log_2024 CONCURRENTLY");
    run(&mut client, "ALTER TABLE log ALTER body TYPE varchar(20) USING upper(body)");
    assert_eq!(contents(&mut client), ["a", "b", "c"], "nothing is told");
    run(&mut client, &attach);
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(contents(&mut client), ["BROUGHT ALONG", "B", "C"]);
    assert_eq!(status(&mut client).0, "attached");
}

#[test]
fn one_table_one_attachment() {
    let mut client = log("attach_twice");
    let refused = client.query("SELECT memory_attach('log_2024', 'body')", &[]);
    let message = memory_agent_e2e::expect_error(refused, "42710");
    assert!(message.contains("partition of an attached table"), "{message}");
    run(
        &mut client,
        "SELECT memory_detach('log'); SELECT memory_attach('log_2024', 'body', user_id => 'alice')",
    );
    let refused = client.query(ATTACH, &[]);
    let message = memory_agent_e2e::expect_error(refused, "42710");
    assert!(message.contains("attached by itself"), "{message}");
    run(&mut client, "INSERT INTO log_2024 VALUES (2024, 1, 'a'); TRUNCATE log_2024");
    assert_eq!(contents(&mut client), [""; 0]);
}

/// A partition that its own owner may not read all of: TRUNCATE goes on, and what it could not do is
/// queued.
#[test]
fn a_partition_whose_owner_is_under_its_policies() {
    let mut client = log("attach_forced");
    run(
        &mut client,
        "CREATE ROLE attach_log_owner; GRANT ALL ON SCHEMA public TO attach_log_owner; \
         ALTER TABLE log OWNER TO attach_log_owner; ALTER TABLE log_2025 OWNER TO attach_log_owner; \
         ALTER TABLE log_2025 ENABLE ROW LEVEL SECURITY; ALTER TABLE log_2025 FORCE ROW LEVEL SECURITY; \
         INSERT INTO log VALUES (2024, 1, 'a'), (2025, 1, 'b')",
    );
    assert_eq!(contents(&mut client), ["a", "b"]);
    run(&mut client, "TRUNCATE log_2025");
    assert_eq!(
        count(&mut client, "memory_agent.jobs WHERE kind = 'attach' AND status = 'pending'"),
        1
    );
}

/// A row that is committed while TRUNCATE waits for its lock goes with the others.
#[test]
fn a_row_that_comes_while_truncate_waits() {
    let mut client = log("attach_truncate_waits");
    let mut writer = cluster().connect("attach_truncate_waits");
    run(&mut writer, "BEGIN; INSERT INTO log VALUES (2025, 7, 'late')");
    let truncate = std::thread::spawn(|| {
        run(&mut cluster().connect("attach_truncate_waits"), "TRUNCATE log_2025");
    });
    wait_until(PATIENCE, "TRUNCATE to wait", || {
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity \
                      WHERE query = 'TRUNCATE log_2025' AND wait_event_type = 'Lock'";
        value(&mut client, waits, &[])
    });
    run(&mut writer, "COMMIT");
    truncate.join().unwrap();
    assert_eq!(contents(&mut client), [""; 0]);
}
