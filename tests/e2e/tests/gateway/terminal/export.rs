//! `memory-agent export`, and `import` of what it wrote.

use super::{at_a_terminal, run_on};
use crate::{ROLE, cluster, database};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, Gateway, Json, Programs};
use std::os::unix::fs::PermissionsExt;

/// What the views show that an export carries.
fn shown(client: &mut Client, user: &str) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws('|', e.id, e.session_id, e.agent_id, e.kind, e.role, e.content, e.metadata, e.markers, \
                          e.created_at, e.expires_at, e.state, e.fact_key, e.confidence, e.source_ids) \
           FROM memory_agent.entries e WHERE e.user_id = $1 AND e.state <> 'inactive' ORDER BY e.id",
        &[&user],
    )
}

#[test]
fn an_export_is_taken_back() {
    // Two pages of turns, several times: without embeddings, which an export does not carry.
    let unembedded = |name: &str| {
        let mut client = database(cluster(), name);
        let set = "SET memory_agent.embed_on_ingest = 'off'";
        run(&mut client, &format!("{set}; ALTER DATABASE {name} {set}"));
        client
    };
    let mut client = unembedded("export_from");
    run(
        &mut client,
        r#"SELECT memory_ingest('s 1', 'user', E'Two\nlines, and "quotes".', user_id => 'ann',
                                metadata => '{"name": "Ann", "empty": null, "big": 12345678901234567890}',
                                created_at => '2026-01-31 10:00:00.123456+00', ttl => '9000 days');
           SELECT memory_ingest('s 1', 'assistant', 'An answer.', user_id => 'ann', agent_id => 'cook',
                                markers => '{goal}');
           SELECT memory_ingest('global', 'user', 'Everywhere.', user_id => 'ann');
           SELECT memory_add('Ann likes tea.', user_id => 'ann', infer => false, fact_key => 'tea');
           SELECT memory_add('Ann likes coffee.', user_id => 'ann', infer => false, fact_key => 'tea');
           SELECT memory_ingest('s 1', 'user', 'Forget this.', user_id => 'ann');
           SELECT memory_forget(id, user_id => 'ann') FROM memory_agent.entries WHERE content = 'Forget this.';
           SELECT memory_ingest('s 1', 'user', 'Of another.', user_id => 'bob');
           SELECT memory_ingest_batch((SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', 'Number ' || n))
                                         FROM generate_series(1, 1005) n), session_id => 'long', user_id => 'ann')"#,
    );
    let file = Programs::of(cluster()).file("export.jsonl");
    let ended = run_on("export_from", &["export", "--user", "ann", &file], "");
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let before = shown(&mut client, "ann");
    assert!(
        ended.said.contains(&format!("{} memories are written", before.len())),
        "{}",
        ended.said
    );
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lines = std::fs::read_to_string(&file).unwrap();
    for word in ["Forget this.", "Of another.", "likes tea"] {
        assert!(!lines.contains(word), "{word}");
    }
    for line in lines.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        assert_eq!(line["memory_agent"], 1);
    }
    assert_eq!(run_on("export_from", &["export", "--user", "ann", "-"], "").out, lines);

    // A file that is there stays as it is, unless the caller says otherwise.
    std::fs::write(&file, "mine").unwrap();
    let refused = run_on("export_from", &["export", "--user", "ann", &file], "");
    assert_eq!(refused.status, Some(1), "{}", refused.said);
    assert!(refused.said.contains("is there already"), "{}", refused.said);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let forced = run_on("export_from", &["export", "--user", "ann", "--force", &file], "");
    assert_eq!(forced.status, Some(0), "{}", forced.said);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines);

    // Where it came from, nothing changes.
    let again = run_on("export_from", &["import", "--user", "ann", &file], "");
    assert_eq!(again.status, Some(0), "{}", again.said);
    assert_eq!(shown(&mut client, "ann"), before);

    let mut other = unembedded("export_to");
    let ended = run_on("export_to", &["import", "--user", "ann", &file], "");
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert_eq!(shown(&mut other, "ann"), before);
    assert_eq!(run_on("export_to", &["export", "--user", "ann", "-"], "").out, lines);
    assert_eq!(run_on("export_to", &["import", "--user", "eve", &file], "").status, Some(0));
    assert_eq!(shown(&mut other, "eve"), before);
}

#[test]
fn a_file_is_there_only_when_it_is_whole() {
    let file = Programs::of(cluster()).file("never.jsonl");
    let ended = run_on("export_nowhere", &["export", "--user", "ann", &file], "");
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(!std::path::Path::new(&file).exists());
}

/// The names of files beside one.
fn beside(file: &str) -> Vec<String> {
    let (directory, name) = file.rsplit_once('/').unwrap();
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|found| found.starts_with(name)).collect();
    names.sort();
    names
}

#[test]
fn a_part_file_of_another_account_stays_theirs() {
    let mut client = database(cluster(), "export_part");
    run(&mut client, "SELECT memory_add('Ann likes tea.', infer => false, user_id => 'ann')");
    let file = Programs::of(cluster()).file("planted.jsonl");
    let planted = format!("{file}.part");
    std::fs::write(&planted, "theirs").unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o666)).unwrap();
    let ended = run_on("export_part", &["export", "--user", "ann", &file], "");
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert_eq!(std::fs::read_to_string(&planted).unwrap(), "theirs");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Ann likes tea."));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // Nothing is left of an export that fails, either: a directory has the name.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let ended = run_on("export_part", &["export", "--user", "ann", "--force", &file], "");
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert_eq!(beside(&file), ["planted.jsonl", "planted.jsonl.part"]);
}

#[test]
fn a_terminal_shows_no_character_that_does_something() {
    const TEXT: &str = "Tea\u{9b}31m \u{202e}is\u{2069} \u{7f}red\u{200f}.";
    let mut client = database(cluster(), "export_terminal");
    client.execute("SELECT memory_add($1, infer => false, user_id => 'ann')", &[&TEXT]).unwrap();
    // A file has what is stored.
    let piped = run_on("export_terminal", &["export", "--user", "ann", "-"], "").out;
    assert!(piped.contains(TEXT), "{piped}");
    let to = Gateway::database(cluster(), ROLE, "export_terminal");
    let arguments = ["export", "--user", "ann", "--database", &to, "-"].map(str::to_owned);
    let shown = at_a_terminal(&arguments, &[]);
    assert_eq!(shown.status, Some(0), "{}", shown.said);
    let is_unsafe = |letter: char| {
        (letter.is_control() && !matches!(letter, '\r' | '\n'))
            || matches!(letter, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!shown.out.contains(is_unsafe), "{:?}", shown.out);
    let line = shown.out.lines().find(|line| line.starts_with('{')).unwrap();
    let line: Json = serde_json::from_str(line).unwrap();
    assert_eq!(line["content"], TEXT, "it means the same");
}
