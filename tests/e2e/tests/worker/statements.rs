//! The statement check: a second question about new facts, which small models answer better than the first.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Fault, FaultPlan, Purpose};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Json, json};

const SAID: &str =
    "My garden gnome said \"I resign as of today\". My wife is a pharmacist in Bremen.";
const SOBER: &str = "My wife is a pharmacist in Bremen.";
const MEANT: &str = "The user's wife is a pharmacist in Bremen.";
const JOKE: &str = "The user's garden gnome resigned.";
const ELSEWHERE: &str = "The user's wife is a pharmacist in Hamburg.";

/// Makes facts of the wife and of the gnome, and takes what the gnome does for a joke. It passes probes.
fn gullible(call: &Call) -> Json {
    let document = Document::of(call);
    match call.purpose() {
        Purpose::Extract => {
            let turns = document.turns.iter();
            let facts = turns.flat_map(|(turn, text)| {
                let facts = [("gnome", JOKE), ("wife", MEANT), ("wife", ELSEWHERE)];
                let made = facts.into_iter().filter(|(word, _)| text.contains(word));
                made.map(move |(_, fact)| json!({"turn": turn, "text": fact}))
            });
            json!({"facts": facts.collect::<Vec<_>>()})
        }
        Purpose::Check => {
            let data = call.data();
            let notes = data["notes"].as_array().expect("notes");
            let word = |note: &Json| if note == JOKE { "joke" } else { "stated" };
            json!({"checks": notes.iter().map(word).collect::<Vec<_>>()})
        }
        Purpose::Probe => document.pass(),
        _ => document.unrelated(),
    }
}

/// In the probe, it takes what it should not for stated.
fn failing(call: &Call) -> Json {
    let mut answer = gullible(call);
    if call.purpose() == Purpose::Probe {
        let facts = answer["facts"].as_array_mut().expect("the probe of statements");
        facts.push(json!({"turn": 7, "text": "The user is a toaster"}));
    }
    answer
}

fn checking(model: impl memory_agent_e2e::llm::Model, settings: &[(&str, &str)]) -> Scene {
    let settings = [settings, &[("memory_agent.statement_check", "on")]].concat();
    Scene::with_settings(model, &settings)
}

fn purposes(scene: &Scene) -> Vec<Purpose> {
    scene.stub.calls().iter().map(Call::purpose).collect()
}

#[test]
fn a_fact_that_is_not_meant_is_set_aside() {
    let mut scene = checking(gullible, &[]);
    let turn = scene.say_and_wait(SAID);
    assert_eq!(scene.facts(), [MEANT]);
    let joke = scene.fact(JOKE);
    let why = "asked again, the LLM takes it for a joke";
    assert_eq!((joke.state.as_str(), joke.reason.as_deref()), ("inactive", Some("unverified")));
    assert_eq!((joke.metadata["unverified"].as_str(), joke.sources), (Some(why), vec![turn]));

    // What the rules refuse, the LLM is not asked about.
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check]);
    assert_eq!(scene.stub.calls()[1].data(), json!({"said": SAID, "notes": [JOKE, MEANT]}));
    let recorded: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_llm_calls WHERE purpose = 'check' AND status = 'ok'",
        &[],
    );
    assert_eq!(recorded, 1);
}

#[test]
fn the_statement_check_is_a_setting() {
    let mut scene = Scene::with_settings(failing, &[("memory_agent.statement_check", "off")]);
    scene.say_and_wait(SAID);
    assert_eq!(scene.facts(), [JOKE, MEANT]);
    assert_eq!(purposes(&scene), [Purpose::Extract]);

    // Checked or not, with `accept` every fact is stored.
    run(
        &mut scene.client,
        "SET memory_agent.statement_check = on; SET memory_agent.ungrounded_facts = accept; \
         SELECT memory_ingest('accepted', 'user', 'Who knew? My garden gnome resigned.')",
    );
    scene.drain();
    assert!(!purposes(&scene).contains(&Purpose::Check));

    run(
        &mut scene.client,
        "SET memory_agent.ungrounded_facts = drop; \
         SELECT memory_ingest('dropped', 'user', 'Who knew? My garden gnome resigned.')",
    );
    scene.drain();
    assert!(purposes(&scene).contains(&Purpose::Check));
    let kept: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries WHERE kind = 'fact' AND session_id = 'dropped'",
        &[],
    );
    assert_eq!(kept, 0);
}

/// The second question is for LLMs that need it.
#[test]
fn by_default_an_llm_is_asked_again_that_fails_the_probe() {
    let status = |scene: &mut Scene| -> String {
        let sql = "SELECT detail FROM memory_status() WHERE component = 'extraction'";
        value(&mut scene.client, sql, &[])
    };
    let mut scene = Scene::start(gullible);
    scene.say_and_wait(SOBER);
    assert_eq!(purposes(&scene), [Purpose::Extract], "it only states something");
    assert!(status(&mut scene).ends_with("made of them"));
    scene.say_and_wait(SAID);
    scene.say_and_wait("Who knew? My garden gnome resigned.");
    use Purpose::{Check, Extract, Probe};
    assert_eq!(purposes(&scene), [Extract, Extract, Probe, Extract], "asked once, and believed");
    assert_eq!(scene.facts(), [JOKE, MEANT]);
    assert!(status(&mut scene).ends_with("; probe of stub-1: 8 of 8 right"));

    let mut scene = Scene::start(failing);
    scene.say_all(&[SAID, "Who knew? My garden gnome resigned."]);
    scene.drain();
    assert_eq!(purposes(&scene), [Extract, Probe, Check, Check]);
    assert_eq!(scene.facts(), [MEANT]);
    assert!(status(&mut scene).ends_with("; probe of stub-1: 7 of 8 right"));
    // From then on, it is asked about one sentence at a time.
    let asked = scene.stub.call_count();
    scene.say_all(&["My cat is called Poum. My dog is called Rex.", "My sister is a nurse."]);
    scene.drain();
    let sentences: Vec<String> = (scene.stub.calls()[asked..].iter())
        .flat_map(|call| Document::of(call).turns)
        .map(|(_, text)| text)
        .collect();
    let expected = ["My cat is called Poum.", "My dog is called Rex.", "My sister is a nurse."];
    assert_eq!(
        (scene.stub.call_count() - asked, &sentences[..]),
        (3, &expected.map(str::to_owned)[..])
    );
}

/// Without an answer it has not passed, for an hour.
#[test]
fn a_probe_of_statements_that_fails_holds_nothing_up() {
    for fault in [Fault::Status(400), Fault::GarbageContent, Fault::Status(503)] {
        let mut scene = Scene::start(gullible);
        let is_probe = |call: &Call| call.purpose() == Purpose::Probe;
        scene.stub.faults(FaultPlan::when(move |call| is_probe(call).then_some(fault)));
        scene.say_and_wait(SAID);
        assert!(purposes(&scene).contains(&Purpose::Check), "{fault:?}");
        assert_eq!(scene.facts(), [MEANT], "{fault:?}");
        let kept: Vec<String> = values(
            &mut scene.client,
            "SELECT concat_ws(' ', probe, right_answers, valid_until - asked_at) FROM memory_agent.llm_probes",
            &[],
        );
        assert_eq!(kept, ["statements 0 01:00:00"], "{fault:?}");
    }
}

#[test]
fn each_turn_that_does_not_only_state_is_checked_by_itself() {
    let mut scene = checking(gullible, &[]);
    let asked = "Who knew? My garden gnome resigned.";
    scene.say_all(&[SAID, SOBER, asked]);
    scene.drain();
    let checks: Vec<Json> = scene
        .stub
        .calls()
        .iter()
        .filter(|call| call.purpose() == Purpose::Check)
        .map(Call::data)
        .collect();
    let expected =
        [json!({"said": SAID, "notes": [JOKE, MEANT]}), json!({"said": asked, "notes": [JOKE]})];
    assert_eq!(checks, expected);
    assert_eq!(scene.facts(), [MEANT]);
    assert_eq!(scene.fact(MEANT).sources.len(), 2);
}

/// In an episode too.
#[test]
fn turns_of_an_episode_are_checked() {
    let mut scene = checking(gullible, &[]);
    run(
        &mut scene.client,
        "SET memory_agent.extraction = episode; SET memory_agent.min_episode_turns = 1",
    );
    scene.say(SAID);
    run(&mut scene.client, "SELECT memory_close_episode('s')");
    scene.drain();
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check]);
    assert_eq!(scene.facts(), [MEANT]);
}

#[test]
fn facts_are_taken_as_they_are_if_the_answer_is_of_no_use() {
    let silent = |call: &Call| match call.purpose() {
        Purpose::Check => json!({"checks": ["stated"]}),
        _ => gullible(call),
    };
    let mut scene = checking(silent, &[]);
    scene.say_and_wait(SAID);
    // A second answer is asked for, and no third.
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check, Purpose::Check]);
    assert_eq!(scene.facts(), [JOKE, MEANT]);
    let job = scene.last_job();
    let error = job.error.expect("why nothing was checked");
    assert!(error.contains("a word for each of the 2 notes, not 1"), "{error}");
    assert_eq!((job.status.as_str(), job.attempts), ("done", 0));
}

#[test]
fn a_failed_check_is_tried_again_without_another_extraction() {
    let mut scene = checking(gullible, &[("memory_agent.llm_max_attempts", "2")]);
    scene.stub.faults(FaultPlan::script([None, Some(Fault::Status(500))]));
    scene.say_and_wait(SAID);
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check, Purpose::Check]);
    assert_eq!(scene.facts(), [MEANT]);
    assert_eq!(scene.last_job().attempts, 1);
}

#[test]
fn after_the_last_attempt_facts_are_taken_as_they_are() {
    let mut scene = checking(gullible, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::script([None, Some(Fault::Status(500))]));
    scene.say_and_wait(SAID);
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check]);
    assert_eq!(scene.facts(), [JOKE, MEANT]);
    let error = scene.last_job().error.expect("why nothing was checked");
    assert!(error.contains("500"), "{error}");
}

/// A joke that comes true is a fact.
#[test]
fn a_fact_that_one_of_its_turns_states_is_kept() {
    let twice = |call: &Call| match call.purpose() {
        Purpose::Check => {
            let is_meant =
                call.data()["said"].as_str().is_some_and(|said| said.ends_with("Really."));
            json!({"checks": [if is_meant { "stated" } else { "joke" }]})
        }
        Purpose::Extract => {
            let turns = Document::of(call).turns.into_iter();
            json!({"facts": turns.map(|(turn, _)| json!({"turn": turn, "text": JOKE})).collect::<Vec<_>>()})
        }
        _ => gullible(call),
    };
    let mut scene = checking(twice, &[]);
    scene.say_all(&[
        "Who knew? My garden gnome resigned.",
        "Who knew? My garden gnome resigned. Really.",
    ]);
    scene.drain();
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check, Purpose::Check]);
    assert_eq!(scene.facts(), [JOKE]);
    assert_eq!(scene.fact(JOKE).sources.len(), 2);
}

#[test]
fn a_turn_that_is_not_asked_about_counts_as_stating_its_facts() {
    let mut scene = checking(gullible, &[]);
    scene.say_all(&["Who knew? My garden gnome resigned.", "My garden gnome resigned."]);
    scene.drain();
    assert_eq!(purposes(&scene), [Purpose::Extract, Purpose::Check]);
    assert_eq!(scene.facts(), [JOKE]);
}

/// The question is about what a user says.
#[test]
fn what_an_assistant_decided_is_not_checked() {
    let mut scene = checking(gullible, &[("memory_agent.assistant_decisions", "on")]);
    let text = "My wife is a pharmacist in Bremen. Shall I note that?";
    let mut say = |role: &str| {
        scene
            .client
            .execute("SELECT memory_ingest($1, $1, $2, markers => '{decision}')", &[&role, &text])
            .expect("ingest");
        scene.drain();
        purposes(&scene)
    };
    assert_eq!(say("assistant"), [Purpose::Extract]);
    assert_eq!(say("user")[1..], [Purpose::Extract, Purpose::Check]);
    assert_eq!(scene.fact(MEANT).sources.len(), 2, "both sessions say it");
}
