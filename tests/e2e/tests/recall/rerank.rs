//! The cross-encoder: it changes the order, its logits are what recall ranks by, and when it is left
//! out or has the last word.

use super::{assert_close, read_all, relevance_only, weighted};
use memory_agent_e2e::memory::{explain, ingest_all, recall, recalled_texts, run, value};
use memory_agent_e2e::{Client, shared};

/// The words and the topic of the question are in all of them, the answer in one.
const PASSAGES: [&str; 5] = [
    "How many people live in Berlin? Many people ask how many people live in Berlin.",
    "Berlin has 3.7 million inhabitants.",
    "People in Berlin live in many large old houses.",
    "Munich has 1.5 million inhabitants.",
    "The Berlin wall fell in 1989.",
];
const QUESTION: &str = "'How many people live in Berlin?'";

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Stores the passages and switches the reranker on, with nothing else in the score.
fn passages(name: &'static str) -> Client {
    let mut client = shared().database(name).connect();
    ingest_all(&mut client, "s", &PASSAGES);
    relevance_only(&mut client);
    run(&mut client, "SET memory_agent.rerank = on");
    read_all(&mut client);
    client
}

#[test]
fn reranking_moves_the_answer_up() {
    let mut client = passages("rerank_order");
    let reranked = recalled_texts(&mut client, QUESTION);
    let retrieved = recalled_texts(&mut client, &format!("{QUESTION}, rerank => false"));
    assert_ne!(retrieved, reranked, "the reranker did nothing");
    let place = |texts: &[String]| texts.iter().position(|text| text == PASSAGES[1]).unwrap();
    assert!(place(&reranked) < place(&retrieved), "{reranked:?} {retrieved:?}");
}

#[test]
fn relevance_is_half_the_sigmoid_of_the_logit_and_half_the_fused_score() {
    let mut client = passages("rerank_blend");
    weighted(&mut client);
    let fused: Vec<(String, f64)> = recall(&mut client, &format!("{QUESTION}, rerank => false"))
        .into_iter()
        .map(|row| (row.content, f64::from(row.relevance)))
        .collect();
    let rows = recall(&mut client, QUESTION);
    let document = explain(&mut client, QUESTION);
    assert_eq!(document["reranking"], "ms-marco-MiniLM-L-12-v2");
    for (row, explained) in rows.iter().zip(document["candidates"].as_array().unwrap()) {
        let logit = explained["logit"].as_f64().unwrap();
        let alone: Vec<f32> = value(
            &mut client,
            &format!("SELECT memory_rerank({QUESTION}, ARRAY[$1])"),
            &[&row.content],
        );
        assert!((logit - f64::from(alone[0])).abs() < 0.01, "{logit} {alone:?}");
        let fused = fused.iter().find(|(text, _)| *text == row.content).unwrap().1;
        assert_close(row.relevance, 0.5 * sigmoid(logit) + 0.5 * fused);
    }
}

#[test]
fn the_small_reranker_has_weights_of_its_own_in_the_learned_ranking() {
    let mut client = passages("rerank_small");
    let answer = |client: &mut Client| {
        let document = explain(client, QUESTION);
        assert_eq!(document["ranking"], "learned", "{document}");
        let answer = recall(client, QUESTION).into_iter().find(|row| row.content == PASSAGES[1]);
        (document["reranking"].as_str().unwrap().to_owned(), answer.unwrap().relevance)
    };
    let (_, by_large) = answer(&mut client);
    run(
        &mut client,
        "SELECT memory_register_model('memory-rerank-small', 'reranker', activate => true)",
    );
    let (reranker, by_small) = answer(&mut client);
    assert_eq!(reranker, "memory-rerank-small");
    assert_ne!(by_small, by_large, "the weights or the logits are those of the other one");
    let logits: Vec<f32> =
        value(&mut client, &format!("SELECT memory_rerank({QUESTION}, $1)"), &[&&PASSAGES[..]]);
    let best = (0..5).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    assert_eq!(best, Some(1), "{logits:?}");
}

#[test]
fn a_speakers_name_is_shown_to_the_reranker() {
    let mut client = shared().database("rerank_name").connect();
    relevance_only(&mut client);
    run(
        &mut client,
        "SET memory_agent.rerank = on;
         SELECT memory_ingest('s', 'user', 'I live in Berlin.', metadata => '{\"name\": \"Caroline\"}')",
    );
    let document = explain(&mut client, "'Where does Caroline live?'");
    let logits: Vec<f32> = value(
        &mut client,
        "SELECT memory_rerank('Where does Caroline live?', '{\"Caroline: I live in Berlin.\", \"I live in Berlin.\"}')",
        &[],
    );
    let found = document["candidates"][0]["logit"].as_f64().unwrap();
    assert!(
        (found - f64::from(logits[0])).abs() < 0.01 && logits[0] > logits[1] + 1.0,
        "{found} {logits:?}"
    );
}

#[test]
fn long_questions_are_not_reranked() {
    let mut client = passages("rerank_long");
    let question = |length: usize| {
        format!("'{:<length$}?'", "How many people live in Berlin", length = length - 1)
    };
    let state = |client: &mut Client, length: usize| {
        explain(client, &question(length))["reranking"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&mut client, 250), "ms-marco-MiniLM-L-12-v2");
    assert!(state(&mut client, 251).starts_with("skipped"));
    run(&mut client, "BEGIN");
    let long = recall(&mut client, &question(251));
    let off = recall(&mut client, &format!("{}, rerank => false", question(251)));
    assert_eq!(long, off);
    run(&mut client, "COMMIT");
    // Characters, not bytes.
    let umlauts = format!("'{}'", "ÄÖÜß ".repeat(50));
    assert_eq!(explain(&mut client, &umlauts)["reranking"], "ms-marco-MiniLM-L-12-v2");
}

#[test]
fn the_reranker_is_left_out_by_argument_or_setting() {
    let mut client = passages("rerank_off");
    let off = explain(&mut client, &format!("{QUESTION}, rerank => false"));
    assert_eq!(off["reranking"], "off");
    assert!(off["candidates"].as_array().unwrap().iter().all(|row| row["logit"].is_null()));
    run(&mut client, "SET memory_agent.rerank = off");
    assert_eq!(explain(&mut client, QUESTION)["reranking"], "off");
    assert_ne!(explain(&mut client, &format!("{QUESTION}, rerank => true"))["reranking"], "off");
}

#[test]
fn an_explicit_threshold_is_strict() {
    let mut client = passages("threshold_explicit");
    weighted(&mut client);
    let logits: Vec<f64> = explain(&mut client, QUESTION)["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| sigmoid(row["logit"].as_f64().unwrap()))
        .collect();
    for threshold in [0.0, 0.2, 0.5, 0.9, 1.0] {
        let expected = logits.iter().filter(|logit| **logit >= threshold).count();
        let rows = recall(&mut client, &format!("{QUESTION}, score_threshold => {threshold}"));
        assert_eq!(rows.len(), expected, "{threshold}");
    }
    assert!(logits.iter().any(|logit| *logit < 0.5) && logits.iter().any(|logit| *logit > 0.9));
    // Nothing answers this one.
    assert!(recall(&mut client, "'Which fish is poisonous?', score_threshold => 0.5").is_empty());
    // Without a reranker it is tested on relevance.
    let rows = recall(&mut client, &format!("{QUESTION}, score_threshold => 0.6, rerank => false"));
    assert!(!rows.is_empty() && rows.len() < 5 && rows.iter().all(|row| row.relevance >= 0.6));
}

#[test]
fn the_default_threshold_leaves_at_least_top_k_rows() {
    let mut client = passages("threshold_default");
    // Five rows, of which few pass .35: with top_k 5 none is dropped, with 1 those below are.
    assert_eq!(recall(&mut client, "'Which fish is poisonous?'").len(), 5);
    assert_eq!(recall(&mut client, &format!("{QUESTION}, top_k => 5")).len(), 5);
    // It is a probability in the learned ranking, and what the logit says in the other one.
    for ranking in ["learned", "weighted"] {
        run(&mut client, &format!("SET memory_agent.ranking = {ranking}"));
        let document = explain(&mut client, &format!("{QUESTION}, top_k => 1"));
        assert_eq!(document["ranking"], ranking);
        let rows = document["candidates"].as_array().unwrap();
        for row in rows {
            let is_below = match ranking {
                "learned" => row["relevance"].as_f64().unwrap() < 0.05,
                _ => sigmoid(row["logit"].as_f64().unwrap()) < 0.35,
            };
            assert_eq!(row["dropped"] == "threshold", is_below, "{row}");
        }
        assert!(rows.iter().any(|row| row["dropped"] == "threshold"), "{ranking}");
    }
    run(&mut client, "SET memory_agent.score_threshold = 0");
    let document = explain(&mut client, &format!("{QUESTION}, top_k => 1"));
    assert!(
        document["candidates"].as_array().unwrap().iter().all(|row| row["dropped"] != "threshold")
    );
}
