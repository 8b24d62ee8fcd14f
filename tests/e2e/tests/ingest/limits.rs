//! Limits that belong to the server's owner, in a cluster of their own: default_ttl, max_entries.

use memory_agent_e2e::memory::{ingest, recall, run, value};
use memory_agent_e2e::{Client, Cluster};

fn jobs(client: &mut Client) -> i64 {
    value(client, "SELECT count(*) FROM memory_agent.jobs WHERE kind = 'evict'", &[])
}

#[test]
fn default_ttl_and_max_entries() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.default_ttl", "1h")
        .setting("memory_agent.max_entries", 3)
        .setting("memory_agent.worker", "off")
        .start();
    let mut client = cluster.database("limits").connect();

    for turn in 0..3 {
        ingest(&mut client, "s", &format!("turn {turn}"));
    }
    let ttl: String = value(
        &mut client,
        "SELECT string_agg(DISTINCT (expires_at - recorded_at)::text, ',') FROM memory_agent.entries",
        &[],
    );
    assert_eq!(ttl, "01:00:00");
    assert_eq!(jobs(&mut client), 0, "the window holds max_entries");

    for turn in 3..6 {
        ingest(&mut client, "s", &format!("turn {turn}"));
        assert_eq!(jobs(&mut client), 1, "one job, however many turns are too many");
    }
    let scope: String = value(
        &mut client,
        "SELECT concat_ws('/', user_id, agent_id, session_id, status) FROM memory_agent.jobs",
        &[],
    );
    assert_eq!(scope, "alice/default/s/pending");
    assert_eq!(
        recall(&mut client, "'turn', top_k => 10").len(),
        6,
        "leaving the window is not leaving memory"
    );

    // Facts of a session count too; global memory does not.
    for fact in ["Anna likes tea", "Bob owns a boat", "Carla speaks Greek", "Dora is a judge"] {
        run(&mut client, &format!("SELECT memory_add('{fact}', infer => false)"));
    }
    assert_eq!(jobs(&mut client), 1);
    ingest(&mut client, "t", "one");
    ingest(&mut client, "t", "two");
    run(
        &mut client,
        "SELECT memory_add('Anna likes tea', 't', infer => false);
         SELECT memory_add('Bob owns a boat', 't', infer => false)",
    );
    assert_eq!(jobs(&mut client), 2);
}

#[test]
fn max_entries_zero_is_no_limit() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.max_entries", 0).start();
    let mut client = cluster.database("no_limit").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    run(
        &mut client,
        "SELECT memory_ingest_batch(jsonb_agg(jsonb_build_object('role', 'user', 'content', 'turn ' || n)), 's') \
           FROM generate_series(1, 600) n",
    );
    assert_eq!(jobs(&mut client), 0);
}
