//! `memory_archive`: conversations that no LLM summarised, to be found from other sessions.

use super::context;
use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{Client, Json, Uuid, expect_error, shared};

const QUESTION: &str = "'now', 'What did we discuss about authentication tokens?'";

fn archive(client: &mut Client, session: &str) -> Option<Uuid> {
    value(client, "SELECT memory_archive($1)", &[&session])
}

/// Metadata and text of all that is archived, the oldest first.
fn archived(client: &mut Client) -> Vec<(Json, String)> {
    let sql = "SELECT metadata, content FROM memory_archives ORDER BY created_at";
    let rows = client.query(sql, &[]).expect("archives");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn talk(client: &mut Client) {
    ingest(client, "auth", "How long should authentication tokens be valid?");
    let say = "SELECT memory_ingest('auth', $1, $2, metadata => $3)";
    for (role, text, name) in [
        ("assistant", "One hour is usual for authentication tokens.", None),
        ("user", "Then authentication tokens last one hour.", Some("Ann")),
    ] {
        let metadata = name
            .map_or(memory_agent_e2e::json!({}), |name| memory_agent_e2e::json!({"name": name}));
        client.execute(say, &[&role, &text, &metadata]).expect("ingest");
    }
}

#[test]
fn a_short_conversation_is_archived_whole_and_told_elsewhere() {
    let mut client = shared().database("archive_short").connect();
    talk(&mut client);
    assert!(context(&mut client, QUESTION)["cross_session"].as_array().unwrap().is_empty());
    let id = archive(&mut client, "auth").expect("an archive");
    let (metadata, content) = archived(&mut client).remove(0);
    assert!(
        content.ends_with(
            "## Summary:\nuser: How long should authentication tokens be valid?\n\
             assistant: One hour is usual for authentication tokens.\n\
             Ann: Then authentication tokens last one hour."
        ),
        "{content}"
    );
    assert_eq!((&metadata["message_count"], &metadata["session_id"]), (&3.into(), &"auth".into()));
    let document = context(&mut client, QUESTION);
    assert_eq!(document["cross_session"][0]["session_id"], "auth", "{document}");
    let augment = "SELECT memory_augment('[{\"role\": \"user\", \"content\": \"What did we discuss about authentication tokens?\"}]', 'now')";
    let augmented: Json = value(&mut client, augment, &[]);
    let hits = augmented["memory_hits"].as_array().unwrap();
    assert_eq!(hits.iter().map(|hit| &hit["role"]).collect::<Vec<_>>(), ["conversation"]);
    let text = augmented["messages"][0]["content"].as_str().unwrap();
    assert!(text.contains("[conversation of ") && text.contains("last one hour."), "{text}");
    // Without the conversation as a whole, its turns are memories like others of the user.
    run(&mut client, "SET memory_agent.cross_session = off");
    let apart: Json = value(&mut client, augment, &[]);
    let hits = apart["memory_hits"].as_array().unwrap();
    assert!(hits.iter().all(|hit| hit["role"] == "user" || hit["role"] == "assistant"), "{apart}");
    assert_eq!(hits.len(), 3);
    run(&mut client, "SET memory_agent.session_recall = session");
    let silent: Json = value(&mut client, augment, &[]);
    assert_eq!(silent["memory_hits"], Json::Array(Vec::new()));
    run(&mut client, "RESET memory_agent.cross_session; RESET memory_agent.session_recall");

    // Archived again, it is replaced; after memory_clear, the new conversation stands beside it.
    ingest(&mut client, "auth", "Refresh tokens last a month.");
    assert_eq!(archive(&mut client, "auth"), Some(id));
    let again = archived(&mut client);
    assert!(again.len() == 1 && again[0].1.ends_with("user: Refresh tokens last a month."));
    run(&mut client, "SELECT memory_clear('auth')");
    assert_eq!(archive(&mut client, "auth"), None, "nothing is left to tell");
    ingest(&mut client, "auth", "Let us begin again.");
    assert_ne!(archive(&mut client, "auth"), Some(id));
    assert_eq!(archived(&mut client).len(), 2);
}

#[test]
fn of_a_long_conversation_the_turns_are_archived_that_tell_most() {
    let mut client = shared().database("archive_long").connect();
    run(
        &mut client,
        "SELECT count(memory_ingest('long', 'user', \
                CASE n % 2 WHEN 0 THEN 'Ok.' \
                     ELSE 'The harbour of town ' || n || ' needs a new crane for its containers, and money for it.' END)) \
           FROM generate_series(1, 300) n",
    );
    archive(&mut client, "long").expect("an archive");
    let (metadata, content) = archived(&mut client).remove(0);
    assert_eq!(metadata["message_count"], 300);
    let lines: Vec<&str> = content.lines().skip(3).collect();
    assert!((40..120).contains(&lines.len()), "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.contains("crane")), "{content}");
    let tokens: i32 = value(&mut client, "SELECT memory_count_tokens($1)", &[&content]);
    assert!(tokens <= 2_000, "{tokens}");
}

#[test]
fn an_erased_turn_takes_the_archive_along() {
    let mut client = shared().database("archive_erased").connect();
    talk(&mut client);
    ingest(&mut client, "other", "The cat sleeps.");
    archive(&mut client, "auth").expect("an archive");
    archive(&mut client, "other").expect("an archive");
    let turn: Uuid = value(
        &mut client,
        "SELECT id FROM memory_entries WHERE content LIKE '%usual%' AND kind = 'turn'",
        &[],
    );
    client.query_one("SELECT memory_erase(id => $1)", &[&turn]).expect("an erasure");
    let left = archived(&mut client);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0["session_id"], "other");
    let found: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE content LIKE '%usual%'",
        &[],
    );
    assert_eq!(found, 0);
}

#[test]
fn what_is_no_conversation_is_not_archived() {
    let mut client = shared().database("archive_none").connect();
    assert_eq!(archive(&mut client, "unknown"), None);
    expect_error(client.query("SELECT memory_archive('global')", &[]), "22023");
    expect_error(client.query("SELECT memory_archive('')", &[]), "22023");
    expect_error(client.query("SELECT memory_archive(NULL)", &[]), "22023");
    run(&mut client, "SET default_transaction_read_only = on");
    assert_eq!(archive(&mut client, "unknown"), None, "nothing was to be written");
}

#[test]
fn an_agent_may_be_told_of_all_agents() {
    let database = shared().database("archive_agents");
    let (mut client, mut settings) = (database.connect(), database.connect());
    for (agent, text) in [
        ("coder", "Authentication tokens last one hour."),
        ("writer", "Authentication tokens are explained in chapter two."),
    ] {
        let say = "SELECT memory_ingest('s', 'user', $1, agent_id => $2)";
        client.execute(say, &[&text, &agent]).expect("ingest");
        client.execute("SELECT memory_archive('s', agent_id => $1)", &[&agent]).expect("archive");
    }
    let mut told = |session: &str| -> Vec<String> {
        let arguments = QUESTION.replace("now", session);
        let document = context(&mut client, &format!("{arguments}, agent_id => 'coder'"));
        let told = document["cross_session"].as_array().unwrap();
        let mut agents: Vec<String> =
            told.iter().map(|told| told["agent_id"].as_str().unwrap().to_owned()).collect();
        agents.sort();
        agents
    };
    assert_eq!(told("now"), ["coder"]);
    run(
        &mut settings,
        "SELECT memory_configure('coder', settings => '{\"cross_session_agents\": \"all\"}')",
    );
    assert_eq!(told("now"), ["coder", "writer"]);
    assert_eq!(told("s"), ["writer"], "not the session that asks");
}
