//! What came before a turn, shown with it: an answer to a question is no statement without the question.

use crate::models::echo;
use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Json, json};

/// What the extract requests showed before each of their turns, without the days.
fn before(scene: &Scene) -> Vec<Json> {
    let calls = scene.stub.calls();
    let extractions = calls.iter().filter(|call| call.purpose() == Purpose::Extract);
    let turns = extractions.flat_map(|call| call.data()["turns"].as_array().unwrap().clone());
    let undated = |turn: Json| {
        let mut before = turn.get("before").cloned().unwrap_or_default();
        for message in before.as_array_mut().into_iter().flatten() {
            let day = message.as_object_mut().unwrap().remove("said_at").unwrap();
            assert_eq!(day.as_str().unwrap().len(), "2024-05-03".len());
        }
        before
    };
    turns.map(undated).collect()
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
        "It rains." => Some("The user's sister Marta moved to Faro in May."),
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
    // Without a question, "yes" says nothing, and what was said before is no fact of a turn.
    let known = scene.facts();
    scene.say_and_wait("She moved to Faro in May.");
    scene.say_and_wait("It rains.");
    assert_eq!(scene.facts(), known);
    let again = scene.fact("The user's sister Marta moved to Faro in May.");
    assert_eq!(again.metadata["unverified"], "it was said before the turn, not in it");
    scene.say_as("assistant", "Good to know.");
    scene.say_and_wait("Yes.");
    assert_eq!(before(&scene).len(), 5);
}

#[test]
fn what_is_not_for_the_llm_is_not_shown_before_a_turn() {
    let mut scene = Scene::start(echo);
    run(
        &mut scene.client,
        "SET memory_agent.extraction_context = 20; SET memory_agent.extraction = off",
    );
    let pin = scene.say("My PIN is 4711.");
    scene.say_as("assistant", "So your PIN is 4711.");
    run(&mut scene.client, "SET memory_agent.extraction = turn");
    let aunt = scene.say_and_wait("My aunt Rosa sings.");
    // What is left is an answer to a turn that nobody may read, whether that is still there or not.
    run(&mut scene.client, &format!("SELECT memory_forget('{aunt}'), memory_erase(id => '{pin}')"));
    scene.say_as("assistant", "Where does she sing?");
    scene.say_and_wait("In Bergen.");
    scene.say_as("assistant", "And you?");
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'I have a headache.', ttl => '1 day')",
    );
    scene.drain();
    scene.say_as("assistant", "Get well.");
    scene.say_and_wait("I live in Oslo.");
    let of_bergen = shown(&[("user", "In Bergen."), ("assistant", "And you?")]);
    assert_eq!(before(&scene), [Json::Null, Json::Null, of_bergen, Json::Null]);
}

#[test]
fn what_is_no_part_of_the_conversation_is_not_shown_before_a_turn() {
    let mut scene = Scene::start(echo);
    run(
        &mut scene.client,
        "SET memory_agent.extraction_context = 20;
         CREATE TABLE orders (id int PRIMARY KEY, chat text, body text);
         SELECT memory_attach('orders', 'body', session_id_column => 'chat', user_id => 'alice');
         SELECT memory_ingest('s', 'user', 'Hello!');
         INSERT INTO orders VALUES (1, 's', 'Two crates of apples.');
         SELECT memory_ingest('elsewhere', 'user', 'Anna owns a kiosk.'),
                memory_ingest('s', 'user', 'Anna owns a mill.', agent_id => 'other'),
                memory_ingest('s', 'user', 'Anna owns a barn.', user_id => 'bob');
         SELECT memory_add('Anna owns a boat.', 's')",
    );
    let turn = scene.say("Anna owns a hut.");
    run(&mut scene.client, &format!("SELECT memory_update('{turn}', 'Anna owns a house.')"));
    scene.drain();
    let asked = scene.stub.calls().len();
    scene.say_and_wait("I live in Oslo.");
    assert!(scene.stub.calls().len() > asked);
    let last = before(&scene).pop().unwrap();
    assert_eq!(last, shown(&[("user", "Hello!"), ("user", "Anna owns a house.")]));
}

#[test]
fn turns_of_one_call_have_no_gap_between_them() {
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
    let asked = |question| shown(&[("assistant", question)]);
    assert_eq!(before(&scene), [asked("Where do you live?"), asked("And your brother?")]);
}

#[test]
fn a_sentence_by_itself_has_what_came_before_its_turn() {
    let settings =
        [("memory_agent.extraction_context", "1"), ("memory_agent.extraction_batch", "0")];
    let mut scene = Scene::with_settings(understanding, &settings);
    let long = format!("{} Do you have a dog called Balu?", "Well. ".repeat(300));
    scene.say_as("assistant", &long);
    scene.say_and_wait("Yes.");
    assert_eq!(scene.facts(), ["The user has a dog called Balu."]);
    let shown = before(&scene)[0][0]["text"].as_str().unwrap().to_owned();
    assert!(long.ends_with(&shown) && shown.chars().count() == 1000, "{shown}");
}

#[test]
fn times_before_a_turn_are_counted_from_their_own_day() {
    let mut scene = Scene::start(|call: &Call| {
        let document = Document::of(call);
        if call.purpose() != Purpose::Extract {
            return document.unrelated();
        }
        let flies = |day| json!({"turn": 1, "text": format!("The user flies to Rome on {day}.")});
        json!({"facts": [flies("2024-05-05"), flies("2024-05-22")]})
    });
    run(
        &mut scene.client,
        "SET memory_agent.extraction_context = 1;
         SELECT memory_ingest('s', 'assistant', 'Do you fly to Rome the day after tomorrow?',
                              created_at => '2024-05-03 10:00+00'),
                memory_ingest('s', 'user', 'Yes, I fly.', created_at => '2024-05-20 10:00+00')",
    );
    scene.drain();
    assert_eq!(scene.facts(), ["The user flies to Rome on 2024-05-05."]);
}

#[test]
fn a_message_too_long_to_be_shown_is_no_gap() {
    let mut scene = Scene::start(understanding);
    run(&mut scene.client, "SET memory_agent.extraction_context = 5");
    scene.say_as("assistant", "Do you have a dog called Balu?");
    scene.say_and_wait(&format!("I live in Oslo. {}", "x ".repeat(50_000)));
    // It is not what the assistant asked about before that.
    scene.say_and_wait("Yes.");
    assert_eq!(before(&scene), [shown(&[("assistant", "Do you have a dog called Balu?")])]);
    assert_eq!(scene.facts(), [""; 0]);
}
