//! `memory_clear` while jobs of the session run: what they bring is dropped.

use crate::{drain, say, with_llm};
use memory_agent_e2e::llm::ScriptedModel;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Kind, status and error of the jobs of the session `s`.
fn jobs(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws('|', kind, status, last_error) FROM memory_agent.jobs \
          WHERE session_id = 's' ORDER BY id",
        &[],
    )
}

#[test]
fn the_result_of_a_running_extraction_is_dropped() {
    let model = ScriptedModel::new().knows("I live in Oslo.", "home", "Oslo", "Lives in Oslo.");
    let (stub, cluster) = with_llm(model, &[("memory_agent.summarization", "off")]);
    let mut client = cluster.database("clear_running").connect();
    stub.hold(true);
    say(&mut client, "s", "user", "I live in Oslo.");
    wait_until(PATIENCE, "the call", || stub.in_flight() == 1);
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('s')", &[]), 1);
    assert_eq!(jobs(&mut client), ["extract|done|cancelled: its session was cleared"]);
    stub.hold(false);
    wait_until(PATIENCE, "the answer", || stub.in_flight() == 0);
    // The same again, to see that the worker has gone on.
    say(&mut client, "s", "user", "I live in Oslo.");
    drain(&mut client);
    let facts: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('|', content, cardinality(source_ids)) FROM memory_agent.entries WHERE kind = 'fact'",
        &[],
    );
    assert_eq!(facts, ["Lives in Oslo.|1"], "one fact, of the turn that came later");
    assert_eq!(stub.call_count(), 2);
}

#[test]
fn what_waits_and_what_is_dead_is_cancelled_with_the_sources_of_memory_add() {
    let (stub, cluster) = with_llm(
        ScriptedModel::new().knows("I live in Oslo.", "home", "Oslo", "Lives in Oslo."),
        &[("memory_agent.worker", "off"), ("memory_agent.summarization", "off")],
    );
    let mut client = cluster.database("clear_waiting").connect();
    run(&mut client, "SELECT memory_add('I live in Oslo.', 's')");
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, payload) \
         VALUES (gen_random_uuid(), 'embed', 'alice', 'default', 's', 'dead', '{\"text\": 1}')",
    );
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('s')", &[]), 0);
    let jobs: Vec<String> =
        values(&mut client, "SELECT concat_ws('|', status, payload) FROM memory_agent.jobs", &[]);
    assert_eq!(jobs, ["done|{}", "done|{}"]);
    cluster.alter_system("memory_agent.worker", Some("on"));
    // Sweeps find nothing that was forgotten.
    run(&mut client, "SELECT memory_ingest('t', 'user', 'I live in Oslo.')");
    drain(&mut client);
    let sessions: Vec<String> =
        values(&mut client, "SELECT session_id FROM memory_agent.entries WHERE kind = 'fact'", &[]);
    assert_eq!(sessions, ["t"]);
    assert_eq!(stub.call_count(), 1);
    let retried = "SELECT memory_retry(id) FROM memory_agent.jobs WHERE kind = 'embed'";
    assert!(!value::<bool>(&mut client, retried, &[]), "a cancelled job is done");
}
