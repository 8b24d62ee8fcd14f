//! `memory-agent add`, `recall` and `forget`: what a script gives them and gets.

use super::run_on;
use crate::{cluster, database};
use memory_agent_e2e::Json;
use memory_agent_e2e::memory::values;

const DATABASE: &str = "terminal_single";

/// A command of ann's; its exit status, and what it printed in lines.
fn ann(command: &str, arguments: &[&str], input: &str) -> (Option<i32>, Vec<String>, String) {
    let arguments = [&[command, "--user", "ann"], arguments].concat();
    let ended = run_on(DATABASE, &arguments, input);
    (ended.status, ended.out.lines().map(str::to_owned).collect(), ended.said)
}

#[test]
fn a_script_adds_recalls_and_forgets() {
    let mut client = database(cluster(), DATABASE);
    let (status, rome, said) = ann("add", &["Ann lives in Rome."], "");
    assert_eq!((status, rome.len()), (Some(0), 1), "{said}");
    // The same once more is the same fact.
    assert_eq!(ann("add", &["Ann lives in Rome."], "").1, rome);
    let (status, tea, said) = ann("add", &["--session", "s", "-"], "Ann drinks\tgreen\ntea.\n");
    assert_eq!((status, tea.len()), (Some(0), 1), "{said}");
    let stored = "SELECT concat_ws('|', kind, coalesce(session_id, '-'), content) \
                    FROM memory_agent.entries WHERE user_id = 'ann' ORDER BY id";
    let stored: Vec<String> = values(&mut client, stored, &[]);
    assert_eq!(stored, ["fact|-|Ann lives in Rome.", "fact|s|Ann drinks\tgreen\ntea."]);

    let (status, lines, said) = ann("recall", &["--top-k", "1", "Where does Ann live?"], "");
    assert_eq!((status, lines.len()), (Some(0), 1), "{said}");
    let columns: Vec<&str> = lines[0].split('\t').collect();
    let [id, score, at, text] = columns[..] else { panic!("{columns:?}") };
    assert_eq!((id, text), (rome[0].as_str(), "Ann lives in Rome."));
    assert!(score.parse::<f64>().is_ok_and(|score| 0.0 < score && score <= 1.0), "{score}");
    assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
    // Each memory is one line.
    let (_, lines, _) = ann("recall", &["What does Ann drink?"], "");
    assert!(lines[0].ends_with("\tAnn drinks green tea."), "{lines:?}");
    let (_, lines, _) = ann("recall", &["--json", "What does Ann drink?"], "");
    let first: Json = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((first["id"].as_str(), first["session_id"].as_str()), (Some(&*tea[0]), Some("s")));
    assert_eq!(first["content"], "Ann drinks\tgreen\ntea.");
    // Of another user there is nothing.
    let other = run_on(DATABASE, &["recall", "--user", "bob", "Where does Ann live?"], "");
    assert_eq!((other.status, other.out.as_str()), (Some(0), ""));

    let (status, lines, said) = ann("forget", &["--reason", "moved", &rome[0], &tea[0]], "");
    assert_eq!((status, lines.len()), (Some(0), 0), "{said}");
    assert_eq!(ann("recall", &["Where does Ann live?"], "").1.len(), 0);
    let reasons = "SELECT coalesce(reason, '-') FROM memory_history($1::uuid, user_id => 'ann') WHERE op = 'delete'";
    let id: memory_agent_e2e::Uuid = rome[0].parse().unwrap();
    assert_eq!(values::<String>(&mut client, reasons, &[&id]), ["moved"]);
    // What is not there is named, and the exit status says so.
    let (status, _, said) = ann("forget", &[&rome[0]], "");
    assert_eq!(status, Some(1));
    assert!(said.contains(&format!("{}: there is no such memory", rome[0])), "{said}");
    let (status, _, said) = ann("add", &[""], "");
    assert_eq!(status, Some(1));
    assert!(said.contains("22023"), "{said}");
}
