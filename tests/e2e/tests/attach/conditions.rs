//! Attachments with a condition: a row is remembered while it holds. It is an expression over the row and nothing
//! else, it runs as who writes, and where it fails the application's statement goes on.

use crate::{PATIENCE, cluster, contents, count, status, with_warnings};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, shared, wait_until};

/// A table whose rows the application never deletes.
const POSTS: &str = "CREATE TABLE posts (id int PRIMARY KEY, body text, weight int DEFAULT 1, deleted_at timestamptz)";

fn posts(name: &str) -> Client {
    let mut client = cluster().database(name).connect();
    run(&mut client, POSTS);
    client
}

fn attach(client: &mut Client, condition: &str) {
    let attach = "SELECT memory_attach('posts', 'body', user_id => 'ann', condition => $1)";
    client.query(attach, &[&condition]).expect("attached");
}

/// Reasons for which rows were refused.
fn refused(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT last_error FROM memory_agent.jobs WHERE kind = 'attach' AND status = 'dead' ORDER BY created_at, id",
        &[],
    )
}

#[test]
fn a_row_is_remembered_while_the_condition_holds() {
    let mut client = posts("attach_condition");
    attach(&mut client, "deleted_at IS NULL");
    run(
        &mut client,
        "INSERT INTO posts (id, body, deleted_at) VALUES (1, 'one', NULL), (2, 'two', now()), (3, 'three', NULL)",
    );
    assert_eq!(contents(&mut client), ["one", "three"]);
    run(&mut client, "UPDATE posts SET deleted_at = now() WHERE id IN (1, 2)");
    assert_eq!(contents(&mut client), ["three"]);
    let ended: Vec<String> = values(
        &mut client,
        "SELECT state_reason FROM memory_agent.entries WHERE content = 'one' AND state = 'inactive'",
        &[],
    );
    assert_eq!(ended, ["deleted"]);
    run(&mut client, "UPDATE posts SET body = 'uno' WHERE id = 1");
    assert_eq!(contents(&mut client), ["three"], "it is still deleted");
    run(&mut client, "UPDATE posts SET deleted_at = NULL WHERE id <> 3");
    assert_eq!(contents(&mut client), ["uno", "two", "three"]);
    run(&mut client, "UPDATE posts SET weight = 2, deleted_at = NULL");
    assert_eq!(count(&mut client, "memory_agent.entries"), 4, "nothing that counts has changed");
    // NULL is not true.
    attach(&mut client, "weight > 1");
    run(&mut client, "UPDATE posts SET weight = NULL WHERE id = 1");
    assert_eq!(contents(&mut client), ["two", "three"]);
}

/// The worker takes in what there is, and what a new condition says.
#[test]
fn rows_that_are_there_already() {
    let mut client = shared().database("attach_condition_rows").connect();
    run(
        &mut client,
        &format!(
            "{POSTS}; INSERT INTO posts VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 0), (4, 'four', 4)"
        ),
    );
    let mut is = |condition: &str, expected: &[&str]| {
        attach(&mut client, condition);
        assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
        assert_eq!(contents(&mut client), expected, "{condition}");
    };
    is("weight < 2", &["one", "three"]);
    is("weight > 1", &["two", "four"]);
    // It fails on the third row: that row is refused, and the others are read.
    is("4 / weight > 1", &["one", "two"]);
    is("true", &["one", "two", "three", "four"]);
    let reasons = refused(&mut client);
    assert!(
        reasons.len() == 1 && reasons[0].contains("its condition failed with 22012"),
        "{reasons:?}"
    );
    run(
        &mut client,
        "SELECT memory_attach('posts', 'body', user_id => 'ann', condition => '4 / weight > 0')",
    );
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    run(
        &mut client,
        "UPDATE posts SET weight = 1 WHERE id = 3; SELECT memory_retry(id, user_id) FROM memory_agent.jobs WHERE status = 'dead'",
    );
    wait_until(PATIENCE, "the row to be read again", || {
        contents(&mut client) == ["one", "two", "three", "four"]
    });
}

#[test]
fn where_the_condition_fails_the_statement_goes_on() {
    let name = "attach_condition_fails";
    drop(posts(name));
    let (mut client, warnings) = with_warnings(cluster(), name);
    attach(&mut client, "100 / weight > 1");
    run(
        &mut client,
        "INSERT INTO posts VALUES (1, 'one', 1), (2, 'two', 0), (3, 'three', 99), (4, 'four', 2)",
    );
    assert_eq!(count(&mut client, "posts"), 4);
    assert_eq!(contents(&mut client), ["one", "four"]);
    let told = warnings.lock().unwrap().join("\n");
    assert!(told.contains("the row [2] of public.posts was not taken into memory"), "{told}");
    assert!(told.contains("22012") && !told.contains("two"), "{told}");
    // It is not known whether the row is to be remembered, so it is not.
    run(
        &mut client,
        "UPDATE posts SET weight = 0 WHERE id = 1; UPDATE posts SET weight = 1 WHERE id = 2",
    );
    assert_eq!(contents(&mut client), ["two", "four"]);
    run(&mut client, "UPDATE posts SET id = id + 10");
    assert_eq!(contents(&mut client), ["two", "four"]);
    run(&mut client, "UPDATE posts SET weight = 5");
    assert_eq!(contents(&mut client), ["one", "two", "three", "four"]);
    run(&mut client, "UPDATE posts SET weight = 0 WHERE id = 11; DELETE FROM posts");
    assert_eq!(contents(&mut client), [""; 0]);
    assert_eq!(refused(&mut client).len(), 4, "each row once a statement");
    // A cancel is not the condition's.
    run(
        &mut client,
        "CREATE FUNCTION slow(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_catalog.pg_sleep(60); RETURN true; END $$",
    );
    attach(&mut client, "slow(weight)");
    run(&mut client, "SET statement_timeout = '100ms'");
    expect_error(client.batch_execute("INSERT INTO posts VALUES (1, 'one')"), "57014");
    run(&mut client, "RESET statement_timeout");
    assert_eq!(count(&mut client, "posts"), 0);
}

/// What the condition needs may be gone, or not for everybody.
#[test]
fn a_condition_without_its_function() {
    let mut client = posts("attach_condition_function");
    run(
        &mut client,
        "CREATE SCHEMA app; CREATE FUNCTION app.is_public(int) RETURNS boolean IMMUTABLE LANGUAGE sql \
             AS 'SELECT $1 OPERATOR(pg_catalog.>) 0'; SET search_path = app, public",
    );
    attach(&mut client, "is_public(weight)");
    let kept: String = value(&mut client, "SELECT condition FROM memory_agent.attachments", &[]);
    assert_eq!(kept, "app.is_public(weight)");
    run(&mut client, "RESET search_path; INSERT INTO posts VALUES (1, 'one', 1), (2, 'two', 0)");
    assert_eq!(contents(&mut client), ["one"]);
    // A writer without rights on the function: the owner of the table has them.
    run(
        &mut client,
        "CREATE ROLE condition_writer; GRANT INSERT ON posts TO condition_writer; SET ROLE condition_writer; \
         INSERT INTO posts VALUES (3, 'three', 1); RESET ROLE",
    );
    assert_eq!(contents(&mut client), ["one", "three"]);
    run(&mut client, "DROP FUNCTION app.is_public; INSERT INTO posts VALUES (4, 'four', 1)");
    assert_eq!((count(&mut client, "posts"), contents(&mut client).len()), (4, 2));
    assert!(refused(&mut client)[0].contains("42883"), "{:?}", refused(&mut client));
}

#[test]
fn a_condition_runs_as_who_writes() {
    let name = "attach_condition_writer";
    drop(posts(name));
    let (mut client, told) = with_warnings(cluster(), name);
    run(
        &mut client,
        "CREATE FUNCTION noted(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS \
             $$ BEGIN RAISE WARNING 'by %', current_user; RETURN true; END $$; \
         CREATE ROLE condition_clerk; GRANT ALL ON posts TO condition_clerk",
    );
    attach(&mut client, "noted(weight)");
    for statement in ["INSERT INTO posts VALUES (1, 'one')", "UPDATE posts SET body = 'uno'"] {
        told.lock().unwrap().clear();
        run(&mut client, &format!("SET ROLE condition_clerk; {statement}; RESET ROLE"));
        let told = told.lock().unwrap();
        assert!(!told.is_empty() && told.iter().all(|by| by == "by condition_clerk"), "{told:?}");
    }
    assert_eq!(contents(&mut client), ["uno"]);
}

#[test]
fn what_is_no_condition_is_refused() {
    let mut client = posts("attach_no_condition");
    run(&mut client, "CREATE SCHEMA other; CREATE TABLE other.secrets (id int)");
    for condition in [
        "",
        " ",
        "body",
        "1",
        "nothing IS NULL",
        "EXISTS (SELECT FROM other.secrets)",
        "(SELECT true)",
        "weight IN (SELECT id FROM other.secrets)",
        "count(*) > 0",
        "row_number() OVER () > 0",
        "generate_series(1, weight) > 0",
        "random() > 0.5",
        "deleted_at > now()",
        "current_user = body",
        "nextval('x') > 0",
        "posts IS NOT NULL",
        "posts.* IS NOT NULL",
        "ctid IS NOT NULL",
        "tableoid > 0",
        "secrets.id > 0",
        "$1",
        "DEFAULT",
        "true; DROP TABLE posts",
        "true) OR (true",
        "true FROM other.secrets",
        "true WHERE true",
        "true, true",
        "true AS x",
        "DISTINCT true",
        "true ORDER BY 1",
        "true LIMIT 1",
        "true UNION SELECT true",
        "true FOR UPDATE",
        "'x'::nothing IS NULL",
    ] {
        let attach = "SELECT memory_attach('posts', 'body', user_id => 'ann', condition => $1)";
        let message = expect_error(client.query(attach, &[&condition]), "22023");
        assert!(message.contains("condition: "), "{condition}: {message}");
    }
    assert_eq!(count(&mut client, "memory_agent.attachments"), 0);
    assert_eq!(count(&mut client, "pg_trigger WHERE tgname LIKE 'memory_agent%'"), 0);
    for condition in [
        "true",
        "NULL",
        "posts.deleted_at IS NULL -- kept",
        "body LIKE '%; DROP TABLE posts; --%' OR weight IS NULL",
        "lower(body) = ANY ('{a,b}') AND coalesce(weight, 0) BETWEEN 1 AND 5 OR deleted_at > '2020-01-01'",
    ] {
        attach(&mut client, condition);
        run(&mut client, "INSERT INTO posts VALUES (1, 'a'); DELETE FROM posts");
    }
    assert_eq!(refused(&mut client), [""; 0]);
}

#[test]
fn columns_of_a_condition_are_followed() {
    let mut client = posts("attach_condition_columns");
    attach(&mut client, "deleted_at IS NULL AND weight > 0");
    run(
        &mut client,
        "ALTER TABLE posts RENAME deleted_at TO weight_; ALTER TABLE posts RENAME weight TO deleted_at; \
         ALTER TABLE posts RENAME weight_ TO \"We\"\"ight\"; \
         INSERT INTO posts (id, body, deleted_at, \"We\"\"ight\") VALUES (1, 'one', 1, NULL), (2, 'two', 1, now()), \
             (3, 'three', 0, NULL)",
    );
    assert_eq!(contents(&mut client), ["one"]);
    // The worker's sweep stores the new names, which a dump takes along.
    run(
        &mut client,
        "ALTER TABLE posts RENAME TO articles; UPDATE articles SET deleted_at = 1 WHERE id = 3",
    );
    assert_eq!(contents(&mut client), ["one", "three"]);
    run(
        &mut client,
        "ALTER TABLE articles DROP \"We\"\"ight\"; INSERT INTO articles VALUES (4, 'four')",
    );
    assert_eq!((count(&mut client, "articles"), contents(&mut client).len()), (4, 2));
    let (state, detail) = status(&mut client);
    assert!(state == "broken" && detail.contains("is gone"), "{state}: {detail}");
    run(
        &mut client,
        "SELECT memory_attach('articles', 'body', user_id => 'ann'); DELETE FROM articles",
    );
    assert_eq!(contents(&mut client), [""; 0]);
}
