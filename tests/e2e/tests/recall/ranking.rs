//! From candidates to the order shown: rewrites, given embeddings, MMR, ties.

use super::{assert_close, read_all, relevance_only};
use memory_agent_e2e::memory::{explain, ingest_all, recall, recalled_texts, run, value};
use memory_agent_e2e::{Uuid, shared};

const NEAR_DUPLICATES: [&str; 5] = [
    "Anna's favourite food is lasagne.",
    "Anna's favourite food is lasagne!",
    "Anna's favourite food is lasagne",
    "Anna's favourite soup is ramen.",
    "Anna drives a red car.",
];

#[test]
fn mmr_puts_something_else_before_a_repetition() {
    let mut client = shared().database("mmr").connect();
    ingest_all(&mut client, "s", &NEAR_DUPLICATES);
    run(&mut client, "SET memory_agent.recency_weight = 0; SET memory_agent.rerank = off");
    let question = "'What is the favourite food of Anna?', top_k => 3";
    let plain = recalled_texts(&mut client, &format!("{question}, mmr_lambda => 1"));
    let repetitions =
        |texts: &[String]| texts.iter().filter(|text| text.contains("lasagne")).count();
    assert_eq!(repetitions(&plain), 3, "{plain:?}");
    let diverse = recalled_texts(&mut client, &format!("{question}, mmr_lambda => 0.1"));
    assert!(
        repetitions(&diverse) < 3 && diverse.contains(&NEAR_DUPLICATES[3].to_owned()),
        "{diverse:?}"
    );
    assert_eq!(diverse[0], plain[0], "the best row comes first in any case");
}

/// MMR once more, from the columns of recall: greedy, `lambda * score - (1 - lambda) * max cosine`.
#[test]
fn mmr_is_greedy_over_score_and_cosine() {
    let database = shared().database("mmr_formula");
    let (mut client, mut reader) = (database.connect(), database.connect());
    ingest_all(&mut client, "s", &NEAR_DUPLICATES);
    run(&mut client, "SET memory_agent.rerank = off; SET memory_agent.recency_weight = 0");
    let question = "'What food does Anna like?', top_k => 5";
    let rows = recall(&mut client, &format!("{question}, mmr_lambda => 1"));
    let mut cosine = |a: Uuid, b: Uuid| -> f64 {
        value(
            &mut reader,
            "SELECT 1 - (a.embedding <=> b.embedding) FROM memory_agent.entries a, memory_agent.entries b \
              WHERE a.id = $1 AND b.id = $2",
            &[&a, &b],
        )
    };
    for lambda in [0.7, 0.3, 0.0] {
        let mut left: Vec<_> = rows.iter().collect();
        let mut chosen: Vec<Uuid> = Vec::new();
        while !left.is_empty() {
            let values: Vec<f64> = left
                .iter()
                .map(|row| {
                    let nearest = chosen.iter().map(|id| cosine(*id, row.id)).fold(0.0, f64::max);
                    let weight = if chosen.is_empty() { 1.0 } else { lambda };
                    weight * f64::from(row.score) - (1.0 - weight) * nearest
                })
                .collect();
            let best = (0..left.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
            chosen.push(left.remove(best).id);
        }
        let found =
            format!("SELECT array_agg(id) FROM memory_recall({question}, mmr_lambda => {lambda})");
        assert_eq!(value::<Vec<Uuid>>(&mut client, &found, &[]), chosen, "lambda {lambda}");
    }
}

#[test]
fn a_rewrite_brings_rows_that_the_question_alone_does_not() {
    let mut client = shared().database("rewrites").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    ingest_all(&mut client, "s", &["The automobile is in the garage.", "Dinner is at eight."]);
    assert!(recall(&mut client, "'Where is my car?'").is_empty());
    let found =
        recalled_texts(&mut client, "'Where is my car?', rewrites => '{Where is the automobile?}'");
    assert_eq!(found, ["The automobile is in the garage."]);
    let both = recall(&mut client, "'Where is my car?', rewrites => '{automobile,dinner}'");
    assert_eq!(both.len(), 2);
}

#[test]
fn a_rewrite_counts_with_its_meaning_too() {
    let mut client = shared().database("rewrites_dense").connect();
    ingest_all(
        &mut client,
        "s",
        &["Rex chewed my shoes again.", "The tax office wrote a letter.", "It rains."],
    );
    relevance_only(&mut client);
    let rewrite = "'What did the dog destroy?'";
    let rows =
        recall(&mut client, &format!("'Tell me about Monday', rewrites => ARRAY[{rewrite}]"));
    assert_eq!(rows.len(), 3);
    for row in rows {
        let nearest: f64 = value(
            &mut client,
            &format!(
                "SELECT 1 - least(embedding <=> memory_embed('Tell me about Monday'), embedding <=> memory_embed({rewrite})) \
                   FROM memory_agent.entries WHERE id = $1"
            ),
            &[&row.id],
        );
        assert_close(row.similarity.unwrap(), nearest);
    }
}

#[test]
fn an_embedding_may_be_given_instead_of_a_text() {
    let mut client = shared().database("query_embedding").connect();
    ingest_all(&mut client, "s", &NEAR_DUPLICATES);
    relevance_only(&mut client);
    let given = "'', query_embedding => memory_embed('Which vehicle does Anna have?')";
    let rows = recall(&mut client, given);
    assert_eq!(rows[0].content, "Anna drives a red car.");
    assert!(rows.iter().all(|row| row.lexical.is_none()), "there are no words to search for");
    assert_eq!(explain(&mut client, given)["embedding"], "given");

    run(&mut client, "BEGIN");
    let by_text = recall(&mut client, "'Which vehicle does Anna have?'");
    let by_both = recall(
        &mut client,
        "'Which vehicle does Anna have?', query_embedding => memory_embed('Which vehicle does Anna have?')",
    );
    assert_eq!(by_text, by_both);
    let document = explain(&mut client, &format!("{given}, rerank => true"));
    assert!(document["reranking"].as_str().unwrap().starts_with("skipped"), "{document}");
}

#[test]
fn equal_rows_come_in_the_order_of_their_ids() {
    let database = shared().database("ties");
    let mut client = database.connect();
    // In a batch with questions of other tests, the reranker's logits of equal texts differ in their last bits.
    const UNREAD: &str = "SET memory_agent.rerank = off";
    run(&mut client, UNREAD);
    let ids = ingest_all(&mut client, "s", &["The same words again."; 25]);
    // So do embeddings of texts that were not in one batch.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET embedding = \
             (SELECT e.embedding FROM memory_agent.entries e ORDER BY e.id LIMIT 1)",
    );
    let first: Vec<Uuid> =
        recall(&mut client, "'same words', top_k => 8").iter().map(|row| row.id).collect();
    assert_eq!(first, ids[..8]);
    // Another place on disk, another plan, another session.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET updated_at = now() WHERE id IN \
             (SELECT id FROM memory_agent.entries ORDER BY id LIMIT 10)",
    );
    run(&mut client, "VACUUM FULL ANALYZE memory_agent.entries");
    for statement in ["", "SET enable_seqscan = off", "SET memory_agent.exact_scan_rows = 0"] {
        let mut client = database.connect();
        run(&mut client, &format!("{UNREAD}; {statement}"));
        let again: Vec<Uuid> =
            recall(&mut client, "'same words', top_k => 8").iter().map(|row| row.id).collect();
        assert_eq!(again, first, "{statement}");
    }
}

#[test]
fn a_question_asked_again_has_the_same_answer() {
    let mut client = shared().database("repeatable").connect();
    ingest_all(&mut client, "s", &NEAR_DUPLICATES);
    read_all(&mut client);
    // One transaction, one now(): ages are the same.
    run(&mut client, "BEGIN");
    let question = "'What does Anna like?'";
    let first = recall(&mut client, question);
    for _ in 0..5 {
        assert_eq!(recall(&mut client, question), first);
    }
}
