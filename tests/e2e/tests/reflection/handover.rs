//! The turns of an episode that has ended become facts as single turns do: which turns, in which calls, what is
//! on record, and that no failure on the way costs anything.

use crate::scene::PATIENCE;
use crate::script::{obedient, shown, start, start_with};
use memory_agent_e2e::llm::{Call, Document, Fault, FaultPlan, Purpose};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, json, retry_until};

const LISBON: &str = "User lives in the city of Lisbon.";
const OSLO: &str = "User lives in the city of Oslo.";

#[test]
fn the_turns_of_an_episode_become_facts_when_it_has_ended() {
    const SAID: [&str; 10] = [
        "Note: Jupiter has moons.",
        "Note: Bread needs salt.",
        "Is that so?",
        "Note: Magda teaches the violin.",
        "Note: The user's rent is 810 euros.",
        "Right.",
        "Note: The weather service works.",
        "Note: Trains run late.",
        "Note: The kitchen has a blue door.",
        "Note: Carla studies law.",
    ];
    let mut scene = start(obedient);
    scene.say_all(&SAID);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "the episode still runs");
    assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (10, 0));
    scene.end_episode();
    scene.drain();
    assert_eq!(scene.extracted_turns(), [SAID[..8].to_vec(), SAID[8..].to_vec()]);
    assert_eq!(scene.facts().len(), 8, "more than an episode gives: {:?}", scene.facts());
    let facts_with_their_turn = "SELECT count(*) FROM memory_agent.entries f \
        JOIN memory_agent.entries t ON ARRAY[t.id] = f.source_ids AND t.content = 'Note: ' || f.content";
    assert_eq!(shown(&mut scene.client, facts_with_their_turn), "8");
    assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (0, 0));
    assert_eq!(scene.episodes(), ["10 reflected manual"]);
    assert_eq!(scene.traces().len(), 2, "one for each call");
    let stats: Json = value(&mut scene.client, "SELECT memory_stats('s')", &[]);
    assert_eq!(stats["episodes"], json!({"open": 0, "closed": 0, "reflected": 1, "carried": 0}));
    assert_eq!(stats["reflections"], 2);
    assert!(scene.jobs().iter().all(|job| job.status == "done"), "{:#?}", scene.jobs());
    let status = scene.status("extraction");
    assert!(status.starts_with("extraction: episode: "), "{status}");
}

#[test]
fn the_turns_of_a_short_episode_wait_for_the_next_one() {
    let mut scene = start(obedient);
    scene.episode(&["Note: Jupiter has moons."]);
    assert_eq!(scene.stub.call_count(), 0, "one turn is not enough");
    assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (1, 0));
    assert_eq!(scene.episodes(), ["1 closed manual"]);
    scene.episode(&["Note: Bread needs salt.", "Yes."]);
    assert_eq!(
        scene.extracted_turns(),
        [["Note: Jupiter has moons.", "Note: Bread needs salt.", "Yes."]]
    );
    assert_eq!(scene.facts(), ["Bread needs salt.", "Jupiter has moons."]);
    assert_eq!(scene.episodes(), ["1 reflected manual", "2 reflected manual"]);
    let stats: Json = value(&mut scene.client, "SELECT memory_stats('s')", &[]);
    assert_eq!(stats["episodes"], json!({"open": 0, "closed": 0, "reflected": 2, "carried": 1}));
}

#[test]
fn each_fact_is_compared_by_itself() {
    let mut scene = start(obedient);
    scene.episode(&[&format!("Note: {LISBON}"), "Note: Jupiter has moons.", "Yes."]);
    scene.episode(&[&format!("Change: {LISBON} => {OSLO}"), "Note: Carla studies law.", "Yes."]);
    assert_eq!(scene.facts(), ["Carla studies law.", "Jupiter has moons.", OSLO]);
    let (lisbon, oslo) = (scene.fact(LISBON), scene.fact(OSLO));
    assert_eq!((lisbon.reason.as_deref(), lisbon.replaced_by), (Some("superseded"), Some(oslo.id)));
    let calls = scene.stub.calls();
    let compared: Vec<Json> = calls
        .iter()
        .filter(|call| call.purpose() == Purpose::Reconcile)
        .map(|call| call.data()["fact"].clone())
        .collect();
    assert_eq!(compared, [json!(OSLO)]);
    // The rules of extraction hold for what the model makes up.
    scene.stub.set_model(|call: &Call| match call.purpose() {
        Purpose::Extract => {
            json!({"facts": [{"turn": 1, "text": "Bread was made by Ottokar.", "confidence": 1}]})
        }
        _ => Document::of(call).unrelated(),
    });
    scene.episode(&["Note: Bread needs salt.", "Yes.", "Always."]);
    let invented = scene.fact("Bread was made by Ottokar.");
    assert_eq!(invented.reason.as_deref(), Some("unverified"));
}

#[test]
fn facts_come_from_the_users_turns_and_from_decisions_where_they_are_wanted() {
    let mut scene = start(obedient);
    let talk = "SELECT memory_ingest('s', 'assistant', 'Decision: we ship the shop on May 9.');
                SELECT memory_ingest('s', 'assistant', 'Note: You could take the train.');
                SELECT memory_ingest('s', 'user', 'Note: Bread needs salt.');
                SELECT memory_ingest('s', 'tool', 'Decision: the train is booked.')";
    run(&mut scene.client, talk);
    scene.drain();
    assert_eq!(scene.extracted_turns(), [["Note: Bread needs salt."]]);
    // The setting of the session that ends the episode counts.
    scene.say("Note: Jupiter has moons.");
    run(&mut scene.client, &format!("SET memory_agent.assistant_decisions = on; {talk}"));
    scene.drain();
    assert_eq!(
        scene.extracted_turns()[1..],
        [[
            "Note: Jupiter has moons.",
            "Decision: we ship the shop on May 9.",
            "Note: Bread needs salt."
        ]]
    );
    let roles: Vec<Json> = scene
        .stub
        .calls()
        .iter()
        .filter(|call| call.purpose() == Purpose::Extract)
        .flat_map(|call| call.data()["turns"].as_array().cloned().unwrap_or_default())
        .filter_map(|turn| turn.get("role").cloned())
        .collect();
    assert_eq!(roles, [json!("assistant")]);
    assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (0, 0));
    // Turns stored without extraction stay without.
    run(&mut scene.client, "SET memory_agent.extraction = off");
    scene.say("Note: Nobody hears this.");
    run(&mut scene.client, "RESET memory_agent.extraction");
    scene.episode(&["Note: Trains run late.", "Yes."]);
    assert_eq!(scene.extracted_turns()[2..], [["Note: Trains run late.", "Yes."]]);
}

#[test]
fn forgotten_and_erased_turns_become_no_facts() {
    let mut scene = start_with(obedient, &[("memory_agent.sweep_interval", "1s")]);
    let turns =
        scene.say_all(&["Note: Bread needs salt.", "Note: Jupiter has moons.", "Yes.", "Well."]);
    run(
        &mut scene.client,
        &format!("SELECT memory_forget('{}'); SELECT memory_erase(id => '{}')", turns[0], turns[2]),
    );
    scene.end_episode();
    scene.drain();
    assert_eq!(scene.extracted_turns(), [["Note: Jupiter has moons.", "Well."]]);
    // One that comes back is extracted from by itself, although its episode is over.
    run(&mut scene.client, &format!("SELECT memory_restore('{}')", turns[0]));
    scene.drain();
    assert_eq!(scene.extracted_turns()[1..], [["Note: Bread needs salt."]]);
    assert_eq!(scene.facts(), ["Bread needs salt.", "Jupiter has moons."]);
    // Erased while the LLM is asked: its job is gone, and a sweep finds what is left.
    scene.stub.hold(true);
    let calls = scene.stub.call_count();
    let turns = scene.say_all(&["Note: Trains run late.", "Note: Carla studies law.", "Yes."]);
    scene.end_episode();
    scene.wait_for_calls(calls + 1);
    run(&mut scene.client, &format!("SELECT memory_erase(id => '{}')", turns[0]));
    scene.stub.hold(false);
    retry_until(PATIENCE, "the facts of what is left", || (scene.facts().len() == 3).then_some(()));
    scene.drain();
    assert_eq!(scene.facts(), ["Bread needs salt.", "Carla studies law.", "Jupiter has moons."]);
}

#[test]
fn what_no_job_knows_of_is_found_by_the_sweep_and_by_a_backfill() {
    let mut scene = start_with(obedient, &[("memory_agent.sweep_interval", "1s")]);
    scene.say_all(&["Note: Bread needs salt.", "Yes.", "Always."]);
    run(
        &mut scene.client,
        "BEGIN; SELECT memory_close_episode('s'); DELETE FROM memory_agent.jobs; COMMIT",
    );
    retry_until(PATIENCE, "the fact", || (scene.facts() == ["Bread needs salt."]).then_some(()));
    scene.drain();
    // Turns of a closed episode that nobody wanted facts of.
    run(&mut scene.client, "SET memory_agent.extraction = off");
    scene.episode(&["Note: Trains run late.", "Yes.", "Often."]);
    run(&mut scene.client, "RESET memory_agent.extraction");
    let waiting: i64 = value(&mut scene.client, "SELECT memory_backfill()", &[]);
    scene.drain();
    assert_eq!((waiting, scene.facts().len()), (3, 2));
    assert_eq!(scene.episodes(), ["3 reflected manual", "3 reflected manual"]);
}

#[test]
fn a_dead_extraction_is_made_up_for_by_a_retry() {
    let mut scene = start_with(obedient, &[("memory_agent.llm_max_attempts", "1")]);
    scene.stub.faults(FaultPlan::always(Fault::WrongSchema));
    scene.say_all(&["Note: Bread needs salt.", "Yes.", "Always."]);
    scene.end_episode();
    let job = scene.dead_job("extract");
    assert_eq!((scene.facts().len(), scene.unextracted_turns()), (0, 3));
    assert_eq!(scene.episodes(), ["3 reflected manual"]);
    // A later episode is not held up, and leaves the dead job's turns alone.
    scene.stub.faults(FaultPlan::none());
    scene.episode(&["Note: Jupiter has moons.", "Yes.", "Many."]);
    assert_eq!(scene.facts(), ["Jupiter has moons."]);
    scene.retry(job);
    assert_eq!(scene.facts(), ["Bread needs salt.", "Jupiter has moons."]);
    assert_eq!(scene.unextracted_turns(), 0);
}

/// Each step of the transaction that hands the turns over fails in turn.
#[test]
fn no_step_leaves_half_of_an_episode_waiting() {
    const STEPS: [(&str, &str); 3] = [
        ("episodes", "status <> 'reflected'"),
        ("entries", "NOT (content = 'Yes.' AND extracted_at IS NULL)"),
        ("jobs", "kind <> 'extract'"),
    ];
    let mut scene = start_with(obedient, &[("memory_agent.llm_max_attempts", "1")]);
    scene.say_all(&["Note: Bread needs salt.", "Yes.", "Always."]);
    let mut dead = None;
    for (table, check) in STEPS {
        let sql = format!(
            "ALTER TABLE memory_agent.{table} ADD CONSTRAINT broken CHECK ({check}) NOT VALID"
        );
        run(&mut scene.client, &sql);
        match dead {
            None => scene.end_episode(),
            Some(job) => scene.retry(job),
        }
        dead = Some(scene.dead_job("reflect"));
        assert_eq!(scene.episodes(), ["3 closed manual"], "{table}");
        assert_eq!((scene.waiting_turns(), scene.unextracted_turns()), (3, 0), "{table}");
        assert_eq!(scene.stub.call_count(), 0, "{table}");
        run(&mut scene.client, &format!("ALTER TABLE memory_agent.{table} DROP CONSTRAINT broken"));
    }
    scene.retry(dead.expect("a job"));
    assert_eq!(scene.facts(), ["Bread needs salt."]);
    assert_eq!(scene.episodes(), ["3 reflected manual"]);
}
