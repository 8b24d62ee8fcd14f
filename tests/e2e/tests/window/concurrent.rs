//! Everything that changes a window, at once and with a worker: nobody deadlocks, and the counters of
//! the sessions are right afterwards.

use crate::random::Random;
use crate::{drain, with_llm};
use memory_agent_e2e::llm::ScriptedModel;
use memory_agent_e2e::memory::values;
use std::sync::Mutex;

/// Sessions, and statements of each of four clients.
const SESSIONS: [&str; 2] = ["s", "t"];
const STATEMENTS: usize = 40;

fn statement(random: &mut Random) -> String {
    let session = SESSIONS[random.below(2) as usize];
    let turn = |session: &str, random: &mut Random| {
        let words = "and the ferry left the harbour ".repeat(1 + random.below(6) as usize);
        format!(
            "{{\"session_id\": \"{session}\", \"role\": \"user\", \"content\": \"It is tea {words}.\"}}"
        )
    };
    match random.below(8) {
        0 => format!("SELECT memory_clear('{session}')"),
        1 => format!("SELECT * FROM memory_reserve_tokens('{session}', {})", random.below(300)),
        2 => format!("SELECT memory_close_episode('{session}')"),
        3 => format!("SELECT memory_compress('{session}')"),
        4 => "SELECT memory_backfill()".to_owned(),
        5 => format!(
            "SELECT memory_configure(session_id => '{session}', settings => '{{\"episode_max_turns\": {}}}')",
            1 + random.below(9)
        ),
        _ => format!(
            "SELECT memory_ingest_batch('[{}, {}, {}]')",
            turn("t", random),
            turn("s", random),
            turn(session, random)
        ),
    }
}

#[test]
fn whatever_happens_at_once_the_counters_are_right() {
    let model = ScriptedModel::new().knows("It is tea.", "drink", "tea", "The drink is tea.");
    let (_stub, cluster) = with_llm(
        model,
        &[
            ("memory_agent.embed_on_ingest", "off"),
            ("memory_agent.compression_threshold_tokens", "400"),
            ("memory_agent.max_entries", "30"),
        ],
    );
    let mut client = cluster.database("window_concurrent").connect();
    let seeds = Mutex::new(Random::seeded("whatever_happens_at_once_the_counters_are_right"));
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = cluster.connect("window_concurrent");
                client.batch_execute("SET memory_agent.user_id = 'alice'").unwrap();
                for _ in 0..STATEMENTS {
                    let statement = statement(&mut seeds.lock().unwrap());
                    if let Err(error) = client.simple_query(&statement) {
                        problems.lock().unwrap().push(format!("{statement}: {error:?}"));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
    drain(&mut client);
    let wrong: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', s.session_id, s.active_tokens, w.tokens, s.active_entries, w.entries, \
                          s.unsummarized_tokens, w.uncovered, s.open_episode_id IS NULL, w.open) \
           FROM memory_agent.sessions s, \
                LATERAL (SELECT count(*) FILTER (WHERE e.state = 'active') AS entries, \
                                coalesce(sum(e.token_count) FILTER (WHERE e.state = 'active' AND e.kind = 'turn'), 0) AS tokens, \
                                coalesce(sum(e.token_count) FILTER (WHERE e.state <> 'inactive' AND e.kind = 'turn' \
                                    AND NOT EXISTS (SELECT FROM memory_agent.session_summaries u \
                                                     WHERE u.session_id = s.session_id AND e.id = ANY (u.source_ids))), 0) AS uncovered, \
                                (SELECT count(*) FROM memory_agent.episodes p \
                                  WHERE p.session_id = s.session_id AND p.status = 'open') AS open \
                           FROM memory_agent.entries e WHERE e.session_id = s.session_id) w \
          WHERE s.active_tokens <> w.tokens OR s.active_entries <> w.entries \
             OR s.unsummarized_tokens <> w.uncovered \
             OR (s.open_episode_id IS NULL) <> (w.open = 0) OR w.open > 1",
        &[],
    );
    assert!(wrong.is_empty(), "{wrong:?}\n{}", cluster.log());
    let log = cluster.log();
    assert!(!log.contains("deadlock detected"), "{log}");
}
