//! Stopping the server with calls of the LLM in flight, and what a reload changes in mid-work.

use crate::activity::{noted_sentences, reconnect, say_in_sessions, start, start_with};
use crate::models::echo;
use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{StopMode, wait_until};
use std::time::{Duration, Instant};

const CALLS: usize = 8;

/// Stops a server with eight calls in flight several times, and returns the shortest time that it
/// took. In the end every turn has its one fact.
fn stop_with_calls_in_flight(mode: StopMode, rounds: usize) -> Duration {
    // Calls are held until there are eight, and a worker that starts before the model server waits a while.
    let settings = [("memory_agent.llm_concurrency", "8"), ("memory_agent.llm_timeout", "100s")];
    let mut scene = start_with(echo, &settings);
    scene.stub.hold(true);
    say_in_sessions(&mut scene.client, CALLS);
    let mut fastest = Duration::MAX;
    for _ in 0..rounds {
        wait_until(PATIENCE, "eight calls", || scene.stub.in_flight() == CALLS);
        let started = Instant::now();
        scene.cluster.stop(mode);
        fastest = fastest.min(started.elapsed());
        scene.cluster.wait_for_no_processes();
        wait_until(PATIENCE, "the calls to be given up", || scene.stub.in_flight() == 0);
        scene.cluster.start();
        reconnect(&mut scene);
    }
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), noted_sentences(CALLS));
    assert_eq!(scene.all_facts().len(), CALLS, "no fact twice");
    let jobs = scene.jobs();
    assert!(jobs.iter().all(|job| job.status == "done" && job.attempts == 0), "{jobs:#?}");
    println!("{mode:?} stop with {CALLS} calls in flight: {fastest:?}");
    fastest
}

#[test]
fn a_fast_stop_waits_for_no_call() {
    let fastest = stop_with_calls_in_flight(StopMode::Fast, 3);
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
}

/// The models take seconds for a batch of long texts.
#[test]
fn a_fast_stop_waits_for_no_embedding() {
    const TURNS: i64 = 64;
    let mut scene = start_with(echo, &[("memory_agent.llm_base_url", "")]);
    run(&mut scene.client, "SET memory_agent.embed_on_ingest = async");
    let mut fastest = Duration::MAX;
    for round in 0..2 {
        let sql = format!(
            "SELECT count(*) FROM memory_ingest_batch((SELECT jsonb_agg(jsonb_build_object( \
                 'role', 'user', 'content', n || repeat(' the ship of round {round} waited', 20))) \
               FROM generate_series(1, {TURNS}) n), session_id => 'round {round}')"
        );
        run(&mut scene.client, &sql);
        wait_until(PATIENCE, "the embed job to begin", || {
            scene.jobs().iter().any(|job| job.kind == "embed" && job.status == "running")
        });
        let started = Instant::now();
        scene.cluster.stop(StopMode::Fast);
        fastest = fastest.min(started.elapsed());
        scene.cluster.start();
        reconnect(&mut scene);
        run(&mut scene.client, "SET memory_agent.embed_on_ingest = async");
    }
    scene.drain();
    let without: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL OR NOT token_count_exact",
        &[],
    );
    assert_eq!(without, 0);
    println!("a fast stop with an embed job under way: {fastest:?}");
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
}

#[test]
fn an_immediate_stop_loses_no_job() {
    stop_with_calls_in_flight(StopMode::Immediate, 2);
}

#[test]
fn a_smart_stop_is_not_kept_waiting_by_workers() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    let Scene { client, cluster, stub } = scene;
    drop(client);
    cluster.stop(StopMode::Smart);
    cluster.wait_for_no_processes();
    cluster.start();
    let mut scene = Scene { client: cluster.connect(crate::scene::DATABASE), cluster, stub };
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}

#[test]
fn a_reload_counts_from_the_next_call() {
    let mut scene = start(echo);
    scene.say_and_wait("Said to the first model.");
    scene.cluster.alter_system("memory_agent.llm_model", Some("stub-2"));
    scene.say_and_wait("Said to the second model.");
    let models: Vec<String> =
        scene.stub.calls().iter().map(|call| call.model().to_owned()).collect();
    assert_eq!(models.first().map(String::as_str), Some("stub-1"));
    assert_eq!(models.last().map(String::as_str), Some("stub-2"));
    assert!(scene.status("llm").contains("stub-2"), "{}", scene.status("llm"));
}

/// In backend mode there is no model server, which makes the calls of the LLM.
#[test]
fn in_backend_mode_nothing_is_extracted_and_embedding_goes_on() {
    let mut scene = start(echo);
    scene.say_and_wait("Said in server mode.");
    scene.cluster.alter_system("memory_agent.inference", Some("backend"));
    wait_until(PATIENCE, "the session to hear of the reload", || {
        value::<String>(&mut scene.client, "SHOW memory_agent.inference", &[]) == "backend"
    });
    let calls = scene.stub.call_count();
    run(&mut scene.client, "SET memory_agent.embed_on_ingest = async");
    let id = scene.say("Said in backend mode.");
    wait_until(PATIENCE, "the turn to be embedded", || {
        value(
            &mut scene.client,
            "SELECT embedding IS NOT NULL FROM memory_agent.entries WHERE id = $1",
            &[&id],
        )
    });
    let jobs = scene.jobs();
    let extractions = jobs.iter().filter(|job| job.kind == "extract").count();
    assert_eq!(extractions, 1, "that of the first turn: {jobs:#?}");
    assert_eq!(scene.stub.call_count(), calls);
    let status = scene.status("llm");
    assert!(status.contains("'backend'") && status.contains("'server'"), "{status}");
    scene.cluster.alter_system("memory_agent.inference", Some("server"));
    wait_until(PATIENCE, "the session to hear of the reload", || {
        value::<String>(&mut scene.client, "SHOW memory_agent.inference", &[]) == "server"
    });
    run(&mut scene.client, "SELECT memory_backfill()");
    scene.drain();
    assert_eq!(scene.facts().len(), 2);
}
