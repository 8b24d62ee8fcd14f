//! `memory_use_embedding_model`: memory that is in use gets another embedding model, from one local
//! model to another and to an endpoint with vectors of another length.

mod arguments;
mod interrupted;
mod local;
mod meanwhile;
mod moving;

use memory_agent_e2e::llm::{Call, LlmStub, Reply};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid};

/// The models that are installed; the first one is the default.
pub const DEFAULT: &str = "memory-embed-small";
pub const MINILM: &str = "all-MiniLM-L6-v2";
/// The default of 0.2.0.
pub const BGE: &str = "bge-small-en-v1.5";
/// The model behind the endpoint: 64 numbers a text.
pub const STUB: &str = "stub-embedder";

/// An endpoint that only embeds.
pub fn endpoint() -> LlmStub {
    LlmStub::start(|_: &Call| Reply::error(404, "no LLM"))
}

/// A cluster that knows the endpoint, and a session in a database of it. The endpoint's model is
/// registered, the local one is used.
pub fn with_endpoint(stub: &LlmStub, settings: &[(&str, &str)]) -> (Cluster, Client) {
    let mut builder = Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_base_url", stub.base_url())
        .setting("memory_agent.rerank", "off");
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    let cluster = builder.start();
    let mut client = cluster.database("agent").connect();
    run(
        &mut client,
        &format!("SELECT memory_register_model('{STUB}', 'embedder', location => 'http')"),
    );
    (cluster, client)
}

/// Asks for another model and returns the job.
pub fn use_model(client: &mut Client, name: &str) -> Uuid {
    value(client, "SELECT memory_use_embedding_model($1)", &[&name])
}

/// Asks for the endpoint's model; the endpoint answers nothing from then on.
pub fn use_held_model(client: &mut Client, stub: &LlmStub) -> Uuid {
    run(client, "BEGIN");
    let job = use_model(client, STUB);
    stub.hold(true);
    run(client, "COMMIT");
    job
}

/// Waits until no job is left.
#[track_caller]
pub fn drain(client: &mut Client) {
    let is_done: bool = value(client, "SELECT memory_wait('90 s')", &[]);
    assert!(is_done, "{:?}", jobs(client));
}

/// Kind, status and error of every job that is not done.
pub fn jobs(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', kind, status, done, total, last_error) FROM memory_jobs WHERE status <> 'done'",
        &[],
    )
}

/// The models and dimensions of the vectors in rows, and how many there are of each.
pub fn vectors(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', embedding_model, vector_dims(embedding), count(*)) \
           FROM memory_agent.entries GROUP BY embedding_model, vector_dims(embedding) ORDER BY 1",
        &[],
    )
}

/// The same of the windows beside the rows, by whether they are first ones.
pub fn windows(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', embedding_model, CASE WHEN ordinal = 1 THEN 'first' ELSE 'further' END, count(*)) \
           FROM memory_agent.entry_windows GROUP BY embedding_model, ordinal = 1 ORDER BY 1",
        &[],
    )
}

/// The embedder that questions are embedded by.
pub fn embedder(client: &mut Client) -> String {
    value(client, "SELECT memory_explain('Where is the kitten?') ->> 'embedding'", &[])
}
