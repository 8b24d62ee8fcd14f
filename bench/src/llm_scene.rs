//! A cluster whose LLM is a stand-in in this process that takes as long as it is told.

use crate::Result;
use memory_agent_e2e::llm::{Call, LlmStub, Model, Reply};
use memory_agent_e2e::{Client, Cluster, Json, json, wait_until};
use std::thread::sleep;
use std::time::Duration;

/// For the models to be loaded, and for jobs that must not take long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An LLM that needs this long for each answer. It finds no facts or one in each turn, and takes all
/// facts for new.
struct SlowModel {
    latency: Duration,
    finds_facts: bool,
}

impl Model for SlowModel {
    fn answer(&self, call: &Call) -> Reply {
        sleep(self.latency);
        let data = call.data();
        let list = |name: &str| data[name].as_array().cloned().unwrap_or_default();
        let facts: Vec<Json> = list("turns")
            .iter()
            .filter(|_| self.finds_facts)
            .map(|turn| json!({"turn": turn["turn"], "text": turn["text"], "confidence": 0.9}))
            .collect();
        json!({"facts": facts, "choice": "new"}).into()
    }
}

/// A stand-in with that latency; with `finds_facts`, every turn is a fact.
pub fn stub(latency: Duration, finds_facts: bool) -> LlmStub {
    LlmStub::start(SlowModel { latency, finds_facts })
}

/// A cluster with the library preloaded. Settings as in postgresql.conf.
pub fn cluster(stub: Option<&LlmStub>, settings: &[(&str, &str)]) -> Cluster {
    let mut builder = Cluster::builder()
        .preload(true)
        .setting("shared_buffers", "256MB")
        .setting("max_wal_size", "4GB")
        .setting("memory_agent.max_entries", 0);
    if let Some(stub) = stub {
        builder = builder
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", "stub");
    }
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    builder.start()
}

/// A new database with the extension, its embedding model loaded, and a session in it.
pub fn database(cluster: &Cluster, name: &str) -> Client {
    let mut client = cluster.database(name).connect();
    wait_until(PATIENCE, "the embedding model", || {
        let ready = "SELECT count(*) > 0 FROM memory_status() \
                      WHERE component = 'embedder' AND state = 'loaded'";
        client.query_one(ready, &[]).is_ok_and(|row| row.get(0))
    });
    client
}

/// The ids of the job workers of a database.
pub fn workers(client: &mut Client) -> Result<Vec<i32>> {
    let rows = client.query(
        "SELECT pid FROM pg_stat_activity \
          WHERE backend_type = 'memory_agent worker' AND datname = current_database()",
        &[],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
