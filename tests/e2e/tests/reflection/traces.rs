//! What is on record about an episode.

use crate::script::{CONFIDENCE, obedient, shown, start};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, Uuid, expect_error, json};

const FIRST: &str = "User's project stores its data in MySQL.";
const SECOND: &str = "User's project stores its data in SQLite.";
const OTHER: &str = "The user's laptop has 16 GB of memory.";

#[test]
fn a_trace_tells_everything_about_an_extraction() {
    let mut scene = start(obedient);
    let first = scene.episode(&[&format!("Note: {FIRST}"), &format!("Note: {OTHER}"), "Ok."]);
    let second = scene.episode(&[&format!("Change: {FIRST} => {SECOND}"), "Sure?", "Yes."]);
    let traces = scene.traces();
    assert_eq!(traces.len(), 2, "one for each extraction");
    let ids = |ids: &[Uuid]| json!(ids.iter().map(Uuid::to_string).collect::<Vec<_>>());
    let (mysql, sqlite, other) = (scene.fact(FIRST), scene.fact(SECOND), scene.fact(OTHER));

    let [reflect, consolidate] = [&traces[0], &traces[1]];
    assert_eq!(reflect["mode"], "reflect");
    assert_eq!(reflect["input_turn_count"], 3);
    assert_eq!(
        reflect["input_turns"][0],
        json!({"id": first[0].to_string(), "role": "user", "markers": []})
    );
    assert_eq!((&reflect["prior_fact_count"], &reflect["scoped_facts"]), (&json!(0), &json!([])));
    let saved = reflect["saved_facts"].as_array().expect("a list");
    assert_eq!(saved.len(), 2);
    assert_eq!(
        saved[0],
        json!({"id": mysql.id.to_string(), "content": FIRST, "markers": [],
               "confidence": CONFIDENCE, "source_ids": ids(&first[..1])})
    );
    assert_eq!(reflect["superseded_facts"], json!([]));

    assert_eq!(consolidate["mode"], "consolidate");
    assert_eq!(consolidate["prior_fact_count"], 2);
    let prior = consolidate["prior_facts"].as_array().expect("a list");
    assert!(prior.contains(&json!({"id": other.id.to_string(), "content": OTHER})), "{prior:?}");
    let scoped = consolidate["scoped_facts"].as_array().expect("a list");
    assert_eq!(scoped[0]["content"], FIRST);
    assert!(scoped[0]["similarity"].as_f64().is_some_and(|similarity| similarity > 0.7));
    // What the LLM answered, a line each: the facts, then the comparison.
    let raw = consolidate["raw_output"].as_str().expect("a text");
    let raw: Vec<Json> = raw
        .lines()
        .map(|line| serde_json::from_str(line).expect("what the LLM answered"))
        .collect();
    assert_eq!(raw[0]["facts"][0]["text"], SECOND);
    assert_eq!(raw[1]["choice"], "replaces 1");
    assert_eq!(consolidate["rounds"], raw.len());
    assert_eq!(consolidate["saved_facts"][0]["id"], json!(sqlite.id.to_string()));
    assert_eq!(consolidate["saved_facts"][0]["source_ids"], ids(&second[..1]));
    assert_eq!(
        consolidate["superseded_facts"],
        json!([{"id": mysql.id.to_string(), "content": FIRST, "reason": "superseded",
                "replaced_by": sqlite.id.to_string()}])
    );
    assert!(consolidate["elapsed_ms"].as_u64().is_some());

    let whose = shown(
        &mut scene.client,
        "SELECT string_agg(concat_ws('|', t.user_id, t.agent_id, t.session_id, p.turn_count, j.kind), ', ') \
           FROM memory_traces t JOIN memory_agent.episodes p ON p.id = t.episode_id \
           JOIN memory_agent.jobs j ON j.id = t.job_id",
    );
    assert_eq!(whose, "alice|default|s|3|extract, alice|default|s|3|extract");
    let calls = shown(
        &mut scene.client,
        "SELECT string_agg(purpose || ' ' || status, ', ' ORDER BY at) FROM memory_llm_calls",
    );
    assert_eq!(
        calls, "extract ok, extract ok, probe ok, probe ok, reconcile ok",
        "the probe comes before the first comparison"
    );
}

/// A fact of an episode that is compared with another one of it is stored in a second step.
#[test]
fn a_trace_tells_what_all_steps_of_its_job_stored() {
    let mut scene = start(obedient);
    scene.episode(&[&format!("Note: {FIRST}"), &format!("Change: {FIRST} => {SECOND}"), "Yes."]);
    assert_eq!(scene.facts(), [SECOND]);
    let trace = scene.traces().pop().expect("a trace");
    let contents = |key: &str| -> Vec<Json> {
        let facts = trace[key].as_array().expect("a list");
        facts.iter().map(|fact| fact["content"].clone()).collect()
    };
    assert_eq!(contents("saved_facts"), [json!(FIRST), json!(SECOND)]);
    assert_eq!(contents("superseded_facts"), [json!(FIRST)]);
}

#[test]
fn an_episode_that_brings_nothing_has_a_trace_too() {
    let mut scene = start(obedient);
    scene.episode(&["Good morning!", "Hm.", "See you."]);
    let traces = scene.traces();
    assert_eq!(traces.len(), 1);
    assert_eq!(
        (&traces[0]["input_turn_count"], &traces[0]["saved_facts"]),
        (&json!(3), &json!([]))
    );
    assert_eq!(scene.episodes(), ["3 reflected manual"]);
}

#[test]
fn each_user_sees_their_own_traces() {
    let mut scene = start(obedient);
    scene.episode(&["Note: Jupiter has moons.", "Hm.", "See you."]);
    run(
        &mut scene.client,
        "CREATE ROLE nothing LOGIN;
         CREATE ROLE app LOGIN; SELECT memory_grant('app', 'user');
         CREATE ROLE boss LOGIN; SELECT memory_grant('boss', 'admin')",
    );
    let count = "SELECT count(*) FROM memory_traces";
    let mut nothing = scene.cluster.connect_as(crate::scene::DATABASE, "nothing");
    expect_error(nothing.query(count, &[]), "42501");
    for role in ["app", "boss"] {
        let mut client = scene.cluster.connect_as(crate::scene::DATABASE, role);
        for (user, traces) in [("bob", 0), ("alice", 1)] {
            run(&mut client, &format!("SET memory_agent.user_id = '{user}'"));
            assert_eq!(value::<i64>(&mut client, count, &[]), traces, "{role} as {user}");
        }
    }
}
