//! What came before a turn, shown with it: an answer to a question is no statement without the question.

use crate::models::echo;
use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Json, json};

/// What the extract requests showed before each of their turns.
fn before(scene: &Scene) -> Vec<Json> {
    let calls = scene.stub.calls();
    let extractions = calls.iter().filter(|call| call.purpose() == Purpose::Extract);
    let turns = extractions.flat_map(|call| call.data()["turns"].as_array().unwrap().clone());
    turns.map(|turn| turn.get("before").cloned().unwrap_or_default()).collect()
}

fn shown(messages: &[(&str, &str)]) -> Json {
    messages.iter().map(|(role, text)| json!({"role": role, "text": text})).collect()
}

/// Makes of the last turn what it means as an answer.
fn understanding(call: &Call) -> Json {
    let document = Document::of(call);
    if call.purpose() != Purpose::Extract {
        return document.unrelated();
    }
    let meaning = |text: &str| match text {
        "She moved to Faro." => Some("The user's sister Marta moved to Faro."),
        "Yes." => Some("The user has a dog called Balu."),
        _ => None,
    };
    let facts = document.turns.iter().filter_map(|(turn, text)| {
        Some(json!({"turn": turn, "text": meaning(text)?, "confidence": 1}))
    });
    json!({"facts": facts.collect::<Vec<_>>()})
}

#[test]
fn what_came_before_a_turn_is_shown_where_that_is_wanted() {
    let mut scene = Scene::start(understanding);
    let question = "Is your sister Marta still in Porto?";
    scene.say_as("assistant", question);
    scene.say_and_wait("She moved to Faro.");
    assert_eq!(before(&scene), [Json::Null], "off by default");
    let fact = scene.fact("The user's sister Marta moved to Faro.");
    assert_eq!(fact.reason.as_deref(), Some("unverified"), "nobody said so");

    run(&mut scene.client, "SET memory_agent.extraction_context = 2");
    scene.say_as("assistant", question);
    scene.say_and_wait("She moved to Faro.");
    scene.say_as("tool", "The weather: sunny.");
    scene.say_as("assistant", "Do you have a dog called Balu?");
    scene.say_and_wait("Yes.");
    assert_eq!(
        before(&scene)[1..],
        [
            shown(&[("user", "She moved to Faro."), ("assistant", question)]),
            shown(&[
                ("user", "She moved to Faro."),
                ("assistant", "Do you have a dog called Balu?")
            ]),
        ]
    );
    assert_eq!(
        scene.facts(),
        ["The user has a dog called Balu.", "The user's sister Marta moved to Faro."]
    );
    // Without a question, "yes" says nothing.
    scene.say_as("assistant", "Good to know.");
    scene.say_and_wait("Yes.");
    assert_eq!(before(&scene).len(), 3);
}

#[test]
fn what_is_not_for_the_llm_is_not_shown_before_a_turn() {
    let mut scene = Scene::start(echo);
    run(
        &mut scene.client,
        "SET memory_agent.extraction_context = 20; SET memory_agent.extraction = off",
    );
    let deleted = scene.say_as("user", "My locker is number 7.");
    scene.say("My PIN is 4711.");
    scene.say_as("assistant", "So your PIN is 4711.");
    run(&mut scene.client, "SET memory_agent.extraction = turn");
    let forgotten = scene.say_and_wait("My aunt Rosa sings.");
    run(
        &mut scene.client,
        &format!("SELECT memory_forget('{deleted}'), memory_forget('{forgotten}')"),
    );
    run(&mut scene.client, "SELECT memory_ingest('elsewhere', 'user', 'I live in Oslo.')");
    scene.drain();
    scene.say_as("assistant", "Where does she sing?");
    scene.say_and_wait("In Bergen.");
    assert_eq!(
        before(&scene),
        [Json::Null, Json::Null, shown(&[("assistant", "Where does she sing?")])]
    );
}

#[test]
fn turns_of_one_call_are_shown_once() {
    let mut scene = Scene::start(echo);
    run(&mut scene.client, "SET memory_agent.extraction_context = 3");
    scene.say_as("assistant", "Where do you live?");
    run(
        &mut scene.client,
        "BEGIN; SELECT memory_ingest('s', 'user', 'In Lisbon.');
         SELECT memory_ingest('s', 'assistant', 'And your brother?');
         SELECT memory_ingest('s', 'user', 'In Faro.'); COMMIT",
    );
    scene.drain();
    let asked = shown(&[("assistant", "Where do you live?")]);
    let both = shown(&[("assistant", "Where do you live?"), ("assistant", "And your brother?")]);
    assert_eq!(before(&scene), [asked, both]);
}
