//! Quotas of users: what counts, what is refused, and what goes on all the same. Those of tokens are in the suite
//! `worker`, those of a gateway's users in `gateway`, what the page shows in `page`.

use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{
    Client, Json, Uuid, expect_error, json, retry_until, shared, shared_without_worker, sqlstate,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);
/// What is refused over a quota.
const OVER: &str = "53400";

/// A session as `alice`, whose quota is as the arguments say.
fn alice(name: &'static str, quota: &str) -> Client {
    let mut client = shared_without_worker().database(name).connect();
    run(&mut client, &format!("SELECT memory_set_quota('alice', {quota})"));
    client
}

/// What a user has of something, and the quota.
fn usage(client: &mut Client, resource: &str) -> (i64, Option<i64>) {
    let sql = "SELECT u.used, u.quota FROM memory_usage() u WHERE u.resource = $1";
    let row = client.query_one(sql, &[&resource]).expect("a row of memory_usage");
    (row.get(0), row.get(1))
}

fn refused(client: &mut Client, statement: &str) -> String {
    expect_error(client.simple_query(statement), OVER)
}

fn turns(from: usize, to: usize) -> Json {
    let turn = |number: usize| json!({"role": "user", "content": format!("Sentence {number}.")});
    Json::from((from..to).map(turn).collect::<Vec<_>>())
}

fn ingest_batch(
    client: &mut Client,
    from: usize,
    to: usize,
) -> Result<u64, memory_agent_e2e::Error> {
    client.execute("SELECT memory_ingest_batch($1, 's')", &[&turns(from, to)])
}

#[test]
fn by_default_there_is_none() {
    let mut client = shared_without_worker().database("quotas_default").connect();

    ingest(&mut client, "s", "four");
    for (resource, used) in [("entries", 1), ("bytes", 4), ("daily_tokens", 0)] {
        assert_eq!(usage(&mut client, resource), (used, None), "{resource}");
    }
    let quotas: i64 = value(&mut client, "SELECT count(*) FROM memory_list_quotas()", &[]);
    let counts: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.quota_counts", &[]);
    let status: i64 =
        value(&mut client, "SELECT count(*) FROM memory_status() WHERE component = 'quotas'", &[]);
    assert_eq!((quotas, counts, status), (0, 0, 0), "nothing is counted");
}

/// On every way into memory.
#[test]
fn what_is_over_the_quota_is_refused() {
    let mut client = alice("quotas_ways", "entries => 3");
    let turn = ingest(&mut client, "s", "A turn.");
    run(&mut client, "SELECT memory_add('A fact.', infer => false, fact_key => 'k')");
    // All or nothing.
    refused(
        &mut client,
        "SELECT memory_ingest_batch('[{\"role\": \"user\", \"content\": \"b\"}, \
                                      {\"role\": \"user\", \"content\": \"c\"}]', 's')",
    );
    assert_eq!(usage(&mut client, "entries"), (2, Some(3)));
    run(&mut client, "SELECT memory_add_document('A document.')");
    let ways = [
        "SELECT memory_ingest('s', 'user', 'One more.')",
        "SELECT memory_ingest_once('s', 'user', 'One more.')",
        "SELECT memory_add('One more.', infer => false)",
        "SELECT memory_add_document('One more.')",
        "SELECT memory_import_json('{\"role\": \"user\", \"content\": \"One more.\"}')",
        // With an id that is older than what was counted.
        "SELECT memory_import_markdown('', E'---\\nid: 00000000-0000-7000-8000-000000000001\\nrole: user\\n---\\nx')",
    ];
    for way in ways {
        let message = refused(&mut client, way);
        assert!(message.contains("quota of 3 entries"), "{way}: {message}");
    }
    let hint = client.simple_query(ways[0]).expect_err("over the quota");
    let hint = hint.as_db_error().and_then(|error| error.hint()).unwrap_or_default();
    assert!(hint.contains("memory_set_quota"), "{hint}");

    // What takes the place of something is not one more, and reading is as before.
    run(&mut client, "SELECT memory_add('Another fact.', infer => false, fact_key => 'k')");
    let update = "SELECT memory_update($1, 'A turn with another, longer text.')";
    let turn: Uuid = value(&mut client, update, &[&turn]);
    let once = "SELECT id FROM memory_ingest_once('s', 'assistant', 'Said anew.', replaces => ARRAY[$1::uuid])";
    let turn: Uuid = value(&mut client, once, &[&turn]);
    assert_eq!(usage(&mut client, "entries"), (3, Some(3)));
    assert!(value::<i64>(&mut client, "SELECT count(*) FROM memory_recall('fact')", &[]) > 0);

    // What is forgotten makes room, which it does not have when it comes back.
    value::<bool>(&mut client, "SELECT memory_forget($1)", &[&turn]);
    ingest(&mut client, "s", "In its place.");
    let back = client.execute("SELECT memory_restore($1)", &[&turn]);
    expect_error(back, OVER);
    run(&mut client, "SELECT memory_clear('s')");
    assert_eq!(usage(&mut client, "entries"), (2, Some(3)));
    value::<bool>(&mut client, "SELECT memory_restore($1)", &[&turn]);
    refused(&mut client, ways[0]);
    run(&mut client, "SELECT memory_erase('alice')");
    assert_eq!(usage(&mut client, "entries"), (0, Some(3)), "the quota is not the user's to erase");
    let counts: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.quota_counts", &[]);
    assert_eq!(counts, 0);
    for way in [ways[0], ways[2], ways[3]] {
        run(&mut client, way);
    }
    refused(&mut client, ways[4]);
}

#[test]
fn bytes_are_those_of_contents() {
    let mut client = alice("quotas_bytes", "bytes => 20");
    let first = ingest(&mut client, "s", "ten bytes.");
    ingest(&mut client, "s", "eight by");
    let message = refused(&mut client, "SELECT memory_ingest('s', 'user', 'three')");
    assert!(message.contains("quota of 20 bytes"), "{message}");
    expect_error(client.execute("SELECT memory_update($1, 'thirteen byte')", &[&first]), OVER);
    let shorter: Uuid = value(&mut client, "SELECT memory_update($1, 'five!')", &[&first]);
    assert_eq!(usage(&mut client, "bytes"), (13, Some(20)));
    value::<Uuid>(&mut client, "SELECT memory_update($1, 'twelve bytes')", &[&shorter]);
    assert_eq!(usage(&mut client, "bytes"), (20, Some(20)));
    refused(&mut client, "SELECT memory_ingest('s', 'user', 'x')");
}

/// The chunks of an archived conversation repeat its turns.
#[test]
fn archived_conversations_count_for_nothing() {
    let mut client = alice("quotas_archive", "entries => 2");
    ingest(&mut client, "s", "I keep bees.");
    ingest(&mut client, "s", "Twelve hives of them.");
    run(&mut client, "SELECT memory_archive('s')");
    let chunks = "SELECT count(*) FROM memory_agent.entries WHERE kind = 'document'";
    assert!(value::<i64>(&mut client, chunks, &[]) > 0);
    assert_eq!(usage(&mut client, "entries"), (2, Some(2)));
}

#[test]
fn each_limit_is_the_users_own_or_that_of_all() {
    let mut client = alice("quotas_all", "bytes => 1000");
    run(&mut client, "SELECT memory_set_quota('*', entries => 1, bytes => 10, daily_tokens => 7)");
    let mine = |client: &mut Client| {
        ["entries", "bytes", "daily_tokens"].map(|resource| usage(client, resource).1)
    };
    assert_eq!(mine(&mut client), [Some(1), Some(1000), Some(7)]);
    ingest(&mut client, "s", "More than ten bytes.");
    refused(&mut client, "SELECT memory_ingest('s', 'user', 'b')");
    run(&mut client, "SELECT memory_ingest('s', 'user', 'a', user_id => 'bob')");
    refused(&mut client, "SELECT memory_ingest('s', 'user', 'b', user_id => 'bob')");
    // Shared memory is nobody's.
    for text in ["a", "b"] {
        let add = format!("SELECT memory_add('{text}', user_id => '*', infer => false)");
        run(&mut client, &add);
    }
    run(&mut client, "SELECT memory_set_quota('alice', entries => 0, bytes => 2000)");
    assert_eq!(mine(&mut client), [None, Some(2000), Some(7)]);
    ingest(&mut client, "s", "One more.");
    let listed: Vec<String> =
        values(&mut client, "SELECT q::text FROM memory_list_quotas() q ORDER BY user_id", &[]);
    assert_eq!(listed, ["(*,1,10,7)", "(alice,0,2000,)"]);
    // A user who has more keeps it.
    run(&mut client, "SELECT memory_set_quota('alice')");
    assert_eq!(usage(&mut client, "entries"), (2, Some(1)));
    refused(&mut client, "SELECT memory_ingest('s', 'user', 'b')");
    for wrong in ["NULL, 1", "'', 1", "'alice', -1", "'alice', daily_tokens => -1"] {
        let statement = format!("SELECT memory_set_quota({wrong})");
        expect_error(client.simple_query(&statement), "22023");
    }
}

/// No user sets a quota, and nobody's usage is another one's business.
#[test]
fn users_see_their_own_and_set_none() {
    let mut admin = alice("quotas_users", "entries => 5");
    run(&mut admin, "CREATE ROLE quotas_user LOGIN; SELECT memory_grant('quotas_user', 'user')");
    let mut user = shared_without_worker().connect_as("quotas_users", "quotas_user");
    run(&mut user, "SET memory_agent.user_id = 'alice'");
    assert_eq!(usage(&mut user, "entries"), (0, Some(5)));
    for statement in [
        "SELECT memory_set_quota('alice', 1000)",
        "SELECT memory_list_quotas()",
        "SELECT memory_usage('bob')",
        "UPDATE memory_agent.quotas SET entries = NULL",
        "DELETE FROM memory_agent.quota_counts",
    ] {
        expect_error(user.simple_query(statement), "42501");
    }
}

/// Sessions of a user store at the same time, and may exceed the quota by what was under way.
#[test]
fn two_sessions_of_a_user_do_not_wait_for_each_other() {
    let mut first = alice("quotas_sessions", "entries => 3");
    let mut second = shared_without_worker().connect_as("quotas_sessions", "postgres");
    run(&mut second, "SET memory_agent.user_id = 'alice'; SET lock_timeout = '5s'");
    ingest(&mut first, "one", "a");
    ingest(&mut second, "two", "b");
    run(&mut first, "BEGIN");
    ingest(&mut first, "one", "c");
    ingest(&mut second, "two", "d");
    run(&mut first, "COMMIT");
    assert_eq!(usage(&mut first, "entries"), (4, Some(3)));
    refused(&mut first, "SELECT memory_ingest('one', 'user', 'e')");
    refused(&mut second, "SELECT memory_ingest('two', 'user', 'f')");
}

/// Counts are made again after a thousand rows, and what is forgotten meanwhile makes room at once.
#[test]
fn a_large_memory_is_counted_now_and_then() {
    let mut client = alice("quotas_large", "entries => 2500");
    run(&mut client, "SET memory_agent.embed_on_ingest = 'off'");
    for from in (0..2400).step_by(400) {
        ingest_batch(&mut client, from, from + 400).expect("room for it");
    }
    let error = ingest_batch(&mut client, 2400, 2600).expect_err("no room for it");
    assert_eq!(sqlstate(&error), OVER);
    ingest_batch(&mut client, 2400, 2500).expect("room for it");
    refused(&mut client, "SELECT memory_ingest('s', 'user', 'One more.')");
    let counts = "SELECT count(*) FROM memory_agent.quota_counts";
    let made: i64 = value(&mut client, counts, &[]);
    assert!((2..=6).contains(&made), "{made} counts");
    let forget = "SELECT memory_forget(e.id) FROM memory_agent.entries e ORDER BY e.id LIMIT 1";
    assert!(value::<bool>(&mut client, forget, &[]));
    ingest(&mut client, "s", "In its place.");
}

#[test]
fn memory_status_says_how_many_are_near() {
    let mut client = alice("quotas_status", "entries => 10");
    let expect = |client: &mut Client, state: &str, near: i64| {
        let sql =
            "SELECT concat(state, ': ', detail) FROM memory_status() WHERE component = 'quotas'";
        let told: String = value(client, sql, &[]);
        let detail = format!("when they last stored something: {near};");
        assert!(told.starts_with(state) && told.contains(&detail), "{told}");
        assert!(!told.contains("alice"), "{told}");
    };
    ingest_batch(&mut client, 0, 8).expect("room for it");
    expect(&mut client, "in use: ", 0);
    ingest_batch(&mut client, 8, 9).expect("room for it");
    expect(&mut client, "nearly used up: ", 1);
    run(&mut client, "SELECT memory_set_quota('alice', entries => 100)");
    expect(&mut client, "in use: ", 0);
}

/// The statement of the application goes on.
#[test]
fn a_row_over_the_quota_is_a_dead_job() {
    let mut client = shared().database("quotas_attached").connect();
    run(
        &mut client,
        "\
         CREATE TABLE notes (id int PRIMARY KEY, body text NOT NULL, who text NOT NULL); \
         SELECT memory_attach('notes', 'body', user_id_column => 'who'); \
         SELECT memory_set_quota('alice', entries => 2)",
    );
    // The job that the attachment queues would find rows over the quota, too.
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    run(
        &mut client,
        "INSERT INTO notes SELECT n, 'Note ' || n, 'alice' FROM generate_series(1, 4) n",
    );
    run(&mut client, "INSERT INTO notes VALUES (5, 'Of another one.', 'bob')");
    let kept = "SELECT array_agg(source_key::text ORDER BY source_key)::text FROM memory_agent.entries WHERE state = 'active'";
    assert_eq!(value::<String>(&mut client, kept, &[]), "{[1],[2],[5]}");
    let dead =
        "SELECT j.user_id || ': ' || j.last_error FROM memory_jobs j WHERE j.status = 'dead'";
    let told: Vec<String> = values(&mut client, dead, &[]);
    let [told] = &told[..] else { panic!("one job: {told:?}") };
    assert!(told.starts_with("alice: ") && told.contains("quota of 2 entries"), "{told}");
    // A row with an entry takes no more room; one that goes makes some.
    run(&mut client, "UPDATE notes SET body = 'Another text' WHERE id = 1");
    run(&mut client, "DELETE FROM notes WHERE id = 2");
    assert_eq!(usage(&mut client, "entries"), (1, Some(2)));
    // The worker reads them again, and refuses what is still too much.
    run(&mut client, "SELECT memory_set_quota('alice', entries => 3)");
    run(&mut client, "SELECT memory_retry(id) FROM memory_jobs WHERE status = 'dead'");
    retry_until(PATIENCE, "the rows", || {
        let all: String = value(&mut client, kept, &[]);
        (all == "{[1],[3],[4],[5]}").then_some(())
    });
    run(&mut client, "SELECT memory_set_quota('*', entries => 1)");
    run(&mut client, "INSERT INTO notes VALUES (6, 'One too many.', 'bob')");
    assert_eq!(value::<String>(&mut client, kept, &[]), "{[1],[3],[4],[5]}");
}

/// Counts are those of a moment: a sweep deletes all but the last.
#[test]
fn a_sweep_keeps_the_last_count() {
    let mut client = shared().database("quotas_sweep").connect();
    run(&mut client, "SELECT memory_set_quota('alice', 100)");
    run(
        &mut client,
        "INSERT INTO memory_agent.quota_counts (user_id, id, entries, bytes) \
         SELECT 'alice', gen_random_uuid(), n, n FROM generate_series(1, 20) n; \
         INSERT INTO memory_agent.quota_counts (user_id, id, entries, bytes, counted_at) \
         VALUES ('bob', gen_random_uuid(), 1, 1, now() - interval '8 days')",
    );
    ingest(&mut client, "s", "Wakes the worker.");
    retry_until(PATIENCE, "one count", || {
        let sql = "SELECT count(*) FROM memory_agent.quota_counts";
        (value::<i64>(&mut client, sql, &[]) == 1).then_some(())
    });
}
