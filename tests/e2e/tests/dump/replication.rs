//! Logical replication of what was remembered: rows, embeddings and changes arrive, and the
//! subscriber recalls them with models of its own.

use crate::snapshot::{fill, recall};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::time::Duration;

/// Work and wiring of one server, which are never published. All other tables are.
const OF_ONE_SERVER: &str = "'jobs', 'llm_calls', 'attachments', 'grants', 'models'";

/// Each published table with a digest of its rows.
fn rows(client: &mut Client, tables: &[String]) -> Vec<String> {
    let digests: Vec<String> = tables
        .iter()
        .map(|table| {
            format!(
                "SELECT concat_ws(' ', '{table}', count(*), md5(string_agg(md5(t::text), '' ORDER BY t::text))) \
                   FROM {table} t"
            )
        })
        .collect();
    values(client, &digests.join(" UNION ALL "), &[])
}

#[test]
fn entries_are_replicated() {
    let publisher = Cluster::builder().setting("wal_level", "logical").start();
    let subscriber = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut source = publisher.database("db").connect();
    let mut target = subscriber.database("db").connect();
    fill(&mut source);
    let published: Vec<String> = values(
        &mut source,
        &format!(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'memory_agent'::regnamespace \
                AND relkind = 'r' AND relname NOT IN ({OF_ONE_SERVER})"
        ),
        &[],
    );
    run(&mut source, &format!("CREATE PUBLICATION memory FOR TABLE {}", published.join(", ")));
    let connection =
        format!("host={} user=postgres dbname=db", publisher.socket_directory().display());
    run(
        &mut target,
        &format!("CREATE SUBSCRIPTION memory CONNECTION '{connection}' PUBLICATION memory"),
    );
    wait_until(Duration::from_secs(60), "the first copy", || {
        rows(&mut target, &published) == rows(&mut source, &published)
    });
    assert_eq!(recall(&mut target), recall(&mut source));

    // Changes follow: a new turn with several windows, a fact that is superseded.
    run(
        &mut source,
        "SELECT memory_ingest('s9', 'user', repeat('Ann moved into a house by the lake. ', 150))",
    );
    run(&mut source, "SELECT memory_add('Ann lives in Oslo.', infer => false, fact_key => 'home')");
    wait_until(Duration::from_secs(60), "the changes", || {
        rows(&mut target, &published) == rows(&mut source, &published)
    });
    assert_eq!(recall(&mut target), recall(&mut source));
    // What is updated and deleted in place follows too: a session that is cleared, one that is purged.
    run(&mut source, "SELECT memory_clear('s9')");
    run(&mut source, "DELETE FROM memory_agent.entries WHERE session_id = 's2'");
    wait_until(Duration::from_secs(60), "the end of two sessions", || {
        rows(&mut target, &published) == rows(&mut source, &published)
    });
    let queued = "SELECT count(*) FROM memory_agent.jobs";
    assert_eq!(
        values::<i64>(&mut target, queued, &[]),
        [0],
        "the subscriber has no work of its own"
    );
    // A slot that nobody reads would keep the publisher's log for ever.
    run(&mut target, "DROP SUBSCRIPTION memory");
}
