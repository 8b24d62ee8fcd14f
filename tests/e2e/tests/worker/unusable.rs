//! Answers that cannot be used: a question is asked once more, in other words, and never a third time. What
//! a model says at temperature 0, it would say again.

use crate::models::echo;
use crate::scene::{Job, Scene};
use memory_agent_e2e::llm::{Call, Fault, FaultPlan};
use memory_agent_e2e::memory::{run, value};
use std::collections::HashSet;

/// Answers about this turn are of no use.
const HOPELESS: &str = "I live in Oslo.";

/// Spoils the answers about the hopeless turn, whatever else was asked about.
fn hopeless() -> FaultPlan {
    FaultPlan::when(|call| is_hopeless(call).then_some(Fault::WrongSchema))
}

fn is_hopeless(call: &Call) -> bool {
    call.data().to_string().contains(HOPELESS)
}

/// The calls about the hopeless turn. No two of them asked the same.
#[track_caller]
fn hopeless_calls(scene: &Scene) -> Vec<Call> {
    let calls: Vec<Call> = scene.stub.calls().into_iter().filter(is_hopeless).collect();
    let asked: HashSet<String> = calls.iter().map(|call| call.body.to_string()).collect();
    assert_eq!(asked.len(), calls.len(), "asked the same again: {calls:#?}");
    calls
}

#[test]
fn a_turn_without_a_usable_answer_costs_two_calls() {
    let mut scene = Scene::start(echo);
    scene.stub.faults(hopeless());
    let turn = scene.say_and_wait(HOPELESS);
    // Where background work looks for what is left to do, it finds nothing of this turn.
    scene.say_and_wait("Jupiter is huge.");
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert_eq!(job.attempts, 1);
    let error = job.error.as_deref().unwrap_or_default();
    assert!(error.contains("facts"), "what was wrong with the answer: {error}");
    let calls = hopeless_calls(&scene);
    assert_eq!(calls.len(), 2, "{calls:#?}");
    assert!(calls[1].is_repair() && !calls[0].is_repair());
    let temperature = |call: &Call| call.body["temperature"].as_f64().unwrap_or_default();
    assert!(temperature(&calls[1]) > temperature(&calls[0]), "{calls:#?}");
    assert!(scene.status("queue").contains("1 dead"), "{}", scene.status("queue"));
    let kept: bool = value(
        &mut scene.client,
        "SELECT state = 'active' AND extracted_at IS NULL FROM memory_agent.entries WHERE id = $1",
        &[&turn],
    );
    assert!(kept, "the turn stays, and stays unextracted");
    assert_eq!(scene.facts(), ["Noted: Jupiter is huge."]);

    // Another model may answer.
    scene.stub.faults(FaultPlan::none());
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo.", "Noted: Jupiter is huge."]);
}

/// Fewer turns are another question.
#[test]
fn of_several_turns_only_the_one_without_a_usable_answer_is_left() {
    for (place, questions) in [(0, 4), (3, 9), (7, 4)] {
        let mut scene = Scene::start(echo);
        scene.stub.faults(hopeless());
        let turns: Vec<String> = (0..8)
            .map(|n| if n == place { HOPELESS.to_owned() } else { format!("I own {n} boats.") })
            .collect();
        scene.say_all(&turns.iter().map(String::as_str).collect::<Vec<_>>());
        scene.drain();
        let facts: Vec<String> = turns
            .iter()
            .filter(|turn| *turn != HOPELESS)
            .map(|turn| format!("Noted: {turn}"))
            .collect();
        assert_eq!(scene.facts(), facts, "place {place}: {:#?}", scene.jobs());
        let dead = scene.jobs().into_iter().filter(|job| job.status == "dead").count();
        assert_eq!(dead, 1, "place {place}: {:#?}", scene.jobs());
        let calls = hopeless_calls(&scene);
        // Half as many turns after each failure, and what is left of them in a job of its own.
        assert_eq!(calls.len(), 2 * questions, "place {place}: {calls:#?}");
    }
}

/// The facts of the other sentences are stored, and `memory_jobs` says what was left out.
#[test]
fn a_sentence_without_a_usable_answer_costs_two_calls_and_no_other_fact() {
    const LAST: &str = "My sister is a teacher.";
    let mut scene = Scene::start(echo);
    run(&mut scene.client, "SET memory_agent.extraction_batch = 0");
    scene.stub.faults(hopeless());
    // A short sentence goes with the one after it.
    scene.say_and_wait(&format!("My cat is Poum the Great. {HOPELESS} My dog is Rex. {LAST}"));
    let is_done = |job: &Job| job.kind == "extract" && job.status == "done";
    let job = scene.wait_for_job("a job that is done", is_done);
    assert_eq!(hopeless_calls(&scene).len(), 2);
    assert_eq!(scene.facts(), ["Noted: My cat is Poum the Great.", &format!("Noted: {LAST}")]);
    let error = job.error.as_deref().unwrap_or_default();
    assert!(error.starts_with("no facts of 1 of 3 passages: "), "{error}");

    // With no other sentence, nothing is left. Run again, it asks again.
    scene.say_and_wait(HOPELESS);
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    scene.stub.faults(FaultPlan::none());
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    scene.drain();
    assert!(scene.facts().contains(&format!("Noted: {HOPELESS}")), "{:?}", scene.facts());
}
