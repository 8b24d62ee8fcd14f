//! `memory-agent chat`, with lines from a pipe and at a pseudo-terminal.

use super::{Ended, ended, program};
use crate::upstream::{Upstream, chunk};
use crate::{ROLE, cluster, database, stored};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Gateway, Json, Programs, json};
use std::os::unix::fs::PermissionsExt;

/// Talks for ann, in a database.
fn arguments(name: &str, upstream: &Upstream, more: &[&str]) -> Vec<String> {
    let (place, url) = (Gateway::database(cluster(), ROLE, name), upstream.url());
    let fixed = ["chat", "--user", "ann", "--database", &place, "--upstream", &url];
    let patience = ["--model", "m", "--patience", "60000"];
    [&fixed[..], &patience, more].concat().iter().map(|&word| word.to_owned()).collect()
}

fn talk(name: &str, upstream: &Upstream, more: &[&str], lines: &[&str]) -> Ended {
    let arguments = arguments(name, upstream, more);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ended(&mut program(&arguments), &(lines.join("\n") + "\n"))
}

/// Talks at a terminal.
fn at_a_terminal(name: &str, upstream: &Upstream, more: &[&str], script: &[Json]) -> Ended {
    super::at_a_terminal(&arguments(name, upstream, more), script)
}

#[test]
fn a_pipe_is_answered_line_by_line() {
    let upstream = Upstream::saying("As you say.");
    let mut client = database(cluster(), "talk_pipe");
    run(
        &mut client,
        "SELECT memory_add('The cat is called Minka.', infer => false, user_id => 'ann')",
    );
    let lines = ["I am at home.", "", "What is my cat called?"];
    let talked = talk("talk_pipe", &upstream, &["--session", "s"], &lines);
    assert_eq!((talked.status, talked.said.as_str()), (Some(0), ""), "{}", talked.out);
    assert_eq!(talked.out, "As you say.\nAs you say.\n");
    let turns = [
        "user: I am at home.",
        "assistant: As you say.",
        "user: What is my cat called?",
        "assistant: As you say.",
    ];
    assert_eq!(stored(&mut client, "ann", "s"), turns);
    // What was said goes along, and what is remembered before what is asked.
    let last = upstream.last().json();
    assert_eq!((last["stream"].clone(), last["model"].clone()), (json!(true), json!("m")));
    assert_eq!(last["messages"].as_array().unwrap().len(), 3, "{last}");
    assert!(upstream.last().said().contains("called Minka"), "{last}");
    assert!(last.get("memory_id").is_none(), "{last}");
    // The conversation goes on another time.
    let again = talk("talk_pipe", &upstream, &["--session", "s"], &["Thank you."]);
    assert_eq!(again.status, Some(0), "{}", again.said);
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 5);
    assert_eq!(stored(&mut client, "ann", "s").len(), 6);
    // And another session begins anew, with what is remembered.
    let other = talk("talk_pipe", &upstream, &[], &["Hello."]);
    assert_eq!(other.status, Some(0), "{}", other.said);
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 1);
    assert_eq!(stored(&mut client, "ann", "terminal").len(), 2);
}

#[test]
fn commands_show_and_change_memory() {
    let upstream = Upstream::saying("Noted.");
    let mut client = database(cluster(), "talk_commands");
    run(
        &mut client,
        "SET memory_agent.user_id = 'ann'; \
         SELECT memory_add('Ann is allergic to hazelnuts.', infer => false, created_at => '2026-01-01'); \
         SELECT memory_add('Ann lives in Porto.', infer => false, created_at => '2026-01-02'); \
         SET memory_agent.user_id = 'bob'; SELECT memory_add('Bob has a secret.', infer => false)",
    );
    let lines = [
        "/debug",
        "What must not be in the cake?",
        "/debug",
        "/stats",
        "/recall Which nuts are dangerous?",
        "/context Which nuts are dangerous?",
        "/episode",
        "/episode",
        "/facts",
        "/forget 1",
        "/facts",
        "/help",
        "//etc is a path",
        "/nonsense",
        "/forget 99",
        "/quit",
        "This is not said.",
    ];
    let talked = talk("talk_commands", &upstream, &["--session", "s"], &lines);
    // Something was wrong, which a program that calls it should know.
    assert_eq!(talked.status, Some(1), "{}", talked.said);
    let (out, said) = (talked.out.as_str(), talked.said.as_str());
    let count = |name: &str, all: u32, session: u32| format!("{name:18} {all:>8} {session:>8}\n");
    for part in [
        "What was sent:\n[user] ",
        "What was remembered, and why:\n 1  ",
        "memory: Ann is allergic to hazelnuts.\n    relevance ",
        "A recall takes: ",
        &count("turns", 2, 2),
        &count("facts", 2, 0),
        "[user] Which nuts are dangerous?",
        " tokens\n",
        "The episode is closed.\nNo episode is open.\n",
        " 1  memory, ",
        "/recall QUERY ",
    ] {
        assert!(out.contains(part), "{part:?} is missing:\n{out}\n{said}");
    }
    for part in [
        "Nothing was asked yet.",
        "Forgotten. ",
        "/nonsense is not a command",
        "99 is neither a number",
    ] {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    assert!(!out.contains("secret") && !out.contains("This is not said."), "{out}");
    let facts = out.split_once("No episode is open.\n").unwrap().1;
    let first =
        " 1  memory, 2026-01-02: Ann lives in Porto.\n 2  memory, 2026-01-01: Ann is allergic";
    assert!(facts.starts_with(first), "{facts}");
    assert_eq!(facts.matches("Porto").count(), 1, "it was forgotten: {facts}");
    let turns = [
        "user: What must not be in the cake?",
        "assistant: Noted.",
        "user: /etc is a path",
        "assistant: Noted.",
    ];
    assert_eq!(stored(&mut client, "ann", "s"), turns);
    let forgotten: String = value(
        &mut client,
        "SELECT e.content FROM memory_agent.entries e WHERE e.user_id = 'ann' AND e.state = 'inactive'",
        &[],
    );
    assert_eq!(forgotten, "Ann lives in Porto.");
}

#[test]
fn what_went_into_each_prompt_is_shown_where_that_is_wanted() {
    let upstream = Upstream::saying("Noted.");
    let mut client = database(cluster(), "talk_debug");
    run(
        &mut client,
        "SELECT memory_add('Ann is allergic to hazelnuts.', infer => false, user_id => 'ann')",
    );
    let talked =
        talk("talk_debug", &upstream, &["--debug"], &["Which nuts?", "/debug off", "And now?"]);
    assert_eq!(talked.status, Some(0), "{}", talked.said);
    assert_eq!(talked.out.matches("What was sent:").count(), 1, "{}", talked.out);
    assert!(talked.out.contains("Long-term memory"), "{}", talked.out);
}

#[test]
fn who_it_is_and_what_answers_has_to_be_known() {
    let upstream = Upstream::start(|request, answer| match request.path.as_str() {
        "/v1/models" => answer.json(r#"{"data": [{"id": "small"}, {"id": "large"}]}"#),
        _ => answer.whole(
            500,
            &[("content-type", "application/json")],
            r#"{"error": {"message": "It is broken."}}"#,
        ),
    });
    let mut client = database(cluster(), "talk_who");
    let token: String = value(&mut client, "SELECT memory_create_token('bob', 'phone')", &[]);
    let place = Gateway::database(cluster(), ROLE, "talk_who");
    let url = upstream.url();
    let with = |more: &[&str]| {
        let fixed = ["chat", "--database", &place, "--upstream", &url];
        ended(&mut program(&[&fixed[..], more].concat()), "Hello.\n")
    };
    let several = with(&["--user", "ann"]);
    assert_eq!(several.status, Some(1));
    assert!(several.said.contains("--model, such as small, large"), "{}", several.said);
    let broken = with(&["--token", &token, "--model", "small"]);
    assert_eq!((broken.status, broken.out.as_str()), (Some(1), "\n"));
    assert!(broken.said.contains("500: It is broken."), "{}", broken.said);
    assert_eq!(stored(&mut client, "bob", "terminal"), ["user: Hello."]);
    let unknown = with(&["--token", "mat_1"]);
    assert!(unknown.said.contains("this memory token is unknown"), "{}", unknown.said);
    assert_eq!(with(&[]).status, Some(2), "nobody is named");
}

#[test]
fn without_memory_it_goes_on_and_says_so() {
    let upstream = Upstream::start(|request, answer| {
        if request.method == "GET" {
            answer.json(r#"{"data": [{"id": "the-only-one"}]}"#);
        } else {
            answer.json(&crate::upstream::completion("Still here."));
        }
    });
    let url = upstream.url();
    let place = "host=/nowhere user=x";
    let mut command = program(&["chat", "--user", "ann", "--database", place, "--upstream", &url]);
    let talked = ended(command.env("OPENAI_API_KEY", "sk-of-ann"), "Hello.\n");
    assert_eq!((talked.status, talked.out.as_str()), (Some(0), "Still here.\n"), "{}", talked.said);
    for part in ["goes on without memory", "this answer is without it", "could not be stored"] {
        assert!(talked.said.contains(part), "{part}: {}", talked.said);
    }
    let sent = upstream.last();
    assert_eq!(sent.json()["model"], "the-only-one");
    assert_eq!(sent.header("authorization"), Some("Bearer sk-of-ann"));
}

#[test]
fn an_answer_moves_no_cursor() {
    let upstream = Upstream::start(|_, answer| {
        answer.begin();
        answer.says("\u{1b}[2J\u{7}Red\u{9b}31m\n\tE\u{202e}n\u{2066}d");
        answer.done();
    });
    drop(database(cluster(), "talk_cursor"));
    let talked = talk("talk_cursor", &upstream, &[], &["Hello."]);
    assert_eq!((talked.status, talked.out.as_str()), (Some(0), "[2JRed31m\n\tEnd\n"));
}

#[test]
fn a_person_types_edits_stops_and_finds_lines_again() {
    let upstream = Upstream::start(|request, answer| {
        let said = request.said();
        answer.begin();
        answer.says("Hear: ");
        if said.ends_with("at length.") {
            answer.says("a story ");
            // The story has no end of its own.
            answer.wait_until_left();
            return;
        }
        answer.piece(&format!("data: {}\n\n", chunk("that.")));
        answer.done();
    });
    let mut client = database(cluster(), "talk_terminal");
    let history = Programs::of(cluster()).file("talk_history");
    let more = ["--session", "s", "--history", &history];
    let script = [
        json!(["wait", "/help lists the commands."]),
        json!(["wait", "> "]),
        // Back over three letters, as on a keyboard.
        json!(["type", "Hello xyz\u{7f}\u{7f}\u{7f}there.\r"]),
        json!(["wait", "Hear: that."]),
        json!(["wait", "> "]),
        json!(["type", "Tell me at length.\r"]),
        json!(["wait", "a story "]),
        json!(["interrupt"]),
        json!(["wait", "Stopped."]),
        json!(["wait", "> "]),
        // A line that is given up.
        json!(["type", "Never mind"]),
        json!(["wait", "mind"]),
        json!(["interrupt"]),
        json!(["wait", "> "]),
        json!(["type", "/nonsense\r"]),
        json!(["wait", "is not a command"]),
        json!(["wait", "> "]),
        json!(["end"]),
    ];
    let talked = at_a_terminal("talk_terminal", &upstream, &more, &script);
    assert_eq!(talked.status, Some(0), "{}\n{}", talked.out, talked.said);
    let turns = [
        "user: Hello there.",
        "assistant: Hear: that.",
        "user: Tell me at length.",
        "assistant: Hear: a story  (interrupted)",
    ];
    assert_eq!(stored(&mut client, "ann", "s"), turns);
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else reads what was typed");
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("Hello there.") && !kept.contains("Never mind"), "{kept}");
    // Another time, the lines are there: three up is the first one.
    let script = [
        json!(["wait", "> "]),
        json!(["type", "\u{1b}[A\u{1b}[A\u{1b}[A\r"]),
        json!(["wait", "Hear: that."]),
        json!(["wait", "> "]),
        json!(["type", "/quit\r"]),
    ];
    let again = at_a_terminal("talk_terminal", &upstream, &more, &script);
    assert_eq!(again.status, Some(0), "{}\n{}", again.out, again.said);
    assert_eq!(stored(&mut client, "ann", "s").len(), 6);
}
