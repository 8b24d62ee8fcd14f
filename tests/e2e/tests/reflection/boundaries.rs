//! When an episode is over, and what is asked about then.

use crate::scene::{DATABASE, PATIENCE, Scene};
use crate::script::{obedient, start_with};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::wait_until;

#[test]
fn at_every_end_of_an_episode_facts_are_extracted() {
    let mut scene = start_with(obedient, &[("memory_agent.min_episode_turns", "1")]);
    // The number of turns, one turn and one statement at a time.
    run(&mut scene.client, "SET memory_agent.episode_max_turns = 2");
    scene.say("Note: The first fact.");
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "the episode still runs");
    assert_eq!(scene.waiting_turns(), 1);
    scene.say("Is that so?");
    scene.drain();
    assert_eq!(scene.facts(), ["The first fact."]);
    // Several at once: one job for both.
    scene.say_all(&["Note: Jupiter has moons.", "Right.", "Note: Bread needs salt.", "Right."]);
    scene.drain();
    assert_eq!(scene.facts().len(), 3);
    // A result of a tool.
    run(&mut scene.client, "RESET memory_agent.episode_max_turns");
    scene.say("Note: The weather service works.");
    scene.say_as("tool", "sunny");
    scene.drain();
    scene.drain();
    // A gap in event time.
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'Note: It was in the old days.', created_at => '2024-05-01 10:00+00');
         SELECT memory_close_episode('s', 'for the gap to be seen');
         SELECT memory_ingest('s', 'user', 'Note: Much was different.', created_at => '2024-05-01 10:00+00');
         SELECT memory_ingest('s', 'user', 'And today?', created_at => '2024-05-01 11:00+00')",
    );
    scene.drain();
    assert_eq!(
        scene.episodes(),
        [
            "2 reflected max_turns",
            "2 reflected max_turns",
            "2 reflected max_turns",
            "2 reflected tool_result",
            "1 reflected for the gap to be seen",
            "1 reflected gap",
            "1 open",
        ]
    );
    assert_eq!(
        scene.extracted_turns(),
        [
            vec!["Note: The first fact.", "Is that so?"],
            vec!["Note: Jupiter has moons.", "Right.", "Note: Bread needs salt.", "Right."],
            vec!["Note: The weather service works."],
            vec!["Note: It was in the old days.", "Note: Much was different."],
        ]
    );
    assert_eq!(scene.waiting_turns(), 1, "that of the open episode");
    assert!(
        scene.status("extraction").starts_with("extraction: episode: ")
            && scene.status("extraction").contains("1 episodes run or wait"),
        "{}",
        scene.status("extraction")
    );
}

#[test]
fn an_episode_in_which_it_is_quiet_is_ended_by_the_sweep() {
    let settings = [("memory_agent.sweep_interval", "1s"), ("memory_agent.episode_gap", "1h")];
    let mut scene = start_with(obedient, &settings);
    scene.say_all(&["Note: Jupiter has moons.", "Really.", "Yes."]);
    // What an import that still goes on looks like: said long ago, recorded just now.
    run(
        &mut scene.client,
        "SELECT memory_ingest('import', 'user', 'Long ago.', created_at => '2020-01-01');
         SELECT memory_ingest('witness', 'user', 'Long ago.', created_at => '2020-01-01')",
    );
    let backdate = |scene: &mut Scene, session: &str| {
        let sql = "UPDATE memory_agent.entries SET recorded_at = recorded_at - interval '2 hours' \
                    WHERE session_id = $1";
        scene.client.execute(sql, &[&session]).expect("an update");
    };
    run(
        &mut scene.client,
        "UPDATE memory_agent.episodes SET ended_at = ended_at - interval '2 hours' WHERE session_id = 's'",
    );
    backdate(&mut scene, "witness");
    wait_until(PATIENCE, "a sweep", || scene.episodes()[2] != "1 open");
    assert_eq!(scene.episodes()[..2], ["3 open", "1 open"]);
    backdate(&mut scene, "s");
    wait_until(PATIENCE, "the idle episode to be reflected on", || {
        scene.episodes()[..2] == ["3 reflected gap", "1 open"]
    });
    scene.drain();
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
    let open: Vec<String> = values(
        &mut scene.client,
        "SELECT session_id FROM memory_agent.sessions WHERE open_episode_id IS NOT NULL",
        &[],
    );
    assert_eq!(open, ["import"]);
}

/// More episodes than one step of a job takes.
#[test]
fn an_import_of_many_episodes_is_taken_in_steps() {
    let mut scene = start_with(obedient, &[("memory_agent.min_episode_turns", "1")]);
    run(&mut scene.client, "SET memory_agent.episode_max_turns = 1");
    let mut said: Vec<String> = (0..249).map(|number| format!("Line {number}.")).collect();
    said.push("Note: Bread needs salt.".to_owned());
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    scene.say_all(&said);
    scene.drain();
    let episodes = scene.episodes();
    assert_eq!(episodes.len(), 250);
    assert!(episodes.iter().all(|episode| episode == "1 reflected max_turns"), "{episodes:?}");
    assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (0, 0));
    assert_eq!(scene.facts(), ["Bread needs salt."]);
}

/// More sessions than one sweep takes have a longer gap of their own: the others have their turn.
#[test]
fn sessions_with_a_longer_gap_keep_nobody_waiting() {
    let settings = [("memory_agent.sweep_interval", "1s"), ("memory_agent.episode_gap", "1h")];
    let mut scene = start_with(obedient, &settings);
    run(
        &mut scene.client,
        "SELECT memory_configure('patient', settings => '{\"episode_gap\": \"100 d\"}');
         WITH made AS (
            INSERT INTO memory_agent.episodes
                (id, user_id, agent_id, session_id, status, started_at, ended_at, turn_count)
            SELECT gen_random_uuid(), 'alice', 'patient', 'patient ' || n, 'open', at, at, 1
              FROM generate_series(1, 1000) n, (SELECT now() - interval '3 days') t(at)
            RETURNING *)
         INSERT INTO memory_agent.sessions
                (user_id, agent_id, session_id, created_at, last_turn_at, turn_count, open_episode_id)
         SELECT user_id, agent_id, session_id, started_at, ended_at, 1, id FROM made",
    );
    scene.say_all(&["Note: Jupiter has moons.", "Really.", "Yes."]);
    run(
        &mut scene.client,
        "UPDATE memory_agent.episodes SET ended_at = ended_at - interval '2 hours' WHERE session_id = 's';
         UPDATE memory_agent.entries SET recorded_at = recorded_at - interval '2 hours'",
    );
    let left = "SELECT status || ' ' || count(*) FROM memory_agent.episodes \
                 WHERE (agent_id = 'patient') = $1 GROUP BY status";
    wait_until(PATIENCE, "the idle episode to be reflected on", || {
        values::<String>(&mut scene.client, left, &[&false]) == ["reflected 1"]
    });
    assert_eq!(values::<String>(&mut scene.client, left, &[&true]), ["open 1000"]);
}

#[test]
fn each_turn_counts_by_the_setting_under_which_it_was_stored() {
    let mut scene = start_with(obedient, &[("memory_agent.extraction", "off")]);
    scene.episode(&["Note: Nobody hears this.", "Nor this.", "Nor that."]);
    assert_eq!(scene.stub.call_count(), 0);
    assert_eq!(scene.episodes(), ["3 closed manual"]);
    run(&mut scene.client, "SET memory_agent.extraction = episode");
    scene.say("Note: Jupiter has moons.");
    run(&mut scene.client, "SET memory_agent.extraction = off");
    scene.episode(&["Note: Bread needs salt.", "Indeed."]);
    // Whatever ends the episode: it holds a turn that wants it.
    assert_eq!(scene.episodes(), ["3 closed manual", "3 reflected manual"]);
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
    let marks: Vec<String> = values(
        &mut scene.client,
        "SELECT CASE WHEN isfinite(extracted_at) THEN 'done' ELSE extracted_at::text END \
           FROM memory_agent.entries WHERE kind = 'turn' ORDER BY id",
        &[],
    );
    assert_eq!(marks, ["-infinity", "-infinity", "-infinity", "done", "-infinity", "-infinity"]);
}

#[test]
fn without_an_llm_episodes_wait_for_one() {
    let mut scene = start_with(obedient, &[("memory_agent.sweep_interval", "1s")]);
    scene.say_all(&["Note: Jupiter has moons.", "Really.", "Yes."]);
    let url = scene.stub.base_url().to_owned();
    scene.cluster.alter_system("memory_agent.llm_base_url", Some(""));
    scene.client = scene.cluster.connect(DATABASE);
    run(&mut scene.client, "SET memory_agent.user_id = 'alice'");
    scene.end_episode();
    assert!(scene.jobs().iter().all(|job| job.kind != "reflect"), "{:#?}", scene.jobs());
    assert_eq!(scene.episodes(), ["3 closed manual"]);
    scene.cluster.alter_system("memory_agent.llm_base_url", Some(&url));
    wait_until(PATIENCE, "the end of the episode", || scene.episodes() == ["3 reflected manual"]);
    scene.drain();
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
}
