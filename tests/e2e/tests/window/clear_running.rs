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
         VALUES (gen_random_uuid(), 'evict', 'alice', 'default', 's', 'dead', '{\"text\": 1}')",
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
    let retried = "SELECT memory_retry(id) FROM memory_agent.jobs WHERE kind = 'evict'";
    assert!(!value::<bool>(&mut client, retried, &[]), "a cancelled job is done");
}

/// A summary and an extraction that are being made when the session is cleared are not stored.
#[test]
fn the_results_of_running_summaries_and_extractions_are_dropped() {
    let turns = ["It is Oslo.", "It is Rex.", "It is tea."];
    let model = turns.iter().fold(ScriptedModel::new(), |model, turn| {
        model.knows(turn, turn, turn, &format!("So the user said: {turn}"))
    });
    let (stub, cluster) = with_llm(
        model,
        &[("memory_agent.extraction", "episode"), ("memory_agent.summary_min_tokens", "1")],
    );
    let mut client = cluster.database("clear_running_others").connect();
    let say_all = |client: &mut Client, session: &str| {
        run(client, "BEGIN");
        for turn in turns {
            // Long enough to be worth a summary.
            say(client, session, "user", turn);
            say(client, session, "assistant", &"That is good to know, I will remember. ".repeat(8));
        }
        run(client, &format!("SELECT memory_close_episode('{session}'); COMMIT"));
    };
    stub.hold(true);
    say_all(&mut client, "s");
    wait_until(PATIENCE, "two calls", || stub.in_flight() == 2);
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('s')", &[]), 6);
    let is_over = |job: &String| job.contains("|done|cancelled") || job == "reflect|done";
    assert!(jobs(&mut client).iter().all(is_over), "{:?}", jobs(&mut client));
    stub.hold(false);
    say_all(&mut client, "t");
    drain(&mut client);
    let made = |client: &mut Client, session: &str| -> Vec<i64> {
        values(
            client,
            "SELECT count(*) FROM memory_agent.session_summaries WHERE session_id = $1 \
             UNION ALL SELECT count(*) FROM memory_agent.entries WHERE session_id = $1 AND kind = 'fact' \
             UNION ALL SELECT count(*) FROM memory_agent.traces WHERE session_id = $1",
            &[&session],
        )
    };
    assert_eq!(made(&mut client, "s"), [0, 0, 0]);
    assert_eq!(made(&mut client, "t"), [1, 3, 1], "the same is made where nobody cleared");
}
