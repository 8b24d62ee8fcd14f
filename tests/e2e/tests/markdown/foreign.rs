//! Files that were not written here: agent-cli's, and those of people.

use crate::{database, import};
use memory_agent_e2e::memory::{recalled_texts, run, value};
use serde_json::{Value, json};

/// Files as agent-cli writes them, with PyYAML's `safe_dump`.
const AGENT_CLI: [(&str, &str); 6] = [
    (
        "/home/ann/memory/entries/default/turns/user/2025-11-20T10-00-00-00-00__5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a01.md",
        "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a01\nconversation_id: default\nrole: user\n\
         created_at: '2025-11-20T10:00:00+00:00'\n---\nWe decided to move to Rome.\n",
    ),
    (
        "/home/ann/memory/entries/default/turns/assistant/2025-11-20T10-00-01-00-00__5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a02.md",
        "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a02\nconversation_id: default\nrole: assistant\n\
         created_at: '2025-11-20T10:00:01+00:00'\nmodel: gpt-oss:20b\nprompt_tokens: 12\n---\nBenvenuta!\n",
    ),
    (
        "/home/ann/memory/entries/default/facts/2025-11-20T10-00-02-00-00__5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a03.md",
        "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a03\nconversation_id: default\nrole: memory\n\
         created_at: '2025-11-20T10:00:02+00:00'\nsource_id: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a01\n\
         ---\nUser lives in Rome.\n",
    ),
    (
        "/home/ann/memory/entries/deleted/default/facts/2025-10-01T10-00-00-00-00__5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a04.md",
        "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a04\nconversation_id: default\nrole: memory\n\
         created_at: '2025-10-01T10:00:00+00:00'\nreplaced_by: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a03\n\
         ---\nUser lives in Paris.\n",
    ),
    (
        "/home/ann/memory/entries/global/facts/2025-10-01T10-00-00-00-00__5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a05.md",
        "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a05\nconversation_id: global\nrole: memory\n\
         created_at: '2025-10-01T10:00:00+00:00'\n---\nUser's dog is called Bello.\n",
    ),
    (
        "/home/ann/memory/entries/default/summaries/L3/final.md",
        "---\nid: default-summary-final\nconversation_id: default\nrole: summary\n\
         created_at: '2025-11-20T10:00:00.500000+00:00'\nsummary_kind: L3\n---\nA move to Rome.\n",
    ),
];

fn entry(client: &mut memory_agent_e2e::Client, content: &str) -> Value {
    value(client, "SELECT to_jsonb(e) FROM memory_agent.entries e WHERE content = $1", &[&content])
}

#[test]
fn files_of_agent_cli_are_imported() {
    let (_, mut client) = database("agent_cli");
    let files = AGENT_CLI.map(|(path, content)| (path.to_owned(), content.to_owned()));
    let ids: Vec<_> = files.iter().map(|file| import(&mut client, file)).collect();
    let again: Vec<_> = files.iter().map(|file| import(&mut client, file)).collect();
    assert_eq!(again, ids);

    let turn = entry(&mut client, "We decided to move to Rome.");
    assert_eq!(turn["created_at"], "2025-11-20T10:00:00+00:00");
    assert_eq!((&turn["kind"], &turn["role"]), (&json!("turn"), &json!("user")));
    assert_eq!((&turn["session_id"], &turn["agent_id"]), (&json!("default"), &json!("default")));
    assert_eq!(turn["markers"], json!(["decision"]));
    // agent-cli has made its facts already.
    assert!(turn["extracted_at"].as_str().is_some_and(|at| at.starts_with("20")), "{turn}");
    let answer = entry(&mut client, "Benvenuta!");
    assert_eq!(answer["metadata"], json!({"model": "gpt-oss:20b", "prompt_tokens": 12}));
    let fact = entry(&mut client, "User lives in Rome.");
    assert_eq!((&fact["kind"], &fact["role"]), (&json!("fact"), &json!("memory")));
    assert_eq!(fact["source_ids"], json!([turn["id"]]));
    let old = entry(&mut client, "User lives in Paris.");
    assert_eq!((&old["state"], &old["state_reason"]), (&json!("inactive"), &json!("superseded")));
    assert_eq!((&old["replaced_by"], &old["valid_to"]), (&fact["id"], &fact["created_at"]));
    let dog = entry(&mut client, "User's dog is called Bello.");
    assert_eq!(dog["session_id"], Value::Null);

    let session: Value = value(&mut client, "SELECT to_jsonb(s) FROM memory_agent.sessions s", &[]);
    assert_eq!((&session["turn_count"], &session["active_entries"]), (&json!(2), &json!(3)));
    assert_eq!(
        session["active_tokens"],
        json!(turn["token_count"].as_i64().unwrap() + answer["token_count"].as_i64().unwrap())
    );
    // The answer came after what the summary covers.
    assert_eq!(session["unsummarized_tokens"], answer["token_count"]);
    let summary: Value =
        value(&mut client, "SELECT to_jsonb(s) FROM memory_agent.session_summaries s", &[]);
    assert_eq!((&summary["level"], &summary["content"]), (&json!("L3"), &json!("A move to Rome.")));
    assert_eq!(summary["is_active"], true);

    let found = recalled_texts(&mut client, "'Where does the user live?', 'default'");
    assert_eq!(found[0], "User lives in Rome.");
    assert!(!found.iter().any(|text| text.contains("Paris")), "{found:?}");
    let then = recalled_texts(
        &mut client,
        "'Where does the user live?', 'default', as_of => '2025-10-15'",
    );
    assert!(then.contains(&"User lives in Paris.".to_owned()), "{then:?}");
}

#[test]
fn a_note_needs_little_more_than_its_place() {
    let (_, mut client) = database("notes");
    let note =
        ("entries/trip/facts/packing.md".to_owned(), "---\n---\n\nAda packs light.\n".to_owned());
    let id = import(&mut client, &note);
    assert_eq!(import(&mut client, &note), id);
    let fact = entry(&mut client, "Ada packs light.");
    assert_eq!((&fact["kind"], &fact["session_id"]), (&json!("fact"), &json!("trip")));
    assert_eq!(fact["created_at"], fact["recorded_at"]);
    // A setting for what is stored from now on holds for it too.
    run(
        &mut client,
        "SELECT memory_configure(session_id => 'trip', settings => '{\"auto_detect_markers\": false}')",
    );
    let turn = "---\nrole: user\nconversation_id: trip\n---\nWe decided to fly.".to_owned();
    import(&mut client, &(String::new(), turn));
    assert_eq!(entry(&mut client, "We decided to fly.")["markers"], json!([]));
}
