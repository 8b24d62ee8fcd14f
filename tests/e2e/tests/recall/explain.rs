//! `memory_explain` tells the same recall: the same rows, their scores, and why the others are not
//! among them.

use super::{assert_close, read_all};
use memory_agent_e2e::memory::{Recalled, explain, ingest_all, recall, run};
use memory_agent_e2e::{Client, Json, shared};

fn fill(client: &mut Client) {
    let turns: Vec<String> = (0..24)
        .map(|n| match n % 4 {
            0 => format!("Harvest report {n}: the apples of field {n} are ripe."),
            1 => format!("We decided to sell {n} crates of pears."),
            2 => format!("Tractor {n} needs oil. {}", "It is old. ".repeat(n)),
            _ => format!("Lunch number {n} was soup."),
        })
        .collect();
    ingest_all(client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    read_all(client);
    run(
        client,
        "SELECT memory_add('Apples of field 8 are for juice.', infer => false, \
                           created_at => now() - interval '20 days')",
    );
}

#[track_caller]
fn assert_same(row: &Recalled, explained: &Json) {
    assert_eq!(explained["id"], row.id.to_string());
    assert_eq!(explained["kind"], row.kind.as_str());
    assert_eq!(explained["role"], row.role.as_str());
    assert_eq!(explained["token_count"], row.token_count);
    assert!(explained["dropped"].is_null());
    // Time passes between the two statements.
    let near = |key: &str, value: f32| {
        let found = explained[key].as_f64().unwrap();
        assert!((found - f64::from(value)).abs() < 1e-4, "{key}: {found} {value}");
    };
    near("score", row.score);
    near("relevance", row.relevance);
    near("recency", row.recency);
    for (key, value) in [("similarity", row.similarity), ("lexical", row.lexical)] {
        match value {
            Some(value) => near(key, value),
            None => assert!(explained[key].is_null()),
        }
    }
}

#[test]
fn explain_agrees_with_recall_row_by_row() {
    let mut client = shared().database("explain_agrees").connect();
    fill(&mut client);
    for arguments in [
        "",
        ", top_k => 12",
        ", session_id => 's', token_budget => 60",
        ", rerank => false",
        ", score_threshold => 0.3",
        ", mmr_lambda => 0.2, recency_weight => 0.5",
        ", as_of => now() - interval '10 days'",
        ", kinds => '{fact}'",
        ", rewrites => '{pears,tractor}'",
        ", filter => '{\"markers_any\": [\"decision\"]}'",
    ] {
        let arguments = format!("'Which apples are ripe?'{arguments}");
        let rows = recall(&mut client, &arguments);
        let document = explain(&mut client, &arguments);
        let candidates = document["candidates"].as_array().unwrap();
        assert!(!rows.is_empty(), "{arguments}");
        assert_eq!(document["rows"]["returned"], rows.len(), "{arguments}");
        for (place, row) in rows.iter().enumerate() {
            assert_eq!(candidates[place]["rank"], place + 1);
            assert_same(row, &candidates[place]);
        }
        for candidate in &candidates[rows.len()..] {
            assert!(candidate["rank"].is_null());
            let step =
                candidate["dropped"].as_str().unwrap_or_else(|| panic!("{arguments}: {candidate}"));
            assert!(["pool", "threshold", "mmr", "budget"].contains(&step), "{step}");
        }
        for candidate in candidates {
            let part = |key: &str| candidate[key].as_f64().unwrap();
            let weight = document["recency_weight"].as_f64().unwrap();
            let score = (1.0 - weight) * part("relevance")
                + weight * part("recency")
                + part("marker_boost");
            assert_close(part("score"), score);
            assert_close(part("recency"), f64::exp(-part("age_days").max(0.0) / 30.0));
        }
    }
}

fn steps(document: &Json) -> Vec<&str> {
    let candidates = document["candidates"].as_array().unwrap();
    let mut steps: Vec<&str> =
        candidates.iter().filter_map(|row| row["dropped"].as_str()).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

#[test]
fn every_step_that_drops_is_named() {
    let mut client = shared().database("explain_steps").connect();
    fill(&mut client);
    let question = "'Which apples are ripe?'";
    // By default a probability of less than .05 is dropped, where there are rows enough.
    let every = "rerank => false, score_threshold => 0";
    assert_eq!(steps(&explain(&mut client, &format!("{question}, {every}"))), ["mmr"]);
    let strict = explain(&mut client, &format!("{question}, top_k => 50, score_threshold => 0.9"));
    assert_eq!(steps(&strict), ["threshold"]);
    let small = explain(&mut client, &format!("{question}, token_budget => 40, {every}"));
    assert_eq!(steps(&small), ["budget"]);
    let all = explain(&mut client, &format!("{question}, top_k => 50, rerank => false"));
    assert!(steps(&all).is_empty());
}

#[test]
fn the_document_says_how_it_went() {
    let mut client = shared().database("explain_document").connect();
    fill(&mut client);
    let document = explain(&mut client, "'Which apples are ripe?', session_id => 's'");
    assert_eq!(document["mode"], "exact");
    assert_eq!(document["embedding"], "memory-embed-small");
    assert_eq!(document["reranking"], "ms-marco-MiniLM-L-12-v2");
    for step in ["embed", "search", "rerank", "rank"] {
        assert!(document["milliseconds"][step].as_f64().unwrap() >= 0.0, "{step}");
    }
    assert_eq!(document["rows"]["scope"], 25);
    assert_eq!(document["rows"]["dense"], 25);
    assert_eq!(document["rows"]["lexical"], 7, "six turns and a fact have a word of it");
    assert_eq!(document["rows"]["pool"], 25);
    assert_eq!(document["rows"]["returned"], 5);
    let text = document.to_string();
    assert!(!text.contains("ripe") && !text.contains("Harvest"), "no content of memory is in it");

    // The times of a recall are told in its transaction, and to nobody after it.
    let times = "SELECT count(*) FROM memory_recall_times() t WHERE t.embed > 0 AND t.search > 0 AND t.rank > 0";
    let mut transaction = client.transaction().unwrap();
    transaction.query("SELECT FROM memory_recall('Which apples are ripe?')", &[]).unwrap();
    assert_eq!(transaction.query_one(times, &[]).unwrap().get::<_, i64>(0), 1);
    transaction.commit().unwrap();
    let after = client.query("SELECT FROM memory_recall_times()", &[]).unwrap();
    assert!(after.is_empty());

    let nothing = explain(&mut client, "'apples', session_id => 'empty', user_id => 'nobody'");
    assert_eq!(nothing["rows"]["scope"], 0);
    assert_eq!(nothing["candidates"].as_array().unwrap().len(), 0);
}
