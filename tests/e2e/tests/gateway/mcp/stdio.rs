//! `memory-agent mcp`: who it acts for, how it begins and ends, what it does without a database.

use super::{Session, of_database, of_database_in, program};
use crate::people::token;
use crate::{PATIENCE, ROLE, cluster, database};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Cluster, Json, StopMode, json, wait_until};

#[test]
fn it_acts_for_a_user_until_its_input_ends() {
    let mut client = database(cluster(), "mcp_stdio");
    let [option, to] = of_database("mcp_stdio");
    let mut session = Session::start(&["--user", "ann", &option, &to]);
    let (text, failed) = session.call("add_memory", &json!({"text": "Ann likes tea."}));
    assert!(!failed, "{text}");
    let stored: String =
        value(&mut client, "SELECT concat(user_id, ': ', content) FROM memory_agent.entries", &[]);
    assert_eq!(stored, "ann: Ann likes tea.");
    let (status, log, rest) = session.end();
    assert!(status.success(), "{log}");
    assert_eq!(rest, "", "standard output has answers only");
    assert!(log.contains("\"tool\":\"add_memory\"") && !log.contains("tea"), "{log}");
    for line in log.lines() {
        assert!(line.starts_with("{\"at\":"), "{line}");
    }
}

/// Models send numbers as text or with a point, and n8n keys of its own.
#[test]
fn arguments_are_taken_as_they_are_meant() {
    let mut client = database(cluster(), "mcp_arguments");
    let [option, to] = of_database("mcp_arguments");
    let mut session = Session::start(&["--user", "ann", &option, &to]);
    for name in ["tea", "coffee", "milk"] {
        session.call("add_memory", &json!({"text": format!("Ann likes {name}.")}));
    }
    for limit in [json!("2"), json!(2.0), json!(2)] {
        let asked = json!({"query": "What does Ann like?", "limit": limit, "toolCallId": "1",
                           "sessionId": "n8n", "user_id": "bob"});
        let (text, failed) = session.call("search_memories", &asked);
        assert!(!failed, "{text}");
        let found: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(found["memories"].as_array().unwrap().len(), 2, "{text}");
    }
    let (text, failed) =
        session.call("list_memories", &json!({"kind": null, "limit": null, "cursor": null}));
    assert!(!failed && text.contains("Ann likes milk."), "{text}");
    let tools = session.ask(&json!({"jsonrpc": "2.0", "id": 99, "method": "tools/list"}));
    let tools = &tools["result"]["tools"];
    let search = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "search_memories");
    let schema = &search.unwrap()["inputSchema"];
    assert_eq!(schema["properties"]["limit"]["type"], "integer", "{schema}");
    assert_eq!(schema["required"], json!(["query"]));

    // A text that is longer than an answer may be is read piece by piece.
    let text: String = (0..9_000).map(|number| format!("line {number}\n")).collect();
    let ingest = "SELECT memory_ingest('log', 'user', $1, user_id => 'ann')::text";
    let id: String = value(&mut client, ingest, &[&text]);
    let (mut read, mut asked) = (String::new(), json!({"id": id}));
    loop {
        let (answer, failed) = session.call("get_memory", &asked);
        assert!(!failed && answer.len() < 60_000, "{}", answer.len());
        let answer: Json = serde_json::from_str(&answer).unwrap();
        read.push_str(answer["text"].as_str().unwrap());
        assert_eq!(answer["shortened"], true);
        match answer.get("next_offset") {
            Some(offset) => asked["offset"] = offset.clone(),
            None => break,
        }
    }
    assert_eq!(read, text);
}

#[test]
fn it_acts_for_the_user_of_a_token() {
    let mut client = database(cluster(), "mcp_token");
    let [option, to] = of_database("mcp_token");
    let bob = token(&mut client, "bob", "desktop");
    let mut session = Session::start(&["--token", &bob, &option, &to]);
    let tea = json!({"text": "Bob likes tea."});
    assert!(!session.call("add_memory", &tea).1);
    let user: String = value(&mut client, "SELECT user_id FROM memory_agent.entries", &[]);
    assert_eq!(user, "bob");
    run(&mut client, "SELECT memory_revoke_token('bob', 'desktop')");
    let (said, failed) = session.call("add_memory", &tea);
    assert!(failed && said.contains("tell the user to get a new one"), "{said}");

    let refused = program(&["--token", &bob, &option, &to]).output().unwrap();
    assert!(!refused.status.success());
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "");
    let log = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(log.contains("this memory token is unknown") && !log.contains(&bob), "{log}");
}

#[test]
fn it_needs_to_know_who_it_acts_for() {
    let [option, to] = of_database("postgres");
    for (arguments, expected) in [
        (&[][..], "--user <USER_ID>"),
        (&["--user", "ann", "--token", "mat_1"], "cannot be used with"),
        (&["--user", "*"], "the id of one user"),
    ] {
        let output = program(&[arguments, &[&*option, &*to]].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
}

#[test]
fn it_waits_for_its_database() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    drop(database(&cluster, "mcp_later"));
    let [option, to] = of_database_in(&cluster, "mcp_later");
    cluster.stop(StopMode::Fast);
    let mut session = Session::start(&["--user", "ann", &option, &to]);
    let tea = json!({"text": "Ann likes tea."});
    let (said, failed) = session.call("add_memory", &tea);
    assert!(failed && said.contains("Memory cannot be reached. Go on without it"), "{said}");
    cluster.start();
    wait_until(PATIENCE, "memory to be there", || !session.call("add_memory", &tea).1);
    let (status, log, _) = session.end();
    assert!(status.success() && log.contains("the database cannot be reached"), "{log}");
}
