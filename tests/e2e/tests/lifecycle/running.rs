//! Entries that change while the worker is about to make facts of them.

use crate::scene::{PATIENCE, Scene};
use crate::{forget, update};
use memory_agent_e2e::llm::{Fault, FaultPlan, Purpose, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Uuid, wait_until};
use std::time::Duration;

fn model() -> ScriptedModel {
    ScriptedModel::new()
        .knows("I live in Oslo.", "home", "Oslo", "Lives in Oslo.")
        .knows("I live in Rome.", "home", "Rome", "Lives in Rome.")
        .knows("I live in Bern.", "home", "Bern", "Lives in Bern.")
}

/// Waits until the LLM was asked and holds its answer back.
#[track_caller]
fn wait_for_call(scene: &Scene) {
    wait_until(PATIENCE, "the call", || scene.stub.in_flight() == 1);
}

#[test]
fn facts_are_made_of_the_new_text_only() {
    let mut scene = Scene::start(model());
    scene.stub.hold(true);
    let old = scene.say("I live in Oslo.");
    wait_for_call(&scene);
    let new = update(&mut scene.client, old, "I live in Rome.");
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Rome."]);
    assert_eq!(scene.fact("Lives in Rome.").sources, [new]);

    // The facts of a text that was corrected later are compared with those of the new text.
    let newest = update(&mut scene.client, new, "I live in Bern.");
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Bern."]);
    assert_eq!(scene.fact("Lives in Bern.").sources, [newest]);
    assert_eq!(scene.fact("Lives in Rome.").state, "inactive");
}

#[test]
fn nothing_is_made_of_what_was_forgotten_meanwhile() {
    let mut scene = Scene::start(model());
    scene.stub.hold(true);
    let turn = scene.say("I live in Oslo.");
    wait_for_call(&scene);
    assert!(forget(&mut scene.client, turn));
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.all_facts().len(), 0);
    // Brought back it is asked about again.
    assert!(crate::restore(&mut scene.client, turn));
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Oslo."]);
    // The facts of a turn are memories of their own.
    assert!(forget(&mut scene.client, turn));
    assert_eq!(scene.facts(), ["Lives in Oslo."]);
}

#[test]
fn a_source_that_was_forgotten_brings_no_facts() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.worker", "off")]);
    let source: Uuid = value(&mut scene.client, "SELECT memory_add('I live in Oslo.', 's')", &[]);
    assert!(forget(&mut scene.client, source));
    assert!(!forget(&mut scene.client, source));
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    scene.say_and_wait("I live in Rome.");
    assert_eq!(scene.facts(), ["Lives in Rome."]);
    assert!(crate::restore(&mut scene.client, source));
    assert!(!crate::restore(&mut scene.client, source));
    scene.drain();
    // It was said before the other one: it is known as what was true until then.
    assert_eq!(scene.all_facts().len(), 2);
    let hidden: Vec<String> =
        values(&mut scene.client, "SELECT content FROM memory_load('s')", &[]);
    assert_eq!(hidden, ["I live in Rome."], "a source is in no window");
}

/// The LLM compares with a fact that is forgotten before it answers: it is not updated then, and what was
/// said is stored all the same.
#[test]
fn a_fact_may_be_forgotten_while_it_is_compared() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Oslo.");
    let known = scene.fact("Lives in Oslo.").id;
    scene.stub.faults(FaultPlan::when(|call| {
        (call.purpose() == Purpose::Reconcile).then_some(Fault::Delay(Duration::from_secs(3)))
    }));
    scene.say("I live in Rome.");
    let compares = || scene.stub.calls().iter().any(|call| call.purpose() == Purpose::Reconcile);
    wait_until(PATIENCE, "the comparison", compares);
    assert!(forget(&mut scene.client, known));
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Rome."]);
    let told: Vec<String> =
        values(&mut scene.client, "SELECT op FROM memory_history($1)", &[&known]);
    assert_eq!(told, ["add", "delete"], "it was not replaced afterwards");
}

/// In episodes: the new version is read with the others when its episode is over.
#[test]
fn a_turn_of_an_open_episode_is_reflected_on_as_it_is() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.extraction", "episode")]);
    run(&mut scene.client, "SET memory_agent.min_episode_turns = 1");
    let old = scene.say("I live in Oslo.");
    let new = update(&mut scene.client, old, "I live in Rome.");
    run(&mut scene.client, "SELECT memory_close_episode('s')");
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Rome."]);
    assert_eq!(scene.fact("Lives in Rome.").sources, [new]);
    // The episode is over: the next version is extracted from by itself.
    update(&mut scene.client, new, "I live in Bern.");
    scene.drain();
    assert_eq!(scene.facts(), ["Lives in Bern."]);
}
