//! What is stored, asked and changed while the change is under way.

use crate::{
    DEFAULT, STUB, drain, embedder, endpoint, jobs, use_held_model, use_model, vectors, windows,
    with_endpoint,
};
use memory_agent_e2e::llm::{Fault, FaultPlan};
use memory_agent_e2e::memory::{ingest, ingest_all, recall, run, value, values};
use memory_agent_e2e::{Client, Uuid, wait_until};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn status_of_change(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT state || ' ' || detail FROM memory_status() WHERE component = 'model change'",
        &[],
    )
}

#[track_caller]
fn expect_similar(client: &mut Client, question: &str, expected: &str) {
    let found = recall(client, &format!("'{question}', top_k => 1"));
    assert_eq!(found[0].content, expected, "{question}");
    assert!(found[0].similarity.is_some(), "by words only: {found:?}");
}

#[test]
fn recall_and_ingest_go_on() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[]);
    ingest_all(&mut client, "s", &["My cat sleeps on the sofa.", "The boiler was repaired."]);
    let job = use_held_model(&mut client, &stub);
    wait_until(PATIENCE, "the worker to embed", || stub.in_flight() > 0);

    assert_eq!(embedder(&mut client), DEFAULT);
    expect_similar(&mut client, "Where does the pet rest?", "My cat sleeps on the sofa.");
    ingest(&mut client, "s", "The violin was tuned.");
    expect_similar(&mut client, "musical instrument", "The violin was tuned.");
    assert_eq!(vectors(&mut client), [format!("{DEFAULT} 384 3")]);
    let status = status_of_change(&mut client);
    assert!(
        status.len() == 1 && status[0].contains(&format!("to {STUB}: 0 of 4 steps")),
        "{status:?}"
    );

    stub.hold(false);
    drain(&mut client);
    assert_eq!(embedder(&mut client), STUB);
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 3")]);
    assert_eq!(windows(&mut client), [""; 0]);
    assert_eq!(status_of_change(&mut client), [""; 0]);
    let done: String = value(&mut client, "SELECT status FROM memory_jobs WHERE id = $1", &[&job]);
    assert_eq!(done, "done");
    // The stub's vectors are of words.
    expect_similar(&mut client, "violin tuned", "The violin was tuned.");
    ingest(&mut client, "s", "Stored afterwards.");
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 4")]);
}

#[test]
fn naming_the_model_in_use_gives_the_change_up() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[]);
    let turns: Vec<String> = (0..80).map(|n| format!("Turn number {n} is short.")).collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    // The change stops after its first batch, for the endpoint answers nothing more.
    let batches = AtomicU32::new(0);
    stub.faults(FaultPlan::when(move |call| {
        let is_batch = call.body["input"].to_string().contains("Turn number");
        let before = batches.fetch_add(u32::from(is_batch), Ordering::Relaxed);
        (before > 0).then_some(Fault::Status(503))
    }));
    let given_up = use_model(&mut client, STUB);
    wait_until(PATIENCE, "a batch beside its rows", || !windows(&mut client).is_empty());
    let back: Uuid = use_model(&mut client, DEFAULT);
    assert_ne!(given_up, back);
    drain(&mut client);
    let states: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(': ', status, last_error) FROM memory_jobs WHERE kind = 'reembed' ORDER BY id",
        &[],
    );
    let [first, second] = &states[..] else { panic!("{states:?}") };
    assert!(first.starts_with("done: cancelled") && second == "done", "{states:?}");
    assert_eq!(embedder(&mut client), DEFAULT);
    assert_eq!(vectors(&mut client), [format!("{DEFAULT} 384 80")]);
    assert_eq!(windows(&mut client), [""; 0]);
}

#[test]
fn a_change_that_waits_is_cancelled_by_the_next_one() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[]);
    ingest(&mut client, "s", "My cat sleeps on the sofa.");
    let given_up = use_held_model(&mut client, &stub);
    wait_until(PATIENCE, "the worker to embed", || stub.in_flight() > 0);
    use_model(&mut client, DEFAULT);
    let error: String =
        value(&mut client, "SELECT last_error FROM memory_jobs WHERE id = $1", &[&given_up]);
    assert!(error.starts_with("cancelled"), "{error}");
    stub.hold(false);
    drain(&mut client);
    assert_eq!(embedder(&mut client), DEFAULT);
    assert_eq!(windows(&mut client), [""; 0], "what the cancelled job got is dropped");
}

#[test]
fn a_text_that_the_model_refuses_keeps_the_old_model() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[("memory_agent.llm_max_attempts", "1")]);
    ingest_all(&mut client, "s", &["My cat sleeps on the sofa.", "The marmalade is secret."]);
    let refusing = FaultPlan::when(|call| {
        let is_refused = call.body["input"].to_string().contains("marmalade");
        is_refused.then_some(Fault::Status(400))
    });
    stub.faults(refusing);
    let job = use_model(&mut client, STUB);
    let status = "SELECT status FROM memory_jobs WHERE id = $1";
    wait_until(PATIENCE, "the job to be given up", || {
        value::<String>(&mut client, status, &[&job]) == "dead"
    });
    let (error, id): (String, Uuid) = {
        let row = client
            .query_one(
                "SELECT j.last_error, e.id FROM memory_jobs j, memory_agent.entries e \
                  WHERE j.id = $1 AND e.content LIKE '%marmalade%'",
                &[&job],
            )
            .unwrap();
        (row.get(0), row.get(1))
    };
    // Everybody sees this job: which row, but nothing of it.
    assert!(error.contains(&id.to_string()) && !error.contains("marmalade"), "{error}");
    assert_eq!(embedder(&mut client), DEFAULT);
    assert_eq!(vectors(&mut client), [format!("{DEFAULT} 384 2")]);
    let shown = status_of_change(&mut client);
    assert!(shown.len() == 1 && shown[0].starts_with("dead"), "{shown:?}");
    expect_similar(&mut client, "Where does the pet rest?", "My cat sleeps on the sofa.");

    stub.faults(FaultPlan::none());
    assert!(value::<bool>(&mut client, "SELECT memory_retry($1)", &[&job]));
    drain(&mut client);
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 2")]);
}

/// A turn that was embedded by the old model is committed when the change is long over.
#[test]
fn rows_of_a_transaction_that_took_longer_follow() {
    let stub = endpoint();
    let (cluster, mut client) = with_endpoint(&stub, &[("memory_agent.sweep_interval", "1s")]);
    ingest(&mut client, "s", "My cat sleeps on the sofa.");
    let mut slow = cluster.connect("agent");
    run(
        &mut slow,
        "SET memory_agent.user_id = 'alice'; BEGIN; SELECT memory_ingest('other', 'user', 'The violin was tuned.')",
    );
    use_model(&mut client, STUB);
    drain(&mut client);
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 1")]);
    run(&mut slow, "COMMIT");
    wait_until(PATIENCE, "the late row to follow", || {
        vectors(&mut client) == [format!("{STUB} 64 2")]
    });
    drain(&mut client);
    assert_eq!(windows(&mut client), [""; 0]);
    assert_eq!(jobs(&mut client), [""; 0]);
}

/// Shared memory is erased: the change, which is everybody's, goes on without it.
#[test]
fn shared_memory_can_be_erased_meanwhile() {
    let stub = endpoint();
    let (_cluster, mut client) = with_endpoint(&stub, &[]);
    ingest(&mut client, "s", "My cat sleeps on the sofa.");
    let shared = "SELECT memory_add('The office is closed.', infer => false, user_id => '*')";
    let one: Uuid = value(&mut client, shared, &[]);
    run(&mut client, &shared.replace("office", "shop"));
    let job = use_held_model(&mut client, &stub);
    wait_until(PATIENCE, "the worker to embed", || stub.in_flight() > 0);
    client.execute("SELECT memory_erase(id => $1, user_id => '*')", &[&one]).unwrap();
    run(&mut client, "SELECT memory_erase(user_id => '*')");
    stub.hold(false);
    drain(&mut client);
    let state = "SELECT concat_ws(' ', status, last_error) FROM memory_jobs WHERE id = $1";
    assert_eq!(value::<String>(&mut client, state, &[&job]), "done");
    assert_eq!(vectors(&mut client), [format!("{STUB} 64 1")]);
    assert_eq!(windows(&mut client), [""; 0], "nothing is left of what was erased");
}
