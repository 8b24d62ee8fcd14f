//! Time: what was true when, what has expired, and how age and markers count in the score.

use super::{assert_close, relevance_only, weighted};
use memory_agent_e2e::memory::{explain, ingest_all, recall, recalled_texts, run};
use memory_agent_e2e::{Client, shared, wait_until};
use std::time::Duration;

#[test]
fn as_of_sees_what_was_said_by_then() {
    let mut client = shared().database("as_of").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off;
         SELECT memory_ingest('s', 'user', 'apple 2022', created_at => '2022-06-01 00:00+00');
         SELECT memory_ingest('s', 'user', 'apple 2023', created_at => '2023-06-01 00:00+00');
         UPDATE memory_agent.entries SET state = 'archived' WHERE content = 'apple 2022'",
    );
    let at = |client: &mut Client, time: &str| {
        let mut found = recalled_texts(client, &format!("'apple', as_of => '{time}'"));
        found.sort();
        found
    };
    assert!(at(&mut client, "2022-05-31").is_empty());
    assert_eq!(at(&mut client, "2022-06-01 00:00+00"), ["apple 2022"]);
    assert_eq!(at(&mut client, "2023-05-31"), ["apple 2022"]);
    assert_eq!(at(&mut client, "2023-06-01 00:00+00"), ["apple 2022", "apple 2023"]);

    // Ages count from then.
    let rows = recall(&mut client, "'apple', as_of => '2023-07-01 00:00+00'");
    for (label, days) in [("apple 2023", 30.0), ("apple 2022", 395.0)] {
        let row = rows.iter().find(|row| row.content == label).unwrap();
        assert_close(row.recency, f64::exp(-days / 30.0));
    }
}

/// No word of the question is in a turn: the default embedder finds them.
#[test]
fn what_was_said_by_then_is_found_by_its_meaning() {
    let mut client = shared().database("as_of_meaning").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'Our dog is called Biscuit.', created_at => '2022-06-01 00:00+00');
         SELECT memory_ingest('s', 'user', 'We adopted a kitten, Pepper.', created_at => '2024-06-01 00:00+00')",
    );
    let dense = |client: &mut Client, time: &str| -> Vec<String> {
        let question = format!("'Which pets live with us?', as_of => '{time}', rerank => false");
        assert_eq!(explain(client, &question)["embedding"], "memory-embed-small");
        let rows = recall(client, &question);
        assert!(rows.iter().all(|row| row.similarity.is_some_and(|cosine| cosine > 0.3)));
        rows.into_iter().map(|row| row.content).collect()
    };
    assert!(dense(&mut client, "2022-05-31").is_empty());
    assert_eq!(dense(&mut client, "2024-05-31"), ["Our dog is called Biscuit."]);
    let mut both = dense(&mut client, "2024-06-01 00:00+00");
    both.sort();
    assert_eq!(both, ["Our dog is called Biscuit.", "We adopted a kitten, Pepper."]);
}

#[test]
fn a_row_expires_when_its_time_has_come() {
    let mut client = shared().database("expires").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off;
         SELECT memory_ingest('s', 'user', 'apple for long', ttl => '1 hour');
         SELECT memory_ingest('s', 'user', 'apple for a moment', ttl => '1500 milliseconds');
         SELECT memory_add('apple of the past', ttl => '1 hour', infer => false);
         UPDATE memory_agent.entries SET created_at = now() - interval '2 days', \
             expires_at = now() - interval '1 day' WHERE content = 'apple of the past'",
    );
    wait_until(Duration::from_secs(30), "the moment to pass", || {
        recalled_texts(&mut client, "'apple'") == ["apple for long"]
    });
    let before = recalled_texts(&mut client, "'apple', as_of => now() - interval '36 hours'");
    assert_eq!(before, ["apple of the past"], "it was true then");
}

/// Turns of known ages, the newest first.
const AGES: [f64; 5] = [0.0, 7.0, 30.0, 75.0, 150.0];

fn aged(client: &mut Client) {
    run(client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    for days in AGES {
        run(
            client,
            &format!(
                "SELECT memory_ingest('s', 'user', 'apple', metadata => '{{\"days\": {days}}}', \
                                      created_at => now() - interval '1 day' * {days})"
            ),
        );
    }
}

fn check_decay(client: &mut Client, formula: impl Fn(f64) -> f64) {
    let rows = recall(client, "'apple', kinds => '{turn}'");
    assert_eq!(rows.len(), AGES.len());
    for row in rows {
        let days = row.metadata["days"].as_f64().unwrap();
        // The row has aged by the time the test took.
        let found = f64::from(row.recency);
        let expected = formula(days);
        assert!((found - expected).abs() < 1e-3, "{days} days: {found} is not {expected}");
    }
}

#[test]
fn recency_falls_by_e_in_thirty_days() {
    let mut client = shared().database("decay").connect();
    aged(&mut client);
    check_decay(&mut client, |days| (-days / 30.0).exp());
}

#[test]
fn the_score_is_relevance_recency_and_markers_by_their_weights() {
    let mut client = shared().database("score_parts").connect();
    ingest_all(
        &mut client,
        "s",
        &["The apple tree blooms.", "Pears are ripe.", "We decided to plant an apple tree."],
    );
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'The apple harvest was good.', created_at => now() - interval '40 days')",
    );
    weighted(&mut client);
    for (weight, arguments) in [
        (0.2, ""),
        (0.0, ", recency_weight => 0"),
        (0.7, ", recency_weight => 0.7"),
        (1.0, ", recency_weight => 1"),
    ] {
        let rows = recall(&mut client, &format!("'apple tree', rerank => false{arguments}"));
        assert_eq!(rows.len(), 4);
        for row in &rows {
            let boost = if row.markers == ["decision"] { 0.3 * 0.1 } else { 0.0 };
            let score =
                (1.0 - weight) * f64::from(row.relevance) + weight * f64::from(row.recency) + boost;
            assert_close(row.score, score);
        }
        assert!(rows.is_sorted_by(|a, b| a.score >= b.score));
    }
    run(&mut client, "SET memory_agent.recency_weight = 0.9");
    let document = explain(&mut client, "'apple tree', rerank => false");
    assert_close(document["recency_weight"].as_f64().unwrap(), 0.9);
}

#[test]
fn every_marker_has_its_boost() {
    let mut client = shared().database("marker_boosts").connect();
    weighted(&mut client);
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    for marker in ["constraint", "decision", "goal", "failure", "custom:x", "failure,constraint"] {
        run(
            &mut client,
            &format!("SELECT memory_ingest('s', 'user', 'apple', markers => '{{{marker}}}')"),
        );
    }
    run(&mut client, "SELECT memory_ingest('s', 'user', 'apple')");
    relevance_only(&mut client);
    for weight in [0.1, 0.5, 0.0] {
        run(&mut client, &format!("SET memory_agent.marker_weight = {weight}"));
        let rows = recall(&mut client, "'apple', top_k => 10");
        assert_eq!(rows.len(), 7);
        for row in rows {
            let boost = match row.markers.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => 0.0,
                ["constraint"] | ["failure", "constraint"] => 0.4,
                ["decision"] | ["goal"] => 0.3,
                _ => 0.2,
            };
            assert_close(row.score, f64::from(row.relevance) + weight * boost);
        }
    }
}

#[test]
fn a_question_about_now_favours_the_new() {
    let mut client = shared().database("freshness").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'I work as a baker.', created_at => now() - interval '100 days');
         SELECT memory_ingest('s', 'user', 'I work as a driver.')",
    );
    // What ships has learned it; the other formula raises a weight.
    let jobs = recalled_texts(&mut client, "'What is my current job?'");
    assert_eq!(jobs, ["I work as a driver.", "I work as a baker."]);
    weighted(&mut client);
    let weight = |client: &mut Client, arguments: &str| {
        explain(client, arguments)["recency_weight"].as_f64().unwrap()
    };
    assert_close(weight(&mut client, "'What is my job?'"), 0.2);
    assert_close(weight(&mut client, "'What is my current job?'"), 0.4);
    assert_close(weight(&mut client, "'What is my latest job today?'"), 0.4);
    assert_close(weight(&mut client, "'What is my current job?', recency_weight => 0.4"), 0.5);
    assert_close(weight(&mut client, "'What is my current job?', recency_weight => 0.8"), 0.8);
    assert_close(weight(&mut client, "'What is my current job?', recency_weight => 0"), 0.0);
}
