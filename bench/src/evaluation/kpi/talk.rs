//! Verbose conversations for measurements: messages of some hundred tokens in which nothing is said
//! twice.

use memory_agent_bench::Result;
use memory_agent_bench::synthetic::sentence;
use memory_agent_e2e::{Client, Json, json};

pub const SESSION: &str = "talk";

/// A message of so many sentences of about 25 tokens each; every number gives another one.
pub fn message(number: usize, sentences: usize) -> String {
    let first = number * sentences;
    let sentences: Vec<String> = (first..first + sentences).map(sentence).collect();
    sentences.join(". ")
}

/// The role of the message at a place of a conversation.
pub fn role(at: usize) -> &'static str {
    if at.is_multiple_of(2) { "user" } else { "assistant" }
}

/// Stores messages as one session of the user of this database session, in one statement.
pub fn store(client: &mut Client, session: &str, messages: &[String]) -> Result<()> {
    let turns: Vec<Json> = messages
        .iter()
        .enumerate()
        .map(|(at, text)| json!({"role": role(at), "content": text}))
        .collect();
    client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1, $2)",
        &[&Json::from(turns), &session],
    )?;
    Ok(())
}

/// Waits until the worker has nothing left to do for the user of this database session.
pub fn drain(client: &mut Client) -> Result<()> {
    let is_done: bool = client.query_one("SELECT memory_wait('15 min')", &[])?.get(0);
    if is_done { Ok(()) } else { Err("background work does not come to an end".into()) }
}

/// Names the user of this database session.
pub fn become_user(client: &mut Client, user: &str) -> Result<()> {
    client.execute("SELECT set_config('memory_agent.user_id', $1, false)", &[&user])?;
    Ok(())
}

#[test]
fn messages_differ() {
    let messages: std::collections::BTreeSet<String> = (0..600).map(|at| message(at, 4)).collect();
    assert_eq!(messages.len(), 600);
}
