//! Values that rows can have: none, too long ones, keys of several columns and of other types.

use crate::{cluster, contents, count, notes, remembered, with_warnings};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Cluster, Uuid, retry_until};
use std::time::Duration;

#[test]
fn without_content_or_user_there_is_no_memory() {
    let mut client = notes("attach_nulls");
    run(
        &mut client,
        "INSERT INTO notes (id, body, owner) VALUES (1, NULL, 'alice'), (2, 'two', NULL), (3, '  ', 'alice')",
    );
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(count(&mut client, "memory_agent.jobs"), 0, "nothing was refused");
    run(&mut client, "UPDATE notes SET body = 'one' WHERE id = 1");
    run(&mut client, "UPDATE notes SET owner = 'bob' WHERE id = 2");
    assert_eq!(
        remembered(&mut client),
        [("[1]".into(), "alice".into(), "one".into()), ("[2]".into(), "bob".into(), "two".into())]
    );
    run(&mut client, "UPDATE notes SET owner = 'carol' WHERE id = 2");
    assert_eq!(remembered(&mut client)[1], ("[2]".into(), "carol".into(), "two".into()));
    let linked: bool = value(
        &mut client,
        "SELECT bool_or(replaced_by IS NOT NULL) FROM memory_agent.entries WHERE user_id = 'bob'",
        &[],
    );
    assert!(!linked, "an id of carol's memory is not told to bob");
    run(&mut client, "UPDATE notes SET body = NULL");
    assert_eq!(contents(&mut client), [""; 0]);
}

#[test]
fn rows_are_indexed_in_the_language_of_their_agent() {
    let mut client = notes("attach_language");
    run(
        &mut client,
        "SELECT memory_configure('default', settings => '{\"text_search_config\": \"german\"}', user_id => '*');
         INSERT INTO notes (id, body, owner)
         VALUES (1, 'Wir haben beschlossen, zwei Bücher zu kaufen.', 'alice')",
    );
    let row: String = value(
        &mut client,
        "SELECT concat_ws('|', lexeme_config, markers::text) FROM memory_agent.entries",
        &[],
    );
    assert_eq!(row, "german|{decision}");
}

/// The row is stored, memory says why it has not got it, and takes it when it can.
#[test]
fn what_is_refused_can_be_taken_later() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.max_content_bytes", 100).start();
    cluster.database("db");
    let (mut client, warnings) = with_warnings(&cluster, "db");
    run(&mut client, crate::NOTES);
    run(&mut client, crate::ATTACH);
    run(
        &mut client,
        "INSERT INTO notes (id, body, owner) \
         VALUES (1, 'short', 'alice'), (2, 'tall ' || repeat('x', 200), 'alice'), (3, 'shared?', '*')",
    );
    assert_eq!(count(&mut client, "notes"), 3);
    assert_eq!(contents(&mut client), ["short"]);
    let told = warnings.lock().unwrap().join("\n");
    assert!(
        told.contains(
            "the row [2] of public.notes was not taken into memory: its content has 205 bytes"
        ),
        "{told}"
    );
    assert!(
        told.contains("the row [3] of public.notes") && told.contains("shared memory"),
        "{told}"
    );
    assert!(!told.contains("tall"), "no content: {told}");
    let dead: Vec<Uuid> = values(
        &mut client,
        "SELECT id FROM memory_jobs WHERE kind = 'attach' AND status = 'dead' AND last_error LIKE '%205 bytes%'",
        &[],
    );
    assert_eq!(dead.len(), 1);

    cluster.alter_system("memory_agent.max_content_bytes", Some("1000"));
    let patience = Duration::from_secs(60);
    retry_until(patience, "the row that was refused", || {
        run(
            &mut client,
            "SELECT memory_retry(id) FROM memory_jobs WHERE status = 'dead' AND last_error LIKE '%205 bytes%'",
        );
        (contents(&mut client).len() == 2).then_some(())
    });
    assert!(contents(&mut client)[1].starts_with("tall"));
}

#[test]
fn keys_of_several_columns_and_types() {
    let mut client = cluster().database("attach_keys").connect();
    run(
        &mut client,
        "CREATE TYPE mood AS ENUM ('good', 'bad'); \
         CREATE TABLE parts (region text, at timestamptz, \"No\" numeric(9,2), mood mood, body text, \
                             PRIMARY KEY (at, region, \"No\", mood)); \
         SELECT memory_attach('parts', 'body', user_id => 'alice', backfill => false); \
         CREATE TABLE things (name text PRIMARY KEY, body text); \
         SELECT memory_attach('things', 'body', user_id => 'alice', backfill => false)",
    );
    run(
        &mut client,
        "SET TimeZone = 'Asia/Tokyo'; \
         INSERT INTO parts VALUES ('north', '2026-01-01 00:00+00', 1.50, 'good', 'one'), \
                                  ('north', '2026-01-01 00:00+00', 1.50, 'bad', 'two'); \
         SET TimeZone = 'America/New_York'; SET DateStyle = 'German'; \
         UPDATE parts SET body = 'zwei' WHERE mood = 'bad'; \
         DELETE FROM parts WHERE mood = 'good'",
    );
    assert_eq!(
        remembered(&mut client),
        [(
            "[\"2026-01-01T00:00:00+00:00\", \"north\", 1.50, \"bad\"]".into(),
            "alice".into(),
            "zwei".into()
        )]
    );
    run(
        &mut client,
        "TRUNCATE parts; INSERT INTO things VALUES ('a \"quoted\" name', 'one'), ('ü', 'two'), (repeat('k', 2000), 'long'); \
         UPDATE things SET body = 'uno' WHERE name LIKE 'a%'",
    );
    assert_eq!(
        contents(&mut client),
        ["uno", "two"],
        "a key of 2,000 bytes is too long for an index"
    );
    assert_eq!(count(&mut client, "things"), 3);
    let refused = "memory_jobs WHERE kind = 'attach' AND status = 'dead' AND last_error LIKE '%primary key has%'";
    assert_eq!(count(&mut client, refused), 1);
}

/// The time of a row is the table's, as far as it says one.
#[test]
fn times_of_rows() {
    let mut client = cluster().database("attach_times").connect();
    run(
        &mut client,
        "CREATE TABLE posts (id int PRIMARY KEY, body text, at timestamp); \
         SELECT memory_attach('posts', 'body', user_id => 'alice', created_at_column => 'at', backfill => false); \
         SET TimeZone = 'Asia/Tokyo'; \
         INSERT INTO posts VALUES (1, 'Ann lived in Oslo.', '2020-01-01 12:00'), (2, 'no time', NULL), \
                                  (3, 'never', 'infinity'); \
         UPDATE posts SET body = 'Ann lived in Rome.', at = '2022-01-01' WHERE id = 1",
    );
    let at = |client: &mut _, at: &str| -> Vec<String> {
        values(
            client,
            &format!(
                "SELECT content FROM memory_recall('Where did Ann live?', as_of => '{at}', score_threshold => 0, \
                                                   rerank => false) ORDER BY 1"
            ),
            &[],
        )
    };
    assert_eq!(at(&mut client, "2020-01-01 11:59+00"), [""; 0]);
    assert_eq!(at(&mut client, "2020-01-01 12:00+00"), ["Ann lived in Oslo."]);
    assert_eq!(at(&mut client, "2021-12-31 23:59+00"), ["Ann lived in Oslo."]);
    assert_eq!(at(&mut client, "2022-01-01 00:00+00"), ["Ann lived in Rome."]);
    // An update that does not say since when holds from now on.
    run(&mut client, "UPDATE posts SET body = 'Ann lived in Bonn.' WHERE id = 1");
    assert_eq!(at(&mut client, "2025-01-01 00:00+00"), ["Ann lived in Rome."]);
    assert!(recalled_now(&mut client).contains(&"Ann lived in Bonn.".to_owned()));
    run(&mut client, "DELETE FROM posts WHERE id = 1");
    assert_eq!(at(&mut client, "2025-01-01 00:00+00"), ["Ann lived in Rome."]);
    assert!(!recalled_now(&mut client).iter().any(|text| text.starts_with("Ann")));
    assert_eq!(
        recalled_now(&mut client).len(),
        2,
        "rows without a time hold since they were written"
    );
}

fn recalled_now(client: &mut memory_agent_e2e::Client) -> Vec<String> {
    values(
        client,
        "SELECT content FROM memory_recall('Ann, time, never', score_threshold => 0, rerank => false, top_k => 10)",
        &[],
    )
}

/// Columns of other types are read as text; roles may be a column's too.
#[test]
fn other_types_and_roles() {
    let mut client = cluster().database("attach_types").connect();
    run(
        &mut client,
        "CREATE TABLE messages (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), body jsonb, owner int, chat int, speaker text); \
         SELECT memory_attach('messages', 'body', user_id_column => 'owner', session_id_column => 'chat', \
                              role_column => 'speaker', backfill => false, agent_id => 'support'); \
         INSERT INTO messages (body, owner, chat, speaker) VALUES ('{\"a\": 1}', 42, 7, 'assistant'), ('\"b\"', 42, NULL, NULL), \
                                                                 ('\"c\"', 42, 7, 'king')",
    );
    let rows: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('|', user_id, agent_id, session_id, role, content) FROM memory_agent.entries ORDER BY role",
        &[],
    );
    assert_eq!(rows, ["42|support|7|assistant|{\"a\": 1}", "42|support|user|\"b\""]);
    let refused: String =
        value(&mut client, "SELECT last_error FROM memory_agent.jobs WHERE kind = 'attach'", &[]);
    assert!(refused.contains("unknown role"), "{refused}");
}
