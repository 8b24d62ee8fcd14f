//! No client that stores a turn waits for the LLM, however slow it is.

use crate::activity::{say_in_sessions, start, start_with};
use crate::models::echo;
use crate::scene::PATIENCE;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, wait_until};
use std::time::{Duration, Instant};

const SAMPLES: usize = 60;
const ROUNDS: usize = 3;

/// The time that `memory_ingest` of a turn that was never said before takes.
fn time_of_ingest(client: &mut Client, session: &str, number: usize) -> Duration {
    let text =
        format!("On day {number} the ship {session} left the harbour with {number} sailors.");
    let started = Instant::now();
    client.execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text]).expect("ingest");
    started.elapsed()
}

fn percentile_95(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 95 / 100]
}

/// Measured in turns, so that a busy machine is busy for both.
#[test]
fn ingest_is_as_fast_with_an_llm_that_does_not_answer_as_with_none() {
    let mut scene = start_with(echo, &[("memory_agent.llm_timeout", "10min")]);
    let mut without = scene.cluster.connect(crate::scene::DATABASE);
    run(&mut without, "SET memory_agent.user_id = 'alice'; SET memory_agent.extraction = off");
    scene.stub.hold(true);
    say_in_sessions(&mut scene.client, 4);
    wait_until(PATIENCE, "calls that are not answered", || scene.stub.in_flight() == 4);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (mut with_llm, mut without_llm) = (Vec::new(), Vec::new());
        for sample in 0..SAMPLES {
            let number = round * SAMPLES + sample;
            without_llm.push(time_of_ingest(&mut without, "Aurora", number));
            with_llm.push(time_of_ingest(&mut scene.client, "Borealis", number));
        }
        let (with_llm, without_llm) = (percentile_95(with_llm), percentile_95(without_llm));
        ratios.push(with_llm.as_secs_f64() / without_llm.as_secs_f64());
        println!("p95 of memory_ingest: {with_llm:?} with an LLM, {without_llm:?} without");
    }
    let best = ratios.iter().copied().fold(f64::MAX, f64::min);
    assert!(best < 2.0, "{ratios:?}");
    assert_eq!(scene.stub.in_flight(), 4, "all the time the LLM did not answer");
}

#[test]
fn a_session_is_not_locked_while_its_turns_are_with_the_llm() {
    let mut scene = start(echo);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(&mut scene.client, "SET lock_timeout = '500 ms'");
    for number in 0..10 {
        scene.say(&format!("Sentence {number}."));
    }
    run(
        &mut scene.client,
        "SELECT memory_add('User likes tea.', 's', infer => false); SELECT memory_close_episode('s'); \
         SELECT * FROM memory_recall('Oslo', 's')",
    );
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts().len(), 12);
}
