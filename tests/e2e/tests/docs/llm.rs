//! The pages' LLM: a cluster that calls a stand-in, which understands what the examples say.

use crate::blocks::models_are_loaded_in;
use memory_agent_e2e::Cluster;
use memory_agent_e2e::llm::{LlmStub, ScriptedModel};

/// The database of the examples.
pub const DATABASE: &str = "docs";

/// A cluster with an LLM, for the blocks `sql llm` of one page.
pub struct WithLlm {
    pub cluster: Cluster,
    _stub: LlmStub,
}

impl WithLlm {
    pub fn start() -> Self {
        let stub = LlmStub::start(script());
        let cluster = Cluster::builder()
            .preload(true)
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", "stub")
            .start();
        models_are_loaded_in(&mut cluster.database(DATABASE).connect());
        Self { cluster, _stub: stub }
    }
}

/// What a good model makes of the examples in README.md and docs/.
fn script() -> ScriptedModel {
    ScriptedModel::new()
        .knows(
            "By the way, I work at the harbour office.",
            "work",
            "office",
            "The user works at the harbour office.",
        )
        .knows(
            "I have a new job: I teach at the music school now!",
            "work",
            "school",
            "The user teaches at the music school.",
        )
        .knows(
            "I live in Hamburg and I have a dog called Balu.",
            "home",
            "Hamburg",
            "The user lives in Hamburg.",
        )
        .knows(
            "I live in Hamburg and I have a dog called Balu.",
            "dog",
            "Balu",
            "The user has a dog called Balu.",
        )
        .knows("We moved to Lisbon last week.", "home", "Lisbon", "The user lives in Lisbon.")
        .knows(
            "Agreed, the shop stores its data in PostgreSQL.",
            "database",
            "PostgreSQL",
            "The shop stores its data in PostgreSQL.",
        )
        .knows(
            "And its API must not be public.",
            "API",
            "private",
            "The API of the shop must not be public.",
        )
        .knows(
            "Yes, the shop stores its data in MySQL now.",
            "database",
            "MySQL",
            "The shop stores its data in MySQL.",
        )
        .knows(
            "My colleague Anna runs the warehouse.",
            "warehouse",
            "Anna",
            "The user's colleague Anna runs the warehouse.",
        )
}
