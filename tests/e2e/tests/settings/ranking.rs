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
fn candidates_of_each_arm_grow_with_top_k() {
    let mut client = apples("candidate_multiplier");
    run(&mut client, "SET memory_agent.max_candidates = 500");
    assert_eq!(pool(&mut client, ""), 30, "at least");
    assert_eq!(pool(&mut client, ", top_k => 15"), 45, "three times top_k");
    run(&mut client, "SET memory_agent.candidate_multiplier = 5");
    assert_eq!(pool(&mut client, ", top_k => 15"), 75);
    run(&mut client, "SET memory_agent.candidate_multiplier = 1");
    assert_eq!(pool(&mut client, ", top_k => 40"), 40);
}

#[test]
fn the_pool_is_bounded() {
    let mut client = apples("max_candidates");
    assert_eq!(pool(&mut client, ", top_k => 20"), 50);
    run(&mut client, "SET memory_agent.max_candidates = 10");
    assert_eq!(pool(&mut client, ""), 10);
    assert_eq!(
        recall(&mut client, "'apple', top_k => 25").len(),
        25,
        "rows asked for are candidates in any case"
    );
}
