//! Logical replication of what was remembered: rows, embeddings and changes arrive, and the
//! subscriber recalls them with models of its own.

use crate::snapshot::{fill, recall};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::time::Duration;

/// What may be published; never jobs, calls of models or attachments, which belong to one server.
const PUBLISHED: &str = "memory_agent.sessions, memory_agent.entries, memory_agent.entry_windows, \
                         memory_agent.episodes, memory_agent.session_summaries, memory_agent.history";

/// A digest of the entries and their windows.
fn rows(client: &mut Client) -> Vec<Option<String>> {
    let digests = "SELECT md5(string_agg(md5(e::text), '' ORDER BY e::text)) FROM memory_agent.entries e \
                    UNION ALL \
                   SELECT md5(string_agg(md5(w::text), '' ORDER BY w::text)) FROM memory_agent.entry_windows w";
    values(client, digests, &[])
}

#[test]
fn entries_are_replicated() {
    let publisher = Cluster::builder().setting("wal_level", "logical").start();
    let subscriber = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut source = publisher.database("db").connect();
    let mut target = subscriber.database("db").connect();
    fill(&mut source);
    run(&mut source, &format!("CREATE PUBLICATION memory FOR TABLE {PUBLISHED}"));
    let connection =
        format!("host={} user=postgres dbname=db", publisher.socket_directory().display());
    run(
        &mut target,
        &format!("CREATE SUBSCRIPTION memory CONNECTION '{connection}' PUBLICATION memory"),
    );
    wait_until(Duration::from_secs(60), "the first copy", || {
        rows(&mut target) == rows(&mut source)
    });
    assert_eq!(recall(&mut target), recall(&mut source));

    // Changes follow: a new turn with several windows, a fact that is superseded.
    run(
        &mut source,
        "SELECT memory_ingest('s9', 'user', repeat('Ann moved into a house by the lake. ', 150))",
    );
    run(&mut source, "SELECT memory_add('Ann lives in Oslo.', infer => false, fact_key => 'home')");
    wait_until(Duration::from_secs(60), "the changes", || rows(&mut target) == rows(&mut source));
    assert_eq!(recall(&mut target), recall(&mut source));
    // A slot that nobody reads would keep the publisher's log for ever.
    run(&mut target, "DROP SUBSCRIPTION memory");
}
