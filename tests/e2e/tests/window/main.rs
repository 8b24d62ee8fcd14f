//! The window of a session: loading it, making it fit, clearing it; settings of agents and sessions;
//! work that is asked for later; signed summaries.

mod backfill;
mod clear;
mod clear_running;
mod concurrent;
mod configure;
mod global;
mod load;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "every suite uses its own part of this module")]
mod random;
mod reserve;
mod reserve_summary;
mod summarize;

use memory_agent_e2e::llm::{LlmStub, Model};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Client, Cluster, Json, Uuid};

/// Stores a turn and returns its id.
#[track_caller]
fn say(client: &mut Client, session: &str, role: &str, content: &str) -> Uuid {
    value(client, "SELECT memory_ingest($1, $2, $3)", &[&session, &role, &content])
}

/// The rows of `memory_load` as (role, content).
#[track_caller]
fn load(client: &mut Client, session: &str) -> Vec<(String, String)> {
    let rows = client.query("SELECT role, content FROM memory_load($1)", &[&session]);
    rows.expect("memory_load").iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// A summary of a session, as the worker would have stored it, that covers these turns.
#[track_caller]
fn summarised(client: &mut Client, session: &str, content: &str, turns: &[Uuid]) -> Uuid {
    value(
        client,
        "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, content, method, source_ids, output_tokens, \
             previous_id, model) \
         SELECT gen_random_uuid(), 'alice', 'default', $1, 'L3', $2, 'brief', $3, memory_count_tokens($2), \
                (SELECT s.id FROM memory_agent.session_summaries s \
                  WHERE s.session_id = $1 ORDER BY s.created_at DESC LIMIT 1), 'stub' \
         RETURNING id",
        &[&session, &content, &turns],
    )
}

/// A cluster that calls a stub as its LLM, and more settings.
fn with_llm(model: impl Model, settings: &[(&str, &str)]) -> (LlmStub, Cluster) {
    let stub = LlmStub::start(model);
    let mut builder = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting("memory_agent.llm_timeout", "10s");
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    (stub, builder.start())
}

/// Waits until the queue is empty.
#[track_caller]
fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('90 s')", &[]), "the queue does not drain");
}

/// The document that `memory_configure(arguments)` returns.
#[track_caller]
fn configure(client: &mut Client, arguments: &str) -> Json {
    value(client, &format!("SELECT memory_configure({arguments})"), &[])
}
