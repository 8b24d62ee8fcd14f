//! Finding: `memory_recall` and `memory_explain`, from the candidates to the token budget.

mod arguments;
mod arms;
mod budget;
mod busy;
mod candidates;
mod explain;
mod filters;
mod global;
mod index_path;
mod languages;
mod learned;
mod ranking;
mod rerank;
mod rows;
mod scopes;
mod small_memories;
mod stale;
mod time;
mod unicode;

#[path = "../common/mod.rs"]
mod common;

use memory_agent_e2e::Client;
use memory_agent_e2e::memory::run;

/// Leaves relevance as the only part of the score, so that a test sees one rule at a time.
fn relevance_only(client: &mut Client) {
    run(
        client,
        "SET memory_agent.recency_weight = 0; \
         SET memory_agent.neighbor_weight = 0; SET memory_agent.marker_weight = 0; \
         SET memory_agent.rerank = off",
    );
}

/// The formula whose numbers a test computes once more. What ships is the learned ranking.
fn weighted(client: &mut Client) {
    run(client, "SET memory_agent.ranking = weighted");
}

/// Has the cross-encoder read every candidate.
fn read_all(client: &mut Client) {
    run(client, "SET memory_agent.rerank_rows = 100");
}

#[track_caller]
fn assert_close(found: impl Into<f64>, expected: impl Into<f64>) {
    let (found, expected) = (found.into(), expected.into());
    let tolerance = 1e-5 * expected.abs().max(1.0);
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}
