//! A memory comes back from its file as it was; files of agent-cli and of people are read.

use proptest::prelude::*;

use super::*;
use crate::text::raw_json::Json;

fn never(_: &str) -> bool {
    false
}

fn entry(path: &str, text: &str) -> (Entry, String) {
    match Memory::read(path, text) {
        Ok((Memory::Entry(entry), body)) => (entry, body),
        other => panic!("{other:?}"),
    }
}

fn summary(path: &str, text: &str) -> (Summary, String) {
    match Memory::read(path, text) {
        Ok((Memory::Summary(summary), body)) => (summary, body),
        other => panic!("{other:?}"),
    }
}

const ID: &str = "0199c3a5-0000-7000-8000-000000000001";
const OTHER: &str = "0199c3a5-0000-7000-8000-000000000002";

fn full_entry() -> Entry {
    Entry {
        id: ID.into(),
        role: "memory".into(),
        conversation_id: "s 1".into(),
        created_at: Some("2026-01-31T10:00:00.5Z".into()),
        replaced_by: Some(OTHER.into()),
        doubted_by: None,
        kind: "fact".into(),
        agent_id: Some("default".into()),
        session_id: None,
        state: Some("inactive".into()),
        state_reason: Some("superseded".into()),
        state_at: Some("2026-02-01T00:00:00Z".into()),
        valid_to: Some("2026-02-01T00:00:00Z".into()),
        expires_at: Some("2027-01-01T00:00:00Z".into()),
        markers: Some(vec![]),
        metadata: Some(Json(r#"{"n": 1.10, "big": 1e400, "s": "null"}"#.into())),
        fact_key: Some("12".into()),
        confidence: Some(0.9),
        source_ids: Some(vec![OTHER.into()]),
        source_id: None,
        source_relation: Some("public.notes".into()),
        source_key: Some(Json(r#"{"id": 1}"#.into())),
        episode_id: Some(OTHER.into()),
        extracted_at: Some("-infinity".into()),
        recorded_at: Some("2026-01-31T10:00:01Z".into()),
        updated_at: Some("2026-01-31T10:00:01Z".into()),
        memory_agent: VERSION,
    }
}

#[test]
fn a_file_is_readable_and_begins_with_the_keys_of_agent_cli() {
    let (path, text) = Memory::Entry(full_entry()).write("Ann lives in Rome.", never);
    assert_eq!(path, format!("entries/s%201/deleted/facts/2026-01-31T10-00-00.5Z__{ID}.md"));
    let expected = format!(
        "---\nid: \"{ID}\"\nrole: \"memory\"\nconversation_id: \"s 1\"\n\
         created_at: \"2026-01-31T10:00:00.5Z\"\nreplaced_by: \"{OTHER}\"\nkind: \"fact\"\n"
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(
        text.contains("\nmetadata: {\"n\": 1.10, \"big\": 1e400, \"s\": \"null\"}\n"),
        "{text}"
    );
    assert!(text.ends_with("\nmemory_agent: 1\n---\nAnn lives in Rome.\n"), "{text}");
    assert!(!text.contains("session_id") && !text.contains("null\n"), "{text}");
    assert_eq!(entry(&path, &text), (full_entry(), "Ann lives in Rome.".into()));
}

#[test]
fn files_of_agent_cli_are_read() {
    let fact = "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a01\nconversation_id: default\n\
                role: memory\ncreated_at: '2025-11-20T10:00:00.123456+00:00'\n\
                source_id: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a02\n---\nUser lives in Rome.\n";
    let (read, body) = entry("entries/default/facts/x.md", fact);
    assert_eq!((read.kind.as_str(), read.session()), ("fact", Some("default")));
    assert_eq!(read.created_at.as_deref(), Some("2025-11-20T10:00:00.123456+00:00"));
    assert_eq!(read.source_ids, Some(vec!["5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a02".into()]));
    assert_eq!((read.state, read.source_id, read.memory_agent), (None, None, 0));
    assert_eq!(body, "User lives in Rome.");

    let tombstone = fact.replace("source_id", "replaced_by");
    for path in ["entries/deleted/default/facts/x.md", "entries/default/deleted/facts/x.md"] {
        let (read, _) = entry(path, &tombstone);
        assert_eq!(read.state.as_deref(), Some("inactive"), "{path}");
        assert_eq!(read.state_reason.as_deref(), Some("superseded"), "{path}");
    }
    let (read, _) = entry("entries/deleted/default/facts/x.md", fact);
    assert_eq!(read.state_reason.as_deref(), Some("deleted"));

    let turn = "---\nid: 5f0c8b9e-6f0e-4a53-9f5e-1b1f1d1c0a03\nconversation_id: global\n\
                role: assistant\ncreated_at: '2025-11-20T10:00:00+00:00'\nmodel: gpt-oss\n\
                prompt_tokens: 12\nduration_ms: 1.5\n---\n\n\nSure.\n\n";
    let (read, body) = entry("x.md", turn);
    assert_eq!((read.kind.as_str(), read.session(), body.as_str()), ("turn", None, "Sure."));
    let metadata = r#"{"model": "gpt-oss", "prompt_tokens": 12, "duration_ms": 1.5}"#;
    assert_eq!(read.metadata, Some(Json(metadata.into())));

    let whole = "---\nid: default:summary\nconversation_id: default\nrole: summary\n\
                 created_at: '2025-11-20T10:00:00+00:00'\nsummary_kind: summary\n---\nAll of it.\n";
    let (read, body) = summary("entries/default/summaries/summary.md", whole);
    assert_eq!((read.summary_kind.as_str(), body.as_str()), ("L3", "All of it."));
    assert_eq!(Uuid::parse_str(&read.id).unwrap().get_version_num(), 8);
    assert_eq!(summary("elsewhere.md", whole).0.id, read.id);
    let chunk = whole.replace("summary_kind: summary", "summary_kind: L1");
    assert_eq!(summary("entries/default/summaries/L1/chunk_3.md", &chunk).0.ordinal, Some(3));
}

#[test]
fn a_path_says_what_a_file_written_by_hand_does_not() {
    let (read, body) = entry("entries/trip%20one/facts/note.md", "---\n---\n\n# Rome\n\nIn May.\n");
    assert_eq!((read.kind.as_str(), read.role.as_str()), ("fact", "memory"));
    assert_eq!((read.session(), body.as_str()), (Some("trip one"), "# Rome\n\nIn May."));
    let again = entry("entries/trip%20one/facts/note.md", "---\n---\n# Rome\n\nIn May.").0;
    assert_eq!(again.id, read.id);
    let other = entry("entries/trip%20one/facts/note.md", "---\n---\n# Rome").0;
    assert_ne!(other.id, read.id);
    assert_eq!(Memory::read("note.md", "---\nid: 1\n---\nx"), Err(MarkdownError::Missing("role")));
}

#[test]
fn the_global_memory_is_not_the_session_called_global() {
    for (session_id, directory) in [(None, "global"), (Some("global"), "%67lobal")] {
        let (conversation_id, session_id_said) = conversation_of(session_id);
        let written =
            Entry { conversation_id, session_id: session_id_said, state: None, ..full_entry() };
        let (path, text) = Memory::Entry(written).write("x", never);
        assert!(path.starts_with(&format!("entries/{directory}/facts/")), "{path}");
        assert_eq!(entry(&path, &text).0.session(), session_id);
    }
}

#[test]
fn summaries_in_force_have_names_and_others_ids() {
    let one = Summary {
        id: ID.into(),
        role: "summary".into(),
        conversation_id: "s".into(),
        created_at: Some("2026-01-31T10:00:00Z".into()),
        summary_kind: "L1".into(),
        ordinal: Some(2),
        is_active: Some(true),
        memory_agent: VERSION,
        ..Summary::default()
    };
    let (path, text) = Memory::Summary(one.clone()).write("a\n", never);
    assert_eq!(path, "entries/s/summaries/L1/chunk_2.md");
    assert_eq!(summary(&path, &text), (one.clone(), "a\n".into()));
    let (second, _) = Memory::Summary(one.clone()).write("b", |taken| taken == path);
    assert_eq!(second, format!("entries/s/summaries/L1/2026-01-31T10-00-00Z__{ID}.md"));
    let old = Summary { is_active: Some(false), ..one };
    let (third, _) = Memory::Summary(old).write("c", never);
    assert_eq!(third, format!("entries/s/deleted/summaries/L1/2026-01-31T10-00-00Z__{ID}.md"));
}

/// The front matter names no role; only the path does.
#[test]
fn an_empty_role_is_none_at_all() {
    let file = "---\nid: 1\nrole: ''\n---\nRome.\n";
    let (read, body) = summary("entries/s/summaries/L1/chunk_2.md", file);
    assert_eq!((read.summary_kind.as_str(), read.ordinal), ("L1", Some(2)));
    let (path, text) = Memory::Summary(read.clone()).write(&body, never);
    assert_eq!(summary(&path, &text).0.id, read.id);
    assert_eq!(entry("entries/s/facts/note.md", file).0.role, "memory");
}

/// Turns that repeat a fact are noted as an inactive fact of their own, which never held.
#[test]
fn what_never_held_is_no_fact_among_facts() {
    let note = Entry { state_reason: None, state: Some("inactive".into()), ..full_entry() };
    let (path, text) = Memory::Entry(note.clone()).write("", never);
    assert_eq!(path, format!("entries/s%201/deleted/facts/2026-01-31T10-00-00.5Z__{ID}.md"));
    assert_eq!(entry(&path, &text), (note, String::new()));
}

#[test]
fn what_is_no_memory_is_refused() {
    let (path, text) = Memory::Entry(full_entry()).write("x", never);
    for (from, to, message) in [
        ("memory_agent: 1", "memory_agent: 2", "version 2"),
        ("memory_agent: 1", "memory_agent: x", "memory_agent must be 1"),
        ("expires_at", "expire_at", "unknown field `expire_at`"),
        ("confidence: 0.9", "confidence: much", "invalid type"),
        ("---\nid", "id", "first line"),
    ] {
        let error = Memory::read(&path, &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn an_error_does_not_repeat_a_long_value() {
    let long = "much ".repeat(1_000);
    for (from, to) in [
        ("confidence: 0.9", format!("confidence: {long}")),
        ("expires_at", format!("expires_at_{}", long.replace(' ', "_"))),
    ] {
        let (path, text) = Memory::Entry(full_entry()).write("x", never);
        let error = Memory::read(&path, &text.replacen(from, &to, 1)).unwrap_err().to_string();
        assert!(error.contains("much") && error.chars().count() < 400, "{error}");
    }
}

proptest! {
    #[test]
    fn a_round_trip_loses_nothing(
        body in "(?s)(\n|---\n|\r\n| |.){0,40}",
        conversation_id in "\\PC{1,20}",
        fact_key in any::<Option<String>>(),
        agent_id in any::<String>(),
        text in any::<String>(),
        confidence in proptest::option::of(0f32..=1.0),
        markers in proptest::option::of(proptest::collection::vec(any::<String>(), 0..3)),
    ) {
        let metadata = serde_json::json!({ "text": text }).to_string();
        let (conversation_id, session_id) = conversation_of(Some(&conversation_id));
        let written = Entry {
            conversation_id, session_id, fact_key, confidence, markers,
            agent_id: Some(agent_id),
            metadata: Some(Json(metadata)),
            ..full_entry()
        };
        let (path, file) = Memory::Entry(written.clone()).write(&body, never);
        let (mut read, read_body) = entry(&path, &file);
        // YAML has no place for a few characters that JSON leaves as they are.
        let Json(metadata) = read.metadata.take().unwrap();
        let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
        prop_assert_eq!(metadata, serde_json::json!({ "text": text }));
        prop_assert_eq!(read, Entry { metadata: None, ..written });
        prop_assert_eq!(read_body, body);
    }

    #[test]
    fn any_file_is_read_without_panic(path in "[a-z/%_.L1]{0,30}", text in "(?s)---\n[a-z: \"'\n-]{0,60}") {
        let _ = Memory::read(&path, &text).is_ok();
    }
}
