//! Failures at every step of a compression: nothing of the session changes before everything is
//! decided, and what was answered already is not asked again.

use crate::condenser::{Prompt, condenser, prompt};
use crate::scene::{DATABASE, PATIENCE, Scene};
use crate::talk::{of_level, picture, scene, talk, talk_from, whole, window};
use memory_agent_e2e::llm::{Call, Fault, FaultPlan};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Uuid, wait_until};

/// Chunks, their groups and the whole of a session of about 20,000 tokens.
const SETTINGS: [(&str, &str); 3] = [
    ("memory_agent.llm_max_attempts", "1"),
    ("memory_agent.compression_threshold_tokens", "15000"),
    ("memory_agent.max_entries", "0"),
];

fn dead_job(scene: &mut Scene) -> Option<Uuid> {
    let jobs = scene.jobs();
    jobs.into_iter().find(|job| job.status == "dead").map(|job| job.id)
}

#[test]
fn a_compression_that_fails_at_any_step_changes_nothing_and_goes_on_from_there() {
    let mut scene = scene(condenser, &SETTINGS);
    // Every question fails once, in the way of its turn; the same question then has its answer.
    let kinds = [Fault::Status(500), Fault::HalfBody, Fault::ResetInBody, Fault::GarbageBody];
    let is_first = |call: &Call| call.number.is_multiple_of(2);
    scene.stub.faults(FaultPlan::when(move |call| {
        is_first(call).then(|| kinds[call.number / 2 % kinds.len()])
    }));
    let ids = talk(&mut scene.client, "s", 100, 200);
    let before = picture(&mut scene.client, "s");
    let mut failures = 0;
    loop {
        scene.drain();
        let Some(job) = dead_job(&mut scene) else { break };
        failures += 1;
        assert!(failures < 40, "{:#?}", scene.jobs());
        assert_eq!(picture(&mut scene.client, "s"), before, "after failure {failures}");
        assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job]));
    }
    let (l1, l2) = (
        of_level(&mut scene.client, "s", "L1").len(),
        of_level(&mut scene.client, "s", "L2").len(),
    );
    assert!(l1 >= 7 && l2 == 2, "{l1} chunks, {l2} groups");
    let questions = l1 + l2 + 1;
    assert_eq!(failures, questions, "each question failed once");
    let answered = scene.stub.calls().iter().filter(|call| call.fault.is_none()).count();
    assert_eq!(answered, questions, "and was answered once");
    assert_eq!(window(&mut scene.client, "s"), ids[90..]);
    assert_eq!(whole(&mut scene.client, "s").sources, ids);
}

#[test]
fn an_answer_without_a_summary_fails_after_two_calls() {
    let only_a_fence = |_: &Call| "```\n\n```".to_owned();
    let mut scene = scene(only_a_fence, &[]);
    talk(&mut scene.client, "s", 5, 100);
    let before = picture(&mut scene.client, "s");
    scene.drain();
    let job = dead_job(&mut scene).expect("a dead job");
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 2, "{calls:#?}");
    assert_ne!(calls[0].body, calls[1].body, "asked the same again");
    assert_eq!(picture(&mut scene.client, "s"), before);
    // More turns do not wait for it.
    scene.stub.set_model(condenser);
    talk(&mut scene.client, "s", 2, 60);
    scene.drain();
    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.messages, 7);
    // Run again, it finds nothing to do.
    let before = picture(&mut scene.client, "s");
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job]));
    scene.drain();
    assert_eq!(picture(&mut scene.client, "s"), before);
}

#[test]
fn a_session_that_is_refused_again_and_again_is_left_alone_for_a_while() {
    let refuses = |_: &Call| "```\n\n```".to_owned();
    let mut scene = scene(refuses, &[]);
    for number in 0..6 {
        talk_from(&mut scene.client, "s", number * 2, 2, 60);
        scene.drain();
    }
    assert_eq!(scene.stub.call_count(), 2 * 2, "two jobs: {:#?}", scene.jobs());
    // Other sessions are none the worse for it.
    scene.stub.set_model(condenser);
    talk(&mut scene.client, "t", 2, 60);
    scene.drain();
    whole(&mut scene.client, "t");
    // The pause is over after a minute.
    memory_agent_e2e::memory::run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET finished_at = finished_at - interval '1 minute' WHERE status = 'dead'",
    );
    talk_from(&mut scene.client, "s", 12, 2, 60);
    scene.drain();
    assert_eq!(whole(&mut scene.client, "s").messages, 14);
}

#[test]
fn a_worker_that_ends_in_the_middle_loses_at_most_one_answer() {
    let mut scene = scene(condenser, &SETTINGS);
    let chunks_to_answer = 3;
    scene.stub.faults(FaultPlan::when(move |call| {
        (call.number == chunks_to_answer).then_some(Fault::Delay(PATIENCE))
    }));
    let ids = talk(&mut scene.client, "s", 100, 200);
    scene.wait_for_calls(chunks_to_answer + 1);
    let worker: i32 = value(
        &mut scene.client,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'memory_agent worker' AND datname = $1",
        &[&DATABASE],
    );
    assert!(value::<bool>(&mut scene.client, "SELECT pg_terminate_backend($1, 10000)", &[&worker]));
    assert_eq!(window(&mut scene.client, "s"), ids, "nothing left the window");
    wait_until(PATIENCE, "another worker", || scene.stub.call_count() > chunks_to_answer + 1);
    scene.drain();
    assert_eq!(window(&mut scene.client, "s"), ids[90..]);
    let chunks = of_level(&mut scene.client, "s", "L1").len();
    let asked = scene.stub.calls().iter().filter(|call| prompt(call) == Prompt::Chunk).count();
    assert_eq!(asked, chunks + 1, "only the question in flight was asked twice");
}
