//! Through PgBouncer in transaction mode, as applications with many clients connect: the user is named in
//! each transaction, and nothing of a transaction is left on the connection for the next client.

use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Error, Pooler, keep, retry_until, sqlstate};
use postgres::SimpleQueryMessage;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// An application's role, with the level `user`.
const APP: &str = "pooled_app";

/// A server that insists on a user in every transaction.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<&'static Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster =
            Cluster::builder().preload(true).setting("memory_agent.identity", "required").start();
        run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {APP} LOGIN"));
        keep(cluster)
    })
}

/// A database with the extension in which the application has its level.
fn database(cluster: &Cluster, name: &str) {
    let mut superuser = cluster.plain_database(name);
    run(&mut superuser, "CREATE EXTENSION memory_agent CASCADE");
    run(&mut superuser, &format!("SELECT memory_grant('{APP}')"));
}

/// The first column of all rows of the statements, as text.
fn try_texts(client: &mut Client, statements: &str) -> Result<Vec<String>, Error> {
    let text = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    };
    Ok(client.simple_query(statements)?.iter().filter_map(text).collect())
}

#[track_caller]
fn texts(client: &mut Client, statements: &str) -> Vec<String> {
    try_texts(client, statements).unwrap_or_else(|error| panic!("{statements}: {error:?}"))
}

/// One transaction of `user`: a statement, whose first column is returned.
#[track_caller]
fn as_user(client: &mut Client, user: &str, statement: &str) -> Vec<String> {
    let transaction = format!(
        "BEGIN; SELECT set_config('memory_agent.user_id', '{user}', true); {statement}; COMMIT"
    );
    texts(client, &transaction).split_off(1)
}

#[test]
fn clients_that_share_a_connection_share_no_memory() {
    database(cluster(), "pooled_shared");
    let pooler = Pooler::start(cluster(), 1, &[APP]);
    let mut ann = pooler.connect("pooled_shared", APP);
    let mut bob = pooler.connect("pooled_shared", APP);
    let pid = "SELECT pg_backend_pid()";
    assert_eq!(texts(&mut ann, pid), texts(&mut bob, pid), "there is one connection");
    for n in 0..3 {
        for (client, user) in [(&mut ann, "ann"), (&mut bob, "bob")] {
            as_user(
                client,
                user,
                &format!("SELECT memory_ingest('s', 'user', 'Note {n} of {user}.')"),
            );
            let notes = as_user(
                client,
                user,
                "SELECT content FROM memory_recall('Which note?') ORDER BY 1",
            );
            let own: Vec<String> = (0..=n).map(|n| format!("Note {n} of {user}.")).collect();
            assert_eq!(notes, own);
            let direct =
                as_user(client, user, "SELECT content FROM memory_entries ORDER BY created_at");
            assert_eq!(direct, own);
            // Nobody is left as the user, neither after a commit nor after an error.
            let failed = try_texts(
                client,
                &format!("BEGIN; SET LOCAL memory_agent.user_id = '{user}'; SELECT 1/0"),
            );
            assert_eq!(sqlstate(&failed.unwrap_err()), "22012");
            texts(client, "ROLLBACK");
            for call in [
                "SELECT memory_recall('note')",
                "SELECT content FROM memory_entries",
                "SELECT memory_ingest('s', 'user', 'of nobody')",
            ] {
                let error = try_texts(client, call).expect_err(call);
                assert!(error.to_string().contains("db error"), "{error:?}");
                let message = error.as_db_error().unwrap().message().to_owned();
                assert!(message.contains("memory_agent.user_id is not set"), "{call}: {message}");
            }
        }
    }
}

/// What is queued in a pooled transaction is done after its COMMIT, and can be waited for.
#[test]
fn jobs_are_queued_woken_and_waited_for() {
    database(cluster(), "pooled_jobs");
    let pooler = Pooler::start(cluster(), 2, &[APP]);
    let mut client = pooler.connect("pooled_jobs", APP);
    for n in 0..5 {
        as_user(
            &mut client,
            "ann",
            &format!(
                "SET LOCAL memory_agent.embed_on_ingest = async; SELECT memory_ingest('s', 'user', 'Note {n}.')"
            ),
        );
    }
    // A batch without BEGIN is one transaction too; memory_wait needs one of its own.
    let waited = as_user(&mut client, "ann", "SELECT memory_wait('60 s')");
    assert_eq!(waited, ["t"]);
    let embedded = "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NOT NULL";
    assert_eq!(value::<i64>(&mut cluster().connect("pooled_jobs"), embedded, &[]), 5);
    let mode = as_user(&mut client, "ann", "SHOW memory_agent.embed_on_ingest");
    assert_eq!(mode, ["sync"], "SET LOCAL is over");
}

/// Twenty clients over three connections, each with a user of its own.
#[test]
fn many_clients_at_once() {
    const CLIENTS: usize = 20;
    const ROUNDS: usize = 4;
    database(cluster(), "pooled_many");
    let pooler = Pooler::start(cluster(), 3, &[APP]);
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            let pooler = &pooler;
            scope.spawn(move || {
                let user = format!("user{n}");
                let mut client = pooler.connect("pooled_many", APP);
                for round in 0..ROUNDS {
                    let secret = format!("The secret {round} of {user} is {}.", n * 7919);
                    as_user(
                        &mut client,
                        &user,
                        &format!("SELECT memory_ingest('s', 'user', '{secret}')"),
                    );
                    let found = as_user(
                        &mut client,
                        &user,
                        "SELECT content FROM memory_recall('secret', top_k => 50)",
                    );
                    assert_eq!(found.len(), round + 1, "{found:?}");
                    assert!(
                        found.iter().all(|text| text.contains(&format!("of {user} is"))),
                        "{found:?}"
                    );
                }
            });
        }
    });
    let mut superuser = cluster().connect("pooled_many");
    let rows = "SELECT count(*), count(DISTINCT user_id) FROM memory_agent.entries";
    let row = superuser.query_one(rows, &[]).unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        ((CLIENTS * ROUNDS) as i64, CLIENTS as i64)
    );
    let backends =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'pooled_many' AND usename = $1";
    assert!(
        value::<i64>(&mut superuser, backends, &[&APP]) <= 3,
        "the clients shared three connections"
    );
}

/// A client that gives up takes neither the connection nor its state from the next one.
#[test]
fn a_cancelled_call_leaves_the_connection_usable() {
    database(cluster(), "pooled_cancel");
    let pooler = Pooler::start(cluster(), 1, &[APP]);
    let mut client = pooler.connect("pooled_cancel", APP);
    let mut other = pooler.connect("pooled_cancel", APP);
    // A job that nobody finishes keeps memory_wait waiting.
    run(
        &mut cluster().connect("pooled_cancel"),
        "INSERT INTO memory_agent.jobs (id, kind, user_id, run_after) \
         VALUES (gen_random_uuid(), 'embed', 'ann', now() + interval '1 day')",
    );
    let start = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let wait =
                "BEGIN; SET LOCAL memory_agent.user_id = 'ann'; SELECT memory_wait('50 s'); COMMIT";
            let outcome = try_texts(&mut client, wait);
            // Until here the connection is this client's.
            texts(&mut client, "ROLLBACK");
            outcome
        });
        let mut superuser = cluster().connect("pooled_cancel");
        let busy = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%memory_wait%' AND state = 'active' \
                     AND datname = current_database() AND pid <> pg_backend_pid()";
        let pid =
            retry_until(PATIENCE, "the call", || values::<i32>(&mut superuser, busy, &[]).pop());
        // The next client already waits for the connection.
        let next = scope.spawn(|| {
            as_user(
                &mut other,
                "bob",
                "SELECT memory_ingest('s', 'user', 'The dog is called Rex.')",
            )
        });
        // By the server: PgBouncer 1.18 ends when a client does not wait for its cancel request, as this
        // client library does not.
        run(&mut superuser, &format!("SELECT pg_cancel_backend({pid})"));
        assert_eq!(next.join().expect("the next client").len(), 1);
        waiting.join().expect("the waiting client")
    });
    assert_eq!(sqlstate(&outcome.expect_err("cancelled")), "57014");
    assert!(start.elapsed() < Duration::from_secs(45), "it did not wait to the end");
    let dog = as_user(&mut client, "bob", "SELECT content FROM memory_recall('dog')");
    assert_eq!(dog, ["The dog is called Rex."]);
}

/// Without preload the first call on a connection loads the library; the user may be named before.
#[test]
fn without_preload() {
    let cluster = Cluster::builder().preload(false).start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {APP} LOGIN"));
    database(&cluster, "db");
    let pooler = Pooler::start(&cluster, 1, &[APP]);
    let mut ann = pooler.connect("db", APP);
    let mut bob = pooler.connect("db", APP);
    as_user(&mut ann, "ann", "SELECT memory_ingest('s', 'user', 'The dog is called Rex.')");
    as_user(&mut bob, "bob", "SELECT memory_ingest('s', 'user', 'The cat is called Tom.')");
    for (client, user, animal) in
        [(&mut ann, "ann", "The dog is called Rex."), (&mut bob, "bob", "The cat is called Tom.")]
    {
        assert_eq!(as_user(client, user, "SELECT content FROM memory_recall('animal')"), [animal]);
        assert_eq!(as_user(client, user, "SELECT content FROM memory_entries"), [animal]);
    }
}
