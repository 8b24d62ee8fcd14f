//! The probe: what an LLM is trusted with is found out once, where settings leave it to that.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Fault, FaultPlan, Model, Purpose};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, json};

const FORGET: &str = "DELETE FROM memory_agent.llm_probes";
const HOME: &str = "User lives in Rome.";
const WORK: &str = "User works in Rome.";
const RENT: &str = "User's rent is 900 euros a month.";
const HIGHER: &str = "User's rent is 950 euros a month.";

fn is_probe(call: &Call) -> bool {
    call.purpose() == Purpose::Probe
}

/// Makes facts of messages, and replaces what is known of the rent, or else of the rest. In the probe it is right, but for one choice if it
/// `errs`.
fn model(errs: bool) -> impl Model {
    move |call: &Call| -> Json {
        let document = Document::of(call);
        if is_probe(call) {
            let mut answer = document.pass();
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
            let facts = match text.as_str() {
                "I live in Rome." => vec![HOME.to_owned()],
                "I work in Rome, and my rent is 950 euros." => {
                    vec![WORK.to_owned(), HIGHER.to_owned()]
                }
                rent => vec![rent.replace("My", "User's").replace("euros", "euros a month")],
            };
            facts.into_iter().map(move |fact| json!({"turn": turn, "text": fact, "confidence": 1}))
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
    assert!(status(&mut scene).starts_with("doubted: "), "nobody was asked yet");
    assert_eq!(say_all(&mut scene), 1, "both in one call");
    assert_eq!(calls(&scene, is_probe), 2, "once for all jobs");
    assert_eq!(scene.facts(), [WORK, HIGHER], "it is believed");
    let shown = status(&mut scene);
    assert_eq!(
        shown,
        "believed: 0 facts were doubted, of which 0 still are; probe of stub-1: 16 of 16 right"
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
    assert_eq!(scene.facts(), [HOME, WORK, RENT, HIGHER], "what it replaces is doubted");
    let shown = status(&mut scene);
    assert!(shown.starts_with("doubted: ") && shown.contains("stub-1: 7 of 16"), "{shown}");
    // A result does not count for ever, and who does not believe it deletes it.
    let forget = ["UPDATE memory_agent.llm_probes SET valid_until = now()", FORGET];
    for (asked, sql) in (2..).zip(forget) {
        run(&mut scene.client, sql);
        scene.say_and_wait(&format!("My rent is {asked}00 euros."));
        assert_eq!(calls(&scene, is_probe), asked, "{sql}");
    }
}

#[test]
fn a_probe_that_fails_holds_nothing_up() {
    let mut scene = Scene::start(model(false));
    say_all(&mut scene);
    let faults =
        [Fault::Status(400), Fault::GarbageContent, Fault::Status(503), Fault::GarbageBody];
    for (fault, rent) in faults.into_iter().zip([1000, 1050, 1100, 1150]) {
        let what = format!("{fault:?}");
        run(&mut scene.client, FORGET);
        let asked = calls(&scene, is_probe);
        scene.stub.faults(FaultPlan::when(move |call| is_probe(call).then_some(fault)));
        scene.say_and_wait(&format!("My rent is {rent} euros."));
        assert!(calls(&scene, is_probe) > asked, "{what}");
        let fact = format!("User's rent is {rent} euros a month.");
        assert!(scene.facts().contains(&fact), "{what}");
        let lasts = "SELECT array_agg(concat(right_answers, ' ', valid_until - asked_at)) \
                       FROM memory_agent.llm_probes";
        let kept: Vec<String> = value(&mut scene.client, lasts, &[]);
        assert_eq!(kept, ["0 01:00:00"], "{what}");
        assert!(status(&mut scene).contains("stub-1: 0 of 16"), "{what}");
    }
}
