//! What turns are: markers reach the extraction, and what an assistant decided becomes a fact where that is
//! wanted. Of everything else that is stored, only the user's turns do.

use crate::models::echo;
use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, Purpose};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, Uuid, json, retry_until};

const DECISION: &str = "Decision: we ship the shop on May 9.";

/// The turns of the extract requests, in order.
fn turns(scene: &Scene) -> Vec<Json> {
    let calls = scene.stub.calls();
    let extractions = calls.iter().filter(|call| call.purpose() == Purpose::Extract);
    extractions.flat_map(|call| call.data()["turns"].as_array().unwrap().clone()).collect()
}

fn systems(scene: &Scene) -> Vec<String> {
    let calls = scene.stub.calls();
    let extractions = calls.iter().filter(|call| call.purpose() == Purpose::Extract);
    extractions.map(Call::system).collect()
}

#[test]
fn markers_reach_the_extraction() {
    let mut scene = Scene::start(echo);
    scene.say_and_wait("I live in Oslo.");
    scene.say_and_wait(DECISION);
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'We file in June.', markers => '{custom:legal,goal}')",
    );
    scene.drain();
    let markers: Vec<Json> =
        turns(&scene).iter().map(|turn| turn.get("markers").cloned().unwrap_or_default()).collect();
    assert_eq!(markers, [Json::Null, json!(["decision"]), json!(["custom:legal", "goal"])]);
    // What is said of them is said only where there are some.
    let said: Vec<bool> =
        systems(&scene).iter().map(|system| system.contains("\"markers\" of a turn")).collect();
    assert_eq!(said, [false, true, true]);
    assert_eq!(scene.fact("Noted: We file in June.").markers, ["custom:legal", "goal"]);
}

#[test]
fn what_an_assistant_decided_becomes_a_fact_where_that_is_wanted() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.sweep_interval", "1")]);
    scene.say_as("assistant", DECISION);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "off by default");

    run(&mut scene.client, "SET memory_agent.assistant_decisions = on");
    scene.say_as("assistant", "You could take the train.");
    scene.say_as("tool", DECISION);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "no decision, and not the assistant's");

    let decided = "We decided to rent the stall in Bergen.";
    let turn = scene.say_as("assistant", decided);
    scene.say("I live in Oslo.");
    scene.drain();
    let asked = turns(&scene);
    let of_assistant = asked.iter().find(|turn| turn["text"] == decided).unwrap();
    assert_eq!(of_assistant["role"], "assistant");
    assert!(asked.iter().all(|turn| turn["text"] == decided || turn.get("role").is_none()));
    assert!(!asked.iter().any(|turn| turn["text"] == DECISION), "only what comes from now on");
    assert!(systems(&scene)[0].contains("A turn with \"role\": \"assistant\""));
    let fact = scene.fact(&format!("Noted: {decided}"));
    assert_eq!(
        (fact.state.as_str(), fact.sources, fact.markers),
        ("active", vec![turn], vec!["decision".to_owned()])
    );
    let done = "SELECT isfinite(extracted_at) FROM memory_agent.entries WHERE id = $1";
    assert!(value::<bool>(&mut scene.client, done, &[&turn]));

    // A lost job is found again.
    let lost = "We agreed on two crates of apples.";
    run(
        &mut scene.client,
        &format!(
            "BEGIN; SELECT memory_ingest('s', 'assistant', '{lost}'); DELETE FROM memory_agent.jobs; COMMIT"
        ),
    );
    retry_until(PATIENCE, "the swept decision", || {
        scene.facts().contains(&format!("Noted: {lost}")).then_some(())
    });

    // Another text is another decision; forgotten and brought back, it waits still.
    run(
        &mut scene.client,
        &format!("SELECT memory_update('{turn}', 'We decided to rent the stall in Voss.')"),
    );
    scene.drain();
    assert!(scene.facts().contains(&"Noted: We decided to rent the stall in Voss.".to_owned()));
    run(&mut scene.client, "SET memory_agent.extraction = off");
    scene.say_as("assistant", "We decided to close at six.");
    scene.drain();
    assert!(!scene.facts().iter().any(|fact| fact.contains("close at six")));
}

#[test]
fn facts_come_from_what_the_user_says_unless_asked() {
    let mut scene = Scene::start(echo);
    for role in ["system", "assistant", "tool", "memory"] {
        scene.say_as(role, &format!("Decision: Anna owns {role} shares."));
    }
    run(
        &mut scene.client,
        "SELECT memory_add_document('Anna owns a house in Bergen. She decided to sell it.', 'Anna');
         SELECT memory_add('Anna owns a boat.', 's', infer => false);
         CREATE TABLE notes (id int PRIMARY KEY, role text, body text);
         SELECT memory_attach('notes', 'body', user_id => 'alice', role_column => 'role');
         INSERT INTO notes VALUES (1, 'user', 'Anna owns a kiosk.'), (2, 'tool', 'Anna owns a mill.')",
    );
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0);
    assert_eq!(scene.facts(), ["Anna owns a boat."]);
    // Asked, a text of any origin is extracted from.
    value::<Uuid>(&mut scene.client, "SELECT memory_add('Anna owns a lighthouse.', 's')", &[]);
    scene.drain();
    assert_eq!(scene.facts(), ["Anna owns a boat.", "Noted: Anna owns a lighthouse."]);
}
