//! `memory-agent mcp`: who it acts for, how it begins and ends, what it does without a database.

use super::{Session, of_database, of_database_in, program};
use crate::people::token;
use crate::{PATIENCE, ROLE, cluster, database};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Cluster, StopMode, json, wait_until};

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
