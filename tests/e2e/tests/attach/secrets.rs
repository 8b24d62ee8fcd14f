//! A primary key may be somebody's address. Jobs tell it to the user who wrote the row and to the user whose
//! memory it is meant for, and to no other.

use crate::PATIENCE;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, retry_until, shared};

/// People with a type whose cast quotes a row when it fails.
const PEOPLE: &str = "
    CREATE TYPE mood AS ENUM ('well', 'unwell');
    CREATE FUNCTION tell(mood) RETURNS json LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'eve@example.org is %', $1; END $$;
    CREATE CAST (mood AS json) WITH FUNCTION tell(mood);
    CREATE TABLE people (address text PRIMARY KEY, body text, owner text, mood mood);
    INSERT INTO people VALUES ('ann@example.org', 'Ann skis.', 'ann', NULL),
                              ('bob@example.org', repeat('Bob talks. ', 200000), 'bob', NULL),
                              ('*@example.org', 'Nobody''s.', '*', NULL)";

fn people(name: &str) -> Client {
    let mut client = shared().database(name).connect();
    run(&mut client, PEOPLE);
    client
}

/// All that a session can see of jobs and of the worker.
fn told(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT j::text FROM memory_jobs j UNION ALL SELECT s::text FROM memory_status() s",
        &[],
    )
}

/// What a role sees that says it is this user.
fn told_to(role: &str, database: &str, user: &str) -> Vec<String> {
    let mut client = shared().connect_as(database, role);
    run(&mut client, &format!("SET memory_agent.user_id = '{user}'"));
    expect_error(client.query("SELECT payload FROM memory_agent.jobs", &[]), "42501");
    told(&mut client)
}

#[test]
fn an_error_that_quotes_a_row() {
    let mut client = people("attach_quoted");
    run(
        &mut client,
        "CREATE ROLE attach_quoted_reader LOGIN; SELECT memory_grant('attach_quoted_reader', 'reader'); \
         UPDATE people SET mood = 'unwell' WHERE owner = 'ann'; \
         SELECT memory_attach('people', 'body', user_id_column => 'owner', metadata_columns => '{mood}')",
    );
    let error: String = retry_until(PATIENCE, "the job to fail", || {
        value(&mut client, "SELECT max(last_error) FROM memory_jobs WHERE kind = 'attach'", &[])
    });
    assert!(error.contains("P0001") && !error.contains("eve"), "{error}");
    let seen =
        [told(&mut client), told_to("attach_quoted_reader", "attach_quoted", "alice")].concat();
    assert!(!seen.iter().any(|line| line.contains("eve@")), "{seen:?}");
    assert!(shared().log().contains("eve@example.org is unwell"), "the log has it");
}

#[test]
fn rows_that_are_refused_while_a_table_is_taken_in() {
    let mut client = people("attach_refused_keys");
    run(
        &mut client,
        "CREATE ROLE attach_refused_reader LOGIN; SELECT memory_grant('attach_refused_reader', 'reader'); \
         SELECT memory_attach('people', 'body', user_id_column => 'owner')",
    );
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    let dead = "SELECT count(*) FROM memory_jobs WHERE kind = 'attach' AND status = 'dead'";
    assert_eq!(value::<i64>(&mut client, dead, &[]), 2);
    for (user, sees) in [("alice", 1), ("bob", 1), ("ann", 0), ("carol", 0)] {
        let seen = told_to("attach_refused_reader", "attach_refused_keys", user);
        let refused = seen.iter().filter(|line| line.contains("not taken into memory")).count();
        assert_eq!(refused, sees, "{user}: {seen:?}");
        let keys: Vec<_> = seen.iter().filter(|line| line.contains("@example.org")).collect();
        // Bob is told of his row; alice, who attached the table, that there is one of nobody.
        assert_eq!(keys.len(), usize::from(user == "bob"), "{user}: {keys:?}");
    }
}

/// Rows for everybody are no reason to show everybody how far their table was read.
#[test]
fn a_table_for_everybody() {
    let mut client = people("attach_everybody");
    run(
        &mut client,
        "CREATE ROLE attach_everybody_reader LOGIN; SELECT memory_grant('attach_everybody_reader', 'reader'); \
         SELECT memory_attach('people', 'body', user_id => '*')",
    );
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    let seen = told_to("attach_everybody_reader", "attach_everybody", "carol");
    assert!(!seen.iter().any(|line| line.contains(",attach,")), "{seen:?}");
}
