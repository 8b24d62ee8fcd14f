//! Short episodes are carried into the next one, and none is forgotten.

use crate::scene::{PATIENCE, Scene};
use crate::script::{obedient, shown, start, start_with};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, json, wait_until};

#[test]
fn a_short_episode_is_part_of_the_next_reflection() {
    let mut scene = start(obedient);
    scene.episode(&["Note: Jupiter has moons."]);
    assert_eq!(scene.stub.call_count(), 0, "one turn is not enough");
    assert_eq!(scene.waiting_turns(), 1);
    scene.say("Note: Bread needs salt.");
    scene.drain();
    scene.end_episode();
    scene.drain();
    assert_eq!(scene.episodes(), ["1 closed manual", "1 closed manual"], "nor are two");
    scene.episode(&["Note: Trains run late.", "Yes.", "Often."]);
    assert_eq!(
        scene.extracted_turns(),
        [[
            "Note: Jupiter has moons.",
            "Note: Bread needs salt.",
            "Note: Trains run late.",
            "Yes.",
            "Often.",
        ]]
    );
    assert_eq!(scene.facts(), ["Bread needs salt.", "Jupiter has moons.", "Trains run late."]);
    assert_eq!(
        scene.episodes(),
        ["1 reflected manual", "1 reflected manual", "3 reflected manual"]
    );
    let carried = shown(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.episodes short JOIN memory_agent.episodes last \
             ON last.id = short.carried_into WHERE last.turn_count = 3 AND last.carried_into IS NULL",
    );
    assert_eq!(carried, "2");
    assert_eq!(scene.waiting_turns(), 0);
    let trace = &scene.traces()[0];
    assert_eq!(trace["episodes"].as_array().map(Vec::len), Some(3));
    let stats: Json = value(&mut scene.client, "SELECT memory_stats('s')", &[]);
    assert_eq!(stats["episodes"], json!({"open": 0, "closed": 0, "reflected": 3, "carried": 2}));
    assert_eq!(stats["reflections"], 1);
}

#[test]
fn enough_short_ones_together_are_no_short_one() {
    let mut scene = start(obedient);
    for said in ["Note: Jupiter has moons.", "Note: Bread needs salt."] {
        scene.episode(&[said]);
    }
    scene.episode(&["Note: Trains run late."]);
    assert_eq!(scene.extracted_turns().len(), 1);
    assert_eq!(scene.facts().len(), 3);
}

#[test]
fn what_counts_as_short_is_a_setting() {
    let mut scene = start(obedient);
    run(&mut scene.client, "SET memory_agent.min_episode_turns = 1");
    scene.episode(&["Note: Jupiter has moons."]);
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
    run(&mut scene.client, "SET memory_agent.min_episode_turns = 5");
    scene.episode(&["Note: Bread needs salt.", "Yes.", "It does.", "Always."]);
    assert_eq!(scene.facts().len(), 1);
    run(&mut scene.client, "SET memory_agent.min_episode_turns = 2");
    scene.episode(&["So it is."]);
    assert_eq!(scene.facts().len(), 2);
    let turns: Vec<usize> = scene.extracted_turns().iter().map(Vec::len).collect();
    assert_eq!(turns, [1, 4], "the last one is short again");
}

#[test]
fn a_session_may_have_settings_of_its_own() {
    let mut scene = start(obedient);
    run(
        &mut scene.client,
        "SELECT memory_configure(session_id => 's', settings => '{\"min_episode_turns\": 1}')",
    );
    scene.episode(&["Note: Jupiter has moons."]);
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
    run(
        &mut scene.client,
        "SELECT memory_ingest('t', 'user', 'Note: Bread needs salt.'); SELECT memory_close_episode('t')",
    );
    scene.drain();
    assert_eq!(scene.facts().len(), 1);
}

#[test]
fn a_short_episode_without_a_successor_is_reflected_on_alone() {
    let settings = [("memory_agent.sweep_interval", "1s"), ("memory_agent.episode_gap", "1h")];
    let mut scene = start_with(obedient, &settings);
    scene.episode(&["Note: Jupiter has moons."]);
    run(
        &mut scene.client,
        "SELECT memory_ingest('t', 'user', 'Note: Bread needs salt.');
         SELECT memory_close_episode('t');
         SELECT memory_ingest('t', 'user', 'Are you there?')",
    );
    // One gap is not enough, and what has a successor is carried into that.
    let age = |scene: &mut Scene, hours: i32| {
        run(
            &mut scene.client,
            &format!(
                "UPDATE memory_agent.episodes SET ended_at = ended_at - interval '{hours} hours' WHERE status = 'closed';
                 UPDATE memory_agent.entries e SET recorded_at = recorded_at - interval '{hours} hours' \
                   FROM memory_agent.episodes p WHERE p.id = e.episode_id AND p.status = 'closed'"
            ),
        );
    };
    age(&mut scene, 1);
    run(
        &mut scene.client,
        "SELECT memory_ingest('x', 'user', 'An idle one, for the sweep to be seen.', \
                              created_at => now() - interval '1 day')",
    );
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries SET recorded_at = created_at WHERE session_id = 'x'",
    );
    let state = "SELECT string_agg(concat(session_id, ' ', status), ', ' ORDER BY id) FROM memory_agent.episodes";
    wait_until(PATIENCE, "a sweep", || {
        shown(&mut scene.client, state).contains("x closed")
            || shown(&mut scene.client, state).contains("x reflected")
    });
    assert!(shown(&mut scene.client, state).starts_with("s closed, t closed, t open"));
    age(&mut scene, 2);
    wait_until(PATIENCE, "the reflection on a short episode", || {
        shown(&mut scene.client, state).starts_with("s reflected, t closed, t open")
    });
    scene.drain();
    assert!(scene.facts().contains(&"Jupiter has moons.".to_owned()));
    assert!(!scene.facts().contains(&"Bread needs salt.".to_owned()));
}

#[test]
fn sessions_do_not_share_episodes_or_facts() {
    let mut scene = start(obedient);
    scene.episode(&["Note: Jupiter has moons.", "Yes."]);
    run(
        &mut scene.client,
        "SELECT memory_ingest('t', 'user', 'Note: Jupiter has moons.');
         SELECT memory_ingest('t', 'user', 'Note: Bread needs salt.');
         SELECT memory_ingest('t', 'user', 'Yes.');
         SELECT memory_close_episode('t')",
    );
    scene.drain();
    // Two turns of the one and three of the other are not five.
    assert_eq!(scene.facts_by_session(), ["t: Bread needs salt.", "t: Jupiter has moons."]);
    scene.episode(&["Indeed."]);
    scene.episode(&["Change: Jupiter has moons. => Jupiter has 95 moons.", "Really?", "Yes."]);
    assert_eq!(
        scene.facts_by_session(),
        ["s: Jupiter has 95 moons.", "t: Bread needs salt.", "t: Jupiter has moons."]
    );
}
