//! Workers and model servers end at random moments while a conversation is stored and reflected on: in
//! the end every episode was reflected on once, and the facts are those that hold.

use crate::random::Random;
use crate::scene::Scene;
use crate::script::start_with;
use memory_agent_e2e::llm::{Conversation, Fault, FaultPlan, ScriptedModel};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::processes;
use std::time::Duration;

/// Turns between two kills, and how long after them the next one comes at most.
const TURNS: usize = 8;
const WITHIN: Duration = Duration::from_millis(300);

/// Conditions as queries that count what breaks them.
const BROKEN: [(&str, &str); 6] = [
    ("jobs that are not done", "SELECT count(*) FROM memory_agent.jobs WHERE status <> 'done'"),
    (
        "turns that no fact was made of",
        "SELECT count(*) FROM memory_agent.entries \
          WHERE kind = 'turn' AND (extracted_at IS NULL OR NOT isfinite(extracted_at))",
    ),
    (
        "episodes that are not reflected",
        "SELECT count(*) FROM memory_agent.episodes WHERE status <> 'reflected'",
    ),
    (
        "episodes that are not in one trace",
        "SELECT count(*) FROM memory_agent.episodes p \
          WHERE 1 <> (SELECT count(*) FROM memory_traces t WHERE t.body->'episodes' ? p.id::text)",
    ),
    (
        "facts whose history is not theirs",
        "SELECT count(*) FROM memory_agent.entries f WHERE f.kind = 'fact' \
            AND (SELECT string_agg(h.op, ' ' ORDER BY h.at, h.id) FROM memory_agent.history h \
                  WHERE h.entry_id = f.id) \
                <> CASE WHEN f.state = 'active' THEN 'add' \
                        WHEN f.state_reason = 'superseded' THEN 'add supersede' ELSE 'add delete' END",
    ),
    (
        "sessions whose counters are wrong",
        "SELECT count(*) FROM memory_agent.sessions s \
          WHERE s.active_entries <> (SELECT count(*) FROM memory_agent.entries e \
                                      WHERE e.session_id = s.session_id AND e.state = 'active')",
    ),
];

#[test]
fn processes_that_end_at_any_moment_lose_nothing_and_repeat_nothing() {
    let mut random = Random::seeded("reflection");
    let seed = random.below(1 << 32);
    let conversation = Conversation::generate(seed);
    let settings = [
        ("memory_agent.rerank_model", ""),
        ("memory_agent.job_workers", "2"),
        ("memory_agent.llm_timeout", "2s"),
        ("memory_agent.llm_max_attempts", "100"),
        ("memory_agent.episode_max_turns", "5"),
        ("memory_agent.max_facts_per_episode", "20"),
    ];
    let mut scene = start_with(ScriptedModel::of(&conversation), &settings);
    let slow = Fault::Delay(Duration::from_millis(150));
    let bad = [Fault::Status(500), Fault::HalfContent, Fault::WrongSchema, Fault::InventedIds];
    let kinds = [vec![slow; 2 * bad.len()], bad.to_vec()].concat();
    scene.stub.faults(FaultPlan::random(seed, 0.6, kinds));
    let mut kills = 0;
    for (number, turn) in conversation.turns.iter().enumerate() {
        let sql = "SELECT memory_ingest($1, 'user', $2)";
        scene.client.execute(sql, &[&turn.session, &turn.text]).expect("ingest");
        if number % TURNS == TURNS - 1 {
            std::thread::sleep(random.time_below(WITHIN));
            kills += kill(&mut scene, random.below(4) == 0);
        }
    }
    println!("{kills} kills");
    scene.stub.faults(FaultPlan::none());
    scene.drain();
    let broken: Vec<(&str, i64)> = BROKEN
        .iter()
        .map(|&(what, sql)| (what, value::<i64>(&mut scene.client, sql, &[])))
        .filter(|&(_, count)| count > 0)
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    let outcome = conversation.outcome();
    let mut expected: Vec<String> =
        outcome.active.iter().map(|(session, fact)| format!("{session}: {fact}")).collect();
    expected.sort();
    let mut found = scene.facts_by_session();
    found.sort();
    let missing: Vec<_> = expected.iter().filter(|fact| !found.contains(fact)).collect();
    let too_many: Vec<_> = found.iter().filter(|fact| !expected.contains(fact)).collect();
    assert_eq!(found, expected, "missing {missing:#?}, too many {too_many:#?}");
}

/// Ends a worker, or kills the model server; how many there were.
fn kill(scene: &mut Scene, model_server: bool) -> u64 {
    if model_server {
        let servers = processes::model_servers(&scene.cluster.data());
        servers.iter().for_each(|server| processes::signal(server.pid, libc::SIGKILL));
        return servers.len() as u64;
    }
    run(
        &mut scene.client,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
          WHERE backend_type = 'memory_agent worker' AND datname = current_database() \
          ORDER BY random() LIMIT 1",
    );
    1
}
