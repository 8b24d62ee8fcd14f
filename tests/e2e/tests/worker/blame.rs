//! Whose fault a failure is. What the endpoint refuses to one user fails that job alone, with the endpoint's
//! reason, and no other user waits for it; what it refuses to all users is an outage and costs no attempt. One
//! user alone fares the same.

use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, Fault, FaultPlan, Purpose, Reply};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Json, wait_until};

const FLAGGED: &str = "FLAGGED: I live in Rome.";
const REASON: &str = "your input was flagged";

/// An endpoint that answers some texts with a status, as a filter before it would, and all others well.
fn filter(status: u16) -> impl Fn(&Call) -> Reply {
    move |call| {
        if call.body.to_string().contains("FLAGGED") {
            Reply::error(status, REASON)
        } else if call.purpose() == Purpose::Chat {
            "Hello.".into()
        } else {
            echo(call).into()
        }
    }
}

fn scene(status: u16) -> Scene {
    Scene::with_settings(filter(status), &[("memory_agent.llm_max_attempts", "4")])
}

/// A session of another user.
fn user(scene: &Scene, name: &str) -> Client {
    let mut client = scene.cluster.connect(DATABASE);
    run(&mut client, &format!("SET memory_agent.user_id = '{name}'"));
    client
}

fn chat(client: &mut Client, message: &str) -> Json {
    let sql = "SELECT memory_chat(jsonb_build_array(jsonb_build_object('role', 'user', 'content', $1::text)), \
                      'chats', top_k => 0)";
    value(client, sql, &[&message])
}

/// Waits for the flagged turn's job to be given up, with the endpoint's sentence.
#[track_caller]
fn expect_dead(scene: &mut Scene, status: u16) {
    let job = scene.wait_for_job("the flagged turn to be given up", |job| job.status == "dead");
    assert_eq!(job.attempts, 4, "{job:?}");
    let error = job.error.expect("its error");
    assert!(error.contains(&format!("HTTP {status}")) && error.contains(REASON), "{error}");
}

fn breaker(scene: &mut Scene) -> String {
    scene.status("llm").to_lowercase()
}

#[test]
fn a_turn_that_is_refused_to_one_user_stops_nobody_else() {
    for status in [403, 404, 500, 503] {
        let mut scene = scene(status);
        let mut ann = user(&scene, "ann");
        scene.say(FLAGGED);
        let (mut chats, mut failures) = (0, Vec::new());
        wait_until(PATIENCE, "the flagged turn to be given up", || {
            let answer = chat(&mut ann, "hello");
            chats += 1;
            failures.extend(answer.get("error").map(Json::to_string));
            scene.jobs().iter().any(|job| job.status == "dead")
        });
        assert!(chats >= 8 && failures.is_empty(), "{status}: of {chats}: {failures:#?}");
        expect_dead(&mut scene, status);
        // What others say is extracted too.
        run(&mut ann, "SELECT memory_ingest('s', 'user', 'I have a cat.')");
        scene.drain();
        let fact = "SELECT content FROM memory_agent.entries WHERE kind = 'fact'";
        assert_eq!(value::<String>(&mut ann, fact, &[]), "Noted: I have a cat.");
    }
}

#[test]
fn a_message_that_is_refused_is_that_calls_error() {
    for (status, code) in [(403, "refused"), (500, "failed")] {
        let scene = scene(status);
        let (mut ann, mut bob) = (user(&scene, "ann"), user(&scene, "bob"));
        for number in 0..8 {
            let refused = chat(&mut bob, &format!("FLAGGED {number}"));
            assert_eq!(refused["error"]["code"], code, "{refused}");
            let message = refused["error"]["message"].as_str().expect("a message");
            assert!(message.contains(REASON), "{message}");
            let answer = chat(&mut ann, "hello");
            assert!(answer.get("choices").is_some(), "after {number}: {answer}");
        }
    }
}

#[test]
fn one_user_alone_loses_the_flagged_turn_only() {
    let mut scene = scene(403);
    for session in ["a", "flagged", "b"] {
        let text = if session == "flagged" { FLAGGED } else { session };
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
    scene.drain();
    expect_dead(&mut scene, 403);
    assert_eq!(scene.facts(), ["Noted: a", "Noted: b"]);
}

#[test]
fn one_user_alone_with_a_flagged_turn_alone_sees_its_end() {
    for status in [403, 500] {
        let mut scene = scene(status);
        scene.say(FLAGGED);
        scene.drain();
        expect_dead(&mut scene, status);
        assert_eq!(scene.stub.call_count(), 4, "one call for each attempt");
        assert_eq!(scene.stub.test_count(), 4, "and a harmless one to tell whose fault it is");
        assert!(!breaker(&mut scene).contains("open"), "{}", breaker(&mut scene));
    }
}

#[test]
fn an_evening_without_the_endpoint_costs_no_attempt() {
    for (fault, users) in [
        (Some(Fault::Status(403)), 8),
        (Some(Fault::Status(403)), 1),
        (Some(Fault::Status(503)), 8),
        (Some(Fault::Status(503)), 1),
        (Some(Fault::ResetBeforeHeaders), 1),
        // Connections are refused.
        (None, 8),
    ] {
        let mut scene = scene(200);
        match fault {
            Some(fault) => scene.stub.faults(FaultPlan::always(fault)),
            None => scene.stub.set_down(true),
        }
        for number in 0..users {
            let mut client = user(&scene, &format!("user {number}"));
            run(&mut client, "SELECT memory_ingest('s', 'user', 'I have a cat.')");
        }
        wait_until(PATIENCE, "an open breaker", || breaker(&mut scene).contains("open"));
        let counted = "SELECT count(*) FILTER (WHERE attempts > 0 OR status = 'dead') \
                         FROM memory_agent.jobs WHERE kind = 'extract'";
        if fault.is_some() {
            // The pause is over, and a call has found out that the outage is not.
            let before = scene.stub.call_count();
            wait_until(PATIENCE, "a call after the pause", || scene.stub.call_count() > before);
            wait_until(PATIENCE, "an open breaker", || breaker(&mut scene).contains("open"));
        }
        assert_eq!(value::<i64>(&mut scene.client, counted, &[]), 0, "{fault:?}, {users}");
        match fault {
            Some(_) => scene.stub.faults(FaultPlan::none()),
            None => scene.stub.set_down(false),
        }
        let wait = "SELECT count(*) FROM memory_agent.jobs \
                     WHERE kind = 'extract' AND status = 'done' AND attempts = 0";
        wait_until(PATIENCE, "the jobs after the outage", || {
            value::<i64>(&mut scene.client, wait, &[]) == users
        });
    }
}
