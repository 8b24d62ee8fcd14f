//! How many workers there are, and whether there are any.

use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn workers(client: &mut Client) -> i64 {
    value(
        client,
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'memory_agent worker'",
        &[],
    )
}

fn jobs(client: &mut Client, status: &str) -> i64 {
    value(client, "SELECT count(*) FROM memory_jobs WHERE status = $1", &[&status])
}

#[test]
fn worker_and_job_workers() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.job_workers", 2)
        .start();
    let mut client = cluster.database("worker").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    ingest(&mut client, "s", "one");
    assert!(!value::<bool>(&mut client, "SELECT memory_wait('500 ms')", &[]));
    assert_eq!((workers(&mut client), jobs(&mut client, "pending")), (0, 1));

    cluster.alter_system("memory_agent.worker", Some("on"));
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    wait_until(PATIENCE, "two workers", || workers(&mut client) == 2);
    cluster.alter_system("memory_agent.job_workers", Some("1"));
    wait_until(PATIENCE, "one worker", || workers(&mut client) == 1);
    cluster.alter_system("memory_agent.worker", Some("off"));
    wait_until(PATIENCE, "no worker", || workers(&mut client) == 0);
    ingest(&mut client, "s", "two");
    assert!(!value::<bool>(&mut client, "SELECT memory_wait('500 ms')", &[]));
    assert_eq!((jobs(&mut client, "done"), jobs(&mut client, "pending")), (1, 1));
}

/// With more databases than places, each gets its turn.
#[test]
fn max_workers() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.max_workers", 1).start();
    let names = ["max_workers_a", "max_workers_b", "max_workers_c"];
    let mut clients: Vec<Client> =
        names.iter().map(|name| cluster.database(name).connect()).collect();
    for client in &mut clients {
        run(client, "SET memory_agent.embed_on_ingest = async");
        ingest(client, "s", "one");
    }
    let mut most = 0;
    wait_until(PATIENCE, "the jobs of all databases", || {
        most = most.max(workers(&mut clients[0]));
        clients.iter_mut().all(|client| jobs(client, "done") == 1)
    });
    assert_eq!(most, 1);
}
