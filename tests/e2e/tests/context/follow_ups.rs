//! Messages that only what was said before explains: "and for her?".

use crate::context;
use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{Client, Json, Uuid, json, shared};

const EVERYDAY: &str = include_str!("../../../../bench/languages/everyday.json");

/// The English messages of the file that continue a conversation and need a fact, and the facts: all in the user's
/// memory.
fn follow_ups(database: &str) -> (Client, Vec<Json>, Vec<String>) {
    let everyday: Json = serde_json::from_str(EVERYDAY).unwrap();
    let memories = everyday["memories"].as_array().unwrap();
    let memory = memories.iter().find(|memory| memory["id"] == "en").unwrap();
    let facts = memory["facts"].as_array().unwrap();
    let facts: Vec<String> = facts.iter().map(|fact| fact.as_str().unwrap().to_owned()).collect();
    let mut client = shared().database(database).connect();
    for fact in &facts {
        let _: Uuid = value(&mut client, "SELECT memory_add($1, infer => false)", &[fact]);
    }
    let messages = everyday["messages"].as_array().unwrap().iter();
    let is_meant = |message: &&Json| {
        let is_empty = |key: &str| message[key].as_array().unwrap().is_empty();
        message["memory"] == "en" && !is_empty("before") && !is_empty("needs")
    };
    (client, messages.filter(is_meant).cloned().collect(), facts)
}

/// Whether one of these memories is a fact that the message needs.
fn has_what_it_needs(memories: &Json, message: &Json, facts: &[String]) -> bool {
    let needs: Vec<&str> = message["needs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| facts[place.as_u64().unwrap() as usize].as_str())
        .collect();
    let memories = memories.as_array().unwrap();
    memories.iter().any(|memory| needs.contains(&memory["content"].as_str().unwrap()))
}

#[test]
fn what_was_said_before_tells_what_a_short_message_is_about() {
    let (mut client, messages, facts) = follow_ups("follow_ups");
    let (mut alone, mut after) = (0, 0);
    for message in &messages {
        let latest = json!({"role": "user", "content": message["message"]});
        let mut all = message["before"].as_array().unwrap().clone();
        all.push(latest.clone());
        let mut is_found = |messages: Vec<Json>| {
            let augmented: Json = value(
                &mut client,
                "SELECT memory_augment($1, session_id => 's', top_k => 5)",
                &[&Json::from(messages)],
            );
            has_what_it_needs(&augmented["memory_hits"], message, &facts)
        };
        alone += usize::from(is_found(vec![latest]));
        after += usize::from(is_found(all));
    }
    assert!(messages.len() == 7 && after >= 6 && alone < after, "{alone} {after}");
}

#[test]
fn a_context_knows_the_session_that_a_short_message_continues() {
    let (mut client, messages, facts) = follow_ups("follow_ups_context");
    // Only the turns of its own session may explain a message, not those of the other messages here.
    run(&mut client, "SET memory_agent.session_recall = 'session'");
    let (mut alone, mut after) = (0, 0);
    for (number, message) in messages.iter().enumerate() {
        let session = format!("s{number}");
        let is_found = |client: &mut Client| {
            let text = message["message"].as_str().unwrap().replace('\'', "''");
            // Room for the turns and some five memories.
            let made = context(client, &format!("'{session}', '{text}', token_budget => 700"));
            has_what_it_needs(&made["memories"], message, &facts)
        };
        alone += usize::from(is_found(&mut client));
        for turn in message["before"].as_array().unwrap() {
            let _: Uuid = value(
                &mut client,
                "SELECT memory_ingest($1, $2, $3)",
                &[&session, &turn["role"].as_str().unwrap(), &turn["content"].as_str().unwrap()],
            );
        }
        let found = is_found(&mut client);
        after += usize::from(found);
        // Whether the message was stored before it is asked about makes no difference.
        ingest(&mut client, &session, message["message"].as_str().unwrap());
        assert_eq!(is_found(&mut client), found, "{message}");
    }
    assert!(after >= 6 && alone < after, "{alone} {after}");
}
