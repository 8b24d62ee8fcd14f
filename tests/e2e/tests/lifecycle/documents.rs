//! Documents, which are forgotten and brought back as wholes or by the chunk.

use crate::scene::PATIENCE;
use crate::{forget, moment, quiet, restore};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, wait_until};

const TEXT: &str = "# Boats\n\nA boat has a keel.\n\n# Cars\n\nA car has wheels.";

#[track_caller]
fn add(client: &mut Client, arguments: &str) -> Uuid {
    run(client, "SET memory_agent.chunk_tokens = 50");
    value(client, &format!("SELECT memory_add_document($1{arguments})"), &[&TEXT])
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
    run(&mut client, "SET memory_agent.chunk_tokens = 50; SET memory_agent.chunk_overlap = 0");
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
    assert_eq!(listed(&mut client), [format!("{id} {}", chunks.len())]);
    let sessions: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.sessions", &[]);
    assert_eq!(sessions, 0);
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
    let kept: Uuid = value(&mut client, "SELECT memory_add_document('A plane has wings.')", &[]);
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
