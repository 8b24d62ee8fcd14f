//! What compression leaves in the knowledge base.

use crate::condenser::condenser;
use crate::talk::{scene, talk, talk_from, whole, window};
use memory_agent_e2e::llm::{Fault, FaultPlan};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Uuid};

const SETTINGS: [(&str, &str); 4] = [
    ("memory_agent.compression_threshold_tokens", "1000"),
    ("memory_agent.recent_messages_to_keep", "3"),
    ("memory_agent.archive_conversations", "on"),
    ("memory_agent.llm_max_attempts", "1"),
];

/// Content and metadata of what is archived of a session.
fn archived(client: &mut Client, session: &str) -> Vec<(String, Json)> {
    let sql = "SELECT content, metadata FROM memory_agent.archives WHERE session_id = $1";
    let rows = client.query(sql, &[&session]).expect("archives");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn chunks(client: &mut Client, session: &str) -> Vec<String> {
    values(
        client,
        "SELECT content FROM memory_agent.entries WHERE session_id = $1 AND kind = 'document' ORDER BY id",
        &[&session],
    )
}

#[test]
fn a_compressed_conversation_is_archived_in_the_same_transaction() {
    let mut scene = scene(condenser, &SETTINGS);
    // While the LLM fails, nothing is archived and nothing leaves the window.
    scene.stub.faults(FaultPlan::script([Some(Fault::Status(500))]));
    let ids = talk(&mut scene.client, "s", 12, 100);
    scene.drain();
    assert!(archived(&mut scene.client, "s").is_empty());
    assert_eq!(window(&mut scene.client, "s"), ids);
    let dead: Uuid =
        value(&mut scene.client, "SELECT id FROM memory_jobs WHERE status = 'dead'", &[]);
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&dead]));
    scene.drain();
    let summary = whole(&mut scene.client, "s");
    let found = archived(&mut scene.client, "s");
    assert_eq!(found.len(), 1);
    let (content, metadata) = &found[0];
    assert!(content.starts_with("# Conversation Summary"), "{content}");
    assert!(content.contains(&summary.content), "{content}");
    assert_eq!(metadata["conversation_topics"], Json::from(vec!["bikes", "trains"]));
    assert_eq!(metadata["decisions_made"], Json::from(vec!["Take the train."]));
    assert_eq!(metadata["message_count"], 12);
    assert_eq!(metadata["session_id"], "s");
    let start = metadata["date_range"]["start"].as_str().unwrap_or_default();
    assert!(start.starts_with("2025-01-01T00:00:00"), "{metadata}");
    let parts = chunks(&mut scene.client, "s");
    assert!(parts.iter().any(|part| part.contains("bikes and trains")), "{parts:?}");
    // The next compression puts the longer summary in its place.
    talk_from(&mut scene.client, "s", 12, 12, 100);
    scene.drain();
    let found = archived(&mut scene.client, "s");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1["message_count"], 24);
    // One that was forgotten is archived on, but stays forgotten until it is brought back.
    let found_again = "SELECT count(*) > 0 FROM memory_search_archive('bikes and trains')";
    assert!(value::<bool>(&mut scene.client, found_again, &[]));
    run(&mut scene.client, "SELECT memory_forget(id) FROM memory_agent.archives");
    talk_from(&mut scene.client, "s", 24, 12, 100);
    scene.drain();
    assert_eq!(archived(&mut scene.client, "s")[0].1["message_count"], 36);
    assert!(!value::<bool>(&mut scene.client, found_again, &[]));
    run(&mut scene.client, "SELECT memory_restore(id) FROM memory_agent.archives");
    assert!(value::<bool>(&mut scene.client, found_again, &[]));
    // It is a setting of the session that stores.
    run(&mut scene.client, "SET memory_agent.archive_conversations = off");
    talk(&mut scene.client, "t", 12, 100);
    scene.drain();
    assert_eq!(window(&mut scene.client, "t").len(), 3);
    assert!(
        archived(&mut scene.client, "t").is_empty() && chunks(&mut scene.client, "t").is_empty()
    );
}

#[test]
fn a_summary_that_is_ready_is_archived_as_it_is() {
    let mut scene = scene(condenser, &SETTINGS);
    talk(&mut scene.client, "s", 9, 100);
    scene.drain();
    assert!(archived(&mut scene.client, "s").is_empty());
    let summary = whole(&mut scene.client, "s");
    talk_from(&mut scene.client, "s", 9, 1, 100);
    scene.drain();
    // A sweep may have the tenth turn summarised afterwards; archiving asks nothing.
    let asked = "SELECT count(*) FROM memory_agent.llm_calls c JOIN memory_agent.jobs j ON j.id = c.job_id \
                  WHERE j.kind = 'compress'";
    assert_eq!(value::<i64>(&mut scene.client, asked, &[]), 0);
    let found = archived(&mut scene.client, "s");
    assert_eq!(found.len(), 1);
    assert!(found[0].0.contains(&summary.content));
    assert_eq!(found[0].1["message_count"], 9, "what the summary covers");
}

#[test]
fn what_was_archived_before_a_session_was_cleared_stays() {
    let mut scene = scene(condenser, &SETTINGS);
    talk(&mut scene.client, "s", 12, 100);
    scene.drain();
    let before = archived(&mut scene.client, "s");
    assert_eq!(before.len(), 1);
    let parts = chunks(&mut scene.client, "s").len();
    run(&mut scene.client, "SELECT memory_clear('s')");
    talk(&mut scene.client, "s", 14, 100);
    scene.drain();
    let after = archived(&mut scene.client, "s");
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(after.contains(&before[0]));
    assert!(chunks(&mut scene.client, "s").len() > parts);
    let counts: Vec<i64> =
        after.iter().filter_map(|(_, metadata)| metadata["message_count"].as_i64()).collect();
    assert!(counts.contains(&12) && counts.contains(&14), "{counts:?}");
}

#[test]
fn what_cannot_be_archived_stays_in_the_window() {
    let mut scene = scene(condenser, &SETTINGS);
    for (table, broken) in [("archives", "true"), ("entries", "kind = 'document'")] {
        run(
            &mut scene.client,
            &format!(
                "ALTER TABLE memory_agent.{table} ADD CONSTRAINT broken CHECK (NOT ({broken})) NOT VALID"
            ),
        );
        let ids = talk(&mut scene.client, table, 12, 100);
        scene.drain();
        assert_eq!(window(&mut scene.client, table), ids);
        assert!(archived(&mut scene.client, table).is_empty());
        run(&mut scene.client, &format!("ALTER TABLE memory_agent.{table} DROP CONSTRAINT broken"));
        let dead: Uuid =
            value(&mut scene.client, "SELECT id FROM memory_jobs WHERE status = 'dead'", &[]);
        assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&dead]));
        scene.drain();
        assert_eq!(window(&mut scene.client, table).len(), 3);
        assert_eq!(archived(&mut scene.client, table).len(), 1);
    }
}
