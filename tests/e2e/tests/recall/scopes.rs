//! Whose and which rows a recall sees: sessions, global and shared memory, agents, kinds, states.

use memory_agent_e2e::memory::{recalled_texts, run};
use memory_agent_e2e::{Client, shared};

/// One row per place; all have the word "apple", so every recall finds all that it may see.
fn fill(client: &mut Client) {
    run(
        client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off;
         SELECT memory_ingest('s1', 'user', 'apple s1');
         SELECT memory_ingest('s2', 'user', 'apple s2');
         SELECT memory_ingest('s1', 'user', 'apple coder s1', agent_id => 'coder');
         SELECT memory_add('apple global', infer => false);
         SELECT memory_add('apple coder global', infer => false, agent_id => 'coder');
         SELECT memory_add('apple fact in s1', 's1', infer => false);
         SELECT memory_add('apple shared', infer => false, user_id => '*');
         SELECT memory_ingest('s1', 'user', 'apple bob s1', user_id => 'bob');
         SELECT memory_add('apple bob global', infer => false, user_id => 'bob')",
    );
}

#[track_caller]
fn assert_sees(client: &mut Client, scope: &str, expected: &[&str]) {
    let mut found = recalled_texts(client, &format!("'apple', top_k => 50{scope}"));
    found.sort();
    let mut expected: Vec<String> = expected.iter().map(|label| format!("apple {label}")).collect();
    expected.sort();
    assert_eq!(found, expected, "{scope}");
}

#[test]
fn a_session_sees_itself_the_users_global_memory_and_shared_memory() {
    let mut client = shared().database("scope_session").connect();
    fill(&mut client);
    assert_sees(
        &mut client,
        ", session_id => 's1'",
        &["s1", "fact in s1", "global", "coder global", "shared"],
    );
    assert_sees(&mut client, ", session_id => 'new'", &["global", "coder global", "shared"]);
}

#[test]
fn without_a_session_all_of_the_user_is_seen() {
    let mut client = shared().database("scope_user").connect();
    fill(&mut client);
    let alice = ["s1", "s2", "coder s1", "fact in s1", "global", "coder global", "shared"];
    assert_sees(&mut client, "", &alice);
    let bob = ["bob s1", "bob global", "shared"];
    assert_sees(&mut client, ", user_id => 'bob'", &bob);
    assert_sees(&mut client, ", user_id => 'nobody'", &["shared"]);
    assert_sees(&mut client, ", user_id => '*'", &["shared"]);
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    assert_sees(&mut client, "", &bob);
}

#[test]
fn an_agent_reads_its_sessions_and_global_memory_of_all() {
    let mut client = shared().database("scope_agent").connect();
    fill(&mut client);
    let coder = ["coder s1", "global", "coder global", "shared"];
    assert_sees(&mut client, ", agent_id => 'coder'", &coder);
    assert_sees(&mut client, ", session_id => 's1', agent_id => 'coder'", &coder);
    // By setting as by argument.
    run(&mut client, "SET memory_agent.agent_id = 'coder'");
    assert_sees(&mut client, "", &coder);
    assert_sees(&mut client, ", session_id => 's1'", &coder);
    assert_sees(
        &mut client,
        ", agent_id => 'default'",
        &["s1", "s2", "fact in s1", "global", "coder global", "shared"],
    );
    // A filter narrows.
    let only = ", filter => '{\"agent_id\": \"coder\"}'";
    assert_sees(&mut client, only, &["coder s1", "coder global"]);
}

#[test]
fn kinds_are_chosen() {
    let mut client = shared().database("scope_kinds").connect();
    fill(&mut client);
    assert_sees(&mut client, ", session_id => 's1', kinds => '{turn}'", &["s1"]);
    let facts = ["fact in s1", "global", "coder global", "shared"];
    assert_sees(&mut client, ", session_id => 's1', kinds => '{fact}'", &facts);
    assert_sees(&mut client, ", session_id => 's1', kinds => '{document}'", &[]);
    assert_sees(&mut client, ", session_id => 's2', kinds => '{document,turn}'", &["s2"]);
    assert_sees(&mut client, ", kinds => '{}'", &[]);
}

#[test]
fn archived_rows_are_seen_and_inactive_ones_are_not() {
    let mut client = shared().database("scope_states").connect();
    fill(&mut client);
    run(
        &mut client,
        "UPDATE memory_agent.entries SET state = 'archived', state_reason = 'evicted' WHERE content = 'apple s1';
         UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'deleted' WHERE content = 'apple s2'",
    );
    let rest = ["coder s1", "fact in s1", "global", "coder global", "shared"];
    assert_sees(&mut client, "", &[&["s1"], &rest[..]].concat());
}
