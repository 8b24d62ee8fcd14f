//! The learned ranking: its numbers, what they make of speakers, times and ages, and where it has no say.

use super::{assert_close, read_all, weighted};
use memory_agent_e2e::memory::{explain, recall, recalled_texts, run};
use memory_agent_e2e::{Client, Json, shared};

/// Turns of two people, one of them with a date.
const TURNS: [(&str, &str, &str); 10] = [
    ("Caroline", "2023-05-07", "I painted a sunrise over the lake."),
    ("Melanie", "2023-05-08", "I painted the fence in the garden."),
    ("Caroline", "2023-06-12", "My sister and I moved to Lisbon last winter."),
    ("Melanie", "2023-06-13", "We moved the sofa, and the cat hated it."),
    ("Caroline", "2023-07-10", "The support group meets on Tuesdays."),
    ("Melanie", "2023-07-11", "My son has started to play the violin."),
    ("Caroline", "2023-08-20", "I painted a sunrise over the sea."),
    ("Melanie", "2023-08-21", "Work has been a lot this month."),
    ("Caroline", "2023-09-01", "I adopted a dog called Rex."),
    ("Melanie", "2023-09-02", "Our dog is afraid of thunder."),
];

fn talk(name: &'static str) -> Client {
    let mut client = shared().database(name).connect();
    for (place, (speaker, date, content)) in TURNS.iter().enumerate() {
        run(
            &mut client,
            &format!(
                "SELECT memory_ingest('s{}', 'user', '{content}', created_at => '{date} 12:00+00', \
                                      metadata => '{{\"name\": \"{speaker}\"}}')",
                place / 2
            ),
        );
    }
    read_all(&mut client);
    client
}

fn candidates(document: &Json) -> &Vec<Json> {
    document["candidates"].as_array().expect("candidates")
}

fn best(client: &mut Client, question: &str) -> f32 {
    recall(client, question).iter().map(|row| row.relevance).fold(0.0, f32::max)
}

#[test]
fn the_learned_ranking_is_a_probability() {
    let mut client = talk("learned_probability");
    let question = "'Where did Caroline move to?'";
    let document = explain(&mut client, question);
    assert_eq!(document["ranking"], "learned");
    for row in candidates(&document) {
        let relevance = row["relevance"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&relevance), "{row}");
        assert_close(row["score"].as_f64().unwrap(), relevance);
    }
    let shown: Vec<f32> = recall(&mut client, question).iter().map(|row| row.relevance).collect();
    assert!(shown.is_sorted_by(|a, b| a >= b), "{shown:?}");
    assert_eq!(recalled_texts(&mut client, question)[0], TURNS[2].2);
    // It tells what is remembered from what is not.
    let unknown = "'What is quantum chromodynamics?'";
    let (known, not) = (best(&mut client, question), best(&mut client, unknown));
    assert!(known > 0.2 && not < 0.2, "{known} {not}");
    // Given with the question, the threshold is strict.
    assert!(recall(&mut client, &format!("{unknown}, score_threshold => 0.2")).is_empty());
    let rows = recall(&mut client, &format!("{question}, score_threshold => 0.2"));
    assert!(!rows.is_empty() && rows.iter().all(|row| row.relevance >= 0.2));
}

#[test]
fn without_logits_it_is_the_same_scale() {
    let mut client = talk("learned_unread");
    let question = "'Where did Caroline move to?'";
    let document = explain(&mut client, &format!("{question}, rerank => false"));
    assert_eq!(document["ranking"], "learned");
    assert!(candidates(&document).iter().all(|row| row["logit"].is_null()));
    assert_eq!(recalled_texts(&mut client, &format!("{question}, rerank => false"))[0], TURNS[2].2);
    // What is left unread keeps what it had.
    let unread = |document: &Json, id: &Json| {
        let row = candidates(document).iter().find(|row| row["id"] == *id).unwrap().clone();
        (row["logit"].is_null(), row["relevance"].as_f64().unwrap())
    };
    run(&mut client, "SET memory_agent.rerank_rows = 3");
    let some = explain(&mut client, question);
    let mut compared = 0;
    for row in candidates(&some) {
        let (_, before) = unread(&document, &row["id"]);
        if row["logit"].is_null() {
            assert_close(row["relevance"].as_f64().unwrap(), before);
            compared += 1;
        }
    }
    assert!(compared > 0, "{some}");
    // The most probable rows are read first.
    let least_read = candidates(&some)
        .iter()
        .filter(|row| !row["logit"].is_null())
        .map(|row| unread(&document, &row["id"]).1)
        .fold(f64::INFINITY, f64::min);
    let most_unread = candidates(&some)
        .iter()
        .filter(|row| row["logit"].is_null())
        .map(|row| row["relevance"].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert!(most_unread <= least_read, "{most_unread} {least_read}");
}

/// A table of docs/ranking.md below this header: the weights of the default models by the number that they are for.
fn documented_weights(header: &str) -> Vec<(String, f64)> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ranking.md"));
    let page = page.expect("docs/ranking.md");
    let table = page.split(header).nth(1).unwrap_or_else(|| panic!("{header}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let weight = cells[2].parse().unwrap_or_else(|_| panic!("{row}"));
        (cells[0].replace('`', ""), weight)
    })
    .collect()
}

#[test]
fn the_documented_formula_gives_what_a_row_gets() {
    let mut client = talk("learned_formula");
    let advantage = documented_weights("| Advantage | Meaning | default");
    let level = documented_weights("| Level | Meaning | default");
    let words = documented_weights("| Without an embedding | Meaning | weight |");
    let read = documented_weights("| Read | Meaning | default");
    assert_eq!((advantage.len(), level.len(), words.len(), read.len()), (9, 4, 9, 6));
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    run(
        &mut client,
        "SELECT memory_ingest('new', 'user', 'Caroline moved the piano.', metadata => '{\"name\": \"Ada\"}')",
    );
    // With the log odds and the greatest logit, for what was read.
    let sum = |weights: &[(String, f64)], row: &Json, (log_odds, greatest): (f64, f64)| -> f64 {
        let number = |name: &str| match name {
            "(intercept)" => 1.0,
            "logit" => row["logit"].as_f64().unwrap(),
            "behind" => greatest - row["logit"].as_f64().unwrap(),
            "log odds" => log_odds,
            name => row["features"][name].as_f64().unwrap_or_else(|| panic!("{name}: {row}")),
        };
        let product = |name: &str| name.split(" * ").map(number).product::<f64>();
        weights.iter().map(|(name, weight)| weight * product(name)).sum()
    };
    let long = format!("'What did Caroline tell us about her {}?'", "very long ".repeat(14));
    let unread = (f64::NAN, f64::NAN);
    let (mut of_read, mut of_unread, mut by_words) = (0, 0, 0);
    for question in
        ["'Where did Caroline move to last winter?'", "'What is new with Melanie, latest?'", &long]
    {
        for arguments in [question.to_owned(), format!("{question}, rerank => false")] {
            let document = explain(&mut client, &arguments);
            let has_embedding = |row: &Json| !row["features"]["similarity"].is_null();
            let embedded = candidates(&document).iter().filter(|row| has_embedding(row));
            let best = embedded.map(|row| sum(&advantage, row, unread)).reduce(f64::max).unwrap();
            let logits = candidates(&document).iter().filter_map(|row| row["logit"].as_f64());
            let greatest = logits.fold(f64::NEG_INFINITY, f64::max);
            for row in candidates(&document) {
                let log_odds = match has_embedding(row) {
                    true => sum(&advantage, row, unread) - best + sum(&level, row, unread),
                    false => sum(&words, row, unread),
                };
                let sum = match row["logit"].is_null() {
                    true => log_odds,
                    false => sum(&read, row, (log_odds, greatest)),
                };
                let expected = 1.0 / (1.0 + (-sum).exp());
                // The tables have three digits of each weight.
                let found = row["relevance"].as_f64().unwrap();
                assert!((found - expected).abs() < 0.003, "{found} is not {expected}: {row}");
                let counter = match (row["logit"].is_null(), has_embedding(row)) {
                    (true, true) => &mut of_unread,
                    (true, false) => &mut by_words,
                    (false, _) => &mut of_read,
                };
                *counter += 1;
            }
        }
    }
    assert!(of_read > 10 && of_unread > 10 && by_words > 0, "{of_read} {of_unread} {by_words}");
}

#[test]
fn long_queries_are_not_read_by_the_cross_encoder() {
    let mut client = talk("learned_long");
    let query = |length: usize| {
        format!("'{:<length$}?'", "Where did Caroline move to", length = length - 1)
    };
    let read = |client: &mut Client, length: usize| {
        explain(client, &query(length))["rows"]["reranked"].as_u64().expect("a count")
    };
    assert!(read(&mut client, 250) > 0);
    assert_eq!(read(&mut client, 251), 0);
    let document = explain(&mut client, &query(251));
    assert_eq!(document["ranking"], "learned");
    assert_eq!(document["reranking"], "skipped: query longer than 250 characters");
}

#[test]
fn speakers_and_times_that_a_question_names_count() {
    let mut client = talk("learned_names");
    let painted = |client: &mut Client, question: &str| {
        recalled_texts(client, &format!("'{question}', rerank => false"))[0].clone()
    };
    assert_eq!(painted(&mut client, "What did Melanie paint?"), TURNS[1].2);
    assert_eq!(painted(&mut client, "What sunrise did Caroline paint in May 2023?"), TURNS[0].2);
    assert_eq!(painted(&mut client, "What sunrise did Caroline paint in August 2023?"), TURNS[6].2);
    let document = explain(&mut client, "'What did Caroline paint in May 2023?'");
    for row in candidates(&document) {
        let features = &row["features"];
        assert!(features["out_of_time"] == 1.0 || features["out_of_time"] == 0.0, "{row}");
    }
    let count = |name: &str| {
        candidates(&document).iter().filter(|row| row["features"][name] == 1.0).count()
    };
    assert_eq!((count("other_speaker"), count("out_of_time")), (5, 8));
}

#[test]
fn times_are_read_in_the_language_of_the_call() {
    let mut client = talk("learned_languages");
    for (configuration, question) in [
        ("english", "What did Caroline paint in May 2023?"),
        ("german", "Was hat Caroline im Mai 2023 gemalt?"),
        ("portuguese", "O que Caroline pintou em maio de 2023?"),
    ] {
        let settings = format!("{{\"text_search_config\": \"{configuration}\"}}");
        run(&mut client, &format!("SELECT memory_configure(settings => '{settings}')"));
        let document = explain(&mut client, &format!("'{question}'"));
        let others =
            candidates(&document).iter().filter(|row| row["features"]["out_of_time"] == 1.0);
        assert_eq!(others.count(), candidates(&document).len() - 2, "{document}");
    }
    let document = explain(&mut client, "'What did Caroline paint in May?'");
    assert!(
        candidates(&document).iter().all(|row| row["features"]["out_of_time"] == 0.0),
        "English names of months are no Portuguese ones: {document}"
    );
}

#[test]
fn a_weight_of_recency_replaces_what_was_learned_of_age() {
    let mut client = shared().database("learned_age").connect();
    for date in ["2020-01-01", "2023-09-01"] {
        run(
            &mut client,
            &format!(
                "SELECT memory_ingest('{date}', 'user', 'The dog is called Rex.', created_at => '{date}')"
            ),
        );
    }
    run(&mut client, "SET memory_agent.rerank = off");
    let question = "'What is the name of the dog?', as_of => '2023-09-02'";
    let relevances = |client: &mut Client, arguments: &str| -> Vec<f32> {
        recall(client, &format!("{question}{arguments}")).iter().map(|row| row.relevance).collect()
    };
    let learned = relevances(&mut client, "");
    assert!(learned[0] > learned[1], "{learned:?}");
    let without = relevances(&mut client, ", recency_weight => 0");
    assert_close(without[0], without[1]);
    for row in recall(&mut client, &format!("{question}, recency_weight => 1")) {
        assert_close(row.score, row.recency);
    }
}

#[test]
fn words_alone_are_on_the_same_scale() {
    let mut client = shared().database("learned_words").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; \
         SELECT memory_ingest('s', 'user', 'The dog is called Rex.')",
    );
    assert_eq!(explain(&mut client, "'dog'")["ranking"], "learned");
    let found = best(&mut client, "'What is the dog called?', rerank => false");
    assert!((0.5..1.0).contains(&found), "{found}");
    let other = best(&mut client, "'When does the dog school open?', rerank => false");
    assert!(other < 0.6 * found, "{other} {found}");
    run(&mut client, "SET memory_agent.embed_on_ingest = sync");
    weighted(&mut client);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'The cat is called Tom.')");
    assert_eq!(explain(&mut client, "'cat'")["ranking"], "weighted");
    run(&mut client, "RESET memory_agent.ranking");
    assert_eq!(explain(&mut client, "'cat'")["ranking"], "learned");
}

/// A vector without a direction, as the argument that it is for.
const ZERO: &str = "array_fill(0::real, ARRAY[384])::vector";

#[test]
fn a_vector_without_a_direction_spoils_no_score() {
    let mut client = talk("learned_zero_vector");
    let question = "'Where did Caroline move to?'";
    let zero = format!("{question}, query_embedding => {ZERO}");
    let check = |client: &mut Client, question: &str| {
        let rows = recall(client, &format!("{question}, top_k => 10"));
        assert_eq!(rows[0].content, TURNS[2].2);
        for row in &rows {
            assert!(row.similarity.is_none_or(f32::is_finite), "{:?}", row.similarity);
            assert!((0.0..=1.0).contains(&row.score), "{}", row.score);
        }
        rows
    };
    let rows = check(&mut client, &zero);
    assert!(rows.iter().all(|row| row.similarity.is_none() && row.lexical.is_some()));
    assert_eq!(explain(&mut client, &zero)["ranking"], "learned", "by its words");
    assert!(recall(&mut client, &format!("{zero}, score_threshold => 1")).len() < rows.len());
    run(&mut client, "SET memory_agent.exact_scan_rows = 0");
    check(&mut client, &zero);

    // One that is stored is that of a row which is not embedded.
    let other = TURNS[3].2;
    let stored =
        format!("UPDATE memory_agent.entries SET embedding = {ZERO} WHERE content = '{other}'");
    run(&mut client, &stored);
    for rows_read in [50_000, 0] {
        run(&mut client, &format!("SET memory_agent.exact_scan_rows = {rows_read}"));
        let rows = check(&mut client, question);
        let row = rows.iter().find(|row| row.content == other).expect("found by its words");
        assert!(row.similarity.is_none(), "{:?}", row.similarity);
        assert_eq!(explain(&mut client, question)["ranking"], "learned");
    }
}

#[test]
fn what_nobody_said_was_not_said_by_somebody_else() {
    let mut client = talk("learned_no_speaker");
    run(&mut client, "SELECT memory_add('Caroline paints sunrises.', infer => false)");
    let document = explain(&mut client, "'What did Caroline paint?'");
    let other_speaker = |row: &&Json| row["features"]["other_speaker"] == 1.0;
    assert_eq!(candidates(&document).iter().filter(other_speaker).count(), 5, "{document}");
    let fact = candidates(&document).iter().find(|row| row["kind"] == "fact").expect("the fact");
    assert_eq!(fact["features"]["other_speaker"], 0.0, "{fact}");
}

#[test]
fn a_session_is_that_of_an_agent() {
    let mut client = shared().database("learned_sessions").connect();
    for (agent, content) in
        [("a", "The dog is called Rex."), ("b", "The dog is afraid."), ("b", "The dog barks.")]
    {
        run(
            &mut client,
            &format!("SELECT memory_ingest('s', 'user', '{content}', agent_id => '{agent}')"),
        );
    }
    let document = explain(&mut client, "'What is the dog called?'");
    let fits: Vec<&Json> =
        candidates(&document).iter().map(|row| &row["features"]["session_fit"]).collect();
    assert_eq!(fits.len(), 3, "{document}");
    let alike = |a: usize, b: usize| usize::from(fits[a] == fits[b]);
    assert_eq!(alike(0, 1) + alike(0, 2) + alike(1, 2), 1, "one session of two rows: {document}");
}
