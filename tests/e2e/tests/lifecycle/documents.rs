//! Documents, which get another text, are forgotten and brought back as wholes, or are forgotten by the chunk.

use crate::scene::PATIENCE;
use crate::{forget, moment, quiet, restore, state, update};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, expect_error, shared_without_worker, wait_until};

const TEXT: &str = "# Boats\n\nA boat has a keel.\n\n# Cars\n\nA car has wheels.";

#[track_caller]
fn add(client: &mut Client, arguments: &str) -> Uuid {
    run(client, "SET memory_agent.chunk_tokens = 50");
    value(client, &format!("SELECT memory_add_document($1{arguments})"), &[&TEXT])
}

fn chunks_with(client: &mut Client, word: &str) -> Vec<Uuid> {
    values(
        client,
        "SELECT id FROM memory_agent.entries WHERE kind = 'document' AND content LIKE '%' || $1 || '%'",
        &[&word],
    )
}

fn listed(client: &mut Client) -> Vec<String> {
    values(client, "SELECT concat_ws(' ', id, chunks) FROM memory_list_documents()", &[])
}

#[test]
fn a_document_is_forgotten_as_a_whole() {
    let mut client = quiet("forget_document");
    for session in ["", ", session_id => 's'"] {
        let id = add(&mut client, session);
        let before = moment(&mut client);
        let all = recalled_texts(&mut client, "'boat car keel wheels'");
        assert!(!all.is_empty());
        assert!(forget(&mut client, id));
        assert!(!forget(&mut client, id));
        assert!(recalled_texts(&mut client, "'boat car keel wheels'").is_empty());
        assert!(listed(&mut client).is_empty());
        let past = format!("'boat car keel wheels', as_of => '{before}'");
        assert_eq!(recalled_texts(&mut client, &past).len(), all.len());
        assert!(restore(&mut client, id));
        assert!(!restore(&mut client, id));
        assert_eq!(recalled_texts(&mut client, "'boat car keel wheels'"), all);
        assert_eq!(listed(&mut client), [format!("{id} {}", all.len())]);
        // Added once more it comes back, too.
        forget(&mut client, id);
        assert_eq!(add(&mut client, session), id);
        assert_eq!(recalled_texts(&mut client, "'boat car keel wheels'"), all);
        let told: Vec<String> = values(&mut client, "SELECT op FROM memory_history($1)", &[&id]);
        assert_eq!(told, ["delete", "restore", "delete", "restore"]);
        forget(&mut client, id);
    }
}

#[test]
fn a_chunk_is_forgotten_alone() {
    let mut client = quiet("forget_chunk");
    run(&mut client, "SET memory_agent.chunk_tokens = 50");
    let long: String =
        (1..20).map(|n| format!("# Part {n}\n\nWord {n} of {n} is about turbines.\n\n")).collect();
    let id: Uuid = value(&mut client, "SELECT memory_add_document($1)", &[&long]);
    let chunks: Vec<Uuid> = values(
        &mut client,
        "SELECT id FROM memory_agent.entries WHERE kind = 'document' ORDER BY id",
        &[],
    );
    assert!(chunks.len() > 2, "{} chunks", chunks.len());
    assert!(forget(&mut client, chunks[0]));
    let left = format!("{id} {}", chunks.len() - 1);
    assert_eq!(listed(&mut client), [left]);
    assert!(restore(&mut client, chunks[0]));
    let all = format!("{id} {}", chunks.len());
    assert_eq!(listed(&mut client), [all.as_str()]);
    // It belongs to the text of its time.
    assert!(forget(&mut client, chunks[0]));
    assert_eq!(update(&mut client, id, &long.replace("turbines", "windmills")), id);
    expect_error(client.query("SELECT memory_restore($1)", &[&chunks[0]]), "55000");
    let held = listed(&mut client);
    assert!(forget(&mut client, id) && restore(&mut client, id));
    assert_eq!(listed(&mut client), held);
    let told = recalled_texts(&mut client, "'turbines windmills', top_k => 50");
    assert!(told.iter().all(|text| !text.contains("turbines")), "{told:?}");
    let sessions: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.sessions", &[]);
    assert_eq!(sessions, 0);
}

#[test]
fn a_document_gets_a_new_text() {
    let mut client = quiet("update_document");
    let id = add(&mut client, ", 'Vehicles', metadata => '{\"shelf\": 7}'");
    let old: Vec<Uuid> = chunks_with(&mut client, "keel");
    let before = moment(&mut client);
    assert_eq!(update(&mut client, id, &format!("\n{TEXT} ")), id, "blank space is no change");
    assert_eq!(chunks_with(&mut client, "keel"), old);

    let new = TEXT.replace("keel", "mast");
    assert_eq!(update(&mut client, id, &new), id);
    assert_eq!(update(&mut client, id, &new), id);
    let told = recalled_texts(&mut client, "'boat mast keel'").join(" ");
    assert!(told.contains("mast") && !told.contains("keel"), "{told}");
    let past =
        recalled_texts(&mut client, &format!("'boat mast keel', as_of => '{before}'")).join(" ");
    assert!(past.contains("keel") && !past.contains("mast"), "{past}");
    assert_eq!(state(&mut client, old[0]), "inactive superseded ended");
    let whole: String = value(
        &mut client,
        "SELECT concat_ws('|', content, title, metadata) FROM memory_archives",
        &[],
    );
    assert_eq!(whole, format!("{new}|Vehicles|{{\"shelf\": 7}}"));
    let metadata = "SELECT count(DISTINCT metadata - '{ordinal,headings,granularity,name}'::text[]) \
                      FROM memory_agent.entries WHERE kind = 'document'";
    assert_eq!(value::<i64>(&mut client, metadata, &[]), 1);
    let history: Vec<String> =
        values(&mut client, "SELECT concat(op, ' ', content) FROM memory_history($1)", &[&id]);
    assert_eq!(history, [format!("update {TEXT}"), format!("add {new}")]);
    let held = listed(&mut client);

    // What comes back is the text of now.
    assert!(forget(&mut client, id));
    let forgotten = client.query("SELECT memory_update($1, 'New.')", &[&id]);
    assert!(expect_error(forgotten, "55000").contains("forgotten"));
    assert!(restore(&mut client, id));
    assert_eq!(listed(&mut client), held);
    let chunk = client.query("SELECT memory_restore($1)", &[&old[0]]);
    assert!(expect_error(chunk, "55000").contains("another text"));

    let other: Uuid = value(&mut client, "SELECT memory_add_document('A plane has wings.')", &[]);
    let taken = client.query("SELECT memory_update($1, $2)", &[&other, &new]);
    assert!(expect_error(taken, "23505").contains(&id.to_string()));
    for text in ["", " \n"] {
        expect_error(client.query("SELECT memory_update($1, $2)", &[&id, &text]), "22023");
    }
    assert_eq!(listed(&mut client).len(), 2);
    // The text before goes with the document.
    run(&mut client, &format!("SELECT memory_erase(id => '{id}')"));
    let left = "SELECT (SELECT count(*) FROM memory_agent.entries WHERE content LIKE '%boat%') \
                     + (SELECT count(*) FROM memory_agent.history WHERE body::text LIKE '%boat%')";
    assert_eq!(value::<i64>(&mut client, left, &[]), 0);
}

#[test]
fn an_archived_conversation_has_the_text_of_its_turns() {
    let mut client = quiet("update_archive");
    run(&mut client, "SELECT memory_ingest('s', 'user', 'The ferry leaves at nine.')");
    let id: Uuid = value(&mut client, "SELECT memory_archive('s')", &[]);
    let result = client.query("SELECT memory_update($1, 'New.')", &[&id]);
    assert!(expect_error(result, "42809").contains("archived conversation"));
}

/// Nobody's text is lost silently.
#[test]
fn of_two_updates_at_once_the_second_is_refused() {
    let database = shared_without_worker().database("update_document_twice");
    let (mut first, mut second, mut watch) =
        (database.connect(), database.connect(), database.connect());
    run(&mut first, "SET memory_agent.embed_on_ingest = off");
    let id = add(&mut first, "");
    run(&mut first, &format!("BEGIN; SELECT memory_update('{id}', 'A plane has wings.')"));
    let late = std::thread::spawn(move || {
        expect_error(second.query("SELECT memory_update($1, 'A car has doors.')", &[&id]), "55000")
    });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                   WHERE query LIKE 'SELECT memory_update($1%' AND wait_event_type = 'Lock' \
                     AND datname = current_database())";
    wait_until(PATIENCE, "the second to wait", || value(&mut watch, waits, &[]));
    run(&mut first, "COMMIT");
    let message = late.join().expect("the second");
    assert!(message.contains("changed meanwhile"), "{message}");
    let texts: Vec<String> = values(&mut watch, "SELECT content FROM memory_agent.archives", &[]);
    assert_eq!(texts, ["A plane has wings."]);
}

/// What is deleted for good goes with its whole, which has the text as well.
#[test]
fn a_purged_document_leaves_nothing() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.sweep_interval", "1s")
        .setting("memory_agent.purge_after", "1s")
        .start();
    let mut client = cluster.database("purge").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let forgotten = add(&mut client, "");
    let kept: Uuid = value(&mut client, "SELECT memory_add_document('A plane has arms.')", &[]);
    // The text before, but not the document.
    update(&mut client, kept, "A plane has wings.");
    forget(&mut client, forgotten);
    let left = "SELECT (SELECT count(*) FROM memory_agent.archives) = 1 \
                   AND NOT EXISTS (SELECT FROM memory_agent.entries WHERE state = 'inactive')";
    wait_until(PATIENCE, "the purge", || value(&mut client, left, &[]));
    assert_eq!(listed(&mut client), [format!("{kept} 1")]);
    assert!(!restore(&mut client, forgotten));
    let again = add(&mut client, "");
    assert_ne!(again, forgotten);
    assert_eq!(listed(&mut client).len(), 2);
}
