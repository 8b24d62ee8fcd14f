//! Erasing while an LLM is at work on it, and what is condensed anew afterwards.

use crate::scene::Scene;
use crate::{SECRET, erase, tables_with, talkative};
use memory_agent_e2e::Uuid;
use memory_agent_e2e::memory::{run, value, values};

const SETTINGS: [(&str, &str); 2] =
    [("memory_agent.trace", "calls"), ("memory_agent.summarization", "on")];

/// Long enough for a summary of its own.
fn long(about: &str) -> String {
    format!("I talk about {about}. {}", "And on and on it goes. ".repeat(40))
}

#[test]
fn an_answer_that_comes_after_the_erasure_is_dropped() {
    let mut scene = Scene::with_settings(talkative, &SETTINGS);
    scene.say_and_wait(&long("tea"));
    for arguments in ["session_id => 's'", "user_id => 'alice'"] {
        let calls = scene.stub.call_count();
        scene.stub.hold(true);
        let turn = scene.say(&long(SECRET));
        scene.wait_for_calls(calls + 1);
        erase(&mut scene.client, arguments);
        assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new(), "{arguments}");
        scene.stub.hold(false);
        // The worker is there for others as soon as it has dropped the answer.
        scene.say_and_wait("I like cake.");
        assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new(), "{arguments}");
        let of_turn: i64 = value(
            &mut scene.client,
            "SELECT count(*) FROM memory_agent.entries WHERE id = $1 OR $1 = ANY (source_ids)",
            &[&turn],
        );
        assert_eq!(of_turn, 0, "{arguments}");
    }
    assert_eq!(scene.facts(), ["Noted: I like cake."]);
}

#[test]
fn one_turn_is_erased_while_others_of_its_request_are_waited_for() {
    let mut scene = Scene::with_settings(
        talkative,
        &[("memory_agent.trace", "calls"), ("memory_agent.sweep_interval", "2s")],
    );
    scene.stub.hold(true);
    let secret: Uuid = scene.say("My code is zzqx77.");
    scene.say("I like cake.");
    scene.wait_for_calls(1);
    erase(&mut scene.client, &format!("id => '{secret}'"));
    scene.stub.hold(false);
    // The other turn is found again, and asked about without it.
    memory_agent_e2e::wait_until(crate::scene::PATIENCE, "the other fact", || {
        scene.facts() == ["Noted: I like cake."]
    });
    scene.drain();
    assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new());
}

#[test]
fn the_work_of_other_sessions_goes_on() {
    let mut scene = Scene::with_settings(talkative, &[("memory_agent.trace", "calls")]);
    scene.stub.hold(true);
    scene.say(&long(SECRET));
    run(&mut scene.client, "SELECT memory_ingest('other', 'user', 'I like cake.')");
    scene.wait_for_calls(2);
    let running =
        "SELECT id FROM memory_agent.jobs WHERE session_id = 'other' AND status = 'running'";
    let job: Uuid = value(&mut scene.client, running, &[]);
    erase(&mut scene.client, "session_id => 's'");
    scene.stub.hold(false);
    scene.drain();
    let status: String =
        value(&mut scene.client, "SELECT status FROM memory_agent.jobs WHERE id = $1", &[&job]);
    assert_eq!((status.as_str(), scene.stub.call_count()), ("done", 2), "it was not asked again");
    assert_eq!(scene.facts(), ["Noted: I like cake."]);
    assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new());
}

#[test]
fn what_is_left_of_a_session_is_summarised_anew() {
    let mut scene = Scene::with_settings(talkative, &SETTINGS);
    let secret = scene.say_and_wait(&long(SECRET));
    scene.say_and_wait(&long("tea"));
    let summaries =
        "SELECT content FROM memory_agent.session_summaries WHERE is_active AND level = 'L3'";
    assert_eq!(values::<String>(&mut scene.client, summaries, &[]), ["A talk about zzqx77."]);
    let counts = erase(&mut scene.client, &format!("id => '{secret}'"));
    assert!(counts["session_summaries"].as_u64() >= Some(1), "{counts}");
    scene.drain();
    assert_eq!(values::<String>(&mut scene.client, summaries, &[]), ["A talk about other things."]);
    assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new());
}
