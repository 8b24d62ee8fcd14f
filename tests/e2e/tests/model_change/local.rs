//! From one installed model to the other and back: every row in every state gets a vector of the new
//! model, and nothing is left of the old one.

use crate::{BGE, DEFAULT, MINILM, drain, embedder, use_model, vectors, windows};
use memory_agent_e2e::memory::{ingest, ingest_all, recall, run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, shared};

/// More than one window of either model.
fn long_text() -> String {
    let sentences: Vec<String> = (0..120)
        .map(|n| format!("Chapter {n} tells how the lighthouse was painted in colour {n}."))
        .collect();
    sentences.join(" ")
}

/// Turns of two users, shared memory, a document, a text of several windows, and rows in every state.
fn remember(client: &mut Client) {
    ingest_all(
        client,
        "s",
        &["My cat sleeps on the sofa.", "The boiler was repaired in May.", "Lunch was soup."],
    );
    ingest(client, "s", &long_text());
    run(
        client,
        "SELECT memory_ingest_batch('[{\"role\": \"user\", \"content\": \"The parrot talks.\", \"metadata\": {\"name\": \"Maria\"}}]', session_id => 's');
         SELECT memory_add('Maria lives in Lisbon.', infer => false, fact_key => 'home')",
    );
    // A transaction of its own: it is later.
    run(
        client,
        "SELECT memory_add('Maria lives in Porto.', infer => false, fact_key => 'home');
         SELECT memory_add('The office is closed on Sundays.', infer => false, user_id => '*');
         SELECT memory_add_document('# Garden' || chr(10) || 'Roses need water.', title => 'Garden');
         SELECT memory_ingest('old', 'user', 'Said in a session that was cleared.');
         SELECT memory_clear('old');
         SET memory_agent.user_id = 'bob';
         SELECT memory_ingest('s', 'user', 'Bob plays the violin.');
         SET memory_agent.user_id = 'alice';
         UPDATE memory_agent.entries SET state = 'archived' WHERE content LIKE 'Lunch%'",
    );
}

/// Rows whose vector is not what the active model makes of their text.
const WRONG: &str = "SELECT e.content FROM memory_agent.entries e \
    WHERE length(e.content) < 1000 \
      AND NOT e.embedding <=> memory_embed(coalesce((e.metadata->>'name') || ': ', '') || e.content, \
                                           'document') < 1e-5";

#[track_caller]
fn assert_changed(client: &mut Client, model: &str) {
    let rows: i64 = value(client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(vectors(client), [format!("{model} 384 {rows}")]);
    let beside = windows(client);
    assert_eq!(beside.len(), 1, "{beside:?}");
    assert!(beside[0].starts_with(&format!("{model} further ")), "{beside:?}");
    assert_eq!(values::<String>(client, WRONG, &[]), [""; 0]);
    assert_eq!(embedder(client), model);
    let active = "SELECT name FROM memory_agent.models WHERE active AND kind = 'embedder'";
    assert_eq!(values::<String>(client, active, &[]), [model]);
}

#[test]
fn every_row_gets_a_vector_of_the_new_model() {
    let mut client = shared().database("change_local").connect();
    remember(&mut client);
    let before = windows(&mut client);
    assert!(before.len() == 1 && before[0].starts_with(DEFAULT), "a long text: {before:?}");
    let states: Vec<String> =
        values(&mut client, "SELECT DISTINCT state FROM memory_agent.entries ORDER BY 1", &[]);
    assert_eq!(states, ["active", "archived", "inactive"]);
    let untouched = "SELECT md5(string_agg(concat_ws('|', id, content, state, updated_at, metadata, lexemes), ',' ORDER BY id)) \
                       FROM memory_agent.entries";
    let rest: String = value(&mut client, untouched, &[]);
    let past: String = value(
        &mut client,
        "SELECT created_at::text FROM memory_agent.entries WHERE content = 'Maria lives in Lisbon.'",
        &[],
    );

    let job: Uuid = use_model(&mut client, MINILM);
    drain(&mut client);
    assert_changed(&mut client, MINILM);
    assert_eq!(value::<String>(&mut client, untouched, &[]), rest, "only vectors change");
    let progress: String = value(
        &mut client,
        "SELECT concat_ws(' ', status, done = total AND total > 0, last_error) FROM memory_jobs WHERE id = $1",
        &[&job],
    );
    assert_eq!(progress, "done t");
    let found = recall(&mut client, "'Where does the pet rest?', session_id => 's', top_k => 1");
    assert_eq!(found[0].content, "My cat sleeps on the sofa.");
    assert!(found[0].similarity.is_some());
    // Inactive rows too: the past is asked with the model of today.
    let then = recall(
        &mut client,
        &format!("'In which town is her home?', as_of => '{past}', kinds => '{{fact}}'"),
    );
    let lisbon = then.iter().find(|row| row.content == "Maria lives in Lisbon.");
    assert!(lisbon.is_some_and(|row| row.similarity.is_some()), "{then:?}");

    use_model(&mut client, DEFAULT);
    drain(&mut client);
    assert_changed(&mut client, DEFAULT);
    assert_eq!(windows(&mut client), before, "and back");
}

/// Rows that the former default embedded are found by it, until the database is changed to the new one.
#[test]
fn a_database_keeps_the_former_default() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.alter_system("memory_agent.embedding_model", Some(BGE));
    let mut client = cluster.database("change_former").connect();
    remember(&mut client);
    cluster.alter_system("memory_agent.embedding_model", None);
    let mut client = cluster.connect("change_former");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    assert_eq!(embedder(&mut client), BGE);
    ingest(&mut client, "s", "My dog sleeps in the hall.");
    assert_eq!(values::<String>(&mut client, WRONG, &[]), [""; 0]);
    let mut empty = cluster.database("change_empty").connect();
    assert_eq!(embedder(&mut empty), DEFAULT);

    use_model(&mut client, DEFAULT);
    drain(&mut client);
    assert_changed(&mut client, DEFAULT);
    // The long text may come first.
    let found = recall(&mut client, "'Where does the pet rest?', session_id => 's', top_k => 2");
    let pet = found.iter().find(|row| row.content.starts_with("My "));
    assert!(pet.is_some_and(|row| row.similarity.is_some()), "{found:?}");
}

#[test]
fn the_vector_index_changes_with_the_model() {
    for (database, method) in [("change_hnsw", "hnsw"), ("change_ivfflat", "ivfflat")] {
        let mut client = shared().database(database).connect();
        remember(&mut client);
        let old: String = value(&mut client, "SELECT memory_create_vector_index($1)", &[&method]);
        use_model(&mut client, MINILM);
        drain(&mut client);
        let indexes: Vec<String> = values(
            &mut client,
            "SELECT indexname || ' ' || indexdef FROM pg_indexes \
              WHERE schemaname = 'memory_agent' AND indexname LIKE 'entries\\_vector%'",
            &[],
        );
        assert_eq!(indexes.len(), 1, "{indexes:?}");
        assert!(!indexes[0].contains(&old) && indexes[0].contains(MINILM), "{indexes:?}");
        assert!(indexes[0].contains(&format!("USING {method}")), "{indexes:?}");
        run(&mut client, "SET memory_agent.exact_scan_rows = 0");
        let found = recall(&mut client, "'Where does the pet rest?', top_k => 1");
        assert_eq!(found[0].content, "My cat sleeps on the sofa.");
    }
}

/// Nothing is stored yet: the model is changed all the same.
#[test]
fn an_empty_database_changes_its_model() {
    let mut client = shared().database("change_empty").connect();
    use_model(&mut client, MINILM);
    drain(&mut client);
    assert_eq!(embedder(&mut client), MINILM);
    ingest(&mut client, "s", "My cat sleeps.");
    assert_eq!(vectors(&mut client), [format!("{MINILM} 384 1")]);
}

/// Turns that are stored before the change and while it goes on.
const BEFORE: usize = 150;

/// Somebody stores and asks all the time: every answer is found by meaning, before, during and after.
#[test]
fn nobody_notices_the_change() {
    let mut client = shared().database("change_unnoticed").connect();
    ingest(&mut client, "s", "My cat sleeps on the sofa.");
    let turns: Vec<String> =
        (0..BEFORE).map(|n| format!("Invoice {n} over {} euros was paid.", n * 7)).collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    let job = use_model(&mut client, MINILM);
    let status = "SELECT status FROM memory_jobs WHERE id = $1";
    let mut embedders = Vec::new();
    while value::<String>(&mut client, status, &[&job]) != "done" {
        let found = recall(&mut client, "'Where does the pet rest?', top_k => 1, rerank => false");
        assert_eq!(found[0].content, "My cat sleeps on the sofa.", "{embedders:?}");
        assert!(found[0].similarity.is_some(), "by words only: {found:?}");
        let model = embedder(&mut client);
        if embedders.last() != Some(&model) {
            embedders.push(model);
        }
        ingest(&mut client, "s", &format!("Invoice {} was sent.", embedders.len()));
        let jobs: i64 = value(
            &mut client,
            "SELECT count(*) FROM memory_jobs WHERE kind = 'reembed' AND status = 'dead'",
            &[],
        );
        assert_eq!(jobs, 0);
    }
    assert_eq!(embedders.first().map(String::as_str), Some(DEFAULT));
    assert!(embedders.len() <= 2, "one switch: {embedders:?}");
    assert_eq!(embedder(&mut client), MINILM);
    // A turn that was being stored during the switch may have a vector of the old model. The sweep finds
    // such rows (`meanwhile`), and so does a second request for the change.
    use_model(&mut client, MINILM);
    drain(&mut client);
    let rows: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(vectors(&mut client), [format!("{MINILM} 384 {rows}")]);
    assert_eq!(windows(&mut client), [""; 0]);
}
