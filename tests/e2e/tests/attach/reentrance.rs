//! Random trees of calls: whatever PostgreSQL runs for a row of an attached table (casts, domains, defaults,
//! triggers, deferred ones, policies, generated columns, index expressions) calls memory again, which reads
//! such rows, and so on. Errors, time-outs, cancel requests and savepoints end them at any depth. No session
//! is lost by it, nothing of a call stays in the session, and none of that code runs as the extension's owner.
//!
//! Meant for a server that wipes freed memory, too: `make test-assert`. `MEMORY_AGENT_TEST_SEED` repeats the
//! statements, `MEMORY_AGENT_LOAD_SECONDS` says how long.

use crate::PATIENCE;
use crate::random::Random;
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, sqlstate, wait_until};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const WORLD: &str = include_str!("reentrance.sql");
const ROLES: [&str; 2] = ["nested_builder", "nested_writer"];
/// Trees that a busy machine has to see, too.
const LEAST_TREES: i64 = 4;
/// Statements of a tree.
const STEPS: u64 = 40;
/// Plans that a backend keeps.
const PLANS_KEPT: i64 = 96;

/// What a session has to be like again after each tree.
const SURROUNDINGS: &str = "SELECT concat_ws('|', current_user, session_user, \
        (SELECT string_agg(s.name || '=' || s.setting, ',' ORDER BY s.name) FROM pg_settings s \
          WHERE s.name LIKE 'enable_%' OR s.name LIKE 'memory_agent.%' \
             OR s.name IN ('search_path', 'row_security', 'jit', 'TimeZone', 'DateStyle', 'IntervalStyle', \
                           'bytea_output', 'extra_float_digits')))";

fn seconds() -> Duration {
    let seconds = std::env::var("MEMORY_AGENT_LOAD_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(15))
}

/// A cluster with the world of `reentrance.sql`; its worker stays out of it.
fn world(cluster: &Cluster) -> Client {
    let mut superuser = cluster.database("nested").connect();
    run(
        &mut superuser,
        "CREATE ROLE nested_builder LOGIN IN ROLE pg_read_all_stats; \
         CREATE ROLE nested_writer LOGIN IN ROLE pg_read_all_stats; \
         SELECT memory_grant('nested_builder', 'admin'), memory_grant('nested_writer', 'user'); \
         GRANT CREATE ON SCHEMA public TO nested_builder; \
         SELECT memory_ingest('one', 'user', 'The harbour of ' || n, markers => '{decision}') FROM generate_series(1, 3) n",
    );
    run(&mut cluster.connect_as("nested", "nested_builder"), WORLD);
    superuser
}

fn words(random: &mut Random) -> &'static str {
    ["the harbour", "a green train", "short", "", "two keys, one door"][random.below(5) as usize]
}

fn tag(random: &mut Random) -> &'static str {
    ["'x'", "'y'", "NULL"][random.below(3) as usize]
}

/// A statement that writes an attached table.
fn write(random: &mut Random) -> String {
    let id = random.below(8);
    let text = words(random);
    let (tag, other) = (tag(random), tag(random));
    let rows = 1 + random.below(4);
    match random.below(14) {
        0 | 1 => format!(
            "INSERT INTO papers (id, body, tag, pair) SELECT i, '{text}', {tag}::tag, ({other}, '{text}')::pair \
               FROM generate_series({id}, {id} + {rows}) i ON CONFLICT (id) DO UPDATE SET body = excluded.body || '!'"
        ),
        2 => format!("INSERT INTO papers (id, tag) VALUES ({id}, {tag}) ON CONFLICT DO NOTHING"),
        3 => format!("UPDATE papers SET body = '{text}', tag = {tag} WHERE id <= {id}"),
        4 => format!("UPDATE papers SET id = id + 1 WHERE id = {id}"),
        5 => format!("DELETE FROM papers WHERE id = {id}"),
        6 | 7 => format!(
            "INSERT INTO swaps (id, pair, tag) SELECT i, ({other}, '{text}')::pair, {tag}::tag \
               FROM generate_series({id}, {id} + {rows}) i"
        ),
        8 => format!("UPDATE swaps SET id = 9 - id, tag = {tag}"),
        9 => format!("DELETE FROM swaps WHERE id >= {id}"),
        10 | 11 => format!(
            "INSERT INTO parts SELECT {tag}::tag, p.id, {other}::tag FROM papers p ON CONFLICT DO NOTHING"
        ),
        12 => format!("UPDATE parts SET region = {tag}, body = {other}"),
        _ => "TRUNCATE parts_x".to_owned(),
    }
}

/// A statement that asks or changes memory, or makes trouble.
fn step(random: &mut Random) -> String {
    let text = words(random);
    let entry = "(SELECT id FROM memory_entries ORDER BY random() LIMIT 1)";
    match random.below(34) {
        0..=8 => write(random),
        9..=12 => format!("SELECT storm({}, {})", random.below(128), random.below(100)),
        13 => "SELECT storm(0, 127)".to_owned(),
        14 | 15 => format!("SELECT count(*) FROM memory_recall('{text}', rerank => false)"),
        16 => format!("SELECT memory_explain('harbour', token_budget => {})", random.below(99)),
        17 => format!("SELECT memory_context('one', '{text}')"),
        18 => format!("SELECT memory_ingest('one', 'user', '{text} {}')", random.below(9)),
        19 => format!("SELECT memory_add('{text}', infer => false, fact_key => 'k')"),
        20 => format!("SELECT memory_update({entry}, '{text}')"),
        21 => format!("SELECT memory_forget({entry}), memory_restore({entry})"),
        22 => format!("SELECT memory_history({entry}), memory_verify_history()"),
        23 => "SELECT memory_status(), memory_stats(), memory_list_documents()".to_owned(),
        24 => "SELECT memory_export_markdown('one'), memory_load('one')".to_owned(),
        25 => format!("SELECT memory_add_document('{text} {}', title => 'd')", random.below(9)),
        26 => "SELECT memory_configure(session_id => 'one', settings => '{\"memory_agent.default_top_k\": 3}')".to_owned(),
        27 => "SELECT memory_embed('harbour'), memory_rerank('harbour', '{a,b}')".to_owned(),
        28 => "SELECT memory_attach('papers', 'body', user_id_column => 'owner', backfill => false)".to_owned(),
        29 => "DISCARD PLANS".to_owned(),
        30 => format!(
            "SELECT disturb('{}')",
            ["CLOSE", "FETCH ALL FROM", "MOVE FROM", "FETCH FROM"][random.below(4) as usize]
        ),
        31 => "CLOSE ALL".to_owned(),
        32 => "SELECT set_config('search_path', 'nowhere', true), set_config('DateStyle', 'German', true), \
                      set_config('memory_agent.user_id', 'mallory', true), set_config('row_security', 'on', true)"
            .to_owned(),
        _ => [
            "SELECT 1 / 0",
            "SELECT nothing()",
            "SELECT memory_recall(NULL)",
            "SELECT pg_sleep(0.01)",
            "SELECT fall()",
        ][random.below(5) as usize]
            .to_owned(),
    }
}

/// A transaction that begins a tree.
fn transaction(random: &mut Random) -> Vec<String> {
    let mut statements = vec!["BEGIN".to_owned()];
    // As deep as the stack is, now and then.
    let limit = if random.below(8) == 0 { 500 } else { 2 + random.below(5) };
    statements.push(format!("SET LOCAL nested.deepest = {limit}"));
    if random.below(3) == 0 {
        statements.push(format!("SET LOCAL statement_timeout = {}", 1 + random.below(400)));
    }
    for _ in 0..=random.below(3) {
        match random.below(4) {
            0 => statements.extend(["SAVEPOINT a".into(), write(random), "ROLLBACK TO a".into()]),
            1 => statements.extend(["SAVEPOINT a".into(), write(random), "RELEASE a".into()]),
            _ => statements.push(write(random)),
        }
    }
    if random.below(3) == 0 {
        statements.push("SET CONSTRAINTS ALL IMMEDIATE".into());
    }
    statements.push(if random.below(4) == 0 { "ROLLBACK" } else { "COMMIT" }.into());
    statements
}

/// Puts the steps of the next tree where code of others finds them.
fn prepare(superuser: &mut Client, random: &mut Random) {
    let steps: Vec<String> = (0..STEPS).map(|_| step(random)).collect();
    let caught: Vec<bool> = steps.iter().map(|_| random.below(4) > 0).collect();
    superuser.batch_execute("DELETE FROM script").expect("no steps");
    superuser
        .execute(
            "INSERT INTO script SELECT n, s, c FROM unnest($1::text[], $2::bool[]) WITH ORDINALITY u(s, c, n)",
            &[&steps, &caught],
        )
        .expect("steps");
    run(superuser, "SELECT setval('steps', 1, false)");
}

/// Sends a cancel request when it is told to and so much later; ends when nobody can tell it any more.
fn canceller(client: &Client) -> mpsc::Sender<Duration> {
    let token = client.cancel_token();
    let (sender, inbox) = mpsc::channel::<Duration>();
    std::thread::spawn(move || {
        for delay in inbox {
            std::thread::sleep(delay);
            // The session may be gone, which its own statement tells.
            let _ = token.cancel_query(postgres::NoTls);
        }
    });
    sender
}

/// Runs statements until one fails; the SQLSTATE of that one. A transaction it leaves is rolled back.
fn run_all(client: &mut Client, statements: &[String]) -> Option<String> {
    for statement in statements {
        if let Err(error) = client.batch_execute(statement) {
            assert!(error.code().is_some(), "the session was lost in {statement}: {error:?}");
            let state = sqlstate(&error).to_owned();
            assert!(state != "XX000", "{statement}: {error:?}");
            settled(client, "ROLLBACK");
            return Some(state);
        }
    }
    None
}

/// Runs a statement that a late cancel request may meet.
fn settled(client: &mut Client, statement: &str) {
    wait_until(PATIENCE, "a statement that is not cancelled", || {
        match client.batch_execute(statement) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(sqlstate(&error), "57014", "{statement}: {error:?}");
                false
            }
        }
    });
}

/// One text that a query of a session returns, whatever cancel request is under way.
fn asked(client: &mut Client, query: &str) -> String {
    for _ in 0..100 {
        match client.query_one(query, &[]) {
            Ok(row) => return row.get(0),
            Err(error) => assert_eq!(sqlstate(&error), "57014", "{query}: {error:?}"),
        }
    }
    panic!("always cancelled: {query}");
}

#[test]
fn random_trees_of_calls() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("max_stack_depth", "500kB")
        .start();
    let mut superuser = world(&cluster);
    let mut random = Random::seeded("trees of calls");
    let mut sessions: Vec<Client> =
        ROLES.iter().map(|role| cluster.connect_as("nested", role)).collect();
    for session in &mut sessions {
        run(session, "SET memory_agent.user_id = 'alice'");
    }
    let before: Vec<String> =
        sessions.iter_mut().map(|session| asked(session, SURROUNDINGS)).collect();
    let cancellers: Vec<_> = sessions.iter().map(canceller).collect();
    let (start, mut trees, mut visited, mut states) = (Instant::now(), 0, 0, BTreeSet::new());
    while start.elapsed() < seconds() || trees < LEAST_TREES {
        prepare(&mut superuser, &mut random);
        let which = random.below(2) as usize;
        let statements = transaction(&mut random);
        if random.below(4) == 0 {
            let delay = random.time_below(Duration::from_millis(500));
            cancellers[which].send(delay).expect("a canceller");
        }
        let session = &mut sessions[which];
        states.extend(run_all(session, &statements));
        assert_eq!(asked(session, SURROUNDINGS), before[which], "after {statements:#?}");
        let plans = "SELECT count(*)::text FROM pg_backend_memory_contexts \
                      WHERE name = 'CachedPlanSource' AND ident LIKE '%memory_agent.%'";
        let plans: i64 = asked(session, plans).parse().expect("a number");
        assert!(plans <= PLANS_KEPT, "{plans} plans are kept after {statements:#?}");
        trees += 1;
        visited += value::<i64>(&mut superuser, "SELECT last_value FROM steps", &[]);
    }
    println!("{trees} trees, {visited} steps, ended by {states:?}");
    assert!(visited > trees, "{trees} trees of {visited} steps");
    let log = cluster.log();
    for sign in [
        "code of others runs as",
        "a step failed: XX000",
        "TRAP:",
        "terminated by signal",
        " leak: ",
        "SPI stack",
        "invalid SPITupleTable",
    ] {
        let line = log.lines().find(|line| line.contains(sign));
        assert_eq!(line, None, "in the server's log");
    }
}
