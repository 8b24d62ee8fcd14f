//! Large scopes go through the indexes. For a small user among many, the answer is that of the exact
//! search, with and without a vector index.

use memory_agent_e2e::memory::{Recalled, explain, ingest_all, recall, run, value, values};
use memory_agent_e2e::{Client, Database, expect_error, shared};

/// Rows of another user, each nearly in the direction of one of ours, so that they crowd it out.
const OTHERS: i32 = 4000;

const QUESTIONS: [&str; 4] = [
    "'Which apples are ripe?', top_k => 8",
    "'Which apples are ripe?', session_id => 's', top_k => 8",
    "'What about the old machine?', rewrites => '{tractor oil}', top_k => 8",
    "'apples', filter => '{\"role\": \"user\"}', kinds => '{turn}', top_k => 8",
];

fn fill(database: Database) -> Client {
    let mut client = database.connect();
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
        "SELECT memory_add('Apples of field 8 are for juice.', infer => false);
         SELECT memory_add('The village shop buys apples.', infer => false, user_id => '*')",
    );
    client
        .execute(
            "INSERT INTO memory_agent.entries (id, user_id, agent_id, session_id, kind, role, content, token_count, \
                    embedding, embedding_model, lexemes, lexeme_config, doc_len, created_at) \
             SELECT gen_random_uuid(), 'crowd', 'default', 'x' || n % 50, 'turn', 'user', 'apples ' || n, 2, \
                    own.v[1 + n % cardinality(own.v)] + noise.v, 'memory-embed-small', \
                    to_tsvector('english', 'apples ' || n), 'english', 2, now() \
               FROM generate_series(1, $1::int) n, \
                    (SELECT array_agg(embedding) AS v FROM memory_agent.entries) own, \
                    LATERAL (SELECT ARRAY(SELECT (random() - 0.5 + 0 * n) / 100 FROM generate_series(1, 384))::vector) noise(v)",
            &[&OTHERS],
        )
        .unwrap();
    run(&mut client, "ANALYZE memory_agent.entries; SET memory_agent.recency_weight = 0");
    super::read_all(&mut client);
    client
}

#[track_caller]
fn assert_same(found: &[Recalled], expected: &[Recalled], context: &str) {
    let ids = |rows: &[Recalled]| rows.iter().map(|row| row.content.clone()).collect::<Vec<_>>();
    assert_eq!(ids(found), ids(expected), "{context}");
    for (found, expected) in found.iter().zip(expected) {
        for (name, found, expected) in [
            ("score", Some(found.score), Some(expected.score)),
            ("similarity", found.similarity, expected.similarity),
            ("lexical", found.lexical, expected.lexical),
        ] {
            let near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-4,
                (found, expected) => found == expected,
            };
            assert!(near, "{context}: {name} {found:?} is not {expected:?}");
        }
    }
}

fn answers(client: &mut Client) -> Vec<Vec<Recalled>> {
    QUESTIONS.iter().map(|question| recall(client, question)).collect()
}

#[test]
fn the_index_path_gives_the_rows_of_the_exact_search() {
    let mut client = fill(shared().database("index_path"));
    assert_eq!(explain(&mut client, QUESTIONS[0])["mode"], "exact");
    let exact = answers(&mut client);
    assert!(exact.iter().all(|rows| rows.len() == 8));

    run(&mut client, "SET memory_agent.exact_scan_rows = 0");
    let check = |client: &mut Client, what: &str, mode: Option<&str>| {
        for (question, (found, expected)) in
            QUESTIONS.iter().zip(answers(client).iter().zip(&exact))
        {
            assert_same(found, expected, &format!("{what}: {question}"));
        }
        if let Some(mode) = mode {
            assert_eq!(explain(client, QUESTIONS[0])["mode"], mode, "{what}");
        }
    };
    check(&mut client, "no vector index", Some("index, dense exact"));

    // The worst case: the planner takes the vector index, as it does in large tables, and pgvector
    // gives up after so many rows of others, long before it has found these few.
    for (method, starve) in [("hnsw", "hnsw.max_scan_tuples"), ("ivfflat", "ivfflat.max_probes")] {
        let index: String = value(&mut client, "SELECT memory_create_vector_index($1)", &[&method]);
        check(&mut client, method, None);
        assert_eq!(
            explain(&mut client, "'apples', user_id => 'crowd'")["mode"],
            "index",
            "{method} suffices for a user with many rows"
        );
        run(&mut client, &format!("SET enable_sort = off; SET {starve} = 1"));
        check(&mut client, &format!("starved {method}"), Some("index, dense exact"));
        run(
            &mut client,
            &format!("RESET enable_sort; RESET {starve}; DROP INDEX memory_agent.{index}"),
        );
    }
}

#[test]
fn the_boundary_is_the_size_of_the_scope() {
    let mut client = fill(shared().database("index_boundary"));
    let mode = |client: &mut Client, rows: i32, question: &str| {
        run(client, &format!("SET memory_agent.exact_scan_rows = {rows}"));
        explain(client, question)["rows"]["scope"]
            .as_i64()
            .map(|scope| (scope, explain(client, question)["mode"].clone()))
    };
    run(&mut client, "SELECT memory_create_vector_index()");
    let crowd = "'apples', user_id => 'crowd'";
    let scope = i64::from(OTHERS) + 1;
    assert_eq!(mode(&mut client, OTHERS + 1, crowd), Some((scope, "exact".into())));
    // Shared memory has the one row more: each part of the scope is read up to the boundary.
    let parts = Some((scope, "index, dense exact".into()));
    assert_eq!(mode(&mut client, OTHERS, crowd), parts);
    assert_eq!(mode(&mut client, OTHERS - 1, crowd), Some((scope, "index".into())));
    assert_eq!(
        mode(&mut client, 22, QUESTIONS[0]),
        Some((22, "exact".into())),
        "a small scope in a large table"
    );
}

#[test]
fn a_vector_index_is_made_once() {
    let mut client = shared().database("index_create").connect();
    ingest_all(&mut client, "s", &["one", "two"]);
    for method in ["''", "'btree'", "NULL", "'HNSW; DROP TABLE x'"] {
        expect_error(
            client.query(&format!("SELECT memory_create_vector_index({method})"), &[]),
            "22023",
        );
    }
    let index: String = value(&mut client, "SELECT memory_create_vector_index()", &[]);
    let definition: String = value(
        &mut client,
        "SELECT pg_get_indexdef(format('memory_agent.%I', $1::text)::regclass)",
        &[&index],
    );
    assert!(
        definition.contains("USING hnsw") && definition.contains("vector_cosine_ops"),
        "{definition}"
    );
    expect_error(client.query("SELECT memory_create_vector_index()", &[]), "42710");
    expect_error(client.query("SELECT memory_create_vector_index('ivfflat')", &[]), "42710");
    // An empty table has no dimension of its own; the model's is taken.
    let mut empty = shared().database("index_create_empty").connect();
    run(&mut empty, "SELECT memory_create_vector_index()");
    ingest_all(&mut empty, "s", &["one", "two"]);
    run(&mut empty, "SET memory_agent.exact_scan_rows = 0");
    assert_eq!(recall(&mut empty, "'one'").len(), 2);
}

#[test]
fn of_rows_with_the_same_words_ids_decide_and_not_their_places() {
    let mut client = shared().database("index_ties").connect();
    // Ids in no order of time, so not that of the rows on disk.
    client
        .execute(
            "INSERT INTO memory_agent.entries (id, user_id, agent_id, session_id, kind, role, content, token_count, \
                    lexemes, lexeme_config, doc_len, created_at) \
             SELECT gen_random_uuid(), 'alice', 'default', 'x', 'turn', 'user', 'apples', 2, \
                    to_tsvector('english', 'apples'), 'english', 1, now() \
               FROM generate_series(1, 200) n",
            &[],
        )
        .unwrap();
    run(&mut client, "SET enable_indexscan = off");
    let [exact, by_index] = [50_000, 0].map(|rows| {
        run(&mut client, &format!("SET memory_agent.exact_scan_rows = {rows}"));
        let rows = recall(&mut client, "'apples', top_k => 8, rerank => false");
        let mut ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        ids.sort();
        ids
    });
    let smallest = "SELECT id FROM memory_agent.entries ORDER BY id LIMIT 8";
    let expected = [values(&mut client, smallest, &[]), exact];
    assert_eq!(expected[0], expected[1]);
    assert_eq!(expected[0], by_index);
}
