//! What a session sets of PostgreSQL's own settings is the session's business: the answers of the
//! extension are the same, and so is what it stores.

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Json, shared};
use postgres::SimpleQueryMessage;

/// Settings that change how statements are read, planned or printed; anyone may set them.
const SETTINGS: &[(&str, &str)] = &[
    ("array_nulls", "off"),
    ("backslash_quote", "on"),
    ("bytea_output", "escape"),
    ("cursor_tuple_fraction", "1"),
    ("DateStyle", "SQL, DMY"),
    ("default_text_search_config", "simple"),
    ("default_transaction_isolation", "serializable"),
    ("enable_bitmapscan", "off"),
    ("enable_indexscan", "off"),
    ("enable_seqscan", "off"),
    ("enable_sort", "off"),
    ("extra_float_digits", "-15"),
    ("from_collapse_limit", "1"),
    ("hnsw.ef_search", "1"),
    ("hnsw.iterative_scan", "off"),
    ("hnsw.max_scan_tuples", "1"),
    ("IntervalStyle", "sql_standard"),
    ("jit_above_cost", "0"),
    ("join_collapse_limit", "1"),
    ("plan_cache_mode", "force_generic_plan"),
    ("quote_all_identifiers", "on"),
    ("row_security", "off"),
    ("standard_conforming_strings", "off"),
    ("TimeZone", "Asia/Kolkata"),
    ("transform_null_equals", "on"),
    ("work_mem", "64kB"),
    ("xmlbinary", "hex"),
];

/// Questions whose answers depend on ages, times, texts, numbers and indexes. What is quoted with
/// dollars means the same with every setting of how strings are read.
const QUESTIONS: &[&str] = &[
    "SELECT r.content, (r.score * 100000)::int8 \
       FROM memory_recall('Which animal sleeps?', as_of => '2100-01-01Z') r",
    r#"SELECT r.content FROM memory_recall('dog', filter => $${"created_after": "2026-02-01",
                                                               "created_before": "2026-02-02T00:00:00Z"}$$) r"#,
    r#"SELECT r.content FROM memory_recall('dog', filter => $${"metadata": {"n": 1.5, "t": "a\\b"}}$$) r"#,
    "SELECT memory_context('s', 'What about the dog?')->'messages'",
    "SELECT memory_stats('s')->'turns', memory_stats('s')->'tokens'",
    "SELECT memory_explain('dog')->'mode', memory_explain('dog')->'rows'",
];

/// All values of all rows, as text.
fn ask(client: &mut Client, question: &str) -> Vec<String> {
    let messages =
        client.simple_query(question).unwrap_or_else(|error| panic!("{question}: {error:?}"));
    let mut values = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            values.extend((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()));
        }
    }
    values
}

/// The answers by reading everything, and by asking the indexes.
fn answers(client: &mut Client) -> Vec<Vec<String>> {
    let mut answers = Vec::new();
    for rows in [50_000, 0] {
        run(client, &format!("SET memory_agent.exact_scan_rows = {rows}"));
        answers.extend(QUESTIONS.iter().map(|question| ask(client, question)));
    }
    answers
}

#[test]
fn settings_of_the_session_change_no_answer() {
    let database = shared().database("surroundings_answers");
    let mut client = database.connect();
    let turns = memory_agent_e2e::json!([
        {"role": "user", "content": "The dog sleeps under the desk.", "created_at": "2026-02-01T23:30:00Z",
         "metadata": {"n": 1.5, "t": "a\\b"}},
        {"role": "user", "content": "A dog barked; it's \"loud\" \\o/.", "created_at": "2026-02-03T00:00:00Z"},
        {"role": "user", "content": "The cat is called Mia.", "created_at": "2026-01-31T12:00:00+05:00"},
    ]);
    client.execute("SELECT memory_ingest_batch($1, 's')", &[&turns]).unwrap();
    run(&mut client, "SELECT memory_create_vector_index()");
    let expected = answers(&mut client);
    assert!(expected.iter().all(|answer| !answer.is_empty()), "{expected:?}");
    assert!(expected.iter().flatten().any(|value| value == "\"index\""), "{expected:?}");
    for (name, value) in SETTINGS {
        let mut client = database.connect();
        run(&mut client, &format!("SET {name} = '{value}'"));
        assert_eq!(answers(&mut client), expected, "{name} = {value}");
    }
    let mut client = database.connect();
    for (name, value) in SETTINGS {
        run(&mut client, &format!("SET {name} = '{value}'"));
    }
    assert_eq!(answers(&mut client), expected, "all settings at once");
}

#[test]
fn settings_of_the_session_change_nothing_stored() {
    let database = shared().database("surroundings_stored");
    let turns = memory_agent_e2e::json!([
        {"role": "user", "content": "Ann's \"dog\" \\o/ runs; NULL = NULL", "created_at": "2026-02-01T23:30:00Z",
         "metadata": {"name": "Ann", "n": 1.50, "a": [null, "NULL"]}, "markers": ["custom:NULL", "goal"]},
    ]);
    let stored = "SELECT to_jsonb(e) - '{id,recorded_at,updated_at,created_at,episode_id}'::text[] || \
                         jsonb_build_object('at', extract(epoch FROM e.created_at)) \
                    FROM memory_agent.entries e WHERE e.user_id = $1";
    let store = |user: &str, settings: &[(&str, &str)]| -> Json {
        let mut client = database.connect();
        for (name, value) in settings {
            run(&mut client, &format!("SET {name} = '{value}'"));
        }
        run(&mut client, &format!("SET memory_agent.user_id = '{user}'"));
        client.execute("SELECT memory_ingest_batch($1, 's')", &[&turns]).unwrap();
        // Looked at with the settings of a fresh session.
        let mut row: Json = value(&mut database.connect(), stored, &[&user]);
        row["user_id"] = Json::Null;
        row
    };
    let expected = store("nobody", &[]);
    assert_eq!(expected["markers"], memory_agent_e2e::json!(["custom:NULL", "goal"]));
    for (position, setting) in SETTINGS.iter().enumerate() {
        assert_eq!(store(&format!("user {position}"), &[*setting]), expected, "{setting:?}");
    }
    assert_eq!(store("everybody", SETTINGS), expected, "all settings at once");
}

/// Levels are written in PL/pgSQL, which has settings of its own.
#[test]
fn levels_are_given_in_any_session() {
    let database = shared().database("surroundings_levels");
    let mut client = database.connect();
    run(&mut client, "CREATE ROLE surrounded LOGIN");
    for (name, value) in SETTINGS {
        run(&mut client, &format!("SET {name} = '{value}'"));
    }
    run(
        &mut client,
        "SET plpgsql.extra_errors = 'all'; SET plpgsql.variable_conflict = 'use_variable'",
    );
    run(&mut client, "SELECT memory_grant('surrounded', 'admin')");
    let mut admin = database.connect_as("surrounded");
    run(&mut admin, "SELECT memory_stats(user_id => 'anyone')");
    assert!(value::<bool>(&mut client, "SELECT memory_revoke('surrounded')", &[]));
}
