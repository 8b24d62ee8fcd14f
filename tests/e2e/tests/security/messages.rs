//! What a caller is told, in errors and in messages of every severity, never shows the content of
//! anybody's memory.

use crate::{create_roles, grant};
use memory_agent_e2e::{Client, shared};
use std::sync::{Arc, Mutex};

/// A word that only alice's memory holds.
const SECRET: &str = "zebrafish";

/// A session that keeps all messages it is sent.
fn listening_session(database: &str, role: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&messages);
    let mut config = shared().config(database);
    config
        .user(role)
        .notice_callback(move |notice| kept.lock().unwrap().push(format!("{notice:?}")));
    let mut client = config.connect(postgres::NoTls).unwrap();
    client.batch_execute("SET client_min_messages = debug1").unwrap();
    (client, messages)
}

#[test]
fn errors_and_messages_show_no_content() {
    let database = shared().database("messages");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["messages_alice", "messages_mallory"]);
    grant(&mut superuser, "messages_alice", "user");
    grant(&mut superuser, "messages_mallory", "user");

    let (mut alice, of_alice) = listening_session(database.name(), "messages_alice");
    for call in [
        "SELECT memory_ingest('s', 'user', 'The zebrafish sleeps', metadata => '{\"k\": \"zebrafish\"}')",
        "SELECT memory_add('The pin is zebrafish', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_add('The pin is zebrafish again', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_recall('zebrafish', 's')",
        "SELECT memory_context('s', 'zebrafish')",
    ] {
        alice.batch_execute(call).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    // Every ingest and recall tells its counts at DEBUG1.
    let debug = of_alice.lock().unwrap().join("\n");
    assert!(debug.contains("memory_agent: recall"), "{debug}");
    assert!(!debug.contains(SECRET), "{debug}");

    let (mut mallory, of_mallory) = listening_session(database.name(), "messages_mallory");
    mallory.batch_execute("SET memory_agent.user_id = 'mallory'").unwrap();
    let mut errors = 0;
    for call in [
        // The same session, agent, key and text, all of them alice's already.
        "SELECT memory_ingest('s', 'user', 'mine')",
        "SELECT memory_add('my pin', 's', infer => false, fact_key => 'pin')",
        "SELECT memory_close_episode('s')",
        "SELECT memory_recall('pin sleeps', 's')",
        "SELECT memory_explain('pin sleeps', 's')::text",
        "SELECT memory_context('s', 'pin sleeps')::text",
        "SELECT memory_stats('s')::text",
        "SELECT memory_status()",
        "SELECT * FROM memory_entries",
        "SELECT * FROM memory_sessions",
        // Errors of each kind.
        "SELECT memory_recall('pin', 's', user_id => 'messages_alice')",
        "SELECT memory_stats('s', user_id => 'messages_alice')",
        "SELECT memory_add('x', 's', user_id => 'messages_alice', infer => false, fact_key => 'pin')",
        "SELECT memory_recall('pin', 's', query_embedding => '[1,2]')",
        "SELECT memory_recall('pin', filter => '{\"metadata\": {\"k\": 1}, \"x\": 1}')",
        "SELECT memory_recall('pin', score_threshold => 7)",
        "SELECT memory_context('s', 'pin sleeps', 1)",
        "SELECT content::int FROM memory_entries",
        "INSERT INTO memory_agent.entries DEFAULT VALUES",
        "UPDATE memory_agent.entries SET content = content",
        "DELETE FROM memory_agent.entries",
        "SELECT body FROM memory_agent.history",
        "SELECT memory_register_model('m', 'embedder', '/etc')",
    ] {
        match mallory.simple_query(call) {
            Ok(rows) => assert!(!format!("{rows:?}").contains(SECRET), "{call}: {rows:?}"),
            Err(error) => {
                errors += 1;
                assert!(!format!("{error:?}").contains(SECRET), "{call}: {error:?}");
            }
        }
    }
    assert!(errors >= 12, "only {errors} of the calls that should fail did");
    let messages = of_mallory.lock().unwrap().join("\n");
    assert!(!messages.contains(SECRET), "{messages}");
}
