//! What a session knows of the user's other ones, with the settings that ship.

use crate::context;
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value};
use memory_agent_e2e::{Client, Json, shared};
use std::sync::{Arc, Mutex};

const MONDAY: &str = "My wife is called Anne and I live in Lyon.";
const QUESTION: &str = "What is my wife called?";

fn user(database: &str, user: &str) -> Client {
    let mut client = shared().database(database).connect();
    run(&mut client, &format!("SET memory_agent.user_id = '{user}'"));
    client
}

/// What each kind of prompt of a session is told of the question.
fn prompts(client: &mut Client, session: &str) -> [String; 2] {
    let document = context(client, &format!("'{session}', '{QUESTION}'"));
    let augmented: Json = value(
        client,
        "SELECT memory_augment(jsonb_build_array(jsonb_build_object('role', 'user', 'content', $2::text)), \
                               session_id => $1)",
        &[&session, &QUESTION],
    );
    [document.to_string(), augmented.to_string()]
}

#[track_caller]
fn assert_told(client: &mut Client, session: &str, is_told: bool) {
    for prompt in prompts(client, session) {
        assert_eq!(prompt.contains(MONDAY), is_told, "{session}: {prompt}");
    }
}

#[test]
fn a_second_conversation_remembers_the_first() {
    let mut client = user("other_sessions", "eve");
    ingest(&mut client, "monday", MONDAY);
    ingest(&mut client, "monday", "The weather is nice today.");
    assert_told(&mut client, "tuesday", true);
    ingest(&mut client, "tuesday", "Good morning.");
    assert_told(&mut client, "tuesday", true);
    // The user's global memory by name.
    assert_told(&mut client, "global", true);

    let monday = MONDAY.to_owned();
    let narrow = recalled_texts(&mut client, &format!("'{QUESTION}', session_id => 'tuesday'"));
    assert!(!narrow.contains(&monday), "a recall of a session is of that session: {narrow:?}");
    let all = recalled_texts(&mut client, &format!("'{QUESTION}'"));
    assert!(all.contains(&monday), "{all:?}");

    // Nobody else's, neither another agent's.
    run(&mut client, "SET memory_agent.user_id = 'mallory'");
    assert_told(&mut client, "tuesday", false);
    run(&mut client, "SET memory_agent.user_id = 'eve'; SET memory_agent.agent_id = 'other'");
    assert_told(&mut client, "tuesday", false);
    run(&mut client, "RESET memory_agent.agent_id; SET memory_agent.session_recall = 'session'");
    assert_told(&mut client, "tuesday", false);
    assert_told(&mut client, "global", false);
    assert_told(&mut client, "monday", true);
}

#[test]
fn a_session_or_an_agent_can_be_by_itself() {
    let mut client = user("other_sessions_apart", "eve");
    ingest(&mut client, "monday", MONDAY);
    ingest(&mut client, "tuesday", "Good morning.");
    let configure = |client: &mut Client, session: &str, value: &str| {
        run(
            client,
            &format!(
                "SELECT memory_configure(session_id => {session}, \
                                         settings => '{{\"session_recall\": {value}}}')"
            ),
        );
    };
    configure(&mut client, "'monday'", "\"session\"");
    assert_told(&mut client, "tuesday", false);
    configure(&mut client, "'monday'", "null");
    assert_told(&mut client, "tuesday", true);
    configure(&mut client, "'tuesday'", "\"session\"");
    assert_told(&mut client, "tuesday", false);
    configure(&mut client, "'tuesday'", "null");

    configure(&mut client, "NULL", "\"session\"");
    assert_told(&mut client, "tuesday", false);
    // One that reads others reads none that do not want it.
    configure(&mut client, "'tuesday'", "\"user\"");
    assert_told(&mut client, "tuesday", false);
    configure(&mut client, "'monday'", "\"user\"");
    assert_told(&mut client, "tuesday", true);
}

/// A program that keeps the chats of all its users in one table, as n8n does: it is one role, and the sessions are
/// different people.
#[test]
fn chats_of_a_table_without_users_are_apart() {
    shared().database("other_sessions_attached");
    let notices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&notices);
    let mut client = shared()
        .config("other_sessions_attached")
        .notice_callback(move |notice| seen.lock().unwrap().push(notice.message().to_owned()))
        .connect(postgres::NoTls)
        .expect("a connection");
    run(
        &mut client,
        "CREATE TABLE n8n_chat_histories (id serial PRIMARY KEY, session_id text NOT NULL, message text NOT NULL); \
         SELECT memory_attach('n8n_chat_histories', 'message', session_id_column => 'session_id')",
    );
    run(
        &mut client,
        &format!(
            "INSERT INTO n8n_chat_histories (session_id, message) \
             VALUES ('ann', '{MONDAY}'), ('bob', 'Good morning.')"
        ),
    );
    let expected = "nothing says whose rows of public.n8n_chat_histories are: prompts of one of its sessions do not \
                    read the others";
    assert!(notices.lock().unwrap().iter().any(|notice| notice == expected), "{notices:?}");
    notices.lock().unwrap().clear();
    assert_told(&mut client, "bob", false);
    assert_told(&mut client, "ann", true);

    run(
        &mut client,
        &format!(
            "CREATE TABLE chats (id serial PRIMARY KEY, owner text, session_id text, message text); \
             SELECT memory_attach('chats', 'message', session_id_column => 'session_id', user_id_column => 'owner'); \
             INSERT INTO chats (owner, session_id, message) VALUES ('carol', 'monday', '{MONDAY}')"
        ),
    );
    assert!(notices.lock().unwrap().is_empty(), "{notices:?}");
    run(&mut client, "SET memory_agent.user_id = 'carol'");
    assert_told(&mut client, "tuesday", true);
}
