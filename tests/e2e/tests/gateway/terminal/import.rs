//! `memory-agent import`.

use super::{ended, program, run_on};
use crate::people::token;
use crate::{PATIENCE, ROLE, cluster, database, stored};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Gateway, Programs, json, wait_until};
use std::io::Write;
use std::process::Stdio;

const ANN: [&str; 4] = ["import", "--user", "ann", "-"];

fn count(client: &mut Client) -> i64 {
    value(client, "SELECT count(*) FROM memory_agent.entries", &[])
}

/// A message of ChatGPT.
fn node(
    id: &str,
    parent: Option<&str>,
    role: &str,
    time: f64,
    text: &str,
) -> memory_agent_e2e::Json {
    json!({"id": id, "parent": parent, "children": [], "message": {
        "id": id, "author": {"role": role}, "create_time": time,
        "content": {"content_type": "text", "parts": [text]}, "metadata": {}}})
}

#[test]
fn conversations_of_chatgpt() {
    let mut client = database(cluster(), "import_chatgpt");
    let export = json!([
        {"title": "A trip", "create_time": 1_700_000_000.5, "id": "c1", "conversation_id": "c1",
         "current_node": "d", "mapping": {
            "root": {"id": "root", "message": null, "parent": null, "children": ["s"]},
            "s": node("s", Some("root"), "system", 0.0, "You are helpful."),
            "a": node("a", Some("s"), "user", 1_700_000_001.25, "I go to Porto in May."),
            "b": node("b", Some("a"), "assistant", 1_700_000_002.0, "A branch that was left."),
            "d": node("d", Some("a"), "assistant", 1_700_000_003.0, "Take the tram."),
         }},
        {"title": "Broken", "id": "c2"},
    ])
    .to_string();
    let first = run_on("import_chatgpt", &ANN, &export);
    assert_eq!(first.status, Some(1), "{}", first.said);
    assert!(
        first.said.contains("entry 2: ")
            && first
                .said
                .contains("2 memories are stored, 0 were there already, 1 could not be stored.")
            && first
                .said
                .contains("Left out: messages of other branches (1), system messages (1)."),
        "{}",
        first.said
    );
    let said = ["user: I go to Porto in May.", "assistant: Take the tram."];
    assert_eq!(stored(&mut client, "ann", "chatgpt-c1"), said);
    let shown: Vec<String> = values(
        &mut client,
        "SELECT concat(to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), ' ', metadata ->> 'title') \
           FROM memory_agent.entries ORDER BY created_at",
        &[],
    );
    assert_eq!(shown, ["2023-11-14 22:13:21.250 A trip", "2023-11-14 22:13:23.000 A trip"]);
    // Again, and what was forgotten stays so.
    run(
        &mut client,
        "SELECT memory_forget(id, user_id => 'ann') FROM memory_agent.entries WHERE role = 'user'",
    );
    let again = run_on("import_chatgpt", &ANN, &export);
    assert!(
        again.said.contains("0 memories are stored, 2 were there already, 1 could not be stored."),
        "{}",
        again.said
    );
    assert_eq!(stored(&mut client, "ann", "chatgpt-c1"), &said[1..]);
    // Another user has memories of their own.
    let bob = token(&mut client, "bob", "laptop");
    assert_eq!(
        run_on("import_chatgpt", &["import", "--token", &bob, "-"], &export).status,
        Some(1)
    );
    assert_eq!(stored(&mut client, "bob", "chatgpt-c1"), said);
}

#[test]
fn conversations_of_claude() {
    let mut client = database(cluster(), "import_claude");
    let noon = "2026-01-31T12:00:00.000000Z";
    let export = json!([{"uuid": "k1", "name": "Tea", "created_at": noon, "chat_messages": [
        {"uuid": "m1", "sender": "human", "created_at": noon, "text": "Old form of a text."},
        {"uuid": "m2", "sender": "assistant", "created_at": noon, "text": "with blocks",
         "content": [{"type": "text", "text": "Green"}, {"type": "tool_use", "name": "x"},
                     {"type": "text", "text": "tea."}]},
        {"uuid": "m3", "sender": "human", "created_at": noon, "text": ""},
    ]}]);
    for _ in 0..2 {
        let ended = run_on("import_claude", &ANN, &export.to_string());
        assert_eq!(ended.status, Some(0), "{}", ended.said);
        let expected = ["user: Old form of a text.", "assistant: Green\ntea."];
        assert_eq!(stored(&mut client, "ann", "claude-k1"), expected);
    }
}

#[test]
fn memories_of_mem0() {
    let mut client = database(cluster(), "import_mem0");
    let export = json!({"results": [
        {"id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e", "memory": "Name is Grace", "user_id": "grace",
         "created_at": "2025-02-10T08:00:00-08:00", "metadata": {"category": "person"}},
        {"id": "b4229775-d860-4ccb-983f-0f628ca112f5", "memory": "Is allergic to peanuts", "user_id": "grace",
         "run_id": "kitchen", "created_at": "2025-02-11T08:00:00-08:00", "metadata": null},
        {"id": "3", "memory": "Of another", "user_id": "linus"},
    ]})
    .to_string();
    let ended = run_on("import_mem0", &ANN, &export);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(
        ended.said.contains("entry 3: ") && ended.said.contains("--from-user"),
        "{}",
        ended.said
    );
    let ended =
        run_on("import_mem0", &["import", "--user", "ann", "--from-user", "grace", "-"], &export);
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let facts: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('|', user_id, kind, content, session_id, metadata ->> 'mem0_id', created_at AT TIME ZONE 'UTC') \
           FROM memory_agent.entries ORDER BY created_at",
        &[],
    );
    assert_eq!(
        facts,
        [
            "ann|fact|Name is Grace|892db2ae-06d9-49e5-8b3e-585ef9b85b8e|2025-02-10 16:00:00",
            "ann|fact|Is allergic to peanuts|kitchen|b4229775-d860-4ccb-983f-0f628ca112f5|2025-02-11 16:00:00",
        ]
    );
}

#[test]
fn bad_lines_do_not_stop_the_rest() {
    let mut client = database(cluster(), "import_bad");
    let lines = [
        r#"{"role": "user", "content": "One.", "session_id": "s", "created_at": "2026-01-31T10:00:00Z"}"#,
        r#"{"role": "user", "content": "#,
        r#"{"role": "robot", "content": "No role.", "session_id": "s"}"#,
        r#"{"role": "user", "content": "No time.", "session_id": "s", "created_at": "when?"}"#,
        r#"{"role": "assistant", "content": "Two.", "session_id": "s", "created_at": "2026-01-31 11:00+00"}"#,
        r#"{"role": "user", "content": "No session."}"#,
    ]
    .join("\n");
    for counts in ["3 memories are stored, 0 were", "0 memories are stored, 3 were"] {
        let ended = run_on("import_bad", &ANN, &lines);
        assert_eq!(ended.status, Some(1), "{}", ended.said);
        let robot = "line 3: unknown role \"robot\"";
        let time = "line 4: \"when?\" is no time";
        for line in ["line 2: ", robot, time, counts, "there already, 3 could not be stored."] {
            assert!(ended.said.contains(line), "{line}: {}", ended.said);
        }
        assert_eq!(stored(&mut client, "ann", "s"), ["user: One.", "assistant: Two."]);
        assert_eq!(stored(&mut client, "ann", "import"), ["user: No session."]);
    }
    let cut = run_on("import_bad", &ANN, r#"[{"mapping": "#);
    assert_eq!(cut.status, Some(1), "{}", cut.said);
    assert!(cut.said.contains("not JSON from here on"), "{}", cut.said);
    let claude =
        run_on("import_bad", &["import", "--user", "ann", "--format", "claude", "-"], "[{}]");
    assert!(claude.said.contains("entry 1: missing field `uuid`"), "{}", claude.said);
}

#[test]
fn an_import_that_was_killed_goes_on() {
    let mut client = database(cluster(), "import_killed");
    let line = |number: u32| {
        format!(r#"{{"role": "user", "content": "Turn {number}.", "session_id": "s"}}"#) + "\n"
    };
    let lines: String = (0..150).map(line).collect();
    let place = Gateway::database(cluster(), ROLE, "import_killed");
    let mut process =
        program(&ANN).args(["--database", &place]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all((0..100).map(line).collect::<String>().as_bytes()).unwrap();
    wait_until(PATIENCE, "the first batch", || count(&mut client) > 0);
    process.kill().unwrap();
    process.wait().unwrap();
    let before = count(&mut client);
    assert!(before < 100, "{before}");
    let ended = run_on("import_killed", &ANN, &lines);
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let turns = stored(&mut client, "ann", "s");
    assert_eq!(turns.len(), 150);
    assert_eq!(turns.last().map(String::as_str), Some("user: Turn 149."));
}

#[test]
fn a_terminal_shows_a_bar() {
    drop(database(cluster(), "import_bar"));
    let file = Programs::of(cluster()).file("bar.jsonl");
    std::fs::write(&file, r#"{"role": "user", "content": "One."}"#).unwrap();
    let place = Gateway::database(cluster(), ROLE, "import_bar");
    let program = memory_agent_e2e::bindir().join("memory-agent");
    let command = format!("{} import --user ann --database '{place}' {file}", program.display());
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = ended(&mut script, "");
    assert_eq!(shown.status, Some(0), "{}", shown.out);
    assert!(
        shown.out.contains("[##############################] 100 % read, 1 memories"),
        "{}",
        shown.out
    );
}

#[test]
fn what_stops_it_is_said() {
    let lost = ended(
        &mut program(&[&ANN[..], &["--database", "host=/nowhere user=x"]].concat()),
        "{\"role\": \"user\", \"content\": \"A\"}",
    );
    assert_eq!(lost.status, Some(1));
    assert!(
        lost.said.contains("the database cannot be reached") && lost.said.contains("run it again"),
        "{}",
        lost.said
    );
    drop(database(cluster(), "import_stops"));
    let unread = run_on("import_stops", &["import", "--user", "ann", "/nowhere/file"], "");
    assert!(unread.status == Some(1) && unread.said.contains("/nowhere/file: "), "{}", unread.said);
    let unknown = run_on("import_stops", &["import", "--token", "mat_1", "-"], "");
    assert!(
        unknown.status == Some(1) && unknown.said.contains("this memory token is unknown"),
        "{}",
        unknown.said
    );
}

#[test]
fn an_array_is_stored_before_it_ends() {
    let mut client = database(cluster(), "import_pieces");
    let place = Gateway::database(cluster(), ROLE, "import_pieces");
    let mut process =
        program(&ANN).args(["--database", &place]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"[").unwrap();
    for number in 0..100 {
        let memory = json!({"id": number.to_string(), "memory": format!("Fact {number}.")});
        stdin.write_all(format!("{memory},").as_bytes()).unwrap();
    }
    wait_until(PATIENCE, "the first batch", || count(&mut client) > 0);
    stdin.write_all(br#"{"id": "100", "memory": "The last one."}]"#).unwrap();
    drop(stdin);
    assert!(process.wait().unwrap().success());
    assert_eq!(count(&mut client), 101);
}
