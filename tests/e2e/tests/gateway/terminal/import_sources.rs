//! What `memory-agent import` makes of files as programs and providers write them.

use super::{Ended, run_on};
use crate::{ROLE, cluster, database, stored};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Gateway, Json, Programs, json};
use std::process::Command;

/// Imports what standard input has.
fn import(database: &str, input: &str) -> Ended {
    run_on(database, &["import", "--user", "ann", "-"], input)
}

/// A file of the suite.
fn written(name: &str, text: &str) -> String {
    let file = Programs::of(cluster()).file(name);
    std::fs::write(&file, text).unwrap();
    file
}

/// Has Python pack a file.
fn packed(script: &str, arguments: &[&str]) {
    let python = Command::new("/usr/bin/python3").args(["-c", script]).args(arguments).status();
    assert!(python.unwrap().success());
}

/// A conversation of Claude in which something was said once.
fn claude(id: &str, said: &str) -> Json {
    json!({"uuid": id, "name": "", "created_at": "2026-01-31T12:00:00Z", "chat_messages": [
        {"uuid": "m", "sender": "human", "created_at": "2026-01-31T12:00:00Z", "text": said}]})
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    let mut client = database(cluster(), "import_order");
    let line = |number: u32| {
        json!({"role": "user", "content": format!("Message {number}."), "session_id": "same",
               "created_at": "2026-01-31T10:00:00Z"})
        .to_string()
    };
    let ended = import("import_order", &(1..=6).map(line).collect::<Vec<_>>().join("\n"));
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let expected = |count: u32| -> Vec<String> {
        (1..=count).map(|number| format!("user: Message {number}.")).collect()
    };
    assert_eq!(stored(&mut client, "ann", "same"), expected(6));
    let message = |number: u32| {
        json!({"uuid": format!("m{number}"), "sender": "human", "created_at": "2026-01-31T12:00:00Z",
               "text": format!("Message {number}.")})
    };
    let mut chat = claude("k", "");
    chat["chat_messages"] = (1..=5).map(message).collect();
    let ended = import("import_order", &json!([chat]).to_string());
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert_eq!(stored(&mut client, "ann", "claude-k"), expected(5));
}

#[test]
fn nothing_is_left_out_without_a_word() {
    let mut client = database(cluster(), "import_whole");
    let spoken = json!({"content_type": "multimodal_text", "parts": [
        {"content_type": "audio_transcription", "text": "My puppy is called Biscuit.", "direction": "in"},
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://1"}]});
    let node = |parent: Option<&str>, time: u32, content: Json| {
        json!({"parent": parent, "message": {"id": format!("m{time}"), "author": {"role": "user"},
                                             "create_time": time, "content": content}})
    };
    let export = json!([{"id": "c", "title": "Pets", "mapping": {
        "a": node(None, 1, spoken),
        "b": node(Some("a"), 2, json!({"content_type": "text", "parts": null})),
        "c": node(Some("b"), 3, json!({"content_type": "text", "parts": ["She is brown."]}))}}]);
    let ended = import("import_whole", &export.to_string());
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let said = ["user: My puppy is called Biscuit.", "user: She is brown."];
    assert_eq!(stored(&mut client, "ann", "chatgpt-c"), said);
    assert!(
        ended.said.contains("Left out: messages without text (1), pictures (1)."),
        "{}",
        ended.said
    );

    let mut chat = claude("k", "Keep this.");
    let more = json!([
        {"uuid": "m2", "sender": "human", "text": "", "content": [], "attachments": [
            {"file_name": "notes.txt", "extracted_content": "The key hangs behind the boiler."}]},
        {"uuid": "m3", "sender": "tool", "text": "Odd."},
        {"uuid": "m4", "sender": "assistant", "text": null, "content": [{"type": "text", "text": "Fine."}]}]);
    chat["chat_messages"].as_array_mut().unwrap().extend(more.as_array().unwrap().clone());
    let ended = import("import_whole", &json!([chat]).to_string());
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(
        ended.said.contains("entry 1, message 3: the sender is \"tool\"")
            && ended
                .said
                .contains("3 memories are stored, 0 were there already, 1 could not be stored."),
        "{}",
        ended.said
    );
    let said = ["user: Keep this.", "user: The key hangs behind the boiler.", "assistant: Fine."];
    assert_eq!(stored(&mut client, "ann", "claude-k"), said);
}

#[test]
fn files_are_taken_as_they_are_delivered() {
    let mut client = database(cluster(), "import_packed");
    let archive = Programs::of(cluster()).file("export.zip");
    let zip = "import sys, zipfile\n\
               z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\n\
               for name, text in zip(sys.argv[2::2], sys.argv[3::2]): z.writestr(name, text)\n\
               z.close()";
    let (one, two) = (json!([claude("1", "One.")]), json!([claude("2", "Two.")]));
    packed(
        zip,
        &[
            &archive,
            "export/conversations-000.json",
            &one.to_string(),
            "export/conversations-001.json",
            &two.to_string(),
            "export/users.json",
            "[{\"uuid\": \"u\"}]",
        ],
    );
    let gzip = Programs::of(cluster()).file("three.jsonl.gz");
    let line = json!({"role": "user", "content": "Three.", "session_id": "claude-3"}).to_string();
    packed("import gzip, sys; gzip.open(sys.argv[1], 'wt').write(sys.argv[2])", &[&gzip, &line]);
    let four = written("four.json", &json!([claude("4", "Four."), 7]).to_string());
    let ended = run_on(
        "import_packed",
        &["import", "--user", "ann", &archive, &gzip, &four, "/nowhere"],
        "",
    );
    for (id, said) in [("1", "One."), ("2", "Two."), ("3", "Three."), ("4", "Four.")] {
        let turns = stored(&mut client, "ann", &format!("claude-{id}"));
        assert_eq!(turns, [format!("user: {said}")], "{}", ended.said);
    }
    for part in [
        format!("{four}: entry 2: ").as_str(),
        "/nowhere: ",
        "4 memories are stored, 0 were there already, 2 could not be stored.",
        "Left out: other files of the archive (1).",
    ] {
        assert!(ended.said.contains(part), "{part}: {}", ended.said);
    }
    assert_eq!(ended.status, Some(1));
    let again = run_on("import_packed", &["import", "--user", "ann", &archive], "");
    assert_eq!(again.status, Some(0), "{}", again.said);
    assert!(again.said.contains("0 memories are stored, 2 were there already"), "{}", again.said);
}

#[test]
fn sessions_of_claude_code() {
    let mut client = database(cluster(), "import_code");
    let line = |id: &str, role: &str, content: Json, more: Json| {
        let mut line = json!({"parentUuid": null, "isSidechain": false, "cwd": "/src", "sessionId": "s1",
                              "type": role, "uuid": id, "timestamp": "2026-01-31T10:00:00.000Z",
                              "message": {"role": role, "content": content}});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let lines = [
        json!({"type": "file-history-snapshot", "messageId": "a", "snapshot": {}}).to_string(),
        line("a", "user", json!("Which port does staging use?"), json!({})),
        line("b", "assistant", json!([{"type": "tool_use", "name": "Read"}]), json!({})),
        line("c", "user", json!([{"type": "tool_result", "content": "DB_PASSWORD=1"}]), json!({})),
        line("d", "assistant", text("Port 6543."), json!({})),
        line("e", "user", text("A task of an agent."), json!({"isSidechain": true})),
        line("f", "user", text("Caveat."), json!({"isMeta": true})),
    ];
    let ended = import("import_code", &lines.join("\n"));
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert_eq!(
        stored(&mut client, "ann", "claude-code-s1"),
        ["user: Which port does staging use?", "assistant: Port 6543."]
    );
    assert!(
        ended.said.contains(
            "Left out: messages of side chains (1), messages of the program (1), notes of the program (1), \
             tool calls (1), tool results (1)."
        ),
        "{}",
        ended.said
    );
}

#[test]
fn the_graph_of_the_mcp_memory_server() {
    let mut client = database(cluster(), "import_graph");
    let lines = [
        r#"{"type":"entity","name":"Ann","entityType":"person","observations":["Likes tea","Lives in Rome"]}"#,
        r#"{"type":"relation","from":"Ann","to":"Acme","relationType":"works_at"}"#,
    ]
    .join("\n");
    for counts in ["3 memories are stored, 0 were", "0 memories are stored, 3 were"] {
        let ended = import("import_graph", &lines);
        assert_eq!(ended.status, Some(0), "{}", ended.said);
        assert!(ended.said.contains(counts), "{}", ended.said);
    }
    let facts: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('|', kind, content, session_id, metadata ->> 'entity_type') \
           FROM memory_agent.entries ORDER BY created_at",
        &[],
    );
    let expected =
        ["fact|Ann: Likes tea|person", "fact|Ann: Lives in Rome|person", "fact|Ann works at Acme"];
    assert_eq!(facts, expected);
    let unknown = import("import_graph", "{\"text\": \"A\"}\n{\"text\": \"B\"}");
    assert_eq!(unknown.status, Some(1));
    assert!(
        unknown.said.contains("standard input: its lines are of no format")
            && unknown.said.contains(" 1 could not be stored")
            && !unknown.said.contains("front matter"),
        "{}",
        unknown.said
    );
}

#[test]
fn facts_are_extracted_from_what_was_said_where_that_is_asked_for() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", "http://127.0.0.1:1/v1")
        .setting("memory_agent.llm_model", "none")
        .start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "import_facts");
    let to = Gateway::database(&cluster, ROLE, "import_facts");
    let import = |more: &[&str], lines: &str| {
        let arguments = [&["import", "--user", "ann", "--database", &to, "-"], more].concat();
        super::ended(&mut super::program(&arguments), lines)
    };
    let lines = |session: &str| {
        let line = |role| {
            json!({"role": role, "content": "I live in Rome.", "session_id": session}).to_string()
        };
        [line("user"), line("assistant")].join("\n")
    };
    let jobs = "SELECT count(*) FROM memory_agent.jobs WHERE kind = 'extract'";
    let ended = import(&[], &lines("a"));
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert_eq!(value::<i64>(&mut client, jobs, &[]), 0, "{}", ended.said);
    for part in [
        "No facts are extracted from 1 new turns of the user.",
        "With --extract",
        "1 calls and about 1600 tokens",
        "SELECT memory_backfill(user_id => 'ann') does it later",
    ] {
        assert!(ended.said.contains(part), "{part}: {}", ended.said);
    }
    let ended = import(&["--extract"], &lines("b"));
    assert!(
        ended.said.contains("An LLM extracts facts from 1 new turns of the user: 1 calls"),
        "{}",
        ended.said
    );
    assert_eq!(value::<i64>(&mut client, jobs, &[]), 1);
    // What was stored without is there for later.
    let again = import(&["--extract"], &lines("a"));
    assert!(again.said.contains("extracts facts from turns of which none were"), "{}", again.said);
    let backfilled: i64 = value(&mut client, "SELECT memory_backfill(user_id => 'ann')", &[]);
    assert_eq!(backfilled, 1);
}

#[test]
fn a_file_cannot_say_when_something_will_be_said() {
    let mut client: Client = database(cluster(), "import_times");
    let line = |key: &str, time: &str| {
        let mut line = json!({"role": "user", "content": "A.", "session_id": "s"});
        line[key] = time.into();
        line.to_string()
    };
    let lines = [
        line("created_at", "yesterday"),
        line("created_at", "2040-01-01"),
        line("expires_at", "tomorrow"),
        line("created_at", "2026-01-31"),
    ];
    let ended = import("import_times", &lines.join("\n"));
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    for part in [
        "line 1: \"yesterday\" is no time: write 2026-01-31T10:00:00Z, or seconds since 1970",
        "line 2: 2040-01-01T00:00:00.000000Z has not come yet",
        "line 3: expires_at: \"tomorrow\" is no time",
    ] {
        assert!(ended.said.contains(part), "{part}: {}", ended.said);
    }
    assert_eq!(stored(&mut client, "ann", "s"), ["user: A."]);
}
