//! Documents: how they are cut, found, listed, and whose they are.

use super::{MEMORIES, block, context};
use memory_agent_e2e::memory::{ingest, recall, recalled_texts, run, value, values};
use memory_agent_e2e::{
    Client, Json, Uuid, expect_error, json, shared, shared_without_worker, wait_until,
};
use std::time::Duration;

const HANDBOOK: &str = "\
# Holidays

Everybody has thirty days of holiday a year. They are taken until the end of March of the next year.
Whoever falls ill gets the days back.

## Carrying over

Ten days can be carried over with the consent of the manager. The consent is given in writing.

# Travel

## Trains

Trains are booked in second class, from four hours on in first class. A rail card is paid for.

```text
code: TRAIN-7
```

## Flights

Flights are for distances over six hundred kilometres. They are booked by the travel office.
";

fn add(client: &mut Client, arguments: &str) -> Uuid {
    value(client, &format!("SELECT memory_add_document({arguments})"), &[])
}

fn add_handbook(client: &mut Client) -> Uuid {
    value(
        client,
        "SELECT memory_add_document($1, 'Handbook of Acme', 'manual', metadata => $2)",
        &[&HANDBOOK, &json!({"year": 2024, "parent_id": "is ours"})],
    )
}

#[test]
fn chunks_follow_the_headings_and_are_recalled() {
    let mut client = shared().database("documents_recalled").connect();
    run(&mut client, "SET memory_agent.chunk_tokens = 60");
    let id = add_handbook(&mut client);
    let rows = recall(&mut client, "'In which class are trains booked?', top_k => 20");
    assert!(rows.len() >= 3, "{rows:#?}");
    assert!(rows[0].content.contains("second class"), "{}", rows[0].content);
    for row in &rows {
        let metadata = &row.metadata;
        assert_eq!((row.kind.as_str(), row.role.as_str()), ("document", "memory"));
        assert!(row.token_count <= 60 && HANDBOOK.contains(&row.content), "{}", row.content);
        assert_eq!(metadata["parent_id"], json!(id.to_string()), "ours wins");
        assert_eq!(metadata["title"], "Handbook of Acme");
        assert_eq!((&metadata["doc_type"], &metadata["year"]), (&json!("manual"), &json!(2024)));
        assert!(
            ["document", "section", "chunk"].contains(&metadata["granularity"].as_str().unwrap())
        );
        assert!(metadata["headings"].is_array() && row.similarity.is_some());
    }
    let trains = &rows[0].metadata["headings"];
    assert_eq!(trains[0], "Travel", "{trains}");
    let ordinals: Vec<i32> = values(
        &mut client,
        "SELECT (metadata ->> 'ordinal')::int FROM memory_agent.entries ORDER BY id",
        &[],
    );
    assert_eq!(ordinals, (1..=rows.len() as i32).collect::<Vec<_>>());
    let whole: String =
        value(&mut client, "SELECT content FROM memory_agent.archives WHERE id = $1", &[&id]);
    assert_eq!(whole, HANDBOOK);
    let context = context(&mut client, "'s', 'In which class are trains booked?'");
    assert!(block(&context, MEMORIES).unwrap().contains("second class"), "{context}");
}

#[test]
fn a_chunk_is_found_by_the_title_above_it() {
    let mut client = shared().database("documents_title").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off; SET memory_agent.chunk_tokens = 60",
    );
    for title in ["Handbook of Acme", "Rules of the Zeppelin club"] {
        let text = format!("{HANDBOOK}\nSigned in {title}.");
        client.execute("SELECT memory_add_document($1, $2)", &[&text, &title]).unwrap();
    }
    let rows = recall(&mut client, "'flights zeppelin', top_k => 1");
    assert!(rows[0].content.contains("travel office"), "{}", rows[0].content);
    let name = rows[0].metadata["name"].as_str().unwrap();
    assert!(name.starts_with("Rules of the Zeppelin club"), "{name}");
}

#[test]
fn the_size_of_chunks_is_a_setting() {
    let mut client = shared().database("documents_chunk_tokens").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let text: String =
        (1..=400).map(|n| format!("Sentence {n} of the story ends here. ")).collect();
    let mut counts = Vec::new();
    for tokens in [50, 200, 800] {
        run(&mut client, &format!("SET memory_agent.chunk_tokens = {tokens}"));
        let id: Uuid = value(
            &mut client,
            "SELECT memory_add_document($1, session_id => $2)",
            &[&text, &tokens.to_string()],
        );
        let row = client
            .query_one(
                "SELECT count(*), max(token_count), min(memory_count_tokens(content) - token_count), \
                        max(memory_count_tokens(content) - token_count) \
                   FROM memory_agent.entries WHERE metadata ->> 'parent_id' = $1",
                &[&id.to_string()],
            )
            .unwrap();
        let longest: i32 = row.get(1);
        assert!((tokens / 2..=tokens).contains(&longest), "{longest} of {tokens}");
        assert_eq!((row.get::<_, i32>(2), row.get::<_, i32>(3)), (0, 0), "counts are exact");
        counts.push(row.get::<_, i64>(0));
    }
    assert!(counts[0] > 3 * counts[1] && counts[1] > 3 * counts[2], "{counts:?}");
}

#[test]
fn a_section_that_is_cut_repeats_its_end() {
    let mut client = shared().database("documents_chunk_overlap").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.chunk_tokens = 100");
    let text: String =
        (1..=100).map(|n| format!("Sentence {n} of the story ends here. ")).collect();
    let id: Uuid = value(&mut client, "SELECT memory_add_document($1)", &[&text]);
    let chunks: Vec<String> = values(
        &mut client,
        "SELECT content FROM memory_agent.entries WHERE metadata ->> 'parent_id' = $1",
        &[&id.to_string()],
    );
    let told: usize = chunks.iter().map(|chunk| chunk.matches("Sentence").count()).sum();
    assert!((121..=200).contains(&told), "{told}: at most half of a chunk");
}

#[test]
fn the_same_text_is_stored_once_in_a_scope() {
    let mut client = shared().database("documents_once").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let first = add(&mut client, "'The gate code is 4711.', 'Codes'");
    assert_eq!(add(&mut client, "'  The gate code is 4711.\n', 'Other title', 'note'"), first);
    let others = [
        add(&mut client, "'The gate code is 4712.'"),
        add(&mut client, "'The gate code is 4711.', session_id => 's'"),
        add(&mut client, "'The gate code is 4711.', agent_id => 'coder'"),
        add(&mut client, "'The gate code is 4711.', user_id => 'bob'"),
    ];
    assert!(others.iter().all(|id| *id != first));
    let counts: Vec<i64> = values(
        &mut client,
        "SELECT count(*) FROM memory_agent.archives UNION ALL \
         SELECT count(*) FROM memory_agent.entries WHERE kind = 'document'",
        &[],
    );
    assert_eq!(counts, [5, 5]);
    let title: String =
        value(&mut client, "SELECT title FROM memory_agent.archives WHERE id = $1", &[&first]);
    assert_eq!(title, "Codes", "what is there stays as it is");
}

#[test]
fn two_callers_with_the_same_text_get_one_document() {
    let database = shared().database("documents_concurrent");
    let mut first = database.connect();
    let mut second = database.connect();
    let mut observer = database.connect();
    run(&mut first, "SET memory_agent.embed_on_ingest = off; BEGIN");
    let id = add(&mut first, "'The gate code is 4711.'");
    let waiting = std::thread::spawn(move || {
        run(&mut second, "SET memory_agent.embed_on_ingest = off");
        add(&mut second, "'The gate code is 4711.'")
    });
    wait_until(Duration::from_secs(60), "the second caller to wait for the first", || {
        value(
            &mut observer,
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                            AND wait_event_type = 'Lock')",
            &[],
        )
    });
    run(&mut first, "COMMIT");
    assert_eq!(waiting.join().unwrap(), id);
    let chunks: i64 = value(
        &mut observer,
        "SELECT count(*) FROM memory_agent.entries WHERE kind = 'document'",
        &[],
    );
    assert_eq!(chunks, 1);
}

#[test]
fn a_rollback_leaves_nothing() {
    let mut client = shared_without_worker().database("documents_rollback").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = async; BEGIN; \
         SELECT memory_add_document('The gate code is 4711.', session_id => 's'); ROLLBACK",
    );
    let left: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.archives) + (SELECT count(*) FROM memory_agent.entries) \
              + (SELECT count(*) FROM memory_agent.jobs) + (SELECT count(*) FROM memory_agent.sessions)",
        &[],
    );
    assert_eq!(left, 0);
}

#[test]
fn a_document_belongs_to_its_scope() {
    let mut client = shared().database("documents_scope").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    add(&mut client, "'apple everywhere'");
    add(&mut client, "'apple here', session_id => 's'");
    add(&mut client, "'apple of bob', user_id => 'bob'");
    add(&mut client, "'apple for all', user_id => '*'");
    let mut seen = |arguments: &str| {
        let mut texts = recalled_texts(&mut client, &format!("'apple', top_k => 20{arguments}"));
        texts.sort();
        texts
    };
    assert_eq!(seen(", session_id => 's'"), ["apple everywhere", "apple for all", "apple here"]);
    assert_eq!(seen(", session_id => 't'"), ["apple everywhere", "apple for all"]);
    assert_eq!(seen(", user_id => 'bob'"), ["apple for all", "apple of bob"]);
    assert_eq!(seen(", kinds => '{turn,fact}'"), [""; 0]);
}

#[test]
fn chunks_count_for_no_limit_and_do_not_expire() {
    let mut client = shared().database("documents_limits").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    ingest(&mut client, "s", "Hello.");
    let before: Json = value(&mut client, "SELECT to_jsonb(s) FROM memory_agent.sessions s", &[]);
    add(&mut client, "'The gate code is 4711.', session_id => 's'");
    let after: Json = value(&mut client, "SELECT to_jsonb(s) FROM memory_agent.sessions s", &[]);
    assert_eq!(before, after, "a document is no part of the conversation");
    let stats: Json = value(&mut client, "SELECT memory_stats('s')", &[]);
    assert_eq!(stats["documents"], 1);
    let window = context(&mut client, "'s', 'unrelated'");
    assert!(window["messages"].as_array().unwrap().iter().all(|message| {
        message["role"] == "system" || message["content"] != "The gate code is 4711."
    }));
}

#[test]
fn a_job_embeds_what_was_stored_without() {
    let mut client = shared().database("documents_async").connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = async; SET memory_agent.chunk_tokens = 60",
    );
    let id = add_handbook(&mut client);
    let in_session = add(&mut client, "'The gate code is 4711.', session_id => 's'");
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    let missing: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL",
        &[],
    );
    assert_eq!(missing, 0);
    // The job embeds the same text as the statement does: with what stands above the chunk.
    run(&mut client, "SET memory_agent.embed_on_ingest = sync");
    let again: Uuid = value(
        &mut client,
        "SELECT memory_add_document($1, 'Handbook of Acme', 'manual', user_id => 'bob')",
        &[&HANDBOOK],
    );
    let differing: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries a JOIN memory_agent.entries b \
             ON b.metadata ->> 'ordinal' = a.metadata ->> 'ordinal' \
          WHERE a.metadata ->> 'parent_id' = $1 AND b.metadata ->> 'parent_id' = $2 \
            AND (a.content <> b.content OR a.embedding <=> b.embedding > 0.0001)",
        &[&id.to_string(), &again.to_string()],
    );
    assert_eq!(differing, 0);
    assert_ne!(in_session, id);
}

#[test]
fn documents_are_listed_by_type_the_newest_first() {
    let mut client = shared().database("documents_listed").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.chunk_tokens = 60");
    add_handbook(&mut client);
    for n in 1..=12 {
        add(&mut client, &format!("'Note number {n}.', 'Note {n}', 'note', session_id => 's'"));
    }
    add(&mut client, "'Opening hours are nine to five.', 'Hours', user_id => '*'");
    add(&mut client, "'A secret.', 'Secret', user_id => 'bob'");
    let mut titles = |arguments: &str| -> Vec<String> {
        values(&mut client, &format!("SELECT title FROM memory_list_documents({arguments})"), &[])
    };
    let newest = titles("");
    assert_eq!(newest.len(), 10);
    assert_eq!(newest[..3], ["Hours", "Note 12", "Note 11"]);
    assert_eq!(titles("'manual'"), ["Handbook of Acme"]);
    assert_eq!(titles("'note', 100").len(), 12);
    assert_eq!(titles("\"limit\" => 100").len(), 14);
    assert_eq!(titles("\"limit\" => 0"), [""; 0]);
    assert_eq!(titles("'unknown'"), [""; 0]);
    assert_eq!(titles("user_id => 'bob'"), ["Secret", "Hours"]);
    let row = client.query_one("SELECT * FROM memory_list_documents('manual')", &[]).unwrap();
    assert!(row.get::<_, i64>("chunks") >= 3);
    assert_eq!(row.get::<_, Json>("metadata"), json!({"year": 2024, "parent_id": "is ours"}));
    assert_eq!(row.get::<_, Option<String>>("session_id"), None);
    assert_eq!(row.get::<_, String>("agent_id"), "default");
    let refused = client.query("SELECT * FROM memory_list_documents(\"limit\" => 1001)", &[]);
    expect_error(refused, "22023");
}

#[test]
fn numbers_in_metadata_keep_their_digits() {
    let mut client = shared().database("documents_digits").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    add(&mut client, "'The gate code is 4711.', metadata => '{\"price\": 1.10, \"far\": 1e400}'");
    let price: String =
        value(&mut client, "SELECT metadata ->> 'price' FROM memory_agent.entries", &[]);
    assert_eq!(price, "1.10");
}

#[test]
fn bad_arguments_are_refused() {
    let mut client = shared().database("documents_refused").connect();
    for arguments in [
        "''",
        "NULL",
        "'  '",
        "repeat('x', 1048577)",
        "'x', repeat('t', 1001)",
        "'x', doc_type => ''",
        "'x', doc_type => repeat('t', 101)",
        "'x', doc_type => 'conversation'",
        "'x', doc_type => 'conversations'",
        "'x', session_id => ''",
        "'x', metadata => '[]'",
        "'x', user_id => ''",
    ] {
        let result = client.query(&format!("SELECT memory_add_document({arguments})"), &[]);
        let message = expect_error(result, "22023");
        assert!(
            message.lines().nth(1).is_some_and(|hint| !hint.is_empty()),
            "{arguments}: {message}"
        );
    }
    let stored: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.archives", &[]);
    assert_eq!(stored, 0);
}
