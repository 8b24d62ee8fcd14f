//! Markers: given, detected, custom, refused.

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Uuid, expect_error, shared};

/// The markers of a turn stored with `markers => argument`.
fn markers(client: &mut Client, content: &str, argument: &str) -> Vec<String> {
    let ingest = format!("SELECT memory_ingest('s', 'user', $1, markers => {argument})");
    let id: Uuid = value(client, &ingest, &[&content]);
    value(client, "SELECT markers FROM memory_agent.entries WHERE id = $1", &[&id])
}

const DETECTED: [(&str, &[&str]); 6] = [
    ("We decided to use PostgreSQL.", &["decision"]),
    ("You must not call the production database.", &["constraint"]),
    ("The build failed because the disk was full.", &["failure"]),
    ("Our goal is to launch in May.", &["goal"]),
    ("We decided to wait. The deploy failed with an error.", &["decision", "failure"]),
    ("I had noodles for lunch.", &[]),
];

#[test]
fn cue_phrases_are_detected() {
    let mut client = shared().database("markers_detected").connect();
    for (text, expected) in DETECTED {
        assert_eq!(markers(&mut client, text, "NULL"), expected, "{text}");
    }
    run(&mut client, "SET memory_agent.auto_detect_markers = off");
    for (text, _) in DETECTED {
        assert!(markers(&mut client, text, "NULL").is_empty(), "{text}");
    }
}

#[test]
fn given_markers_replace_detected_ones() {
    let mut client = shared().database("markers_given").connect();
    let text = "We decided to use PostgreSQL.";
    assert_eq!(markers(&mut client, text, "'{constraint}'"), ["constraint"]);
    assert_eq!(markers(&mut client, text, "'{}'"), [] as [&str; 0]);
    assert_eq!(
        markers(&mut client, text, "'{custom:a.b-C_9,goal,custom:a.b-C_9}'"),
        ["custom:a.b-C_9", "goal"],
        "each once, in the order given"
    );
}

#[test]
fn unknown_markers_are_refused() {
    let mut client = shared().database("markers_refused").connect();
    for argument in [
        "'{decisions}'",
        "'{custom:}'",
        "'{\"custom:with blank\"}'",
        "'{Goal}'",
        "'{\"\"}'",
        "'{goal,NULL}'",
        "ARRAY['custom:' || repeat('x', 65)]",
    ] {
        let statement = format!("SELECT memory_ingest('s', 'user', 'x', markers => {argument})");
        let code = if argument.contains("NULL") { "22004" } else { "22023" };
        let message = expect_error(client.query(&statement, &[]), code);
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{message}");
    }
    let stored: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(stored, 0);
}
