//! History: append-only, sealed by the worker into a chain per user, and `memory_verify_history` tells
//! whether an attacker changed it behind the extension's back.

mod chain;
mod guards;
mod keys;
mod rights;

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, wait_until};
use std::time::Duration;

/// Nobody waits longer than needed. The databases of these tests share few workers: one without a worker
/// has its turn after a minute, and a busy machine needs a while.
const PATIENCE: Duration = Duration::from_secs(180);

/// A row of `memory_verify_history`.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    user: String,
    state: String,
    seq: Option<i64>,
    hash: Option<Vec<u8>>,
    sealed: Option<i64>,
    unsealed: Option<i64>,
    detail: Option<String>,
}

#[track_caller]
fn verify(client: &mut Client, arguments: &str) -> Vec<Line> {
    let query = format!(
        "SELECT user_id, state, seq, hash, sealed, unsealed, detail FROM memory_verify_history({arguments})"
    );
    let rows = client.query(&query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let line = |row: &memory_agent_e2e::Row| Line {
        user: row.get(0),
        state: row.get(1),
        seq: row.get(2),
        hash: row.get(3),
        sealed: row.get(4),
        unsealed: row.get(5),
        detail: row.get(6),
    };
    rows.iter().map(line).collect()
}

/// `state seq` of the problems of alice's chain.
#[track_caller]
fn problems(client: &mut Client) -> Vec<String> {
    let lines = verify(client, "'alice'");
    assert_eq!(lines[0].state, if lines.len() == 1 { "intact" } else { "broken" }, "{lines:?}");
    let problem = |line: &Line| match line.seq {
        Some(seq) => format!("{} {seq}", line.state),
        None => line.state.clone(),
    };
    lines[1..].iter().map(problem).collect()
}

/// The first line of alice's chain.
#[track_caller]
fn head(client: &mut Client) -> Line {
    verify(client, "'alice'").swap_remove(0)
}

/// Stores facts of alice, without an LLM: a row of history each.
#[track_caller]
fn remember(client: &mut Client, facts: std::ops::Range<u32>) {
    for number in facts {
        let add = "SELECT memory_add($1, infer => false, fact_key => $2)";
        let (fact, key) = (format!("Shelf {number} holds jars."), format!("shelf {number}"));
        client.execute(add, &[&fact, &key]).expect("memory_add");
    }
}

/// Waits until the worker has sealed everything.
#[track_caller]
fn wait_for_seals(client: &mut Client) {
    wait_until(PATIENCE, "the seals", || {
        value::<i64>(client, "SELECT count(*) FROM memory_agent.history WHERE seq IS NULL", &[])
            == 0
    });
}

/// Does something to history as a superuser can who switches the guards off.
#[track_caller]
fn tamper(client: &mut Client, statement: &str) {
    run(
        client,
        &format!(
            "SET session_replication_role = replica; {statement}; RESET session_replication_role"
        ),
    );
}
