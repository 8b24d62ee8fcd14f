//! Between the switch and the last move, some rows have the new vector in themselves, others beside
//! them: recall answers the same all the time, on both of its paths.

use crate::MINILM;
use memory_agent_e2e::memory::{Recalled, explain, ingest_all, recall, run, value};
use memory_agent_e2e::{Client, shared_without_worker};

const QUESTIONS: [&str; 4] = [
    "'Which fruit is ripe?', top_k => 8",
    "'Which fruit is ripe?', session_id => 's', top_k => 8",
    "'machines', rewrites => '{tractor oil}', top_k => 8",
    "'apples', filter => '{\"role\": \"user\"}', mmr_lambda => 0.3, top_k => 8",
];

fn answers(client: &mut Client) -> Vec<Vec<Recalled>> {
    QUESTIONS.iter().map(|question| recall(client, question)).collect()
}

/// Moves the vectors of so many rows, as the job does.
fn move_in(client: &mut Client, rows: i64) {
    let moved = client
        .execute(
            "WITH due AS (SELECT user_id, entry_id FROM memory_agent.entry_windows ORDER BY entry_id LIMIT $1), \
                  taken AS (DELETE FROM memory_agent.entry_windows w USING due \
                             WHERE w.user_id = due.user_id AND w.entry_id = due.entry_id RETURNING w.*) \
             UPDATE memory_agent.entries e \
                SET embedding = t.embedding, embedding_model = t.embedding_model \
               FROM taken t WHERE e.user_id = t.user_id AND e.id = t.entry_id",
            &[&rows],
        )
        .unwrap();
    assert!(moved > 0);
}

#[test]
fn recall_answers_the_same_while_vectors_move() {
    let mut client = shared_without_worker().database("change_moving").connect();
    let turns: Vec<String> = (0..20)
        .map(|n| match n % 4 {
            0 => format!("Harvest report {n}: the apples of field {n} are ripe."),
            1 => format!("We sell {n} crates of pears."),
            2 => format!("Tractor {n} needs oil."),
            _ => format!("Lunch number {n} was soup."),
        })
        .collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    run(
        &mut client,
        "SELECT memory_add('The village shop buys apples.', infer => false, user_id => '*');
         SELECT memory_add('Plums are for jam.', infer => false)",
    );
    // The state right after the switch.
    run(
        &mut client,
        &format!(
            "SELECT memory_register_model('{MINILM}', 'embedder');
             UPDATE memory_agent.models SET active = true WHERE name = '{MINILM}';
             INSERT INTO memory_agent.entry_windows (user_id, entry_id, ordinal, embedding, embedding_model)
             SELECT user_id, id, 1, memory_embed(content, 'document'), '{MINILM}' FROM memory_agent.entries;
             SELECT memory_create_vector_index();
             ANALYZE memory_agent.entries;
             SET memory_agent.recency_weight = 0; SET memory_agent.neighbor_weight = 0;
             SET memory_agent.rerank = off"
        ),
    );
    let mut seen = Vec::new();
    for step in ["beside", "half of them", "moved"] {
        match step {
            "beside" => {}
            "half of them" => move_in(&mut client, 11),
            _ => move_in(&mut client, 11),
        }
        for path in ["RESET memory_agent.exact_scan_rows", "SET memory_agent.exact_scan_rows = 0"] {
            run(&mut client, path);
            let mode = explain(&mut client, QUESTIONS[0])["mode"].as_str().unwrap().to_owned();
            seen.push((format!("{step}, {mode}"), answers(&mut client)));
        }
    }
    let left: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entry_windows", &[]);
    assert_eq!(left, 0);
    let (_, expected) = seen.pop().unwrap();
    assert!(expected.iter().flatten().all(|row| row.similarity.is_some()));
    for (what, found) in seen {
        for ((question, found), expected) in QUESTIONS.iter().zip(&found).zip(&expected) {
            let ids =
                |rows: &[Recalled]| rows.iter().map(|row| row.content.clone()).collect::<Vec<_>>();
            assert_eq!(ids(found), ids(expected), "{what}: {question}");
            for (found, expected) in found.iter().zip(expected) {
                let near = |a: Option<f32>, b: Option<f32>| {
                    a.zip(b).is_some_and(|(a, b)| (a - b).abs() < 1e-4)
                };
                assert!(
                    near(found.similarity, expected.similarity)
                        && near(Some(found.score), Some(expected.score)),
                    "{what}: {question}: {found:?} is not {expected:?}"
                );
            }
        }
    }
}
