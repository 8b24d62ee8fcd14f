//! Limits of what the worker asks of an LLM: calls at once, calls per minute, tokens per day, time.

use crate::models::echo;
use crate::scene::{Job, PATIENCE, Scene};
use memory_agent_e2e::llm::{Fault, FaultPlan};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::wait_until;
use std::time::Duration;

/// One turn in each of so many sessions, which are extracted one by one.
fn say_in_sessions(scene: &mut Scene, count: usize) {
    for number in 0..count {
        let (session, text) = (format!("session {number}"), format!("Sentence {number}."));
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
}

#[test]
fn only_so_many_calls_at_once() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_concurrency", "3")]);
    scene.stub.hold(true);
    say_in_sessions(&mut scene, 10);
    wait_until(PATIENCE, "three calls at once", || scene.stub.in_flight() == 3);
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.stub.max_in_flight(), 3);
    assert_eq!(scene.facts().len(), 10);
}

#[test]
fn only_so_many_calls_per_minute() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_calls_per_minute", "4")]);
    say_in_sessions(&mut scene, 10);
    scene.wait_for_job("a postponed job", |job| job.error.is_some());
    wait_until(PATIENCE, "four calls", || scene.stub.call_count() == 4);
    // The limit is the reason, and nobody's fault.
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('2 s')", &[]));
    assert_eq!(scene.stub.call_count(), 4);
    let jobs = scene.jobs();
    assert!(jobs.iter().all(|job| job.attempts == 0), "{jobs:#?}");
    let reasons: Vec<_> = jobs.iter().filter_map(|job| job.error.clone()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("4 calls per minute")), "{reasons:?}");
}

#[test]
fn only_so_many_tokens_per_day() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_daily_tokens", "1")]);
    scene.say_and_wait("The first call uses them up.");
    let used: i64 = value(
        &mut scene.client,
        "SELECT sum(prompt_tokens + completion_tokens) FROM memory_llm_calls",
        &[],
    );
    assert!(used > 1);
    // The worker counts every few seconds.
    wait_until(PATIENCE, "the worker to notice", || {
        if scene.jobs().iter().all(|job| job.status == "done") {
            scene.say("This may have to wait.");
        }
        scene.status("worker").contains("llm_daily_tokens is used up")
    });
    wait_until(PATIENCE, "calls in flight to end", || scene.stub.in_flight() == 0);
    assert!(scene.status("llm").contains("limited"), "{}", scene.status("llm"));
    let calls = scene.stub.call_count();
    scene.say("This has to wait.");
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('1 s')", &[]));
    assert_eq!(scene.stub.call_count(), calls);
    assert!(scene.jobs().iter().all(|job| job.attempts == 0));
    scene.cluster.alter_system("memory_agent.llm_daily_tokens", Some("1000000"));
    scene.drain();
    assert!(scene.facts().contains(&"Noted: This has to wait.".to_owned()));
}

/// What an endpoint does not count is estimated, and a job with many questions asks no more of them either.
#[test]
fn a_limit_of_tokens_holds_within_a_job_and_for_answers_without_a_count() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_daily_tokens", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::NoUsage));
    run(&mut scene.client, "SET memory_agent.extraction_batch = 0");
    scene.say("My cat is called Poum. My dog is called Rex. I moved to Graz.");
    let reason = "llm_daily_tokens is used up";
    let is_held_back = |job: &Job| job.error.as_ref().is_some_and(|error| error.contains(reason));
    let job = scene.wait_for_job("a job that waits for tomorrow", is_held_back);
    assert_eq!((job.attempts, scene.stub.call_count()), (0, 1));
    let counted: bool = value(
        &mut scene.client,
        "SELECT prompt_tokens > 0 AND completion_tokens > 0 FROM memory_llm_calls",
        &[],
    );
    assert!(counted);
    // It goes on with the second sentence.
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET run_after = now() WHERE status = 'pending'",
    );
    scene.cluster.alter_system("memory_agent.llm_daily_tokens", Some("0"));
    scene.drain();
    assert_eq!((scene.facts().len(), scene.stub.call_count()), (3, 3));
}

#[test]
fn only_so_much_time_for_a_call() {
    let settings = [("memory_agent.llm_timeout", "500ms"), ("memory_agent.llm_max_attempts", "1")];
    let mut scene = Scene::with_settings(echo, &settings);
    scene.stub.faults(FaultPlan::questions(Fault::Delay(Duration::from_secs(30))));
    scene.say_and_wait("I live in Oslo.");
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert!(job.error.is_some_and(|error| error.contains("500 ms") || error.contains("time")));
    let latency: f64 = value(
        &mut scene.client,
        "SELECT extract(epoch FROM latency)::float8 FROM memory_llm_calls WHERE status = 'timeout'",
        &[],
    );
    assert!((0.45..20.0).contains(&latency), "{latency} s");
    // The client hung up, so the endpoint need not go on.
    wait_until(PATIENCE, "the call to be given up", || scene.stub.in_flight() == 0);
}

#[test]
fn an_endless_answer_is_not_read_to_its_end() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::HugeBody));
    scene.say_and_wait("I live in Oslo.");
    scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert_eq!(scene.recorded_calls(), [("too large".to_owned(), 2)]);
    assert_eq!(scene.all_facts().len(), 0, "the good answer in it was too long to be read");
}
