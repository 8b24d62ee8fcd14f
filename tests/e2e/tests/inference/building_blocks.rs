//! `memory_embed`, `memory_rerank`, `memory_count_tokens`: known answers and limits.

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error, shared};

fn cosine(client: &mut Client, a: &str, b: &str) -> f64 {
    value(client, &format!("SELECT 1 - ({a} <=> {b})"), &[])
}

#[test]
fn embeddings_have_length_one_and_are_near_for_paraphrases() {
    let mut client = shared().database("embed_paraphrases").connect();
    let unit: bool = value(
        &mut client,
        "SELECT vector_dims(v) = 384 AND abs(vector_norm(v) - 1) < 1e-5 FROM memory_embed('any text') v",
        &[],
    );
    assert!(unit);
    let nurse = "memory_embed('She works as a nurse in a hospital.', 'document')";
    let paraphrase = cosine(
        &mut client,
        nurse,
        "memory_embed('Her job is nursing at the hospital.', 'document')",
    );
    let unrelated = cosine(
        &mut client,
        nurse,
        "memory_embed('The train to Munich leaves at nine.', 'document')",
    );
    assert!(paraphrase > unrelated + 0.15, "{paraphrase} {unrelated}");
}

#[test]
fn a_query_is_embedded_with_the_models_prefix() {
    let mut client = shared().database("embed_purpose").connect();
    let question = "memory_embed('Where does she work?')";
    let prefixed = "memory_embed('Represent this sentence for searching relevant passages: Where does she work?', 'document')";
    assert!(cosine(&mut client, question, prefixed) > 0.9999);
    assert!(
        cosine(&mut client, question, "memory_embed('Where does she work?', 'query')") > 0.9999
    );
    assert!(
        cosine(&mut client, question, "memory_embed('Where does she work?', 'document')") < 0.999
    );
}

#[test]
fn an_array_gives_the_same_embeddings_in_its_order() {
    let mut client = shared().database("embed_array").connect();
    let same: bool = value(
        &mut client,
        "WITH texts AS (SELECT array_agg('text ' || n || repeat(' and more', n) ORDER BY n) AS t FROM generate_series(1, 20) n), \
              embedded AS (SELECT memory_embed(t, 'document') AS v, t FROM texts) \
         SELECT cardinality(v) = 20 AND bool_and(v[n] <=> memory_embed(t[n], 'document') < 1e-4) \
           FROM embedded, generate_series(1, 20) n GROUP BY v",
        &[],
    );
    assert!(same);
    assert_eq!(value::<i32>(&mut client, "SELECT cardinality(memory_embed('{}'::text[]))", &[]), 0);
    for null in [
        "memory_embed(NULL::text)",
        "memory_embed(NULL::text[])",
        "memory_embed('x', NULL)",
        "memory_rerank(NULL, '{x}')",
        "memory_rerank('x', NULL)",
        "memory_count_tokens(NULL)",
    ] {
        assert!(value::<bool>(&mut client, &format!("SELECT {null} IS NULL"), &[]), "{null}");
    }
}

#[test]
fn strange_texts_have_embeddings_too() {
    let mut client = shared().database("embed_strange").connect();
    let finite: bool = value(
        &mut client,
        "SELECT bool_and(abs(vector_norm(memory_embed(t)) - 1) < 1e-4) \
           FROM unnest(ARRAY['', ' ', '🎉', E'\\n', repeat('long ', 20000), repeat('x', 50000), 'اللغة']) t",
        &[],
    );
    assert!(finite);
}

#[test]
fn the_reranker_gives_its_published_answers() {
    let mut client = shared().database("rerank_published").connect();
    let logits: Vec<f32> = value(
        &mut client,
        "SELECT memory_rerank('How many people live in Berlin?', ARRAY[ \
            'New York City is famous for the Metropolitan Museum of Art.', \
            'Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.'])",
        &[],
    );
    assert!((logits[0] + 11.18).abs() < 0.3 && (logits[1] - 9.21).abs() < 0.3, "{logits:?}");
}

#[test]
fn a_score_does_not_depend_on_the_other_documents() {
    let mut client = shared().database("rerank_alone").connect();
    let same: bool = value(
        &mut client,
        "WITH documents AS (SELECT array_agg(repeat('the cat sat on the mat ', n) ORDER BY n) AS d FROM generate_series(1, 12) n), \
              scored AS (SELECT d, memory_rerank('Where is the cat?', d) AS s FROM documents) \
         SELECT cardinality(s) = 12 AND bool_and(abs(s[n] - (memory_rerank('Where is the cat?', ARRAY[d[n]]))[1]) < 0.01) \
           FROM scored, generate_series(1, 12) n GROUP BY s",
        &[],
    );
    assert!(same);
    assert_eq!(value::<i32>(&mut client, "SELECT cardinality(memory_rerank('x', '{}'))", &[]), 0);
}

#[test]
fn tokens_are_those_of_cl100k() {
    let mut client = shared().database("count_tokens").connect();
    // Counted with OpenAI's tokeniser; special tokens are plain text here.
    for (text, tokens) in [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("<|endoftext|>", 7),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ] {
        assert_eq!(
            value::<i32>(&mut client, "SELECT memory_count_tokens($1)", &[&text]),
            tokens,
            "{text}"
        );
    }
}

#[test]
fn too_much_is_refused() {
    let mut client = shared().database("inference_limits").connect();
    for call in [
        "memory_embed('x', 'passage')",
        "memory_embed('x', '')",
        "memory_embed(repeat('x', 1048577))",
        "memory_embed(ARRAY['x', repeat('x', 1048577)])",
        "memory_embed(array_fill('x'::text, ARRAY[10001]))",
        "memory_rerank('x', ARRAY[repeat('x', 1048577)])",
        "memory_rerank('x', array_fill('x'::text, ARRAY[10001]))",
    ] {
        let message = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{call}: {message}");
    }
    for call in ["memory_embed('{a,NULL}'::text[])", "memory_rerank('x', '{a,NULL}')"] {
        expect_error(client.query(&format!("SELECT {call}"), &[]), "22004");
    }
}

#[test]
fn the_functions_are_for_queries_over_tables() {
    let mut client = shared().database("embed_table").connect();
    run(
        &mut client,
        "CREATE TABLE articles (title text, embedding vector(384));
         INSERT INTO articles SELECT t, memory_embed(t, 'document') FROM unnest(ARRAY['Cooking pasta', 'Repairing a bicycle']) t",
    );
    let nearest: String = value(
        &mut client,
        "SELECT title FROM articles ORDER BY embedding <=> memory_embed('my bike is broken') LIMIT 1",
        &[],
    );
    assert_eq!(nearest, "Repairing a bicycle");
}
