//! The probe: what an LLM is trusted with is found out once, where settings leave it to that.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Fault, FaultPlan, Model, Purpose};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, json};

/// Beginnings of the probe's facts with the memory that each one changes or repeats; the others are new.
const RIGHT: [(&str, &str); 8] = [
    ("The user has moved to Braga", "replaces 1"),
    ("The weekly team meeting now", "replaces 5"),
    ("The user owns a pair of cats", "same as 3"),
    ("The user has given up coffee", "ends 7"),
    ("Ines has swapped the violin", "replaces 2"),
    ("The user has a peanut allergy", "same as 4"),
    ("The user and Jonas have broken off", "ends 6"),
    ("The user's dentist appointment was moved", "replaces 8"),
];
const FORGET: &str = "DELETE FROM memory_agent.llm_probes";
const HOME: &str = "User lives in Rome.";
const WORK: &str = "User works in Rome.";
const RENT: &str = "User's rent is 900 euros a month.";
/// Each a change of what the other one says.
const RENTS: [&str; 2] = ["My rent is 900 euros.", "I work in Rome, and my rent is 950 euros."];
const HIGHER: &str = "User's rent is 950 euros a month.";

fn is_probe(call: &Call) -> bool {
    call.purpose() == Purpose::Probe
}

fn answer_of_probe(call: &Call) -> Json {
    Document::of(call).decide(|fact, _| {
        let right = RIGHT.iter().find(|(begin, _)| fact.starts_with(begin));
        right.map_or("new", |(_, choice)| choice).to_owned()
    })
}

/// Makes facts of messages, and replaces what is known of the rent, or else of the rest. In the probe it is right, but for one choice if it
/// `errs`.
fn model(errs: bool) -> impl Model {
    move |call: &Call| -> Json {
        let document = Document::of(call);
        if is_probe(call) {
            let mut answer = answer_of_probe(call);
            if errs {
                answer["decisions"][1]["choice"] = json!("replaces 2");
            }
            return answer;
        }
        if call.purpose() != Purpose::Extract {
            return document.decide(|fact, existing| {
                let is_rent = |text: &str| text.contains("rent");
                let near = existing.iter().find(|(_, known)| is_rent(known) == is_rent(fact));
                near.map_or("new".to_owned(), |(number, _)| format!("replaces {number}"))
            });
        }
        let facts = document.turns.iter().flat_map(|(turn, text)| {
            let facts: &[&str] = match text.as_str() {
                "I live in Rome." => &[HOME],
                "My rent is 900 euros." => &[RENT],
                _ => &[WORK, HIGHER],
            };
            facts.iter().map(move |fact| json!({"turn": turn, "text": fact, "confidence": 1}))
        });
        json!({"facts": facts.collect::<Vec<_>>()})
    }
}

fn calls(scene: &Scene, is_wanted: impl Fn(&Call) -> bool) -> usize {
    scene.stub.calls().iter().filter(|call| is_wanted(call)).count()
}

fn comparisons(scene: &Scene) -> usize {
    calls(scene, |call| call.purpose() == Purpose::Reconcile)
}

fn status(scene: &mut Scene) -> String {
    let sql =
        "SELECT concat(state, ': ', detail) FROM memory_status() WHERE component = 'replacements'";
    value(&mut scene.client, sql, &[])
}

/// Says three messages; the calls that compare the two facts of the last one.
fn say_all(scene: &mut Scene) -> usize {
    scene.say_and_wait("I live in Rome.");
    scene.say_and_wait("My rent is 900 euros.");
    let before = comparisons(scene);
    scene.say_and_wait("I work in Rome, and my rent is 950 euros.");
    comparisons(scene) - before
}

#[test]
fn who_passes_is_asked_about_several_facts_and_believed() {
    let mut scene = Scene::start(model(false));
    scene.say_and_wait("I live in Rome.");
    assert_eq!(calls(&scene, is_probe), 0, "there was nothing to compare");
    assert!(status(&mut scene).starts_with("checked: "), "nobody was asked yet");
    assert_eq!(say_all(&mut scene), 1, "both in one call");
    assert_eq!(calls(&scene, is_probe), 2, "once for all jobs");
    assert_eq!(scene.facts(), [WORK, HIGHER], "it is believed");
    let shown = status(&mut scene);
    assert_eq!(
        shown,
        "unchecked: 0 facts were doubted, of which 0 still are; probe of stub-1: 16 of 16 right"
    );
    let recorded: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_llm_calls WHERE purpose = 'probe' AND status = 'ok' AND prompt_tokens > 0",
        &[],
    );
    assert_eq!(recorded, 2);
}

#[test]
fn one_mistake_is_enough_not_to_pass() {
    let mut scene = Scene::start(model(true));
    assert_eq!(say_all(&mut scene), 2, "each fact by itself");
    assert_eq!(calls(&scene, is_probe), 1, "after the first mistake no more is asked");
    assert_eq!(scene.facts(), [HOME, WORK, HIGHER], "the rules see no sign");
    let shown = status(&mut scene);
    assert!(shown.starts_with("checked: ") && shown.contains("stub-1: 7 of 16"), "{shown}");
    // A result does not count for ever, and who does not believe it deletes it.
    let forget = ["UPDATE memory_agent.llm_probes SET valid_until = now()", FORGET];
    for ((asked, sql), rent) in (2..).zip(forget).zip(RENTS) {
        run(&mut scene.client, sql);
        scene.say_and_wait(rent);
        assert_eq!(calls(&scene, is_probe), asked, "{sql}");
    }
}

#[test]
fn a_probe_that_fails_holds_nothing_up() {
    let mut scene = Scene::start(model(false));
    say_all(&mut scene);
    let faults =
        [Fault::Status(400), Fault::GarbageContent, Fault::Status(503), Fault::GarbageBody];
    for (fault, rent) in faults.into_iter().zip(RENTS.iter().cycle()) {
        let what = format!("{fault:?}");
        run(&mut scene.client, FORGET);
        let asked = calls(&scene, is_probe);
        scene.stub.faults(FaultPlan::when(move |call| is_probe(call).then_some(fault)));
        scene.say_and_wait(rent);
        assert!(calls(&scene, is_probe) > asked, "{what}");
        let fact = if rent.contains("900") { RENT } else { HIGHER };
        assert!(scene.facts().iter().any(|known| known == fact), "{what}");
        let lasts = "SELECT array_agg(concat(right_choices, ' ', valid_until - asked_at)) \
                       FROM memory_agent.llm_probes";
        let kept: Vec<String> = value(&mut scene.client, lasts, &[]);
        assert_eq!(kept, ["0 01:00:00"], "{what}");
        assert!(status(&mut scene).contains("stub-1: 0 of 16"), "{what}");
    }
}
