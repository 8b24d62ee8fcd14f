//! The search in archived conversations and in the whole knowledge base.

use super::{Archive, archive_some, reader};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Row, expect_error, shared};

fn search(client: &mut Client, arguments: &str) -> Vec<Row> {
    client
        .query(&format!("SELECT * FROM memory_search_archive({arguments})"), &[])
        .unwrap_or_else(|error| panic!("memory_search_archive({arguments}): {error:?}"))
}

/// The sessions of what is found, in its order.
fn sessions(client: &mut Client, arguments: &str) -> Vec<String> {
    search(client, arguments)
        .iter()
        .map(|row| row.get::<_, Option<String>>("session_id").unwrap_or_default())
        .collect()
}

#[test]
fn the_conversation_that_answers_comes_first() {
    let mut client = shared().database("search_order").connect();
    archive_some(&mut client);
    for (question, session) in [
        ("How long are the tokens valid?", "auth"),
        ("What may the trip to Kyoto cost?", "japan"),
        ("training for the race", "marathon"),
        ("Which offer for the kitchen?", "kitchen"),
    ] {
        assert_eq!(sessions(&mut client, &format!("'{question}'"))[0], session, "{question}");
    }
    let rows = search(&mut client, "'How long are the tokens valid?'");
    let row = &rows[0];
    assert!(row.get::<_, String>("content").contains("lifetime of one hour"));
    assert!(row.get::<_, f32>("score") > 0.0);
    assert!(row.get::<_, Option<f32>>("similarity").is_some_and(|cosine| cosine > 0.5));
    let metadata: Json = row.get("metadata");
    for key in [
        "session_id",
        "agent_id",
        "conversation_topics",
        "entities_mentioned",
        "decisions_made",
        "open_questions",
        "message_count",
        "date_range",
        "parent_id",
    ] {
        assert!(!metadata[key].is_null(), "{key}: {metadata}");
    }
    let ended: String = value(
        &mut client,
        "SELECT (created_at AT TIME ZONE 'UTC')::text FROM memory_search_archive('tokens', 1)",
        &[],
    );
    assert_eq!(ended, "2024-01-15 11:30:00");
}

#[test]
fn so_many_rows_as_asked_for() {
    let mut client = shared().database("search_limit").connect();
    archive_some(&mut client);
    run(&mut client, "SET memory_agent.rerank = off");
    assert_eq!(sessions(&mut client, "'user'").len(), 4);
    assert_eq!(sessions(&mut client, "'user', 2").len(), 2);
    assert_eq!(sessions(&mut client, "'user', \"limit\" => NULL").len(), 4);
    assert!(sessions(&mut client, "'user', 0").is_empty());
    assert!(sessions(&mut client, "'user', \"limit\" => 0").is_empty());
    for arguments in ["''", "NULL", "'user', user_id => ''"] {
        let result = client.query(&format!("SELECT memory_search_archive({arguments})"), &[]);
        expect_error(result, "22023");
    }
    // Every function that returns so many rows as one wants.
    for (function, name) in [
        ("memory_search_archive('user', top_k => {})", "top_k"),
        ("memory_search_archive('user', \"limit\" => {})", "top_k"),
        ("memory_list_documents(\"limit\" => {})", "limit"),
        ("memory_list(\"limit\" => {})", "limit"),
    ] {
        let mut with = |rows: &str| {
            let sql = format!("SELECT count(*) FROM {}", function.replace("{}", rows));
            client.query_one(&sql, &[]).map(|row| row.get::<_, i64>(0))
        };
        assert_eq!(with("0").expect(function), 0);
        assert!(with("1000").expect(function) <= 1000);
        for (rows, problem) in [
            ("-1", "is negative\n0 returns nothing"),
            ("-9223372036854775808", "is negative\n0 returns nothing"),
            ("1001", "must be at most 1000\n"),
        ] {
            let message = expect_error(with(rows), "22023");
            assert!(message.starts_with(&format!("{name} {problem}")), "{function}: {message}");
        }
    }
}

#[test]
fn a_session_is_left_out_and_other_users_are_never_seen() {
    let mut client = shared().database("search_scope").connect();
    archive_some(&mut client);
    run(&mut client, "SET memory_agent.rerank = off");
    for (user, agent, session) in
        [("bob", "default", "bobs"), ("*", "default", "everybodys"), ("alice", "coder", "auth")]
    {
        let summary = "Tokens again.";
        Archive { user, agent, session, summary, ..Archive::default() }.store(&mut client);
    }
    let mut sorted = |arguments: &str| {
        let mut found = sessions(&mut client, &format!("'user and tokens', 20{arguments}"));
        found.sort();
        found
    };
    assert_eq!(sorted(""), ["auth", "auth", "japan", "kitchen", "marathon"]);
    assert_eq!(
        sorted(", exclude_session => 'auth'"),
        ["auth", "japan", "kitchen", "marathon"],
        "the session of the same name with another agent is another one"
    );
    assert_eq!(sorted(", agent_id => 'coder'"), ["auth"]);
    assert!(sorted(", agent_id => 'coder', exclude_session => 'auth'").is_empty());
    assert_eq!(sorted(", user_id => 'bob'"), ["bobs"]);
}

#[test]
fn documents_are_searched_by_their_type() {
    let mut client = shared().database("search_documents").connect();
    archive_some(&mut client);
    run(
        &mut client,
        "SET memory_agent.rerank = off;
         SELECT memory_add_document('Tokens are signed with RS256.', 'Security guide', 'guide');
         SELECT memory_add_document('Tokens open the gate.', 'Gate');
         SELECT memory_ingest('s', 'user', 'Tokens, tokens, tokens.');
         SELECT memory_add('Tokens are round.', infer => false)",
    );
    let mut contents = |doc_type: &str| -> Vec<String> {
        values(
            &mut client,
            &format!(
                "SELECT content FROM memory_search_archive('tokens', 20, doc_type => {doc_type})"
            ),
            &[],
        )
    };
    assert_eq!(contents("'guide'"), ["Tokens are signed with RS256."]);
    assert_eq!(contents("'document'"), ["Tokens open the gate."]);
    assert!(contents("'unknown'").is_empty());
    assert_eq!(contents("'conversations'").len(), 4);
    assert_eq!(contents("'conversation'"), contents("'conversations'"));
    assert_eq!(contents("NULL").len(), 6, "conversations and documents, no turns, no facts");
}

#[test]
fn conversations_are_listed() {
    let mut client = shared().database("search_listed").connect();
    archive_some(&mut client);
    run(&mut client, "SELECT memory_add_document('Tokens open the gate.', 'Gate')");
    for doc_type in ["conversation", "conversations"] {
        let rows = client.query("SELECT * FROM memory_list_documents($1)", &[&doc_type]).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].get::<_, String>("session_id"), "kitchen", "the newest first");
        assert_eq!(rows[0].get::<_, String>("doc_type"), "conversation");
        assert_eq!(rows[0].get::<_, i64>("chunks"), 1);
        assert!(rows[0].get::<_, Option<String>>("title").is_none());
        let metadata: Json = rows[0].get("metadata");
        assert_eq!(metadata.as_object().unwrap().len(), 8, "exactly the keys of the design");
    }
    assert_eq!(client.query("SELECT FROM memory_list_documents()", &[]).unwrap().len(), 5);
}

#[test]
fn a_read_only_transaction_is_enough() {
    let database = shared().database("search_read_only");
    archive_some(&mut database.connect());
    let mut reader = reader(database);
    assert_eq!(sessions(&mut reader, "'tokens', 1"), ["auth"]);
    assert_eq!(reader.query("SELECT FROM memory_list_documents()", &[]).unwrap().len(), 4);
    expect_error(reader.query("SELECT memory_add_document('no')", &[]), "25006");
}
