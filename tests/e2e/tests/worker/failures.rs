//! What each failure of the endpoint does to a job: an outage only delays it, a failure of the job's
//! own is counted, and after the last attempt it is dead, with its error, until an administrator retries it.

use crate::models::echo;
use crate::scene::{DATABASE, Job, PATIENCE, Scene};
use memory_agent_e2e::llm::{Fault, FaultPlan, Reply};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{expect_error, wait_until};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_millis(1500);
const LONGER_THAN_THE_TIMEOUT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(200);

/// Says something in a session of its own, and waits for the job.
#[track_caller]
fn job_with(scene: &mut Scene, session: &str, plan: FaultPlan) -> Job {
    let before = scene.stub.call_count();
    scene.stub.faults(plan);
    let fact = format!("Noted: This is about {session}.");
    let text = format!("This is about {session}.");
    scene
        .client
        .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
        .expect("ingest");
    scene.drain();
    assert!(scene.facts().contains(&fact), "{session}: {:#?}", scene.jobs());
    assert!(scene.stub.call_count() > before);
    scene.last_job()
}

#[test]
fn every_fault_is_survived_and_counted_rightly() {
    use Fault::*;
    let timeout = format!("{}ms", TIMEOUT.as_millis());
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_timeout", &timeout)]);
    // (fault, attempts that it costs, calls until the answer was good, how the first was recorded)
    let table: [(Fault, i32, usize, &str); 24] = [
        (Delay(SHORT), 0, 1, "ok"),
        (Drip(SHORT), 0, 1, "ok"),
        (Prose, 0, 1, "ok"),
        (Fenced, 0, 1, "ok"),
        // The repair round mends these.
        (GarbageContent, 0, 2, "bad answer"),
        (WrongSchema, 0, 2, "bad answer"),
        (InventedIds, 0, 2, "bad answer"),
        (HalfContent, 0, 2, "bad answer"),
        (EmptyContent, 0, 2, "bad answer"),
        (HugeBody, 0, 2, "too large"),
        // Its second answer may have four times as many tokens.
        (Thinks(700), 0, 2, "bad answer"),
        // Nothing to mend; these may be the request's fault.
        (ResetBeforeHeaders, 1, 2, "connection"),
        (ResetInBody, 1, 2, "connection"),
        (HalfBody, 1, 2, "connection"),
        (GarbageBody, 1, 2, "malformed"),
        (Status(500), 1, 2, "http 500"),
        (ErrorInside(500), 1, 2, "http 200, error 500"),
        (ErrorInChoice(502), 1, 2, "http 200, error 502"),
        (Delay(LONGER_THAN_THE_TIMEOUT), 1, 2, "timeout"),
        (Drip(LONGER_THAN_THE_TIMEOUT), 1, 2, "timeout"),
        // The endpoint wants to be left alone, which is no fault of the job.
        (TooManyRequests { retry_after: Some(1) }, 0, 2, "http 429"),
        (TooManyRequests { retry_after: None }, 0, 2, "http 429"),
        (ErrorInside(429), 0, 2, "http 200, error 429"),
        // Remembered, so the last one.
        (NoResponseFormat, 0, 2, "http 400"),
    ];
    let mut wrong = Vec::new();
    for (number, (fault, attempts, calls, status)) in table.into_iter().enumerate() {
        let before = scene.stub.call_count();
        let job =
            job_with(&mut scene, &format!("fault {number}"), FaultPlan::script([Some(fault)]));
        let made = scene.stub.call_count() - before;
        let recorded: String = value(
            &mut scene.client,
            "SELECT status FROM memory_llm_calls WHERE job_id = $1 ORDER BY at, id LIMIT 1",
            &[&job.id],
        );
        if (job.attempts, made, recorded.as_str()) != (attempts, calls, status) {
            wrong.push(format!("{fault:?}: {} attempts, {made} calls, {recorded}", job.attempts));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a model thinks counts as tokens of its answer.
#[test]
fn a_model_that_thinks_has_room_by_a_setting() {
    let mut scene = Scene::start(echo);
    scene.stub.faults(FaultPlan::always(Fault::Thinks(5_000)));
    scene.say("I live in Oslo.");
    scene.drain();
    let job = scene.last_job();
    assert_eq!(job.status, "dead");
    let reason = job.error.unwrap();
    assert!(reason.contains("cut at 2400 tokens before it said anything"), "{reason}");
    assert!(reason.contains("memory_agent.llm_answer_tokens"), "{reason}");
    scene.cluster.alter_system("memory_agent.llm_answer_tokens", Some("8000"));
    let before = scene.stub.call_count();
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    scene.drain();
    assert_eq!(scene.stub.call_count(), before + 1);
    assert!(scene.facts().iter().any(|fact| fact.contains("Oslo")), "{:?}", scene.facts());
}

#[test]
fn a_server_without_response_formats_is_remembered() {
    let mut scene = Scene::start(echo);
    job_with(&mut scene, "a", FaultPlan::always(Fault::NoResponseFormat));
    let first = scene.stub.calls();
    assert!(first.len() > 1 && first[0].response_format() == Some("json_schema"));
    job_with(&mut scene, "b", FaultPlan::always(Fault::NoResponseFormat));
    let second = &scene.stub.calls()[first.len()..];
    assert_eq!(second.len(), 1, "it was tried again in vain");
    assert_eq!(second[0].response_format(), None);
}

#[test]
fn retry_after_is_honoured() {
    let mut scene = Scene::start(echo);
    let plan = FaultPlan::script([Some(Fault::TooManyRequests { retry_after: Some(3) })]);
    let job = job_with(&mut scene, "a", plan);
    let calls = scene.stub.calls();
    let pause = calls[1].at - calls[0].at;
    assert!(pause >= Duration::from_millis(2900), "called again after {pause:?}");
    assert_eq!(job.attempts, 0);
}

#[test]
fn failures_back_off_and_end_with_a_dead_job() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_max_attempts", "3")]);
    scene.stub.faults(FaultPlan::always(Fault::Status(413)));
    let turn = scene.say("I live in Oslo.");
    scene.drain();
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert_eq!(job.attempts, 3);
    let error = job.error.expect("its error");
    assert!(error.contains("413"), "{error}");
    // Each attempt is a call, and waits for longer than the one before.
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[1].at - calls[0].at >= Duration::from_millis(450));
    assert!(calls[2].at - calls[1].at >= Duration::from_millis(950));
    assert_eq!(scene.all_facts().len(), 0);
    let kept: bool = value(
        &mut scene.client,
        "SELECT state = 'active' AND extracted_at IS NULL FROM memory_agent.entries WHERE id = $1",
        &[&turn],
    );
    assert!(kept, "the turn stays, and stays unextracted");
    assert!(scene.status("queue").contains("1 dead"), "{}", scene.status("queue"));
    // Later turns of the session are not held up, and the dead one is not taken with them.
    scene.stub.faults(FaultPlan::none());
    scene.say_and_wait("Jupiter is huge.");
    assert_eq!(scene.facts(), ["Noted: Jupiter is huge."]);
    let mut retry = |id| value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&id]);
    assert!(retry(job.id));
    assert!(!retry(job.id), "it is not dead any more");
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo.", "Noted: Jupiter is huge."]);
}

#[test]
fn only_its_user_may_retry_a_job() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::WrongSchema));
    scene.say_and_wait("I live in Oslo.");
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    scene.stub.faults(FaultPlan::none());
    run(&mut scene.client, "CREATE ROLE app LOGIN; SELECT memory_grant('app', 'user')");
    let mut app = scene.cluster.connect_as(DATABASE, "app");
    run(&mut app, "SET memory_agent.user_id = 'bob'");
    assert!(!value::<bool>(&mut app, "SELECT memory_retry($1)", &[&job.id]));
    expect_error(app.query("SELECT memory_retry($1, 'alice')", &[&job.id]), "42501");
    run(&mut app, "SET memory_agent.user_id = 'alice'");
    assert!(value::<bool>(&mut app, "SELECT memory_retry($1)", &[&job.id]));
    assert!(value::<bool>(&mut app, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}

#[test]
fn a_request_that_is_refused_dies_with_the_reason() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::Status(413)));
    scene.say_and_wait("I live in Oslo.");
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    let error = job.error.expect("its error");
    assert!(error.contains("413") && error.contains("told to fail"), "{error}");
}

#[test]
fn an_outage_costs_few_calls_and_no_attempt_and_ends_by_itself() {
    let mut scene = Scene::start(echo);
    scene.say_and_wait("Before the outage.");
    scene.stub.set_down(true);
    for session in 0..8 {
        let (session, text) = (format!("session {session}"), format!("Sentence {session}."));
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
    wait_until(PATIENCE, "an open breaker in memory_status()", || {
        scene.status("llm").to_lowercase().contains("open")
    });
    // What is recorded are the calls that were made; the breaker stops them.
    let failed: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_llm_calls WHERE status = 'connection'",
        &[],
    );
    assert!((1..=12).contains(&failed), "{failed} calls of an endpoint that is down");
    let jobs = scene.jobs();
    assert!(jobs.iter().all(|job| job.attempts == 0 && job.status != "dead"), "{jobs:#?}");
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('100 ms')", &[]));
    scene.stub.set_down(false);
    scene.drain();
    assert_eq!(scene.facts().len(), 9);
    assert!(!scene.status("llm").to_lowercase().contains("open"), "{}", scene.status("llm"));
}

/// Calls that may have ended a pause since: the first one lasts five seconds, and the others longer.
fn probes(since: Instant) -> usize {
    (since.elapsed().as_secs() / 5) as usize
}

#[test]
fn an_endpoint_that_only_fails_is_left_alone() {
    let mut scene = Scene::start(echo);
    scene.stub.faults(FaultPlan::always(Fault::Status(500)));
    let started = Instant::now();
    for session in 0..8 {
        let (session, text) = (format!("session {session}"), format!("Sentence {session}."));
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
    wait_until(PATIENCE, "an open breaker in memory_status()", || {
        scene.status("llm").to_lowercase().contains("open")
    });
    // Five in a row open it; those in flight at that time come on top.
    let calls = scene.stub.call_count();
    assert!(calls <= 5 + 4 + probes(started), "{calls} calls");
    scene.stub.faults(FaultPlan::none());
    scene.drain();
    assert_eq!(scene.facts().len(), 8);
}

#[test]
fn a_wrong_key_is_an_outage_that_says_so() {
    let refuses = |_: &_| Reply::error(401, "Incorrect API key provided.");
    let mut scene = Scene::start(refuses);
    let started = Instant::now();
    scene.say("I live in Oslo.");
    let job = scene.wait_for_job("a postponed job", |job| job.error.is_some());
    assert_eq!((job.attempts, job.status.as_str()), (0, "pending"));
    assert!(job.error.as_deref().is_some_and(|error| error.contains("401")), "{job:?}");
    assert!(scene.status("llm").contains("401"), "{}", scene.status("llm"));
    let calls = scene.stub.call_count();
    assert!(calls <= 1 + probes(started), "{calls} calls: the same key would be refused again");
    scene.stub.set_model(echo);
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}

#[test]
fn waiting_for_the_queue_has_an_end_and_conditions() {
    let mut scene = Scene::start(echo);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    let mut waits = |arguments: &str| {
        value::<bool>(&mut scene.client, &format!("SELECT memory_wait({arguments})"), &[])
    };
    assert!(!waits("'100 ms'"));
    assert!(!waits("'100 ms', 's'"));
    assert!(waits("'100 ms', 'another session'"));
    assert!(waits("'100 ms', user_id => 'bob'"));
    let mut transaction = scene.client.transaction().expect("a transaction");
    transaction.execute("SELECT memory_ingest('s', 'user', 'Something.')", &[]).expect("ingest");
    expect_error(transaction.query("SELECT memory_wait('1 s')", &[]), "25001");
    transaction.rollback().expect("rollback");
    run(&mut scene.client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    expect_error(scene.client.query("SELECT memory_wait('1 s')", &[]), "25001");
    run(&mut scene.client, "ROLLBACK");
    scene.stub.hold(false);
    scene.drain();
}

/// An administrator who deletes a session by hand, or restores half of a dump, leaves its jobs: they are not run for
/// ever, unless the session comes.
#[test]
fn a_job_whose_session_is_gone_is_given_up_until_it_comes() {
    let settings = [("memory_agent.llm_max_attempts", "1"), ("memory_agent.sweep_interval", "1s")];
    let mut scene = Scene::with_settings(echo, &settings);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(&mut scene.client, "DELETE FROM memory_agent.sessions");
    scene.stub.hold(false);
    let job = scene.wait_for_job("the job to be given up", |job| job.status == "dead");
    assert_eq!(job.error.as_deref(), Some("its session is not there"));
    assert!(scene.facts().is_empty());
    // The session comes back with its next turn, and the job's turn is not lost.
    scene.say("I like tea.");
    wait_until(PATIENCE, "both facts", || {
        scene.facts() == ["Noted: I like tea.", "Noted: I live in Oslo."]
    });
    scene.drain();
    assert!(scene.jobs().iter().all(|job| job.status == "done"), "{:?}", scene.jobs());
}

/// A model that summarises and asks for ten minutes of rest: nobody who extracts waits for it.
#[test]
fn a_summary_model_that_is_away_does_not_hold_up_facts() {
    let settings = [("memory_agent.summary_model", "tired"), ("memory_agent.summarization", "on")];
    let mut scene = Scene::with_settings(echo, &settings);
    let is_tired = |call: &memory_agent_e2e::llm::Call| call.model() == "tired";
    scene.stub.faults(FaultPlan::when(move |call| {
        is_tired(call).then_some(Fault::TooManyRequests { retry_after: Some(600) })
    }));
    // More than is left as it is.
    scene.say(&"I live in Oslo, where it rains on most days of the year. ".repeat(20));
    let summary = |scene: &mut Scene| {
        let jobs = scene.jobs();
        jobs.into_iter().find(|job| job.kind == "summarize" && job.error.is_some())
    };
    wait_until(PATIENCE, "the summary to be put off", || summary(&mut scene).is_some());
    scene.say("I like tea.");
    wait_until(PATIENCE, "the fact of the new turn", || {
        scene.facts().contains(&"Noted: I like tea.".to_owned())
    });
    let job = summary(&mut scene).expect("the summary still waits");
    assert_eq!((job.status.as_str(), job.attempts), ("pending", 0), "{job:?}");
    assert_eq!(scene.stub.calls().iter().filter(|call| is_tired(call)).count(), 1);
}
