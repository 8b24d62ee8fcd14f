//! `global` is the user's global memory wherever a session is named.

use memory_agent_e2e::memory::{explain, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Json, Uuid, shared};

fn fill(name: &str) -> Client {
    let mut client = shared().database(name).connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off;
         SELECT memory_ingest('s1', 'user', 'apple s1');
         SELECT memory_ingest('global', 'user', 'apple said in global');
         SELECT memory_ingest('global', 'user', 'apple said to coder', agent_id => 'coder');
         SELECT memory_add('apple unnamed', infer => false);
         SELECT memory_add('apple named', 'global', infer => false);
         SELECT memory_add('apple shared', infer => false, user_id => '*');
         SELECT memory_ingest('global', 'user', 'apple of bob', user_id => 'bob')",
    );
    client
}

#[track_caller]
fn assert_sees(client: &mut Client, scope: &str, expected: &[&str]) {
    let mut found = recalled_texts(client, &format!("'apple', top_k => 50{scope}"));
    found.sort();
    let mut expected: Vec<String> = expected.iter().map(|label| format!("apple {label}")).collect();
    expected.sort();
    assert_eq!(found, expected, "{scope}");
}

const GLOBAL: [&str; 4] = ["said in global", "said to coder", "unnamed", "named"];

#[test]
fn every_session_recalls_what_was_said_and_stored_in_global() {
    let mut client = fill("global_recall");
    assert_sees(&mut client, ", session_id => 's1'", &[&GLOBAL[..], &["s1", "shared"]].concat());
    assert_sees(&mut client, ", session_id => 'new'", &[&GLOBAL[..], &["shared"]].concat());
    assert_sees(&mut client, "", &[&GLOBAL[..], &["s1", "shared"]].concat());
    assert_sees(&mut client, ", user_id => 'bob'", &["of bob", "shared"]);
    // Named, it is global memory without the sessions.
    assert_sees(&mut client, ", session_id => 'global'", &[&GLOBAL[..], &["shared"]].concat());
    // Of all agents, whichever asks.
    let all = [&GLOBAL[..], &["shared"]].concat();
    assert_sees(&mut client, ", session_id => 'global', agent_id => 'coder'", &all);
    assert_sees(
        &mut client,
        ", filter => '{\"session_id\": [\"global\"]}'",
        &[&GLOBAL[..], &["shared"]].concat(),
    );
    assert_sees(&mut client, ", filter => '{\"session_id\": [\"s1\"]}'", &["s1"]);
    let explained = explain(&mut client, "'apple', session_id => 'global'");
    let scopes: Vec<&str> = explained["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["scope"].as_str().unwrap())
        .collect();
    assert_eq!(scopes.iter().filter(|scope| **scope == "global").count(), 4);
    assert!(!scopes.contains(&"session"), "{scopes:?}");
}

#[test]
fn facts_and_documents_named_global_are_those_of_no_session() {
    let mut client = fill("global_facts");
    let add = |client: &mut Client, text: &str, session: &str, key: &str| -> Uuid {
        value(
            client,
            &format!("SELECT memory_add($1, {session}, infer => false, fact_key => $2)"),
            &[&text, &key],
        )
    };
    // One memory, whatever it is called: duplicates and keys are those of both.
    let rome = add(&mut client, "Ann lives in Rome.", "'global'", "home");
    assert_eq!(add(&mut client, "Ann lives in Rome.", "NULL", "home"), rome);
    let oslo = add(&mut client, "Ann lives in Oslo.", "NULL", "home");
    let states: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', content, state, session_id) FROM memory_agent.entries \
          WHERE fact_key = 'home' ORDER BY created_at",
        &[],
    );
    assert_eq!(states, ["Ann lives in Rome. inactive", "Ann lives in Oslo. active"]);
    assert_ne!(oslo, rome);
    let document =
        "SELECT memory_add_document('# Pies'||chr(10)||'With apples.', 'Pies', session_id => $1)";
    let named: Uuid = value(&mut client, document, &[&"global"]);
    assert_eq!(value::<Uuid>(&mut client, document, &[&None::<String>]), named);
    let sessions: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT e.kind FROM memory_agent.entries e WHERE e.session_id = 'global'",
        &[],
    );
    assert_eq!(sessions, ["turn"], "a conversation of the name has turns only");
}

#[test]
fn functions_about_sessions_take_the_name() {
    let mut client = fill("global_functions");
    let stats: Json = value(&mut client, "SELECT memory_stats('global')", &[]);
    assert_eq!(
        (&stats["turns"], &stats["facts"], &stats["sessions"]),
        (&1.into(), &2.into(), &1.into())
    );
    let loaded: Vec<String> = values(&mut client, "SELECT content FROM memory_load('global')", &[]);
    assert_eq!(loaded, ["apple said in global"]);
    let mut exported: Vec<String> =
        values(&mut client, "SELECT content FROM memory_export_markdown('global')", &[]);
    exported.sort();
    let mut unnamed: Vec<String> =
        values(&mut client, "SELECT content FROM memory_export_markdown(NULL)", &[]);
    unnamed.sort();
    assert_eq!(exported, unnamed);
    assert_eq!(exported.len(), GLOBAL.len());
    // Prompts of it read the user's sessions, as those of every session do.
    run(&mut client, "SET memory_agent.session_recall = session");
    let context: Json =
        value(&mut client, "SELECT memory_context('global', 'Which apple was that?')", &[]);
    let messages = context["messages"].to_string();
    for text in ["apple said in global", "apple named", "apple unnamed"] {
        assert!(messages.contains(text), "{text}: {messages}");
    }
    assert!(!messages.contains("apple s1"), "{messages}");
    let augmented: Json = value(
        &mut client,
        "SELECT memory_augment('[{\"role\": \"user\", \"content\": \"Which apple?\"}]', 'global')",
        &[],
    );
    assert!(augmented.to_string().contains("apple named"), "{augmented}");
}
