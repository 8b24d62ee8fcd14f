//! The two arms, dense and lexical, and their fusion. Every formula is computed a second time here.

use super::{assert_close, relevance_only, weighted};
use memory_agent_e2e::memory::{explain, ingest, ingest_all, recall, recalled_texts, run, value};
use memory_agent_e2e::{Client, Json, shared};

const FACTS: [&str; 6] = [
    "The cat sleeps on the warm stove.",
    "Our invoice number is 20417.",
    "Grandmother bakes bread every Saturday.",
    "The train to Lyon leaves from platform four.",
    "A cat chased the postman.",
    "The garden needs water in August.",
];

#[test]
fn meaning_finds_what_words_do_not_and_words_what_meaning_does_not() {
    let mut client = shared().database("both_arms").connect();
    ingest_all(&mut client, "s", &FACTS);
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    ingest(&mut client, "s", "Grandmother's oven is broken.");
    relevance_only(&mut client);

    let by_meaning = recall(&mut client, "'a kitten resting somewhere cosy', top_k => 1");
    assert_eq!((by_meaning[0].content.as_str(), by_meaning[0].lexical), (FACTS[0], None));
    // It has half of the weight only, so another row may have the other half.
    let by_words = recall(&mut client, "'oven', top_k => 2");
    let oven = by_words.iter().find(|row| row.content == "Grandmother's oven is broken.").unwrap();
    assert!(oven.similarity.is_none() && oven.lexical.is_some());
    // With equal weights: the learned ranking believes meaning, which one of them lacks, more than words.
    weighted(&mut client);
    let both = recalled_texts(&mut client, "'Grandmother', top_k => 2");
    assert!(both.contains(&FACTS[2].to_owned()) && both.contains(&oven.content));
}

#[test]
fn similarity_is_the_cosine_to_the_query() {
    let mut client = shared().database("cosine").connect();
    ingest_all(&mut client, "s", &FACTS);
    for row in recall(&mut client, "'Where does the cat sleep?', top_k => 6, rerank => false") {
        let cosine: f64 = value(
            &mut client,
            "SELECT 1 - (embedding <=> memory_embed('Where does the cat sleep?')) \
               FROM memory_agent.entries WHERE id = $1",
            &[&row.id],
        );
        assert_close(row.similarity.unwrap(), cosine);
    }
}

/// BM25 by the book, in SQL: Robertson and Zaragoza 2009, with idf = ln(1 + (N - df + .5) / (df + .5)).
/// $1 the query, $2 k1, $3 b, $4 the length floor, $5 the sessions searched.
const BM25: &str = "
    WITH setting AS (SELECT $2::float8 AS k1, $3::float8 AS b, $4::float8 AS floor),
    documents AS (
        SELECT e.id, to_tsvector('english', e.content) AS words FROM memory_agent.entries e
         WHERE e.user_id = 'alice' AND e.session_id = ANY ($5)),
    occurrences AS (
        SELECT d.id, w.lexeme, cardinality(w.positions) AS frequency
          FROM documents d, unnest(d.words) w),
    lengths AS (
        SELECT d.id, coalesce((SELECT sum(o.frequency) FROM occurrences o WHERE o.id = d.id), 0) AS length
          FROM documents d),
    collection AS (SELECT count(*) AS n, avg(length) AS mean FROM lengths),
    terms AS (
        SELECT t.lexeme, ln(1 + (c.n - count(o.id) + 0.5) / (count(o.id) + 0.5)) AS idf
          FROM unnest(to_tsvector('english', $1)) t
          CROSS JOIN collection c LEFT JOIN occurrences o ON o.lexeme = t.lexeme
         GROUP BY t.lexeme, c.n)
    SELECT o.id::text, sum(t.idf * o.frequency * (s.k1 + 1) / (o.frequency + s.k1 * (1 - s.b
                + s.b * greatest(l.length, s.floor) / greatest(c.mean, s.floor))))::float8
      FROM occurrences o JOIN terms t USING (lexeme) JOIN lengths l USING (id), collection c, setting s
     GROUP BY o.id";

/// Compares the lexical column of all rows that recall returns with [`BM25`].
fn check_bm25(client: &mut Client, query: &str, scope: &str, sessions: &[&str]) {
    let (k1, b, floor) = (1.2, 0.75, 64.0);
    let expected: Vec<(String, f64)> = client
        .query(BM25, &[&query, &k1, &b, &floor, &sessions])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    let found = recall(client, &format!("'{query}', top_k => 100{scope}"));
    assert_eq!(found.len(), expected.len(), "{query}");
    for row in &found {
        let id = row.id.to_string();
        let (_, score) =
            expected.iter().find(|(expected, _)| *expected == id).expect("a row with a word");
        assert_close(row.lexical.unwrap(), *score);
    }
    assert!(found.is_sorted_by(|a, b| a.lexical >= b.lexical), "{query}: not in the order of BM25");
}

#[test]
fn lexical_scores_are_exactly_bm25() {
    let mut client = shared().database("bm25").connect();
    // Words by a linear congruence, frequent and rare ones; lengths from 1 to 120 words, on both sides of the floor.
    const WORDS: [&str; 12] = [
        "harbour", "lantern", "violin", "copper", "meadow", "glacier", "pepper", "saddle",
        "thunder", "velvet", "walnut", "zebra",
    ];
    let mut state = 7u32;
    let mut next = |limit: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % limit
    };
    let documents: Vec<String> = (0..60)
        .map(|_| {
            let words = 1 + next(120);
            (0..words).map(|_| WORDS[next(12).min(next(12))]).collect::<Vec<_>>().join(" ")
        })
        .chain(["violin ".repeat(300), "the and of".to_owned()])
        .collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    relevance_only(&mut client);
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    ingest_all(&mut client, "s", &documents[..40]);
    ingest_all(&mut client, "t", &documents[40..]);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'zebra violin', user_id => 'bob')");

    let (all, one): (&[&str], &[&str]) = (&["s", "t"], &["s"]);
    for query in ["zebra", "violin lantern", "harbour harbour harbours walnuts", "velvet unknown"] {
        check_bm25(&mut client, query, "", all);
        // N, df and the mean length are those of the scope, and of the filter.
        check_bm25(&mut client, query, ", session_id => 's'", one);
        check_bm25(&mut client, query, ", filter => '{\"session_id\": \"s\"}'", one);
    }
    assert!(recall(&mut client, "'unknown the of'").is_empty(), "no row has such a word");
}

fn number(row: &Json, key: &str) -> Option<f64> {
    row[key].as_f64()
}

/// Scaled to 0..1 from `floor`, or from the smallest value.
fn scaled(values: &[Option<f64>], floor: Option<f64>) -> Vec<f64> {
    let present = || values.iter().copied().flatten();
    let lowest = floor.unwrap_or_else(|| present().fold(f64::INFINITY, f64::min));
    let highest = present().fold(f64::NEG_INFINITY, f64::max);
    let scale =
        |value: f64| if highest > lowest { (value - lowest) / (highest - lowest) } else { 1.0 };
    values.iter().map(|value| value.map_or(0.0, scale)).collect()
}

#[test]
fn weighted_fusion_adds_scaled_scores() {
    let mut client = shared().database("fusion_weighted").connect();
    ingest_all(&mut client, "s", &FACTS);
    relevance_only(&mut client);
    weighted(&mut client);
    for dense_weight in [0.5, 0.2, 0.0, 1.0] {
        run(&mut client, &format!("SET memory_agent.dense_weight = {dense_weight}"));
        let document = explain(&mut client, "'the cat and the garden', top_k => 6");
        let rows = document["candidates"].as_array().unwrap();
        assert_eq!(rows.len(), 6);
        let column = |key| rows.iter().map(|row| number(row, key)).collect::<Vec<_>>();
        let dense = scaled(&column("similarity"), None);
        let lexical = scaled(&column("lexical"), Some(0.0));
        let fused: Vec<Option<f64>> = dense
            .iter()
            .zip(&lexical)
            .map(|(dense, lexical)| Some(dense_weight * dense + (1.0 - dense_weight) * lexical))
            .collect();
        let relevance = scaled(&fused, None);
        for (row, (fused, relevance)) in rows.iter().zip(fused.iter().zip(relevance)) {
            assert_close(number(row, "fused").unwrap(), fused.unwrap());
            assert_close(number(row, "relevance").unwrap(), relevance);
        }
    }
}

#[test]
fn a_turn_counts_with_its_neighbours() {
    let mut client = shared().database("neighbours").connect();
    let turns = [
        "Shall we go to the mountains?",
        "Yes, in June!",
        "Then I book the cabin.",
        "My tooth hurts.",
    ];
    ingest_all(&mut client, "s", &turns);
    ingest_all(&mut client, "t", &["Yes, in June!"]);
    relevance_only(&mut client);
    weighted(&mut client);
    let arguments = "'hiking trip', top_k => 5";
    let order = |client: &mut Client| -> Vec<(String, f64, f64)> {
        let rows = recall(client, arguments);
        let text = |row: &memory_agent_e2e::memory::Recalled| {
            format!("{} {}", row.session_id.clone().unwrap_or_default(), row.content)
        };
        rows.iter()
            .map(|row| (text(row), f64::from(row.similarity.unwrap()), f64::from(row.relevance)))
            .collect()
    };
    let of = |rows: &[(String, f64, f64)], text: &str| {
        rows.iter()
            .find(|row| row.0 == text)
            .map(|row| (row.1, row.2))
            .expect("all rows are returned")
    };
    let alone = order(&mut client);
    assert_close(of(&alone, "s Yes, in June!").1, of(&alone, "t Yes, in June!").1);

    run(&mut client, "SET memory_agent.neighbor_weight = 0.3");
    let blended = order(&mut client);
    assert!(of(&blended, "s Yes, in June!").1 > of(&blended, "t Yes, in June!").1);
    let own = |text: &str| of(&alone, text).0;
    let names = turns.map(|turn| format!("s {turn}"));
    let similarity: Vec<f64> = names.iter().map(|name| own(name)).collect();
    let dense = [
        0.7 * similarity[0] + 0.3 * similarity[1],
        0.7 * similarity[1] + 0.3 * (similarity[0] + similarity[2]) / 2.0,
        0.7 * similarity[2] + 0.3 * (similarity[1] + similarity[3]) / 2.0,
        0.7 * similarity[3] + 0.3 * similarity[2],
        own("t Yes, in June!"),
    ];
    let relevance = scaled(&dense.map(Some), None);
    for (name, relevance) in
        names.iter().map(String::as_str).chain(["t Yes, in June!"]).zip(relevance)
    {
        let (similarity, found) = of(&blended, name);
        assert_close(found, relevance);
        assert_close(similarity, own(name));
    }
}
