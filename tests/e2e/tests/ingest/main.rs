//! Storing turns: `memory_ingest`, `memory_ingest_batch`, `memory_close_episode`. Every argument,
//! every default, and that a failure leaves nothing.

mod arguments;
mod bad_input;
mod batches;
mod embedding;
mod episodes;
mod limits;
mod markers;
mod sizes;

use memory_agent_e2e::Client;
use memory_agent_e2e::memory::value;

/// The tables that ingest writes, and how many rows they have.
const CONTENT_TABLES: [&str; 6] =
    ["sessions", "entries", "entry_windows", "episodes", "jobs", "history"];

/// Number of rows in all tables that ingest writes, by name.
fn row_counts(client: &mut Client) -> Vec<(&'static str, i64)> {
    CONTENT_TABLES
        .iter()
        .map(|table| {
            let count = value(client, &format!("SELECT count(*) FROM memory_agent.{table}"), &[]);
            (*table, count)
        })
        .collect()
}
