//! The worker is killed in the middle of a change, and the endpoint goes away: the change goes on where
//! it was.

use crate::{DEFAULT, STUB, drain, embedder, endpoint, use_model, vectors, windows, with_endpoint};
use memory_agent_e2e::llm::{Fault, FaultPlan, LlmStub};
use memory_agent_e2e::memory::{ingest_all, run, value};
use memory_agent_e2e::{Client, processes, wait_until};
use postgres::NoTls;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);
const TURNS: usize = 200;
/// Rows of one batch: what a kill can cost.
const BATCH: usize = 32;

fn remember(client: &mut Client) {
    let turns: Vec<String> = (0..TURNS).map(|n| format!("Turn number {n} is short.")).collect();
    ingest_all(client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Texts of turns that the endpoint was sent.
fn texts_sent(stub: &LlmStub) -> usize {
    let texts = |input: &memory_agent_e2e::Json| match input {
        memory_agent_e2e::Json::Array(texts) => texts.clone(),
        one => vec![one.clone()],
    };
    let calls = stub.calls();
    let all = calls.iter().flat_map(|call| texts(&call.body["input"]));
    all.filter(|text| text.as_str().is_some_and(|text| text.starts_with("Turn number"))).count()
}

#[test]
fn a_killed_worker_goes_on_where_it_was() {
    let stub = endpoint();
    let (cluster, mut client) = with_endpoint(&stub, &[]);
    remember(&mut client);
    stub.faults(FaultPlan::always(Fault::Delay(Duration::from_millis(300))));
    use_model(&mut client, STUB);
    let beside = "SELECT count(*) FROM memory_agent.entry_windows";
    wait_until(PATIENCE, "two batches beside their rows", || {
        value::<i64>(&mut client, beside, &[]) >= 2 * BATCH as i64
    });
    let worker: i32 = value(
        &mut client,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'memory_agent worker' AND datname = 'agent'",
        &[],
    );
    processes::signal(worker, libc::SIGKILL);
    // All sessions are ended, and the cluster comes back.
    wait_until(PATIENCE, "the connection to be lost", || client.batch_execute("").is_err());
    wait_until(PATIENCE, "PostgreSQL to take sessions", || {
        cluster.config("agent").connect(NoTls).is_ok()
    });
    let mut client = cluster.connect("agent");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    let kept: i64 = value(&mut client, beside, &[]);
    assert!(kept >= 2 * BATCH as i64, "{kept} vectors survived");
    stub.faults(FaultPlan::none());
    drain(&mut client);
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 {TURNS}")]);
    assert_eq!(windows(&mut client), [""; 0]);
    let sent = texts_sent(&stub);
    assert!((TURNS..=TURNS + BATCH).contains(&sent), "{sent} texts for {TURNS} rows");
    let interrupted: i32 =
        value(&mut client, "SELECT interrupted FROM memory_jobs WHERE kind = 'reembed'", &[]);
    assert_eq!(interrupted, 1, "the kill found the job under way");
    let switches = cluster.log().matches("the embedding model is").count();
    assert_eq!(switches, 1);
}

#[test]
fn an_outage_of_the_endpoint_delays_the_change() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[]);
    remember(&mut client);
    run(&mut client, "BEGIN");
    use_model(&mut client, STUB);
    stub.set_down(true);
    run(&mut client, "COMMIT");
    let waits = "SELECT count(*) FROM memory_jobs WHERE kind = 'reembed' AND status = 'pending' \
                    AND last_error IS NOT NULL AND attempts = 0";
    wait_until(PATIENCE, "the job to be postponed", || value::<i64>(&mut client, waits, &[]) == 1);
    assert_eq!(embedder(&mut client), DEFAULT);
    stub.set_down(false);
    drain(&mut client);
    assert_eq!(embedder(&mut client), STUB);
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 {TURNS}")]);
}
