//! Settings of recall that no other suite changes.

use memory_agent_e2e::memory::{explain, ingest_all, recall, run};
use memory_agent_e2e::{Client, shared};

/// 80 turns that all have the word, without embeddings.
fn apples(name: &'static str) -> Client {
    let mut client = shared().database(name).connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    let turns: Vec<String> = (0..80).map(|n| format!("apple {n}")).collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    client
}

#[test]
fn default_top_k() {
    let mut client = apples("default_top_k");
    assert_eq!(recall(&mut client, "'apple'").len(), 5);
    run(&mut client, "SET memory_agent.default_top_k = 7");
    assert_eq!(recall(&mut client, "'apple'").len(), 7);
    assert_eq!(recall(&mut client, "'apple', top_k => 2").len(), 2, "the argument wins");
}

fn pool(client: &mut Client, arguments: &str) -> i64 {
    explain(client, &format!("'apple'{arguments}"))["rows"]["pool"].as_i64().unwrap()
}

#[test]
fn candidates_grow_with_the_rows_asked_for() {
    let mut client = apples("candidates");
    assert_eq!(pool(&mut client, ""), 30, "at least");
    assert_eq!(pool(&mut client, ", top_k => 15"), 45, "three times top_k");
    assert_eq!(pool(&mut client, ", top_k => 20"), 50, "at most");
    assert_eq!(pool(&mut client, ", top_k => 70"), 70, "rows asked for are candidates in any case");
}
